"""Words, pictures and documents as parts of a message or an output.

| part | sent as |
| --- | --- |
| picture by address, or by value in one of `wire.IMAGE_TYPES` | `input_image` |
| document by address or by value | `input_file` |
| document that is plain words, search result | `input_text` |
| upload, by the id of this API | as received |
| sound, upload of another API | a bracketed note that it was left out, and reported |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.projecting.unmapped_fields import received, remainder
from normalizer.providers.openai_responses import wire

if TYPE_CHECKING:
    from collections.abc import Iterator

    from normalizer.parts import Media

Piece = dict[str, Any]

_NO_FORM: Final = "OAR-CONTENT-004"


def piece(part: Any) -> tuple[Piece | None, str]:
    """A text, medium or opaque part as one part of this API; else None and the rule that keeps it out."""
    raw = part.raw.value if part.raw is not None else None
    own = raw if isinstance(raw, dict) and raw.get("type") in tuple(wire.INPUT_PARTS) else None
    if part.kind == "text":
        return (_known(own) if own is not None else {"type": "input_text", "text": part.text}), ""
    if part.kind != "media":
        return (_known(own), "") if own is not None else (None, "OAR-CONTENT-002")
    if own is not None:
        return (_known(own), "") if _has_source(own) else (None, _NO_FORM)
    if words := _words(part):
        return {"type": "input_text", "text": words}, ""
    return _MAKERS.get(part.media, _nothing)(part)


def rest(part: Any, made: Piece) -> str | None:
    """What a text or medium as received says beyond what is sent of it."""
    return remainder(received(part), made, getattr(part, "media_type", None))


def left_out(part: Any) -> Piece:
    """A bracketed note in the place of a medium that has no form here."""
    what = f"{part.media} {part.name!r}" if part.name else part.media
    return {"type": "input_text", "text": f"[left out here: {what}]"}


def _known(raw: Piece) -> Piece:
    known = wire.PART_KEYS[raw["type"]]
    kept = {key: value for key, value in raw.items() if key in known and value is not None}
    return raw if len(kept) == len(raw) else kept


def _has_source(raw: Piece) -> bool:
    if raw["type"] == "input_image":
        url = raw.get("image_url")
        return (isinstance(url, str) and len(url) <= wire.MAX_IMAGE_URL) or (
            url is None and bool(raw.get("file_id"))
        )
    data = raw.get("file_data")
    if data:
        return bool(raw.get("filename")) and isinstance(data, str) and len(data) <= wire.MAX_FILE_DATA
    return raw["type"] == "input_text" or bool(raw.get("file_id") or raw.get("file_url"))


def _image(part: Media) -> tuple[Piece | None, str]:
    url = part.url
    if part.data is not None:
        if part.media_type not in wire.IMAGE_TYPES:
            return None, _NO_FORM
        url = f"data:{part.media_type};base64,{part.data}"
    if url is None:
        return None, _NO_FORM
    if len(url) > wire.MAX_IMAGE_URL:
        return None, "OAR-LIMIT-002"
    return {"type": "input_image", "image_url": url, "detail": "auto"}, ""


def _document(part: Media) -> tuple[Piece | None, str]:
    if part.data is not None:
        if len(part.data) > wire.MAX_FILE_DATA - 100:
            return None, "OAR-LIMIT-003"
        kind = part.media_type or "application/pdf"
        name = part.name or ("document.pdf" if kind == "application/pdf" else "document")
        return {"type": "input_file", "filename": name, "file_data": f"data:{kind};base64,{part.data}"}, ""
    if part.url is not None:
        return {"type": "input_file", "file_url": part.url}, ""
    return None, "OAR-CONTENT-005"


def _nothing(part: Media) -> tuple[Piece | None, str]:
    return None, "OAR-CONTENT-008" if part.media == "audio" else "OAR-CONTENT-005"


_MAKERS: Final = {"image": _image, "document": _document, "file": _document}


def _words(part: Media) -> str:
    """The words of a document that is nothing else: given as text, as a list of texts, or as a search result."""
    raw = part.raw.value if part.raw is not None else None
    if not isinstance(raw, dict) or part.media not in ("document", "search_result"):
        return ""
    source = raw.get("source")
    head = [value for key in ("title", "context") if isinstance(value := raw.get(key), str) and value]
    if isinstance(source, dict) and source.get("type") == "text" and isinstance(source.get("data"), str):
        return "\n".join([*head, source["data"]])
    if isinstance(source, dict) and source.get("type") == "content":
        return "\n".join([*head, *_texts(source.get("content"))])
    if part.media == "search_result":
        address = [source] if isinstance(source, str) else []
        return "\n".join([*head, *address, *_texts(raw.get("content"))])
    return ""


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for block in value:
            if isinstance(block, dict) and isinstance(block.get("text"), str):
                yield block["text"]
