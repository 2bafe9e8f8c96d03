"""Pictures by value: what they really are, told by their first bytes.

Source: https://platform.claude.com/docs/en/build-with-claude/vision
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from normalizer.projecting.draft import Value
    from normalizer.projecting.reports import Reports

_STARTS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def honest(block: Value | None, reports: Reports, fact_id: str) -> Value | None:
    """The block with the media type that its bytes have; None where they are no picture that the API takes.

    The same object comes back where nothing is wrong with it.
    """
    source = block.get("source") if block is not None else None
    if block is None or not isinstance(source, dict):
        return block
    if block.get("type") == "document":
        return _document(block, source, reports, fact_id)
    if block.get("type") != "image" or source.get("type") != "base64":
        return block
    data = source.get("data")
    if not isinstance(data, str):
        return None
    plain = data.partition(";base64,")[2] if data.startswith("data:") else data
    kind = _kind(plain)
    if kind is None:
        return None
    if kind == source.get("media_type") and plain is data:
        return block
    declared = source.get("media_type")
    message = f"a picture declared as {declared!r} is {kind!r} by its bytes"
    reports.add("trimmed", message, "ANT-BLK-005", facts=(fact_id,), content=str(declared))
    return {**block, "source": {**source, "media_type": kind, "data": plain}}


def _document(block: Value, source: Value, reports: Reports, fact_id: str) -> Value | None:
    """A document with its pictures; None where one of them is none that the API takes, since words may lean on it."""
    held = source.get("content")
    if source.get("type") != "content" or not isinstance(held, list):
        return block
    shown = [honest(inner, reports, fact_id) if isinstance(inner, dict) else inner for inner in held]
    if all(a is b for a, b in zip(shown, held, strict=True)):
        return block
    return None if None in shown else {**block, "source": {**source, "content": shown}}


def _kind(data: str) -> str | None:
    """The media type of base64 text, by its first bytes."""
    try:
        head = base64.b64decode(data[:24], validate=True)
    except (binascii.Error, ValueError):
        return None
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _STARTS if head.startswith(start)), None)
