"""Items as the wire has them <-> parts: what a reader and an assembler make of one item, and how to undo it.

An item becomes one part, with two exceptions. Each piece of a message is a part of its own: the first carries the
item if it is a text (else an opaque part in front does), the others their piece of it. A hosted call that the server
ended is a call and a result: the call's raw item lacks the result, the result holds it.
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
from normalizer.providers.openai_responses import wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from normalizer.parts import Part

Item = dict[str, Any]

_FUNCTION_KEYS: Final = ["type", "call_id", "name", "arguments"]
_RESULT_KEYS: Final = ("results", "outputs", "result", "output", "error")
_NOTICE: Final = "notice"
"""The key under which a local shell's JSON text holds a notice."""


def word(item: Item, key: str) -> str | None:
    """The value of a key if it is a text that says something, else None."""
    found = item.get(key)
    return found if isinstance(found, str) and found else None


def kind(item: Item) -> str:
    """The type of an item; a message and a reference may leave it out."""
    found = item.get("type")
    if isinstance(found, str):
        return found
    if "role" in item:
        return "message"
    return "item_reference" if found is None and isinstance(item.get("id"), str) else ""


def served(item: Item) -> bool:
    """Whether a shell or a search for tools is the server's business."""
    found = kind(item)
    if found == "shell_call":
        where = item.get("environment")
        return isinstance(where, dict) and word(where, "type") in wire.SERVER_ENVIRONMENTS
    return found in ("tool_search_call", "tool_search_output") and item.get("execution") == "server"


def fragment_reason(item: Item) -> str | None:
    """Why an item that stands in a response or history is only the beginning of one; None if it is whole."""
    found, status = kind(item), item.get("status")
    if status in ("in_progress", "incomplete") and (found in wire.ANSWERS or found == "reasoning"):
        return str(status)
    if found == "message" and status == "in_progress":
        return "in_progress"
    if found in ("function_call", "custom_tool_call") and not isinstance(item.get("name"), str):
        return "incomplete"
    return None


def text_of(item: Item) -> str:
    """What there is to read in an item, for a fragment."""
    found = kind(item)
    if found == "message":
        content = item.get("content")
        if isinstance(content, str):
            return content
        pieces = content if isinstance(content, list) else []
        return "".join(str(p.get("text") or p.get("refusal") or "") for p in pieces if isinstance(p, dict))
    if found == "reasoning":
        return _summary(item)
    for key in ("arguments", "input", "code"):
        if isinstance(item.get(key), str):
            return str(item[key])
    value = item.get("action") or item.get("operation") or item.get("queries")
    return Json.of(value).text if value else ""


# ---------------------------------------------------------------- one item -> parts


class Pairing:
    """Searches for tools without `call_id`, in order, until their outputs come."""

    def __init__(self) -> None:
        self._waiting: list[str] = []

    def parts(self, item: Item, place: str) -> tuple[Part, ...]:
        """The parts of an item that the model or its server wrote."""
        found = kind(item)
        if found == "message":
            return _message(item)
        if found == "tool_search_call" and served(item):
            call_id = word(item, "call_id") or word(item, "id") or f"tool_search:{place}"
            if not word(item, "call_id"):
                self._waiting.append(call_id)
            return (ServerToolCall(call_id, "tool_search", _arguments(item), Json.of(item), found),)
        if found == "tool_search_output":
            named = word(item, "call_id") or (self._waiting.pop(0) if self._waiting else None)
            return (ServerToolResult(named, Json.of(item)),)
        if found == "shell_call_output":
            return (ServerToolResult(word(item, "call_id"), Json.of(item)),)
        make = _MAKERS.get(found)
        return make(item) if make is not None else (Opaque(found, Json.of(item)),)


def _arguments(item: Item) -> Json:
    given = item.get("arguments")
    return Json(given) if isinstance(given, str) else Json.of({} if given is None else given)


def _message(item: Item) -> tuple[Part, ...]:
    content = item.get("content")
    if isinstance(content, str):
        return (Text(content, None if list(item) == ["role", "content"] else Json.of(item)),)
    pieces = content if isinstance(content, list) else []
    made = tuple(_piece(piece, Json.of(piece)) for piece in pieces)
    if not made or not isinstance(made[0], Text):
        return (Opaque("message", Json.of(item)), *made)
    return (Text(made[0].text, Json.of(item)), *made[1:])


def pieces_behind(part: Part) -> int:
    """How many of the parts behind this one belong to the same message."""
    item = part.raw.value if part.raw is not None else None
    if not isinstance(item, dict) or "content" not in item or part.kind not in ("text", "opaque"):
        return 0
    content = item["content"] if isinstance(item["content"], list) else []
    return max(len(content) - (part.kind == "text"), 0)


def _piece(piece: Any, raw: Json) -> Part:
    if isinstance(piece, dict) and isinstance(piece.get("text"), str):
        return Text(piece["text"], raw)
    if isinstance(piece, str):
        return Text(piece, raw if isinstance(raw.value, dict) else None)
    return Opaque(str(piece.get("type") or "") if isinstance(piece, dict) else "", raw)


def _summary(item: Item) -> str:
    found = [*_list(item.get("summary")), *_list(item.get("content"))]
    return "\n".join(p["text"] for p in found if isinstance(p, dict) and isinstance(p.get("text"), str))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _reasoning(item: Item) -> tuple[Part, ...]:
    return (Reasoning(_summary(item), Json.of(item)),)


def _function(item: Item) -> tuple[Part, ...]:
    raw = None if list(item) == _FUNCTION_KEYS and isinstance(item["arguments"], str) else Json.of(item)
    call_id = word(item, "call_id")
    return (ToolCall(call_id, str(item["name"]), _arguments(item), raw if call_id else Json.of(item)),)


def _custom(item: Item) -> tuple[Part, ...]:
    arguments = Json.of({"input": item.get("input")})
    return (ToolCall(word(item, "call_id"), str(item["name"]), arguments, Json.of(item), "custom_tool_call"),)


def _machine(name: str, key: str) -> Callable[[Item], tuple[Part, ...]]:
    def make(item: Item) -> tuple[Part, ...]:
        given = item.get(key)
        if given is None and key == "action" and "actions" in item:
            given = {"actions": item["actions"]}
        arguments = Json.of({} if given is None else given)
        if served(item):
            return (ServerToolCall(word(item, "call_id"), name, arguments, Json.of(item), kind(item)),)
        return (ToolCall(word(item, "call_id"), name, arguments, Json.of(item), kind(item)),)

    return make


def _search(item: Item) -> tuple[Part, ...]:
    return (
        ToolCall(word(item, "call_id"), "tool_search", _arguments(item), Json.of(item), "tool_search_call"),
    )


def _hosted(item: Item) -> tuple[Part, ...]:
    found, call_id = kind(item), word(item, "id")
    given = next(
        (item[key] for key in ("arguments", "action", "queries", "code") if item.get(key) is not None), None
    )
    name = str(item.get("name") or "mcp") if found == "mcp_call" else found.removesuffix("_call")
    if isinstance(given, str) and found != "code_interpreter_call":
        arguments = Json(given)
    elif isinstance(given, dict):
        arguments = Json.of(given)
    else:
        arguments = Json.of(
            {} if given is None else {"queries" if isinstance(given, list) else "code": given}
        )
    # a call of an MCP server may come without a status; it is over when it has an output or an error
    ended = word(item, "status") in wire.TERMINAL or (
        found == "mcp_call" and item.get("status") is None and (item.get("output") or item.get("error"))
    )
    if not ended or call_id is None:
        return (ServerToolCall(call_id, name, arguments, Json.of(item), found),)
    result = {key: item[key] for key in _RESULT_KEYS if item.get(key) is not None}
    rest = {key: None if key in result else value for key, value in item.items()} if result else item
    failed = item.get("status") == "failed" or item.get("error") is not None
    return (
        ServerToolCall(call_id, name, arguments, Json.of(rest), found),
        ServerToolResult(call_id, Json.of({"type": found, **result}), failed),
    )


def whole(call: ServerToolCall, result: ServerToolResult | None) -> Item:
    """The item of a hosted call with its result, as it was received."""
    item: Item = call.raw.value if call.raw is not None else {}
    if result is None or call.form not in wire.HOSTED:
        return item
    return {**item, **{key: value for key, value in result.raw.value.items() if key != "type"}}


def _program(item: Item) -> tuple[Part, ...]:
    code = Json.of({"code": item.get("code")})
    return (ServerToolCall(word(item, "call_id"), "program", code, Json.of(item), "program"),)


def _program_output(item: Item) -> tuple[Part, ...]:
    return (ServerToolResult(word(item, "call_id"), Json.of(item), item.get("status") == "incomplete"),)


def _approval(item: Item) -> tuple[Part, ...]:
    name = str(item.get("name") or "")
    return (ServerToolCall(word(item, "id"), name, _arguments(item), Json.of(item), "mcp_approval_request"),)


_MAKERS: Final[dict[str, Callable[[Item], tuple[Part, ...]]]] = {
    "reasoning": _reasoning,
    "function_call": _function,
    "custom_tool_call": _custom,
    "computer_call": _machine("computer", "action"),
    "shell_call": _machine("shell", "action"),
    "local_shell_call": _machine("local_shell", "action"),
    "apply_patch_call": _machine("apply_patch", "operation"),
    "tool_search_call": _search,
    "program": _program,
    "program_output": _program_output,
    "mcp_approval_request": _approval,
    **dict.fromkeys(wire.HOSTED, _hosted),
}

# ---------------------------------------------------------------- the user's side


def input_part(piece: Any) -> Part:
    """A part of a user's message or of an output. Names of other wires are understood, and sent under ours."""
    if isinstance(piece, str):
        return Text(piece)
    if not isinstance(piece, dict):
        return Opaque("", Json.of(piece))
    found = piece.get("type")
    if found in ("input_text", "output_text", "text") and isinstance(piece.get("text"), str):
        plain = found != "input_text" or list(piece) == ["type", "text"]
        return Text(piece["text"], None if plain else Json.of(piece))
    if found in ("input_image", "computer_screenshot"):
        return _image(piece, piece.get("image_url"), Json.of(piece))
    if found == "image_url":
        address = piece.get("image_url")
        return _image(piece, address.get("url") if isinstance(address, dict) else address, None)
    if found == "input_file":
        return _file(piece, Json.of(piece))
    if found == "file" and isinstance(piece.get("file"), dict):
        return _file(piece["file"], None)
    if found == "input_audio":
        sound = piece.get("input_audio")
        held = sound if isinstance(sound, dict) else {}
        return Media("audio", f"audio/{held.get('format') or 'wav'}", word(held, "data"), raw=Json.of(piece))
    return Opaque(found if isinstance(found, str) else "", Json.of(piece))


def _image(piece: Item, address: Any, raw: Json | None) -> Part:
    media_type, data, url = _address(address)
    return Media("image", media_type, data, url, word(piece, "file_id"), raw=raw)


def _file(piece: Item, raw: Json | None) -> Part:
    media_type, data, url = _address(piece.get("file_data"))
    if url is not None:
        data, url = url, None  # data without a scheme is base64 as it is
    name = word(piece, "filename")
    if media_type is None and name is not None and name.lower().endswith(".pdf"):
        media_type = "application/pdf"
    return Media("document", media_type, data, word(piece, "file_url"), word(piece, "file_id"), name, raw)


def _address(address: Any) -> tuple[str | None, str | None, str | None]:
    """Media type and base64 data of a data URL, or any other address."""
    if not isinstance(address, str):
        return None, None, None
    if address.startswith("data:") and ";base64," in address:
        head, _, data = address.partition(";base64,")
        return head[5:].split(";", 1)[0] or None, data, None
    return None, None, address


def notice_text(output: str) -> str:
    """The notice inside a local shell's JSON text; another text as it is."""
    held = Json(output)
    if output[:1] == "{" and held.valid and isinstance(held.value, dict) and list(held.value) == [_NOTICE]:
        found = held.value[_NOTICE]
        return found if isinstance(found, str) else output
    return output


def as_notice(text: str) -> str:
    """A notice as the JSON text that a local shell's output holds."""
    return Json.of({_NOTICE: text}).text
