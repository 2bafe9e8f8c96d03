"""One step of the history as items: the reply, the outputs behind it, and what else the user's side says.

Outputs come first, unless they were read in another place; then late news and words in order of `seq`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from normalizer import notices
from normalizer.chains import state
from normalizer.facts import News
from normalizer.projection import Adjustment
from normalizer.providers.openai_responses import answers, keys, media, replies, wire
from normalizer.providers.openai_responses.top import envelope
from normalizer.redaction import named
from normalizer.remainders import whole
from normalizer.stepping import Rendered, Rendering, Step

if TYPE_CHECKING:
    from collections.abc import Mapping

    from normalizer.chains import Chain
    from normalizer.projection import Options
    from normalizer.providers.openai_responses.answers import Answer
    from normalizer.providers.openai_responses.items import Item
    from normalizer.providers.openai_responses.top import Top
    from normalizer.transcript import Call, Entry, Transcript


@dataclass(frozen=True, slots=True)
class Flow:
    """What a step hands to the next.

    `carry` are calls whose outputs were read further on: the `seq` of each output, and the call's key. `asks`: the last
    item is the user's side's. `decided` are the server's questions that were answered, `held` the keys of its calls
    whose result comes later, or may come.
    """

    carry: tuple[tuple[int, str], ...] = ()
    asks: bool = False
    decided: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()


FIRST: Final = Flow()


@dataclass(slots=True)
class Out:
    """A step while it is being made.

    `items` are the reply's, `calls` the client's calls in it, `answers` what is told of each, `told` those in words,
    `quotes` notes on another provider's server calls, `decisions` answers to the server's questions, `gone` the keys of
    server calls that are left out, `held` of those whose result comes later. `open_tail`: a question of the server's
    waits.
    """

    items: list[Item] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)
    told: list[tuple[Call, Answer]] = field(default_factory=list)
    quotes: list[str] = field(default_factory=list)
    decisions: dict[str, Item] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    notes: list[Adjustment] = field(default_factory=list)
    choices: list[tuple[str, str, str | None]] = field(default_factory=list)
    open_tail: bool = False


_HEADS: Final = frozenset({"instructions", "tools"})
_SILENT: Final = frozenset({"developer", "system"})


class Renderer:
    """Renders the steps of one projection. `owners` says which part of which reply has an item id first."""

    def __init__(
        self, transcript: Transcript, options: Options, model: str | None, chain: Chain, ids: dict[str, str], head: Top,
        owners: Mapping[str, tuple[str, int]], stirred: tuple[str, ...],
    ) -> None:  # fmt: skip
        self.transcript = transcript
        self.entries = transcript.entries
        self.calls = transcript.calls
        self.server_calls = transcript.server_calls
        self.options = options
        self.model = model
        self.chain = chain
        self.ids = ids
        self.head = head
        self.stirred = stirred
        self.running = options.open_calls == "say_running"
        self._owners = owners
        self._news: dict[str | None, list[News]] = {}
        for item in chain.news:
            self._news.setdefault(item.after, []).append(item)

    def owns(self, item_id: str, fact_id: str, number: int) -> bool:
        """Whether this part is the first with its item's id."""
        return self._owners.get(item_id, (fact_id, number)) == (fact_id, number)

    def decision(self, key: str, step: Step) -> Any:
        """The host's fact that answers a question of the server's before the next reply; the first one holds."""
        kept = self.transcript._kept  # noqa: SLF001 - facts about what is no call of the client's
        waiting = kept.waiting.get(key, ()) if kept is not None else ()
        found = next((fact for fact in waiting if fact.kind in ("approval_given", "approval_denied")), None)
        return found if found is not None and (step.last or found.seq < self._next(step)) else None

    def __call__(self, step: Step, flow: Flow, before: Rendering[Flow]) -> Rendered[Flow]:  # noqa: ARG002
        """The items of one step."""
        out = Out(held=set(flow.held))
        if step.reply is not None:
            replies.render(self, step, out)
        rendered: Rendered[Flow] = Rendered(out.items, flow, out.notes, choices=out.choices)
        side = self._side(step, flow, out, rendered)
        had_reply = bool(out.items)
        asks = flow.asks and not had_reply
        decided = set(flow.decided)
        for item in side.items:
            if item.get("type") == "mcp_approval_response":
                if item["approval_request_id"] in decided:
                    continue  # the first decision holds
                decided.add(item["approval_request_id"])
            if item.get("role") not in _SILENT and item.get("type") != "additional_tools":
                asks = True
            rendered.messages.append(item)
        rendered.asks = asks
        rendered.open = out.open_tail or bool(side.carry) or bool(out.held)
        rendered.flow = Flow(side.carry, asks, frozenset(decided), frozenset(out.held))
        if rendered.flow == flow:
            rendered.flow = flow
        return rendered

    # ------------------------------------------------------------ the user's side

    def _side(self, step: Step, flow: Flow, out: Out, rendered: Rendered[Flow]) -> _Side:
        side = _Side(self, step, out, rendered)
        placed: list[tuple[int, Any]] = list(flow.carry)
        front: list[Call] = []
        first = step.behind[0].fact.seq if step.behind else None
        for call in out.calls:
            after = out.answers[call.key].after
            border = first if first is not None else None if step.last else self._next(step)
            if after is None or border is None or after < border:
                front.append(call)
            else:
                placed.append((after, call.key))
        for call in self._in_order(front):
            side.output(call, out.answers[call.key])
        for call, found in out.told:
            side.told(call, found)
        side.items.extend(out.decisions.values())
        side.items.extend({"role": "user", "content": text} for text in out.quotes)
        here: list[tuple[int, Any]] = [(_seq(item), item) for item in (*step.behind, *self._items(step))]
        limit = None if step.last else self._next(step)
        for seq, key in placed:
            if limit is not None and seq > limit:
                side.carry = (*side.carry, (seq, key))
            else:
                here.append((seq, key))
        for _, item in sorted(here, key=lambda found: found[0]):
            side.add(item)
        return side

    def _next(self, step: Step) -> int:
        """The `seq` of the reply behind a step that is not the last."""
        seq: int = self.entries[step.end].fact.seq
        return seq

    def _in_order(self, calls: list[Call]) -> list[Call]:
        """As they were sent; else as they were recorded, if all were; else in the order of the calls."""
        told = self.chain.told
        if len(calls) < 2:
            return calls
        if all(call.key in told for call in calls):
            order = {key: n for n, key in enumerate(told)}
            return sorted(calls, key=lambda call: order[call.key])
        shown = [call.facts[0].seq for call in calls if call.facts and call.facts[0].group is not None]
        return sorted(calls, key=lambda call: call.facts[0].seq) if len(shown) == len(calls) else calls

    def _items(self, step: Step) -> list[News]:
        """News of this chain that stands in this step, and what there is to tell since the last request."""
        found = list(self._news.get(step.after, ()))
        if step.last and self.chain.base is not None:
            found.extend(self._fresh_news(step))
        return found

    def _fresh_news(self, step: Step) -> list[News]:
        """News about calls that were told otherwise, or left open, in an earlier request of this chain."""
        found = []
        for key in self.stirred:
            call, told = self.calls[key], self.chain.states[key]
            kind = notices.told_kind(call, running=self.running)
            now = state(call, kind)
            if told[0] == "void" or (told[1] and now[1]):
                continue
            record = self.chain.told.get(key)
            wire_id = record.wire_id if record is not None and record.wire_id else self.ids[key]
            again = any(news.call_id == key for news in self.chain.news)
            left_open = record is not None and record.text == "" and not again
            if left_open and (call.outcome.kind == "pending" or not call.facts):
                continue
            if left_open:
                text = "" if now[1] else notices.notice(call, kind, wire_id, self.options.notices)
            else:
                text = notices.late_news(call, kind, wire_id, self.options.notices)
            seq = call.facts[-1].seq if call.facts else 0
            news = News(key, now[0], text, after=step.after, seq=seq, result=now[1], effects=now[2])
            found.append(news)
        return found


class _Side:
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
            found = self.out.answers.get(item) or answers.answer(self.renderer, call, own=True)
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
            notes.append(
                Adjustment(
                    "notice",
                    f"call {named(call.key)} has no recorded result: its outcome ({found.kind}) is told instead",
                    found.kind, call.key, tuple(f.fact_id for f in call.facts), notices.stood_for(call),
                )
            )  # fmt: skip

    def told(self, call: Call, found: Answer) -> None:
        """A call that is told in words, for good once it was sent so."""
        self.items.append({"role": "user", "content": found.text})
        self._behind_news(call.key, found.fact.fact_id if found.fact is not None else None)
        self.rendered.told.append((call.key, found.kind, found.text, call.part.name))
        self.rendered.choices.append((replies.TOLD, call.key, None))

    def _news(self, item: News) -> None:
        renderer = self.renderer
        record = renderer.chain.told.get(item.call_id)
        first = next((news for news in renderer.chain.news if news.call_id == item.call_id), item)
        if record is not None and record.text == "" and first == item:
            self.items.append(self._late_output(item, record.wire_id or renderer.ids[item.call_id]))
        else:
            self.items.append({"role": "user", "content": item.text})
            self._behind_news(item.call_id, item.result)
        if item not in renderer.chain.news:
            self.rendered.news.append(replace(item, after=self.step.after))
            self.rendered.adjustments.append(
                Adjustment(
                    "late_news",
                    f"call {named(item.call_id)} was told otherwise before; what is known now is told at the end",
                    item.outcome, item.call_id, (item.result,) if item.result else (), item.text or None,
                )
            )  # fmt: skip

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
        form = answers.form_of(call)
        if fact is not None and not item.text:
            found = answers.Answer("completed", fact)
            answers._recorded(self.renderer, call, fact, found)  # noqa: SLF001
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
            text = answers.cut(entry.parts[0].text)  # type: ignore[union-attr]
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
                keys.replay({**frame, "content": content}, self.rendered.adjustments, entry.fact.fact_id)
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
            if stored is False or not keys.complete(raw):
                self._leave_out(
                    "dropped_orphan", "an output whose call is not on record", "OAR-PAIR-002", entry
                )
                return
        elif part.type == "mcp_approval_response" and keys.complete(raw):
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
        self.items.append(keys.replay(raw, self.rendered.adjustments, entry.fact.fact_id))

    def _leave_out(self, kind: Any, message: str, because: str, entry: Entry) -> None:
        self._note(kind, message, because, entry, entry.parts[0].raw.text)  # type: ignore[union-attr]

    def _note(self, kind: Any, message: str, because: str, entry: Entry, content: str | None) -> None:
        self.rendered.adjustments.append(
            Adjustment(kind, message, because, None, (entry.fact.fact_id,), content)
        )


def _sound(kind: str, raw: Item) -> bool:
    """Whether a change of settings is one that the API takes."""
    if kind != "configuration_update":
        return keys.complete(raw)
    changes = {key: raw[key] for key in ("reasoning", "text") if raw.get(key) is not None}
    allowed = {"reasoning": {"effort"}, "text": {"format"}}
    return bool(changes) and all(isinstance(v, dict) and v.keys() <= allowed[k] for k, v in changes.items())


def _seq(item: Any) -> int:
    seq: int = item.seq if isinstance(item, News) else item.fact.seq
    return seq
