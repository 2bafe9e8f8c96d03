"""What base64 media say of themselves, read from a few bytes: kind and size of a picture, pages of a PDF.

Only the bytes that are asked for are decoded, so that a long history of large pictures stays cheap to judge.
Nothing here raises: what cannot be read is None.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from dataclasses import dataclass
from typing import Any, Final

from normalizer.providers.anthropic.rules import view

IMAGE_TYPES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})

_MAX_SEGMENTS: Final = 512
_HEAD: Final = 64
# JPEG markers that open a frame and carry its size: SOF0 to SOF15 without the three that mean something else.
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# JPEG markers that stand alone, without a length.
_BARE: Final = frozenset({0x01, *range(0xD0, 0xD9)})

_PAGE: Final = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
_PAGES: Final = re.compile(rb"/Type\s*/Pages(?![a-zA-Z])")
_COUNT: Final = re.compile(rb"/Count\s+(\d{1,9})")
_ENCRYPTED: Final = re.compile(rb"/Encrypt\s*(?:\d+\s+\d+\s+R|<<)")
# How far around the word /Pages its dictionary is looked for; a list of children may be long.
_NEAR: Final = 65536


def plain(data: str) -> str:
    """The base64 text without line breaks and blanks."""
    head = data[:256]
    return "".join(data.split()) if any(map(str.isspace, head)) else data


def read(data: str, start: int, length: int) -> bytes:
    """So many bytes of what the text encodes; fewer where it ends, none where it is no base64."""
    first = start // 3 * 4
    piece = data[first : first + (length + 2) // 3 * 4 + 4]
    try:
        return base64.b64decode(piece + "=" * (-len(piece) % 4), validate=True)[
            start % 3 : start % 3 + length
        ]
    except (binascii.Error, ValueError):
        return b""


def sniff(data: str) -> str | None:
    """The media type that the first bytes show, None if they are no picture that is known here."""
    head = read(plain(data[:_HEAD]), 0, 16)
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return None


def size(data: str) -> tuple[int, int] | None:
    """Width and height in pixels, None where the header does not show them."""
    kind = sniff(data)
    text = plain(data)
    if kind == "image/jpeg":
        return _jpeg(text)
    head = read(text, 0, 32)
    try:
        match kind:
            case "image/png":
                width, height = struct.unpack_from(">II", head, 16)
            case "image/gif":
                width, height = struct.unpack_from("<HH", head, 6)
            case "image/webp":
                return _webp(head)
            case _:
                return None
    except struct.error:
        return None
    return width, height


def _webp(head: bytes) -> tuple[int, int] | None:
    """The size of a WebP picture, by the kind of its first chunk."""
    match head[12:16]:
        case b"VP8X":
            return 1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little")
        case b"VP8L":
            bits = int.from_bytes(head[21:25], "little")
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", head, 26)
            return width & 0x3FFF, height & 0x3FFF
    return None


def _jpeg(text: str) -> tuple[int, int] | None:
    """The size of a JPEG picture: hop from segment to segment up to the frame."""
    at = 2
    for _ in range(_MAX_SEGMENTS):
        piece = read(text, at, 9)
        if len(piece) < 4 or piece[0] != 0xFF:
            return None
        marker = piece[1]
        if marker == 0xFF:
            at += 1
        elif marker in _BARE:
            at += 2
        elif marker in _FRAMES:
            height, width = int.from_bytes(piece[5:7], "big"), int.from_bytes(piece[7:9], "big")
            return (width, height) if len(piece) == 9 else None
        else:
            at += 2 + int.from_bytes(piece[2:4], "big")
    return None


def base64_image(block: view.Block) -> tuple[str, str] | None:
    """Declared media type and data of an image block that carries its bytes, else None."""
    if block.get("type") != "image" or view.member(block, "source", "type") != "base64":
        return None
    data: Any = view.member(block, "source", "data")
    return (view.text(view.member(block, "source", "media_type")), data) if isinstance(data, str) else None


@dataclass(frozen=True, slots=True)
class Pdf:
    """What the plain parts of a PDF tell; `pages` is None if they are hidden in compressed objects."""

    pages: int | None
    encrypted: bool


def pdf(data: str) -> Pdf:
    """What a base64 PDF tells of itself. This decodes all of it."""
    try:
        raw = base64.b64decode(data)
    except (binascii.Error, ValueError):
        raw = b""
    return Pdf(_pages(raw), raw.startswith(b"%PDF") and _ENCRYPTED.search(raw) is not None)


def _pages(raw: bytes) -> int | None:
    """The lower of the two counts that can be had: a revised file repeats pages, or drops some."""
    seen = sum(1 for _ in _PAGE.finditer(raw))
    stated = [
        int(found[1])
        for place in _PAGES.finditer(raw)
        if (found := _COUNT.search(_around(raw, place.start())))
    ]
    counts = [count for count in (seen, max(stated, default=0)) if count]
    return min(counts, default=None)


def _around(raw: bytes, place: int) -> bytes:
    """The object in which this place lies."""
    start = raw.rfind(b"obj", max(0, place - _NEAR), place)
    end = raw.find(b"endobj", place, place + _NEAR)
    return raw[max(start, 0) : end if end >= 0 else place + _NEAR]
