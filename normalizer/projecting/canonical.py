"""Canonical bytes of a request, and running digests of them: what "the same prefix" means.

The bytes are the instructions, the tools, then block after block with its role. Where a message ends is no
part of them, so a last message may grow; neither are cache marks. Keys stay in recorded order.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
EMPTY: Final = hashlib.sha256().hexdigest()

_INSTRUCTIONS: Final = ("system", "instructions", "systemInstruction")
_TOOLS: Final = ("tools", "toolConfig")
_HISTORY: Final = (("messages", "content"), ("input", "content"), ("contents", "parts"))


def encode(request: Mapping[str, Any]) -> bytes:
    """All canonical bytes of a request, in order."""
    return b"".join([instructions_bytes(request), tools_bytes(request), *blocks(request)])


def instructions_bytes(request: Mapping[str, Any]) -> bytes:
    """The top-level instructions."""
    return _line(_unmarked(_as_blocks(next((request[k] for k in _INSTRUCTIONS if request.get(k)), None))))


def tools_bytes(request: Mapping[str, Any]) -> bytes:
    """The tools."""
    return _line(_unmarked(next((request[k] for k in _TOOLS if request.get(k)), None)))


def blocks(request: Mapping[str, Any]) -> Iterator[bytes]:
    """The blocks of the history."""
    for key, content in _HISTORY:
        if key in request:
            history = request[key]
            if isinstance(history, str):
                history = [{"role": "user", content: history}]
            for message in history:
                yield from message_blocks(message, content)
            return


def message_blocks(message: Mapping[str, Any], content: str = "content") -> Iterator[bytes]:
    """The blocks of one message with their role. A message that says more than role and content (or an item without
    content) is one block, beside those of its content.
    """
    rest = {k: v for k, v in message.items() if k not in ("role", content)}
    role = message.get("role", "")
    if rest or content not in message:
        yield _line([role, _unmarked(rest)])
    held = message.get(content)
    for block in _as_blocks(held) or ():
        yield _line([role, _unmarked(block)])


def _as_blocks(held: Any) -> Any:
    """One text is the same as one text block."""
    return [{"type": "text", "text": held}] if isinstance(held, str) else held


def _unmarked(value: Any) -> Any:
    """The value without cache marks, on itself and on blocks nested in it."""
    if isinstance(value, list):
        return [_unmarked(item) for item in value]
    if not isinstance(value, dict):
        return value
    nested = value.get("content")
    if "cache_control" in value or isinstance(nested, list):
        plain = {k: v for k, v in value.items() if k != "cache_control"}
        if isinstance(nested, list):
            plain["content"] = _unmarked(nested)
        return plain
    return value


def _line(value: Any) -> bytes:
    return _encode(value).encode("utf-8", "surrogatepass") + b"\n"


def digest(data: bytes) -> str:
    """SHA-256, hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def running(before: str, pieces: Iterable[bytes]) -> str:
    """The running digest after further blocks: each is hashed together with the digest before it."""
    for piece in pieces:
        before = hashlib.sha256(before.encode() + piece).hexdigest()
    return before
