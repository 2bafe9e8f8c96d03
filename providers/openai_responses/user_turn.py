"""The user's side of a step as items: outputs, late news, words, and items that only this API has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer import notices
from normalizer.facts import News
from normalizer.projecting.old_tool_results import noticed
from normalizer.projecting.unmapped_fields import whole
from normalizer.projection import Adjustment
from normalizer.providers.openai_responses import assistant_turn, media, schema_keys, tool_results, wire
from normalizer.providers.openai_responses.preamble import envelope

if TYPE_CHECKING:
    from normalizer.projecting.incremental import Rendered, Step
    from normalizer.providers.openai_responses.decoding import Item
    from normalizer.providers.openai_responses.render import Flow, Out, Renderer
    from normalizer.providers.openai_responses.tool_results import Answer
    from normalizer.transcript import Call, Entry

_HEADS: Final = frozenset({"instructions", "tools"})


class Side:
    """The items of the user's side of one step, while they are put together."""

    def __init__(self, renderer: Renderer, step: Step, out: Out, rendered: Rendered[Flow]) -> None:
        self.renderer = renderer
        self.step = step
        self.out = out
        self.rendered = rendered
        self.items: list[Item] = []
        self.carry: tuple[tuple[int, str], ...] = ()

    def add(self, item: Any) -> None:
        """An entry, late news, or the output of a call of an earlier step (its key)."""
        if isinstance(item, str):
            call = self.renderer.calls[item]
            found = self.out.answers.get(item) or tool_results.answer(self.renderer, call, own=True)
            self.output(call, found)
        elif isinstance(item, News):
            self._news(item)
        elif item.kind in _HEADS:
            later = self.renderer.head.later.get(item.fact.fact_id)
            if later is not None:
                self.items.append(later)
        elif item.kind == "news":
            text = notices.news_again(item.fact, self.renderer.ids[item.fact.call_id])
            self.items.append({"role": "user", "content": text})
        else:
            self._entry(item)

    # ------------------------------------------------------------ outputs

    def output(self, call: Call, found: Answer) -> None:
        """The output of a call; one that stays open has none."""
        notes = self.rendered.adjustments
        notes.extend(found.notes)
        own_words = found.text if found.fact is None or found.text else None
        self.rendered.told.append((call.key, found.kind, own_words, call.part.name))
        if found.item is None:
            return
        self.items.append(found.item)
        if own_words is not None:
            notes.append(noticed(call, found.kind))

    def told(self, call: Call, found: Answer) -> None:
        """A call that is told in words, for good once it was sent so."""
        self.items.append({"role": "user", "content": found.text})
        self._behind_news(call.key, found.fact.fact_id if found.fact is not None else None)
        self.rendered.told.append((call.key, found.kind, found.text, call.part.name))
        self.rendered.choices.append((assistant_turn.TOLD, call.key, None))

    def _news(self, item: News) -> None:
        renderer = self.renderer
        record = renderer.chain.told.get(item.call_id)
        first = next((news for news in renderer.chain.news if news.call_id == item.call_id), item)
        if record is not None and record.text == "" and first == item:
            self.items.append(self._late_output(item, record.wire_id or renderer.ids[item.call_id]))
        else:
            self.items.append({"role": "user", "content": item.text})
            self._behind_news(item.call_id, item.result)
        renderer.news.note(self.step, item, self.rendered)

    def _behind_news(self, key: str, result: str | None) -> None:
        """What the result in news holds beside words, under a label that names its call."""
        renderer = self.renderer
        if not (parts := notices.beyond_words(renderer.calls.get(key), result)):
            return
        made = [{"type": "input_text", "text": f"[from the result of call {renderer.ids[key]}]"}]
        for part in parts:
            piece, because = media.piece(part)
            if piece is None and part.kind == "media":
                piece = media.left_out(part)
                self.rendered.adjustments.append(
                    Adjustment("media_moved", f"a {part.media} in news has no form here", because, key,
                               (result or "",), whole(part))
                )  # fmt: skip
            made.append(piece or {"type": "input_text", "text": whole(part) or ""})
        self.items.append({"role": "user", "content": made})

    def _late_output(self, item: News, wire_id: str) -> Item:
        """The one output of a call that was left open: its result, or a notice."""
        call = self.renderer.calls[item.call_id]
        fact = next((f for f in call.facts if f.fact_id == item.result), None)
        form = tool_results.form_of(call)
        if fact is not None and not item.text:
            found = tool_results.Answer("completed", fact)
            tool_results.put_recorded(self.renderer, call, fact, found)
            self.rendered.adjustments.extend(found.notes)
            if found.item is not None:
                return found.item
        return {"type": wire.ANSWERS[form], "call_id": wire_id, "output": item.text}

    # ------------------------------------------------------------ words

    def _entry(self, entry: Entry) -> None:
        """Words of the user's side, and items that only this API has."""
        fact: Any = entry.fact
        if (
            len(entry.parts) == 1
            and entry.parts[0].kind == "opaque"
            and getattr(fact, "by", None) == "program"
        ):
            self._control(entry, entry.parts[0])
            return
        frame = envelope(fact) if entry.kind == "user" else None
        if getattr(fact, "string", False) and entry.parts:
            text = tool_results.cut(entry.parts[0].text)  # type: ignore[union-attr]
            self._message(entry, frame, text)
            return
        pieces: list[Item] = []
        for part in entry.parts:
            made, because = media.piece(part)
            if made is not None:
                pieces.append(made)
                if (rest := media.rest(part, made)) is not None:
                    self._note("trimmed", f"a {part.kind} part says more than this API has a place for",
                               "OAR-STRUCT-006", entry, rest)  # fmt: skip
                continue
            if part.kind == "media":
                pieces.append(media.left_out(part))
            self._note(
                "media_moved" if part.kind == "media" else "dropped_fragment",
                f"a {getattr(part, 'media', None) or part.kind} has no form in a user message", because, entry,
                whole(part),
            )  # fmt: skip
        if pieces or (frame is not None and not entry.parts):
            self._message(entry, frame, pieces)
        elif not entry.parts:
            self._note(
                "dropped_empty", "a message that says nothing is left out", "OAR-STRUCT-004", entry, None
            )

    def _message(self, entry: Entry, frame: Item | None, content: Any) -> None:
        """A user message, with the keys that it had."""
        if frame is None:
            self.items.append({"role": "user", "content": content})
        else:
            self.items.append(
                schema_keys.replay(
                    {**frame, "content": content}, self.rendered.adjustments, entry.fact.fact_id
                )
            )

    def _asked_here(self, key: Any) -> bool:
        """Whether the reply before these items put the question; one that was answered later is left out."""
        reply = self.step.reply
        return reply is not None and any(
            part.kind == "server_tool_call" and part.id == key for part in reply.parts
        )

    def _control(self, entry: Entry, part: Any) -> None:
        """Items of the user's side that are no messages: answers to questions, changes of settings, halves of pairs."""
        raw = part.raw.value
        renderer = self.renderer
        stored = renderer.options.stored
        if part.type in wire.OUTPUTS:
            if stored is False or not schema_keys.complete(raw):
                self._leave_out(
                    "dropped_orphan", "an output whose call is not on record", "OAR-PAIR-002", entry
                )
                return
        elif part.type == "mcp_approval_response" and schema_keys.complete(raw):
            asked = raw.get("approval_request_id")
            call = renderer.server_calls.get(asked)
            if call is not None and (
                asked in self.out.gone
                or call.part.form != "mcp_approval_request"
                or not self._asked_here(asked)
            ):
                self._leave_out("dropped_server_tool", "its request is left out", "OAR-MCP-001", entry)
                return
            if call is None and not stored:
                self._leave_out(
                    "dropped_orphan", "an approval whose request is not on record", "OAR-MCP-001", entry
                )
                return
        elif part.type == "compaction_trigger":
            if not self.step.last or entry is not self.step.behind[-1]:
                self._leave_out("dropped_fragment", "items stand behind the trigger", "OAR-STRUCT-013", entry)
                return
        elif part.type in wire.FOREIGN or part.type not in wire.ITEMS or not _sound(part.type, raw):
            self._leave_out("dropped_fragment", f"a {part.type!r} cannot go back", "OAR-STRUCT-005", entry)
            return
        self.items.append(schema_keys.replay(raw, self.rendered.adjustments, entry.fact.fact_id))

    def _leave_out(self, kind: Any, message: str, because: str, entry: Entry) -> None:
        self._note(kind, message, because, entry, entry.parts[0].raw.text)  # type: ignore[union-attr]

    def _note(self, kind: Any, message: str, because: str, entry: Entry, content: str | None) -> None:
        self.rendered.adjustments.append(
            Adjustment(kind, message, because, None, (entry.fact.fact_id,), content)
        )


def _sound(kind: str, raw: Item) -> bool:
    """Whether a change of settings is one that the API takes."""
    if kind != "configuration_update":
        return schema_keys.complete(raw)
    changes = {key: raw[key] for key in ("reasoning", "text") if raw.get(key) is not None}
    allowed = {"reasoning": {"effort"}, "text": {"format"}}
    return bool(changes) and all(isinstance(v, dict) and v.keys() <= allowed[k] for k, v in changes.items())
