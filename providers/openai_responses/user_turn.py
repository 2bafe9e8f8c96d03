"""The user's side of a step as items: messages, and items that only this API has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.projecting.unmapped_fields import whole
from normalizer.providers.openai_responses import encoding, media, schema_keys, wire
from normalizer.providers.openai_responses.preamble import envelope

if TYPE_CHECKING:
    from normalizer.projecting.draft import Draft, Value
    from normalizer.projecting.incremental import Step
    from normalizer.projecting.user_turn import UserTurn
    from normalizer.projection import AdjustmentKind
    from normalizer.providers.openai_responses.context import ItemsContext
    from normalizer.transcript import Entry

_SILENT: Final = frozenset({"developer", "system"})
"""Roles that ask nothing of the model."""


def said(items: ItemsContext, entry: Entry, turn: UserTurn, draft: Draft) -> bool:
    """What the user's side says; whether it asks for anything."""
    fact: Any = entry.fact
    parts = entry.parts
    if len(parts) == 1 and parts[0].kind == "opaque" and getattr(fact, "by", None) == "program":
        value = _control(items, entry, parts[0], draft)
    else:
        value = _message(entry, draft)
    if value is None:
        return False
    turn.message(value)
    return value.get("role") not in _SILENT


# ---------------------------------------------------------------- messages


def _message(entry: Entry, draft: Draft) -> Value | None:
    """A user message, with the keys that it had."""
    fact: Any = entry.fact
    frame = envelope(fact) if entry.kind == "user" else None
    content: Any
    if getattr(fact, "string", False) and entry.parts:
        content = encoding.limited(entry.parts[0].text)  # type: ignore[union-attr]
    else:
        content = _pieces(entry, draft)
        if not content and (frame is None or entry.parts):
            if not entry.parts:
                message = "a message that says nothing is left out"
                draft.reports.entry(entry, "dropped_empty", message, "OAR-STRUCT-004")
            return None
    if frame is None:
        return {"role": "user", "content": content}
    return schema_keys.replay({**frame, "content": content}, draft.reports, fact.fact_id)


def _pieces(entry: Entry, draft: Draft) -> list[Value]:
    """The parts of a message; what the API cannot take is left out and reported."""
    pieces: list[Value] = []
    reports = draft.reports
    for part in entry.parts:
        made, rule = media.piece(part)
        if made is not None:
            pieces.append(made)
            if (rest := media.rest(part, made)) is not None:
                message = f"a {part.kind} part says more than this API has a place for"
                reports.entry(entry, "trimmed", message, "unmapped", rest)
            continue
        if part.kind == "media":
            pieces.append(media.left_out(part))
        kind: AdjustmentKind = "media_moved" if part.kind == "media" else "dropped_fragment"
        message = f"a {getattr(part, 'media', None) or part.kind} has no form in a user message"
        reports.entry(entry, kind, message, rule, whole(part))
    return pieces


# ---------------------------------------------------------------- items that are no messages


def _control(items: ItemsContext, entry: Entry, part: Any, draft: Draft) -> Value | None:
    """Answers to questions, changes of settings, halves of pairs."""
    raw = part.raw.value
    if part.type in wire.OUTPUTS:
        why = _orphan(items, raw)
    elif part.type == "mcp_approval_response" and schema_keys.complete(raw):
        why = _unasked(items, entry, raw.get("approval_request_id"), draft)
    elif part.type == "compaction_trigger":
        last = draft.step.last and entry is draft.step.behind[-1]
        why = None if last else ("dropped_fragment", "items stand behind the trigger", "OAR-STRUCT-013")
    elif part.type in wire.FOREIGN or part.type not in wire.ITEMS or not _sound(part.type, raw):
        why = "dropped_fragment", f"a {part.type!r} cannot go back", "OAR-STRUCT-005"
    else:
        why = None
    if why is not None:
        draft.reports.entry(entry, *why, part.raw.text)
        return None
    return schema_keys.replay(raw, draft.reports, entry.fact.fact_id)


_Why = tuple["AdjustmentKind", str, str]


def _orphan(items: ItemsContext, raw: Value) -> _Why | None:
    """Why an output whose call is not on record does not go back: nobody holds its call."""
    if items.options.stored is False or not schema_keys.complete(raw):
        return "dropped_orphan", "an output whose call is not on record", "OAR-PAIR-002"
    return None


def _unasked(items: ItemsContext, entry: Entry, asked: Any, draft: Draft) -> _Why | None:
    """Why an answer does not go back: its question is not there, or has another answer."""
    call = items.server_calls.get(asked)
    if call is None:
        if not items.options.stored:
            return "dropped_orphan", "an approval whose request is not on record", "OAR-MCP-001"
    elif (
        asked in draft.gone or call.part.form != "mcp_approval_request" or not _asked_here(draft.step, asked)
    ):
        return "dropped_server_tool", "its request is left out", "OAR-MCP-001"
    if items.answer_to(asked, draft.step) != entry.fact.fact_id:
        return "merged", "the question has another answer, which holds", "OAR-MCP-002"
    return None


def _asked_here(step: Step, key: Any) -> bool:
    """Whether the reply before these items put the question; one that was answered later is left out."""
    reply = step.reply
    return reply is not None and any(
        part.kind == "server_tool_call" and part.id == key for part in reply.parts
    )


def _sound(kind: str, raw: Value) -> bool:
    """Whether a change of settings is one that the API takes."""
    if kind != "configuration_update":
        return schema_keys.complete(raw)
    changes = {key: raw[key] for key in ("reasoning", "text") if raw.get(key) is not None}
    allowed = {"reasoning": {"effort"}, "text": {"format"}}
    return bool(changes) and all(isinstance(v, dict) and v.keys() <= allowed[k] for k, v in changes.items())
