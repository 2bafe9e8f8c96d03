"""Calls of the model as elements of `tool_calls`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.parts import Json
from normalizer.projecting.draft import named_as
from normalizer.projecting.unmapped_fields import remainder
from normalizer.providers.openai_chat import schema_keys, wire
from normalizer.reading.truncation import begins_json
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from normalizer.parts import ToolCall
    from normalizer.projecting.draft import Draft, Value
    from normalizer.providers.openai_chat.context import ChatContext
    from normalizer.providers.openai_chat.wire import Profile
    from normalizer.transcript import Entry

_WRAPPED: Final = "INVALID_JSON"
LEGACY: Final = "function_call"
OTHER_FORMS: Final = ("custom", LEGACY)
"""Calls that are no `function` of `tool_calls`."""


def block(chat: ChatContext, entry: Entry, key: str, part: ToolCall, draft: Draft) -> Value:
    """A call: as received, with the id and name that it has on the wire and arguments as a text."""
    wire_id, name = chat.ids[key], named_as(chat.head.names, part.name)
    if wire_id != part.id and part.form != LEGACY:
        fits = part.id is not None and wire.CALL_ID.fullmatch(part.id) is not None
        draft.reports.renamed_id(entry, key, part.id, wire_id, fits=fits)
    own = part.raw.value if part.raw is not None and draft.own else None
    if own is None and (rest := remainder(part.raw, part.id, part.name, part.arguments.text)) is not None:
        message = f"call {key!r} says more than this API has a place for"
        draft.reports.entry(entry, "trimmed", message, "unmapped", rest, key)
    if part.form == "custom":
        if chat.profile.custom_tools or own is not None:
            return _element("custom", {"name": name, "input": _free_text(part)}, key, wire_id, own, draft)
        message = f"call {named(key)} of a custom tool is sent as a function call of one text"
        draft.reports.entry(entry, "told_as_text", message, "OAC-CUSTOM-001", call_id=key)
        payload = {"name": name, "arguments": Json.of({"input": _free_text(part)}).text}
        return _element("function", payload, key, wire_id, None, draft)
    payload = {"name": name, "arguments": _arguments(chat, key, part, draft)}
    return payload if is_legacy(entry, part) else _element("function", payload, key, wire_id, own, draft)


def is_legacy(entry: Entry, part: ToolCall) -> bool:
    """Whether the call has no id on the wire: the only one of its reply, in the form before `tool_calls`."""
    return part.form == LEGACY and part.id is None and len(entry.calls) == 1


def _element(kind: str, payload: Value, key: str, wire_id: str, own: Any, draft: Draft) -> Value:
    made = {"id": wire_id, "type": kind, kind: payload}
    if not isinstance(own, dict):
        return made
    held = own.get(kind)
    known, inner = schema_keys.CALL_KEYS[kind], schema_keys.PAYLOAD_KEYS[kind]
    if own == made:
        return own
    extra = {k: value for k, value in own.items() if k not in known and value is not None}
    if isinstance(held, dict):
        extra |= {k: value for k, value in held.items() if k not in inner and value is not None}
        made[kind] = {k: payload[k] for k in held if k in payload} | payload
    if extra:
        message = "a call has keys that the API does not take back"
        draft.note("trimmed", message, "unmapped", Json.of(extra).text, key)
    return {k: made[k] for k in own if k in made} | made


def _free_text(part: ToolCall) -> str:
    """The text that a custom tool was given."""
    raw = part.raw.value if part.raw is not None else None
    if isinstance(raw, dict):
        held = raw.get("custom") if isinstance(raw.get("custom"), dict) else raw
        if isinstance(held, dict) and isinstance(held.get("input"), str):
            text: str = held["input"]
            return text
    value = part.arguments.value if part.arguments.valid else None
    if isinstance(value, dict) and value.keys() == {"input"} and isinstance(value["input"], str):
        return value["input"]
    return part.arguments.text


def _arguments(chat: ChatContext, key: str, part: ToolCall, draft: Draft) -> str:
    """Arguments as a text: as recorded where the server takes any, else as an object; never completed."""
    text = as_text(chat.profile, part.arguments)
    if text is not None:
        return text
    message = f"the arguments of call {named(key)} are no JSON object: they are carried as one text"
    draft.note("told_as_text", message, "OAC-STRUCT-012", call_id=key)
    return Json.of({_WRAPPED: part.arguments.text}).text


def as_text(profile: Profile, arguments: Json) -> str | None:
    """The text of arguments, as the server takes it; None where it is carried in an object.

    A text that looks like the beginning of JSON is carried in an object everywhere, or who reads the request would take
    it for one that was cut off. https://github.com/vllm-project/vllm/issues/47761
    """
    text = arguments.text
    if profile.objects:
        if text.strip() in ("", "null"):
            return "{}"
        whole = arguments.valid and isinstance(arguments.value, dict)
    else:
        whole = arguments.valid or not text.strip() or not begins_json(text)
    return text if whole else None
