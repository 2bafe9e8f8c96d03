"""Tool messages: results verbatim, notices where none is recorded, and the media that may not stand in them.

There is no error flag on this wire. Text stays in the tool message; media follow in a user message behind the whole
batch, under a label that names their call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from normalizer.parts import Json
from normalizer.projecting.draft import named_as
from normalizer.projecting.unmapped_fields import remainder, whole
from normalizer.providers.openai_chat import calls, encoding, media, schema_keys
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from normalizer.parts import Media, ResultPart
    from normalizer.projecting.draft import Answered, Draft, Value
    from normalizer.providers.openai_chat.context import ChatContext
    from normalizer.transcript import Call


def notice(chat: ChatContext, answered: Answered, wire_id: str, draft: Draft) -> None:
    """A notice as the message that answers the call."""
    raw = next((raw for fact in answered.call.facts if (raw := _own_raw(fact)) is not None), None)
    answered.value = _message(chat, answered.call, wire_id, answered.text, raw, draft)


def result(chat: ChatContext, answered: Answered, wire_id: str, draft: Draft) -> None:
    """A recorded result as the message that answers the call."""
    call, fact = answered.call, answered.fact
    answered.value = _message(chat, call, wire_id, _content(chat, call, fact, draft), _own_raw(fact), draft)


def _own_raw(fact: Any) -> Value | None:
    """The tool message as it was received from this API, if the fact has it."""
    raw = getattr(fact, "raw", None)
    if raw is not None and isinstance(raw.value, dict) and raw.value.get("role") in ("tool", "function"):
        found: Value = raw.value
        return found
    return None


def _message(
    chat: ChatContext, call: Call, wire_id: str, content: Any, raw: Value | None, draft: Draft
) -> Value:
    """The message with its keys in recorded order."""
    made: Value = (
        {"role": "function", "name": named_as(chat.head.names, call.part.name), "content": content}
        if calls.is_legacy(draft.entry, call.part)
        else {"role": "tool", "tool_call_id": wire_id, "content": content}
    )
    return made if raw is None else {key: made[key] for key in raw if key in made} | made


# ---------------------------------------------------------------- recorded results


def _content(chat: ChatContext, call: Call, fact: Any, draft: Draft) -> Any:
    """A recorded result, verbatim as far as the API takes it."""
    raw, reports, entry = _own_raw(fact), draft.reports, draft.entry
    legacy = calls.is_legacy(entry, call.part)
    if fact.is_error:
        message = f"the result of call {named(call.key)} is marked as an error; this API has no flag for that"
        reports.result(call, fact, "trimmed", message, None, "is_error")
    content = fact.content
    if raw is not None:
        known = schema_keys.MESSAGE_KEYS["function" if legacy else "tool"]
        if extra := {key: value for key, value in raw.items() if key not in known}:
            message = "a tool message has keys that the API does not take back"
            reports.result(call, fact, "trimmed", message, "unmapped", Json.of(extra).text)
        if legacy and raw.get("content", "") is None:
            return None
    else:
        parts = () if isinstance(content, str) else content
        received = [part.raw.value for part in parts if part.raw is not None]
        shown = [getattr(part, "text", None) for part in parts]
        flag = {"is_error": fact.is_error}
        _note_rest(
            draft, call, fact, fact.raw, call.part.id, call.part.name, received, shown or content, flag
        )
    if isinstance(content, str):
        return encoding.limited(chat, entry, content, draft)
    content = _listed(chat, call, fact, draft, foreign=fact.raw is not None and raw is None)
    if legacy and isinstance(content, list):  # this message holds one text
        return "\n".join(block["text"] for block in content)
    return content


def _listed(chat: ChatContext, call: Call, fact: Any, draft: Draft, *, foreign: bool) -> Any:
    """The texts of a result of several parts; media are moved behind the batch."""
    entry, reports = draft.entry, draft.reports
    texts: list[Value] = []
    moved: list[Media] = []
    for part in fact.content:
        if part.kind == "text":
            raw = part.raw.value if part.raw is not None else None
            texts.append(encoding.text_block(chat, entry, part.text, raw, draft))
        elif part.kind == "media":
            if part.media in ("document", "search_result") and (text := media.document_words(part)):
                texts.append({"type": "text", "text": encoding.limited(chat, entry, text, draft)})
                _note_rest(draft, call, fact, part.raw, text, part.media_type)
                continue
            moved.append(part)
            message = (
                f"a medium ({part.media}) in the result of call {named(call.key)} is sent behind the results"
            )
            reports.result(call, fact, "media_moved", message, "OAC-CONTENT-002", whole(part))
        else:
            texts.append({"type": "text", "text": encoding.limited(chat, entry, part.raw.text, draft)})
            message = f"a part of type {part.type!r} in a result is sent as its JSON text"
            reports.result(call, fact, "told_as_text", message, "OAC-CONTENT-002")
    if moved:
        draft.wire.append((call.key, moved))
    return encoding.content(chat, entry, texts, draft, single=foreign) if texts else ""


def moved_media(chat: ChatContext, parts: Sequence[ResultPart], draft: Draft, fact_id: str) -> list[Value]:
    """The media of one call's result as parts of a user message; what is no medium as its JSON."""
    found: list[Value] = []
    reports, facts = draft.reports, (fact_id,)
    for part in parts:
        if part.kind != "media":
            found.append({"type": "text", "text": whole(part)})
            continue
        made, rule = media.blocks(part, chat.profile, chat.model)
        if rule is not None:
            message = f"a medium ({part.media}) that the API cannot take is named in words"
            reports.add("media_moved", message, rule, facts=facts, content=whole(part))
        elif (rest := media.rest(part, made)) is not None:
            message = f"a medium ({part.media}) in a result says more than the API has a place for"
            reports.add("trimmed", message, "unmapped", facts=facts, content=rest)
        found.extend(made)
    return found


def _note_rest(draft: Draft, call: Call, fact: Any, raw: Json | None, *said: Any) -> None:
    """Report what a result of another API, or a part of one, says beyond what is sent of it."""
    if (rest := remainder(raw, *said)) is not None:
        message = f"the result of call {call.key!r} says more than this API has a place for"
        draft.reports.result(call, fact, "trimmed", message, "unmapped", rest)
