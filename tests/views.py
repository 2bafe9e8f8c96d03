"""A request of any API as a flat list of pieces, read without the library, to be compared with the facts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

Block: TypeAlias = Mapping[str, Any]
Side: TypeAlias = Literal["system", "user", "reply"]

_THINKING: Final = frozenset({"thinking", "redacted_thinking"})
_SERVER_CALLS: Final = frozenset({"server_tool_use", "mcp_tool_use"})
_OPEN_ITEMS: Final = frozenset({"mcp_approval_request", "program"})


@dataclass(frozen=True)
class Piece:
    """One thing that a request says. `text` are its words; of a call its arguments, of a result its readable words.

    `kind` is `text`, `call`, `result`, `reasoning`, `media`, `server` (a call that the provider runs), `found` (what
    such a call returned) or `other`. `entry` is the number of the message or item that holds it.
    """

    side: Side
    kind: str
    entry: int
    text: str
    raw: Any
    id: str | None = None
    name: str | None = None


def strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from strings(item)


def words(content: Any) -> str:
    """The readable words of a content that is one text or a list of parts."""
    if isinstance(content, str):
        return content
    return "\n".join(
        b["text"] for b in content or () if isinstance(b, Mapping) and isinstance(b.get("text"), str)
    )


def _texts(side: Side, entry: int, content: Any) -> Iterator[Piece]:
    """Words and media of a content."""
    for block in [{"type": "text", "text": content}] if isinstance(content, str) else content or ():
        if isinstance(block.get("text"), str):
            yield Piece(side, "text", entry, block["text"], block)
        elif "refusal" in block:
            yield Piece(side, "other", entry, block["refusal"], block)
        else:
            yield Piece(side, "media", entry, "", block)


# ---------------------------------------------------------------- messages of blocks (Anthropic)


def of_messages(request: Mapping[str, Any]) -> list[Piece]:
    """The pieces of a Messages request."""
    found = [*_texts("system", -1, request.get("system"))]
    for number, message in enumerate(request["messages"]):
        side: Side = {"user": "user", "assistant": "reply"}.get(message["role"], "system")  # type: ignore[assignment]
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found.extend(_block(side, number, block) for block in blocks)
    return found


def _block(side: Side, entry: int, block: Block) -> Piece:
    kind = block.get("type")
    if kind == "text":
        return Piece(side, "text", entry, block["text"], block)
    if kind == "tool_use":
        given = block["input"]
        text = (
            given["INVALID_JSON"]
            if given.keys() == {"INVALID_JSON"}
            else json.dumps(given, ensure_ascii=False)
        )
        return Piece(side, "call", entry, text, block, block["id"], block["name"])
    if kind == "tool_result":
        return Piece(side, "result", entry, words(block.get("content")), block, block["tool_use_id"])
    if kind in _THINKING:
        return Piece(side, "reasoning", entry, block.get("thinking") or "", block)
    if kind in _SERVER_CALLS:
        return Piece(side, "server", entry, "", block, block["id"], block["name"])
    if str(kind).endswith("_tool_result"):
        return Piece(side, "found", entry, "", block, block["tool_use_id"])
    media = kind in ("image", "document", "container_upload", "search_result")
    return Piece(side, "media" if media else "other", entry, "", block)


# ---------------------------------------------------------------- messages of roles (Chat)


def of_chat(request: Mapping[str, Any]) -> list[Piece]:
    """The pieces of a Chat Completions request."""
    found: list[Piece] = []
    for number, message in enumerate(request["messages"]):
        role, content = message["role"], message.get("content")
        if role in ("tool", "function"):
            call = message.get("tool_call_id")
            found.append(Piece("user", "result", number, words(content), message, call, message.get("name")))
        elif role == "assistant":
            found.extend(_assistant(number, message))
        else:
            found.extend(_texts("user" if role == "user" else "system", number, content))
    return found


def _assistant(number: int, message: Block) -> Iterator[Piece]:
    for key in ("reasoning_content", "reasoning", "reasoning_details"):
        if message.get(key) is not None:
            yield Piece("reply", "reasoning", number, words(message[key]), message)
    yield from _texts("reply", number, message.get("content"))
    for key in ("refusal", "audio"):
        if message.get(key) is not None:
            yield Piece("reply", "other", number, words(message[key]), message)
    legacy = message.get("function_call")
    for call in message.get("tool_calls") or ([{"function": legacy}] if legacy else ()):
        inner = call.get("function") or call.get("custom")
        text = inner.get("arguments", inner.get("input"))
        yield Piece("reply", "call", number, text, call, call.get("id"), inner["name"])


# ---------------------------------------------------------------- items (Responses)


def of_items(request: Mapping[str, Any]) -> list[Piece]:
    """The pieces of a Responses request."""
    found = [*_texts("system", -1, request.get("instructions"))]
    for number, item in enumerate(request["input"]):
        kind = item.get("type") or "message"
        if kind == "message" and "role" in item:
            side: Side = {"user": "user", "assistant": "reply"}.get(item["role"], "system")  # type: ignore[assignment]
            found.extend(_texts(side, number, item["content"]))
        else:
            found.append(_item(number, kind, item))
    return found


def _item(number: int, kind: str, item: Block) -> Piece:
    key = item.get("call_id") or item.get("id")
    if kind == "reasoning":
        return Piece("reply", "reasoning", number, "", item)
    if kind.endswith("_output") and kind != "program_output" and not str(item.get("id")).startswith("sho_"):
        output = item.get("output")
        text = output if isinstance(output, str) else words(output) if isinstance(output, list) else ""
        return Piece("user", "result", number, text, item, key)
    if kind in ("program_output", "shell_call_output"):
        return Piece("reply", "found", number, "", item, key)
    hosted = (item.get("environment") or {}).get("type") == "container_reference"
    clients = ("function_call", "custom_tool_call", "computer_call", "local_shell_call", "apply_patch_call")
    if kind in clients or (kind == "shell_call" and not hosted):
        given = item.get("arguments", item.get("input", item.get("action", item.get("operation"))))
        text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
        return Piece("reply", "call", number, text, item, key, item.get("name"))
    if kind.endswith("_call") or kind in _OPEN_ITEMS:
        return Piece("reply", "server", number, "", item, key, item.get("name"))
    return Piece("reply" if kind != "mcp_approval_response" else "user", "other", number, "", item)


# ---------------------------------------------------------------- what was sent


def unmarked(value: Any) -> Any:
    """A JSON value without cache marks; they are no part of a prefix."""
    if isinstance(value, list):
        return [unmarked(item) for item in value]
    if isinstance(value, Mapping):
        return {key: unmarked(item) for key, item in value.items() if key != "cache_control"}
    return value


def heads(request: Mapping[str, Any], history: str) -> dict[str, str]:
    """What stands beside the history, by key, as one text each."""
    beside = {
        key: value for key, value in request.items() if key not in (history, "model", "betas", "container")
    }
    return {key: json.dumps(unmarked(_blocks(value))) for key, value in beside.items() if value}


def lines(request: Mapping[str, Any], history: str) -> list[str]:
    """The history as one text a block. Where a message ends does not count, so that the last one may grow."""
    found = []
    for entry in request[history]:
        beside = {key: value for key, value in entry.items() if key != "content"}
        found += [
            json.dumps([entry.get("role"), unmarked(block)]) for block in _blocks(entry.get("content")) or ()
        ]
        if beside.keys() - {"role"}:
            found.append(json.dumps(beside))
    return found


def _blocks(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
