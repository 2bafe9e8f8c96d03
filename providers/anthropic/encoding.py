"""Texts, pictures and documents as blocks of the Messages wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.parts import Json
from normalizer.projecting.unmapped_fields import of_one_piece, remainder
from normalizer.providers.anthropic import schema_keys, wire

if TYPE_CHECKING:
    from normalizer.parts import Media, Text
    from normalizer.projecting.draft import Draft, Value
    from normalizer.transcript import Entry

FOREIGN: Final = wire.ELSEWHERE | {"text", "tool_use", "tool_result", "image", "document"}
"""Types of other wires, and of this one where the block is broken: such an opaque part is no block of this API."""


def text_block(part: Text, draft: Draft, entry: Entry) -> Value:
    """A text as a block: as received, or anew where another API wrote it otherwise."""
    if part.raw is None:
        return {"type": "text", "text": part.text}
    if part.raw.value.get("type") == "text":
        return replay(part.raw.value, draft, entry)
    note_rest(draft, entry, of_one_piece(part.raw), part.text)
    return {"type": "text", "text": part.text}


def note_rest(
    draft: Draft, entry: Entry, raw: Json | None, *said: Any, call_id: str | None = None, what: str = "block"
) -> None:
    """Report what a block of another API says beyond what is sent of it."""
    if raw is not None and (rest := remainder(raw, *said)) is not None:
        message = f"a {what} of another API says more than this API has a place for"
        draft.reports.entry(entry, "trimmed", message, "unmapped", rest, call_id)


def replay(block: Value, draft: Draft, entry: Entry) -> Value:
    """A block as it was received, less the keys that the API does not take back."""
    kind = block.get("type")
    known = schema_keys.BLOCK_KEYS.get(kind) if isinstance(kind, str) else None
    if known is None or block.keys() <= known:
        return block
    extra = {k: v for k, v in block.items() if k not in known}
    message = f"a {kind} block has keys that the API does not know"
    draft.reports.entry(entry, "trimmed", message, "unmapped", Json.of(extra).text)
    return {k: v for k, v in block.items() if k in known}


def usable(block: Value) -> bool:
    """Whether a document or search result has a form that the API takes. (Pictures have been looked at.)

    https://platform.claude.com/docs/en/build-with-claude/pdf-support and .../build-with-claude/search-results
    """
    kind, source = block.get("type"), block.get("source")
    if kind == "search_result":
        held = block.get("content")
        return (
            isinstance(source, str)
            and isinstance(block.get("title"), str)
            and isinstance(held, list)
            and bool(held)
            and all(isinstance(b, dict) and b.get("type") == "text" and _says(b) for b in held)
        )
    if kind != "document":
        return kind == "container_upload" or (kind == "image" and isinstance(source, dict))
    return isinstance(source, dict) and _whole(source)


def _says(block: Value) -> bool:
    return isinstance(block.get("text"), str) and bool(block["text"].strip())


# A document's kinds of source: the key that holds it, and the media type that goes with it.
_SOURCES: Final[dict[str | None, tuple[str, str | None]]] = {
    "base64": ("data", "application/pdf"),
    "text": ("data", "text/plain"),
    "content": ("content", None),
    "url": ("url", None),
    "file": ("file_id", None),
}


def _whole(source: Value) -> bool:
    """Whether a document's source has what its kind demands."""
    kind = wire.word(source, "type")
    if kind not in _SOURCES:
        return False
    key, media_type = _SOURCES[kind]
    held = source.get(key)
    if kind == "content" and isinstance(held, list):
        return all(isinstance(b, dict) and (b.get("type") == "image" or (b.get("type") == "text" and _says(b)))
                   for b in held)  # fmt: skip
    return isinstance(held, str) and (media_type is None or source.get("media_type") == media_type)


def block_of(part: Any) -> Value:
    """A text or media part as a block of this API."""
    raw = part.raw.value if part.raw is not None else None
    if part.kind == "text":
        return (
            raw
            if isinstance(raw, dict) and raw.get("type") == "text"
            else {"type": "text", "text": part.text}
        )
    if part.kind == "opaque":
        return raw if isinstance(raw, dict) else {"type": "text", "text": Json.of(raw).text}
    if isinstance(raw, dict) and wire.word(raw, "type") in wire.USER_BLOCKS:
        return raw
    return _media(part)


def _media(part: Media) -> Value:
    """A picture or document of another API, by value or address; the id of its file means nothing to this one."""
    kind = "image" if part.media == "image" else "document"
    titled = {"title": part.name} if kind == "document" and part.name else {}
    if part.data is not None:
        source = {"type": "base64", "media_type": part.media_type, "data": part.data}
        return {"type": kind, "source": source, **titled}
    if part.url is not None:
        return {"type": kind, "source": {"type": "url", "url": part.url}, **titled}
    named = {"media_type": part.media_type, "file_id": part.file_id, "name": part.name}
    return {"type": part.media, **{key: word for key, word in named.items() if word is not None}}


def blank(entry: Entry) -> bool:
    """Whether nothing of an entry of the user's stands in a request."""
    return not any(part.kind != "text" or part.text.strip() for part in entry.parts)
