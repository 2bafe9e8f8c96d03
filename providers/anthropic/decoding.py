"""Blocks of the Messages wire -> parts.

A block of an unknown type, or of a broken shape, is opaque and keeps its JSON. `raw` is kept where a block
says more than its part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.parts import (
    Json,
    Media,
    Opaque,
    Reasoning,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
)
from normalizer.providers.anthropic import wire
from normalizer.reading import sanitizing
from normalizer.reading.sanitizing import sound
from normalizer.util.speed import maker

if TYPE_CHECKING:
    from collections.abc import Callable

    from normalizer.parts import Part

make_text = maker(Text)
make_call = maker(ToolCall)

TEXT_KEYS: Final = ["type", "text"]
CALL_KEYS: Final = ["type", "id", "name", "input"]
RESULT_KEYS: Final = (["type", "tool_use_id", "content"], ["type", "tool_use_id", "content", "is_error"])
# what other APIs call a block of words
_WORDS: Final = frozenset({"output_text", "input_text"})


def part(block: Any) -> Part:
    """The part that a block is. A block of an unknown type, or of a broken shape, is opaque and keeps its JSON."""
    if type(block) is dict:
        kind = block.get("type")
        if kind == "text":
            text = block.get("text")
            if type(text) is str:
                if len(block) == 2 and list(block) == TEXT_KEYS:
                    if "\0" in text:
                        raise sanitizing.Unclean
                    return make_text(text)
                return make_text(text, kept(block))
        elif kind == "tool_use":
            name = block.get("name")
            if type(name) is str:
                return call(block, name)
        elif type(kind) is str and (make := _MAKERS.get(kind)) is not None:
            return make(block)
        elif type(kind) is str and kind in _WORDS and type(block.get("text")) is str:
            sanitizing.look(block["text"])
            return make_text(block["text"])
        elif type(kind) is str and kind.endswith("_tool_result"):
            return _server_result(block)
        return Opaque(kind if type(kind) is str else "", kept(block))
    if isinstance(block, str):
        sanitizing.look(block)
        return Text(block)
    return Opaque("", kept(block))


def call(block: dict[str, Any], name: str) -> ToolCall:
    """A client call. Arguments that are no object are kept as the text that they are."""
    given, wire_id = block.get("input"), block.get("id")
    if type(given) is dict:
        if type(wire_id) is str and len(block) == 4 and list(block) == CALL_KEYS:
            copied = {}
            for key, value in given.items():
                kind = type(value)
                if type(key) is not str:
                    raise sanitizing.Unclean
                if kind is str:
                    copied[sound(key)] = sound(value)
                    continue
                sanitizing.look(value)
                copied[sound(key)] = sanitizing.own(value) if kind is dict or kind is list else value
            return make_call(wire_id, name, Json(None, copied))
        arguments = Json(None, given)
    else:
        arguments = Json(given) if type(given) is str else Json("{}") if given is None else Json.of(given)
    return make_call(wire_id if type(wire_id) is str else None, name, arguments, kept(block))


def kept(value: Any) -> Json:
    """The raw JSON of a block, with a look at what is in it."""
    sanitizing.look(value)
    return Json(None, value)


def _server_call(block: dict[str, Any]) -> Part:
    name, wire_id = block.get("name"), block.get("id")
    if type(name) is not str:
        return Opaque(block["type"], kept(block))
    given = block.get("input")
    arguments = Json(given) if isinstance(given, str) else Json.of({} if given is None else given)
    return ServerToolCall(
        wire_id if type(wire_id) is str else None, name, arguments, kept(block), block["type"]
    )


def _server_result(block: dict[str, Any]) -> Part:
    call_id, content = block.get("tool_use_id"), block.get("content")
    failed = block.get("is_error") is True or (
        isinstance(content, dict) and str(content.get("type", "")).endswith("_error")
    )
    return ServerToolResult(call_id if type(call_id) is str else None, kept(block), failed)


def _thinking(block: dict[str, Any]) -> Part:
    text = block.get("thinking")
    return Reasoning(text if type(text) is str else "", kept(block))


def _media(block: dict[str, Any]) -> Part:
    source = block.get("source")
    found = source if isinstance(source, dict) else {}

    def words(key: str) -> str | None:
        return found[key] if isinstance(found.get(key), str) else None

    kind = block["type"]
    return Media(
        "image" if kind == "image" else "search_result" if kind == "search_result" else "document",
        words("media_type"),
        words("data"),
        words("url"),
        words("file_id"),
        block.get("title") if isinstance(block.get("title"), str) else None,
        kept(block),
    )


def _upload(block: dict[str, Any]) -> Part:
    file_id = block.get("file_id")
    return Media("file", file_id=file_id if isinstance(file_id, str) else None, raw=kept(block))


_MAKERS: Final[dict[str, Callable[[dict[str, Any]], Part]]] = {
    "thinking": _thinking,
    "redacted_thinking": _thinking,
    "server_tool_use": _server_call,
    "mcp_tool_use": _server_call,
    "image": _media,
    "document": _media,
    "search_result": _media,
    "container_upload": _upload,
    **dict.fromkeys(wire.SERVER_RESULTS, _server_result),
}
KNOWN: Final = wire.USER_BLOCKS | wire.ASSISTANT_BLOCKS | wire.SYSTEM_BLOCKS | wire.RESULT_BLOCKS
