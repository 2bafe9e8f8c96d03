"""Calls of the model as `tool_use` blocks, and their ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.parts import Json
from normalizer.projecting.draft import named_as
from normalizer.providers.anthropic import encoding, wire
from normalizer.reading import sanitizing
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from normalizer.parts import ToolCall
    from normalizer.projecting.draft import Draft, Value
    from normalizer.providers.anthropic.context import ClaudeContext

INVALID: Final = "INVALID_JSON"
"""The key under which arguments that are no JSON object are sent."""


def block(claude: ClaudeContext, key: str, part: ToolCall, draft: Draft) -> Value:
    """A call: as received, with the id and name that it has on the wire and arguments as an object."""
    entry, wire_id, name = draft.entry, claude.ids[key], named_as(claude.head.names, part.name)
    if wire_id != part.id:
        fits = bool(part.id) and wire.CALL_ID.fullmatch(part.id or "") is not None
        draft.reports.renamed_id(entry, key, part.id, wire_id, fits=fits)
        draft.changed = True
    given = _input(part.arguments)
    own: Any = part.raw.value if part.raw is not None else None
    native = isinstance(own, dict) and own.get("type") == "tool_use"
    _note_arguments(
        key, part.arguments, given, draft, object_given=not native or type(own.get("input")) is dict
    )
    if not native:
        said = (part.id, part.name, part.arguments.text, given)
        encoding.note_rest(draft, entry, part.raw, *said, call_id=key, what="call")
        return {"type": "tool_use", "id": wire_id, "name": name, "input": given}
    found = encoding.replay(own, draft, entry)
    if (toolset := found.get("toolset_name")) is not None and not wire.word(found, "toolset_name"):
        message = f"the toolset of call {named(key)} is no name"
        draft.note("trimmed", message, "ANT-PAIR-010", Json.of(toolset).text, key)
        found = {k: v for k, v in found.items() if k != "toolset_name"}
    if found.get("id") == wire_id and found.get("name") == name and type(found.get("input")) is dict:
        return found
    return {**found, "id": wire_id, "name": name, "input": given}


def _note_arguments(key: str, arguments: Json, given: Value, draft: Draft, *, object_given: bool) -> None:
    """Report arguments that are sent otherwise than they were received."""
    if INVALID in given or not object_given:
        how = "wrapped, as they are" if INVALID in given else "as one"
        message = (
            f"the arguments of call {named(key)} are not the object that the API wants; they are sent {how}"
        )
    elif repeats_key(arguments, given):
        message = f"the arguments of call {named(key)} give a key twice; the last value is sent"
    else:
        return
    draft.note("trimmed", message, "ANT-ID-004", arguments.text, key)


def repeats_key(arguments: Json, given: Value) -> bool:
    """Whether the text of arguments gives a key of an object twice."""
    text = arguments._text  # noqa: SLF001 - none was received where there is none
    return text is not None and arguments.valid and sanitizing.repeats(text, given)


def _input(arguments: Json) -> Value:
    """Arguments as the object that the API wants; a text that is no object is wrapped, never completed.

    https://platform.claude.com/docs/en/agents-and-tools/tool-use/fine-grained-tool-streaming
    """
    value = arguments._value  # noqa: SLF001 - the usual case without a property call
    if type(value) is dict:
        return value
    if not arguments.text.strip() or arguments.text.strip() == "null":
        return {}
    if arguments.valid and isinstance(arguments.value, dict):
        return arguments.value
    return {INVALID: arguments.text}


def caller(part: Any) -> str | None:
    """The code call that made a client call, if one did."""
    raw = getattr(part, "raw", None)
    if part.kind != "tool_call" or raw is None or not isinstance(raw.value, dict):
        return None
    made_by = raw.value.get("caller")
    if not isinstance(made_by, dict) or made_by.get("type") == "direct":
        return None
    return str(made_by.get("tool_id"))


def toolset(part: ToolCall) -> str | None:
    """The toolset that a call names, under which it is answered."""
    raw = part.raw.value if part.raw is not None else None
    return wire.word(raw, "toolset_name") or None
