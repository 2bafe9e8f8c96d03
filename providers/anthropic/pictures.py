"""Pictures by value: what they really are, told by their first bytes.

Source: https://platform.claude.com/docs/en/build-with-claude/vision
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, Final

from normalizer.projection import Adjustment

if TYPE_CHECKING:
    from collections.abc import Sequence

_STARTS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def honest(block: dict[str, Any] | None, notes: Sequence[Adjustment], fact_id: str) -> dict[str, Any] | None:
    """The block with the media type that its bytes have; None where they are no picture that the API takes.

    The same object comes back where nothing is wrong with it.
    """
    source = block.get("source") if block is not None else None
    if block is None or not isinstance(source, dict):
        return block
    if block.get("type") == "document":
        return _document(block, source, notes, fact_id)
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
    notes.append(  # type: ignore[attr-defined]
        Adjustment("trimmed", f"a picture declared as {source.get('media_type')!r} is {kind!r} by its bytes",
                   "ANT-BLK-005",
                   facts=(fact_id,), content=str(source.get("media_type")))
    )  # fmt: skip
    return {**block, "source": {**source, "media_type": kind, "data": plain}}


def _document(
    block: dict[str, Any], source: dict[str, Any], notes: Sequence[Adjustment], fact_id: str
) -> dict[str, Any] | None:
    """A document with its pictures; None where one of them is none that the API takes, since words may lean on it."""
    held = source.get("content")
    if source.get("type") != "content" or not isinstance(held, list):
        return block
    shown = [honest(inner, notes, fact_id) if isinstance(inner, dict) else inner for inner in held]
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
