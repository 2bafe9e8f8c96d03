"""Calls of the client's tools as items, and their ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.parts import Json
from normalizer.projecting.draft import named_as
from normalizer.projecting.unmapped_fields import remainder
from normalizer.providers.openai_responses import schema_keys, wire
from normalizer.reading.truncation import begins_json
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from normalizer.parts import ToolCall
    from normalizer.projecting.draft import Draft, Value
    from normalizer.providers.openai_responses.context import ItemsContext
    from normalizer.transcript import Call

_FORMS: Final = {"custom": "custom_tool_call"}
WORDED: Final = frozenset({"function_call", "custom_tool_call"})
"""Forms whose output is any text."""


def form_of(call: Call) -> str:
    """The type of the item that the call is. Forms of other wires are functions here."""
    form = _FORMS.get(call.part.form or "", call.part.form or "")
    raw = call.part.raw.value if call.part.raw is not None else None
    native = isinstance(raw, dict) and raw.get("type") == form
    return form if form in wire.ANSWERS and (native or form == "custom_tool_call") else "function_call"


def is_async(call: Call) -> bool:
    """Whether the call may stay open while the conversation goes on."""
    raw = call.part.raw.value if call.part.raw is not None else None
    return isinstance(raw, dict) and raw.get("async") is True


def program_of(part: Any) -> str | None:
    """The program that made a call of the client's, if one did."""
    raw = part.raw.value if part.kind == "tool_call" and part.raw is not None else None
    held = raw.get("caller") if isinstance(raw, dict) else None
    return str(held.get("caller_id")) if isinstance(held, dict) and held.get("type") == "program" else None


def item(items: ItemsContext, call: Call, part: ToolCall, draft: Draft) -> Value:
    """The call's item, as received, with the id and name that it has on the wire."""
    wire_id, form = items.ids[call.key], form_of(call)
    name = named_as(items.head.names, part.name)
    nameless = form == "tool_search_call" and part.id is None
    if wire_id != part.id and not nameless:
        fits = bool(part.id) and wire.CALL_ID.fullmatch(part.id or "") is not None
        draft.reports.renamed_id(draft.entry, call.key, part.id, wire_id, fits=fits)
    raw = part.raw.value if part.raw is not None else None
    if isinstance(raw, dict) and raw.get("type") == form:
        replayed = schema_keys.replay(raw, draft.reports, draft.entry.fact.fact_id)
        changes = _changes(replayed, form, part, name)
        if replayed.get("call_id") != wire_id and not nameless:
            changes["call_id"] = wire_id
        return {**replayed, **changes} if changes else replayed
    if form == "custom_tool_call":
        held = part.arguments.value if part.arguments.valid else None
        text = held.get("input") if isinstance(held, dict) else None
        given = text if isinstance(text, str) else part.arguments.text
        return {"type": form, "call_id": wire_id, "name": name, "input": given}
    arguments = _arguments(part, own=draft.own)
    note_rest(call.key, part, draft)
    made = {"type": "function_call", "call_id": wire_id, "name": name, "arguments": arguments}
    return {**made, "status": "completed"} if _looks_cut(part) else made


def _changes(replayed: Value, form: str, part: ToolCall, name: str) -> Value:
    """What is put right in an item as received, beside its id."""
    changes: Value = {}
    if "name" in replayed and replayed["name"] != name:
        changes["name"] = name
    if form == "function_call" and not isinstance(replayed.get("arguments"), str):
        changes["arguments"] = _arguments(part, own=False)
    if form == "function_call" and _looks_cut(part) and replayed.get("status") is None:
        changes["status"] = "completed"
    if form == "custom_tool_call" and not isinstance(replayed.get("input"), str):
        changes["input"] = Json.of(replayed.get("input")).text
    return changes


def note_rest(key: str, part: ToolCall, draft: Draft) -> None:
    """Report what a call as received says beyond its id, name and arguments."""
    if (rest := remainder(part.raw, part.id, part.name, part.arguments.text)) is not None:
        message = f"call {named(key)} says more than there is a place for"
        draft.note("trimmed", message, "unmapped", rest, key)


def _looks_cut(part: ToolCall) -> bool:
    """Whether arguments that arrived whole look like a beginning; the item's status then says that they are whole."""
    return not part.arguments.valid and begins_json(part.arguments.text)


def _arguments(part: ToolCall, *, own: bool) -> str:
    """Arguments as the text that arrived; none at all are an empty object."""
    text = part.arguments.text
    return "{}" if not own and text.strip() in ("", "null") else text
