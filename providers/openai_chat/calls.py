"""Calls of the model as elements of `tool_calls`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.parts import Json
from normalizer.projecting.unmapped_fields import remainder
from normalizer.projection import Adjustment
from normalizer.providers.openai_chat import schema_keys, wire
from normalizer.reading.truncation import begins_json
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from normalizer.parts import ToolCall
    from normalizer.providers.openai_chat.render import Out, Renderer
    from normalizer.transcript import Entry

_WRAPPED: Final = "INVALID_JSON"
LEGACY: Final = "function_call"


def block(renderer: Renderer, entry: Entry, key: str, part: ToolCall, out: Out) -> dict[str, Any]:
    """A call: as received, with the id and name that it has on the wire and arguments as a text."""
    wire_id, name = renderer.ids[key], renderer.head.names.get(part.name, part.name)
    if wire_id != part.id and part.form != LEGACY:
        _renamed(entry, key, part, wire_id, out)
    own = part.raw.value if part.raw is not None and entry.fact.api in (None, wire.API) else None
    if own is None and (rest := remainder(part.raw, part.id, part.name, part.arguments.text)) is not None:
        out.notes.append(
            Adjustment("trimmed", f"call {key!r} says more than this API has a place for", "OAC-STRUCT-006", key,
                       (entry.fact.fact_id,), rest)
        )  # fmt: skip
    if part.form == "custom":
        if renderer.profile.custom_tools or own is not None:
            payload: dict[str, Any] = {"name": name, "input": _free_text(part)}
            return _element(entry, "custom", payload, wire_id, own, out)
        out.notes.append(
            Adjustment("told_as_text", f"call {named(key)} of a custom tool is sent as a function call of one text",
                       "OAC-CUSTOM-001", key, (entry.fact.fact_id,))
        )  # fmt: skip
        payload = {"name": name, "arguments": Json.of({"input": _free_text(part)}).text}
        return _element(entry, "function", payload, wire_id, None, out)
    payload = {"name": name, "arguments": _arguments(renderer, entry, key, part, out)}
    if is_legacy(entry, part):
        return payload
    return _element(entry, "function", payload, wire_id, own, out)


def is_legacy(entry: Entry, part: ToolCall) -> bool:
    """Whether the call has no id on the wire: the only one of its reply, in the form before `tool_calls`."""
    return part.form == LEGACY and part.id is None and len(entry.calls) == 1


def _element(
    entry: Entry, kind: str, payload: dict[str, Any], wire_id: str, own: Any, out: Out
) -> dict[str, Any]:
    made = {"id": wire_id, "type": kind, kind: payload}
    if not isinstance(own, dict):
        return made
    held = own.get(kind)
    known, inner = schema_keys.CALL_KEYS[kind], schema_keys.PAYLOAD_KEYS[kind]
    if own == made:
        return own
    extra = {key: value for key, value in own.items() if key not in known and value is not None}
    if isinstance(held, dict):
        extra |= {key: value for key, value in held.items() if key not in inner and value is not None}
        made[kind] = {key: payload[key] for key in held if key in payload} | payload
    if extra:
        out.notes.append(
            Adjustment("trimmed", "a call has keys that the API does not take back", "OAC-STRUCT-006", wire_id,
                       (entry.fact.fact_id,), Json.of(extra).text)
        )  # fmt: skip
    return {key: made[key] for key in own if key in made} | made


def _renamed(entry: Entry, key: str, part: ToolCall, wire_id: str, out: Out) -> None:
    fits = part.id is not None and wire.CALL_ID.fullmatch(part.id)
    rule = "OAC-ID-003" if part.id is None else "OAC-PAIR-006" if fits else "OAC-ID-001"
    out.notes.append(
        Adjustment("renamed_id", f"the id {named(part.id)} of call {named(key)} is sent as {named(wire_id)}", rule, key,
                   (entry.fact.fact_id,))
    )  # fmt: skip


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


def _arguments(renderer: Renderer, entry: Entry, key: str, part: ToolCall, out: Out) -> str:
    """Arguments as a text: as recorded where the server takes any, else as an object; never completed.

    A text that looks like the beginning of JSON is carried in an object everywhere, or who reads the request would take
    it for one that was cut off. https://github.com/vllm-project/vllm/issues/47761
    """
    arguments, text = part.arguments, part.arguments.text
    if renderer.profile.objects:
        if text.strip() in ("", "null"):
            return "{}"
        whole = arguments.valid and isinstance(arguments.value, dict)
    else:
        whole = arguments.valid or not text.strip() or not begins_json(text)
    if whole:
        return text
    out.notes.append(
        Adjustment("told_as_text",
                   f"the arguments of call {named(key)} are no JSON object: they are carried as one text",
                   "OAC-STRUCT-012", key, (entry.fact.fact_id,))
    )  # fmt: skip
    return Json.of({_WRAPPED: text}).text
