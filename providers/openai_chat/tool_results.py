"""Tool messages: results verbatim, notices where none is recorded, and the media that may not stand in them.

There is no error flag on this wire. Text stays in the tool message; media follow in a user message behind the whole
batch, under a label that names their call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from normalizer import notices
from normalizer.parts import Json
from normalizer.projecting.tool_results import answer, further, in_order, noticed
from normalizer.projecting.unmapped_fields import remainder, whole
from normalizer.projection import Adjustment
from normalizer.providers.openai_chat import assistant_turn, media, schema_keys, wire
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from normalizer.facts import CallFact
    from normalizer.parts import Media, ResultPart
    from normalizer.projecting.incremental import Rendered, Step
    from normalizer.projection import AdjustmentKind
    from normalizer.providers.openai_chat.assistant_turn import Spoken
    from normalizer.providers.openai_chat.render import Out, Renderer
    from normalizer.transcript import Call, Entry


def results(renderer: Renderer, step: Step, spoken: Spoken, out: Out, rendered: Rendered[Any]) -> None:
    """One message for each call, directly behind the message that made them."""
    entry = step.reply
    assert entry is not None  # noqa: S101 - only replies have calls
    told = renderer.chain.told
    calls = in_order(spoken.calls, told, _place)
    for call in calls:
        wire_id = renderer.ids[call.key]
        if not told and not spoken.legacy and (content := _plain(call)) is not None:
            rendered.messages.append({"role": "tool", "tool_call_id": wire_id, "content": content})
            rendered.told.append((call.key, "completed", None, call.part.name))
            continue
        rendered.messages.append(_answer(renderer, entry, call, wire_id, out, rendered, legacy=spoken.legacy))
    _note_moved(renderer, step, calls, out)


def _note_moved(renderer: Renderer, step: Step, calls: list[Call], out: Out) -> None:
    """Report results that stood behind other words, or behind a later reply."""
    places = [entry.fact.seq for entry in step.behind if entry.kind != "tools"][:1]
    if not step.last:
        places.append(renderer.entries[step.end].fact.seq)
    border = min(places, default=None)
    for call in calls if border is not None else ():
        fact = call.result
        if fact is not None and border is not None and fact.seq > border:
            text = f"the result of call {named(call.key)} is sent directly behind it"
            out.notes.append(Adjustment("moved", text, "OAC-PAIR-002", call.key, (fact.fact_id,)))


def _plain(call: Call) -> str | None:
    """The recorded text of a call of which nothing else is on record: the usual case."""
    if len(call.facts) != 1:
        return None
    fact = call.facts[0]
    if fact.kind != "call_completed" or fact.raw is not None or type(fact.content) is not str:
        return None
    return None if fact.is_error or len(fact.content) > wire.MAX_STRING else fact.content


def _place(call: Call) -> int | None:
    """Where the answer of a call stood."""
    for fact in call.facts:
        if fact.kind == "call_completed" or (
            fact.kind == "outcome_attested" and fact.attestor == "importer" and not fact.late
        ):
            return fact.seq
    return None


def _answer(
    renderer: Renderer,
    entry: Entry,
    call: Call,
    wire_id: str,
    out: Out,
    rendered: Rendered[Any],
    *,
    legacy: bool,
) -> dict[str, Any]:
    """The message that answers one call."""
    fact: Any
    call, kind, fact, text = answer(call, renderer.chain, running=renderer.running)
    name = call.part.name
    given = fact.content if fact is not None else None
    if fact is not None and given is not None and (given or not fact.is_error):
        rendered.told.append((call.key, "completed", None, name))
        out.notes.extend(further(call, "OAC-PAIR-005"))
        return _recorded(renderer, entry, call, fact, wire_id, out, legacy=legacy)
    if text is None:
        subject = wire.subject(name, call.part.arguments.text) if legacy else wire_id
        text = notices.notice(call, kind, subject, renderer.options.notices)
    out.notes.append(noticed(call, kind))
    rendered.told.append((call.key, kind, text, name))
    return _message(renderer, call, wire_id, text, _own_raw(call.facts), legacy=legacy)


def _own_raw(facts: tuple[CallFact, ...]) -> dict[str, Any] | None:
    """The tool message as it was received from this API, if one of the facts has it."""
    for fact in facts:
        raw = getattr(fact, "raw", None)
        if raw is not None and isinstance(raw.value, dict) and raw.value.get("role") in ("tool", "function"):
            found: dict[str, Any] = raw.value
            return found
    return None


def _message(
    renderer: Renderer, call: Call, wire_id: str, content: Any, raw: dict[str, Any] | None, *, legacy: bool
) -> dict[str, Any]:
    """The message with its keys in recorded order."""
    name = renderer.head.names.get(call.part.name, call.part.name)
    made: dict[str, Any] = (
        {"role": "function", "name": name, "content": content}
        if legacy
        else {"role": "tool", "tool_call_id": wire_id, "content": content}
    )
    return made if raw is None else {key: made[key] for key in raw if key in made} | made


# ---------------------------------------------------------------- recorded results


def _recorded(
    renderer: Renderer, entry: Entry, call: Call, fact: Any, wire_id: str, out: Out, *, legacy: bool
) -> dict[str, Any]:
    """A recorded result, verbatim as far as the API takes it."""
    raw = _own_raw((fact,))
    if fact.is_error:
        _note(out, "trimmed",
              f"the result of call {named(call.key)} is marked as an error; this API has no flag for that",
              None, call, fact, "is_error")  # fmt: skip
    if raw is not None and (extra := _extra(raw, legacy=legacy)):
        _note(out, "trimmed", "a tool message has keys that the API does not take back", "OAC-STRUCT-006", call, fact,
              Json.of(extra).text)  # fmt: skip
    content = fact.content
    if raw is None:
        parts = () if isinstance(content, str) else content
        received = [part.raw.value for part in parts if part.raw is not None]
        shown = [getattr(part, "text", None) for part in parts]
        flag = {"is_error": fact.is_error}
        _note_rest(out, call, fact, fact.raw, call.part.id, call.part.name, received, shown or content, flag)
    if legacy and raw is not None and raw.get("content", "") is None:
        content = None
    elif isinstance(content, str):
        content = renderer.limited(entry, content, out)
    else:
        content = _listed(renderer, entry, call, fact, out, foreign=fact.raw is not None and raw is None)
        if legacy and isinstance(content, list):  # this message holds one text
            content = "\n".join(block["text"] for block in content)
    return _message(renderer, call, wire_id, content, raw, legacy=legacy)


def _extra(raw: dict[str, Any], *, legacy: bool) -> dict[str, Any]:
    known = schema_keys.MESSAGE_KEYS["function" if legacy else "tool"]
    return {key: value for key, value in raw.items() if key not in known}


def _listed(renderer: Renderer, entry: Entry, call: Call, fact: Any, out: Out, *, foreign: bool) -> Any:
    """The texts of a result of several parts; media are moved behind the batch."""
    texts: list[dict[str, Any]] = []
    moved: list[Media] = []
    for part in fact.content:
        if part.kind == "text":
            raw = part.raw.value if part.raw is not None else None
            texts.append(assistant_turn.text_block(renderer, entry, part.text, raw, out))
        elif part.kind == "media":
            if part.media in ("document", "search_result") and (words := media.document_words(part)):
                texts.append({"type": "text", "text": renderer.limited(entry, words, out)})
                _note_rest(out, call, fact, part.raw, words, part.media_type)
                continue
            moved.append(part)
            _note(out, "media_moved",
                  f"a medium ({part.media}) in the result of call {named(call.key)} is sent behind the results",
                  "OAC-CONTENT-002", call, fact, whole(part))  # fmt: skip
        else:
            texts.append({"type": "text", "text": renderer.limited(entry, part.raw.text, out)})
            _note(out, "told_as_text", f"a part of type {part.type!r} in a result is sent as its JSON text",
                  "OAC-CONTENT-002", call, fact, None)  # fmt: skip
    if moved:
        out.moved.append((call.key, moved))
    return renderer.content(entry, texts, out, single=foreign) if texts else ""


def moved_media(
    renderer: Renderer, wire_id: str, parts: Sequence[ResultPart], out: Out, fact_id: str
) -> list[dict[str, Any]]:
    """The media of one call's result as parts of a user message, under their label; what is no medium as its JSON."""
    found: list[dict[str, Any]] = [{"type": "text", "text": f"[from the result of call {wire_id}]"}]
    for part in parts:
        if part.kind != "media":
            found.append({"type": "text", "text": whole(part)})
            continue
        made, rule = media.blocks(part, renderer.profile, renderer.model)
        if rule is not None:
            out.notes.append(
                Adjustment("media_moved", f"a medium ({part.media}) that the API cannot take is named in words", rule,
                           facts=(fact_id,), content=whole(part))
            )  # fmt: skip
        elif (rest := media.rest(part, made)) is not None:
            text = f"a medium ({part.media}) in a result says more than the API has a place for"
            out.notes.append(Adjustment("trimmed", text, "OAC-STRUCT-006", facts=(fact_id,), content=rest))
        found.extend(made)
    return found


def _note_rest(out: Out, call: Call, fact: Any, raw: Json | None, *said: Any) -> None:
    """Report what a result of another API, or a part of one, says beyond what is sent of it."""
    if (rest := remainder(raw, *said)) is not None:
        _note(out, "trimmed", f"the result of call {call.key!r} says more than this API has a place for",
              "OAC-STRUCT-006", call, fact, rest)  # fmt: skip


def _note(
    out: Out,
    kind: AdjustmentKind,
    message: str,
    because: str | None,
    call: Call,
    fact: Any,
    content: str | None,
) -> None:
    out.notes.append(Adjustment(kind, message, because, call.key, (fact.fact_id,), content))
