"""Pictures, documents, sounds and files: what each server takes, and how it is written.

The table says per kind of medium which form it gets; where a server has none, the words of a document stand for it,
else a bracketed note says what was left out, and the report has all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from normalizer.projecting.unmapped_fields import received, remainder
from normalizer.providers.openai_chat import schema_keys, wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from normalizer.parts import Media
    from normalizer.providers.openai_chat.wire import Profile

Block: TypeAlias = dict[str, Any]
Made: TypeAlias = tuple[list[Block], str | None]
"""Content parts, and the rule that kept a medium out of them (None: it is in them)."""


def blocks(part: Media, profile: Profile, model: str | None) -> Made:
    """A medium as parts of a user message."""
    made, rule = _FORMS[part.media](part, profile, model)
    if made is not None:
        return [made], None
    if words := document_words(part):
        return [{"type": "text", "text": words}], None
    what = f"{part.media} {part.name!r}" if part.name else part.media
    return [{"type": "text", "text": f"[left out here: {what}]"}], rule


def rest(part: Media, made: list[Block]) -> str | None:
    """What a medium as received says beyond what is sent of it."""
    form = (part.media_type or "").partition("/")[2]
    return remainder(received(part), made, part.media_type, form)


def _image(part: Media, profile: Profile, model: str | None) -> tuple[Block | None, str]:
    if not wire.sees(profile, model):
        return None, "OCX-QWEN-003"
    url = part.url
    if part.data is not None:
        if profile.image_types is not None and part.media_type not in profile.image_types:
            return None, "OCX-OLLAMA-003"
        url = f"data:{part.media_type or 'image/png'};base64,{part.data}"
    elif not profile.image_urls:
        return None, "OCX-OLLAMA-003"
    if not url:
        return None, "OAC-CONTENT-008"
    own = _own(part, "image_url")
    if (
        own is not None
        and isinstance(own["image_url"], dict)
        and isinstance(own["image_url"].get("url"), str)
    ):
        return _trimmed(own, profile), ""
    return {"type": "image_url", "image_url": {"url": url}}, ""


def _file(part: Media, profile: Profile, _model: str | None) -> tuple[Block | None, str]:
    if not profile.files:
        return None, "OCX-OLLAMA-005" if profile.name == "ollama" else "OCX-AZURE-007"
    own = _own(part, "file")
    held = own["file"] if own is not None else None
    if (
        own is not None
        and isinstance(held, dict)
        and (held.get("file_id") or (part.data and held.get("filename")))
    ):
        return _trimmed(own, profile), ""
    if part.data is None or _is_words(part):
        return None, "OAC-CONTENT-005"
    name = part.name or ("document.pdf" if part.media_type == "application/pdf" else "file")
    data = part.data if part.media_type is None else f"data:{part.media_type};base64,{part.data}"
    return {"type": "file", "file": {"filename": name, "file_data": data}}, ""


def _sound(part: Media, profile: Profile, _model: str | None) -> tuple[Block | None, str]:
    form = (part.media_type or "").partition("/")[2].removeprefix("x-").replace("mpeg", "mp3")
    if not profile.sounds:
        return None, "OCX-OLLAMA-005"
    if part.data is None or form not in wire.SOUND_FORMATS:
        return None, "OAC-CONTENT-006"
    own = _own(part, "input_audio")
    held = own["input_audio"] if own is not None else None
    whole = isinstance(held, dict) and held.get("data") == part.data and held.get("format") == form
    return _trimmed(own, profile) if own is not None and whole else {
        "type": "input_audio", "input_audio": {"data": part.data, "format": form}
    }, ""  # fmt: skip


def _words_only(_part: Media, _profile: Profile, _model: str | None) -> tuple[Block | None, str]:
    return None, "OAC-CONTENT-005"


_FORMS: Final[dict[str, Callable[[Media, Profile, str | None], tuple[Block | None, str]]]] = {
    "image": _image,
    "document": _file,
    "file": _file,
    "audio": _sound,
    "search_result": _words_only,
}


def _own(part: Media, kind: str) -> Block | None:
    """The part as it was received from this API."""
    raw = part.raw.value if part.raw is not None else None
    return raw if isinstance(raw, dict) and raw.get("type") == kind and kind in raw else None


def _trimmed(block: Block, profile: Profile) -> Block:
    known = schema_keys.PART_KEYS[block["type"]] | profile.part_keys
    return block if block.keys() <= known else {key: value for key, value in block.items() if key in known}


def _is_words(part: Media) -> bool:
    """Whether `data` is plain text, as some APIs carry the text of a document."""
    raw = part.raw.value if part.raw is not None else None
    source = raw.get("source") if isinstance(raw, dict) else None
    return isinstance(source, dict) and source.get("type") == "text"


def document_words(part: Media) -> str:
    """The readable words of a document or search result that another API carries as text."""
    raw = part.raw.value if part.raw is not None else None
    if not isinstance(raw, dict):
        return ""
    source = raw.get("source")
    if _is_words(part):
        found = [part.data or ""]
    else:
        held = source.get("content") if isinstance(source, dict) else raw.get("content")
        blocks = held if isinstance(held, list) else []
        found = [held] if isinstance(held, str) else [
            block["text"] for block in blocks if isinstance(block, dict) and isinstance(block.get("text"), str)
        ]  # fmt: skip
    words = "\n".join(found)
    title = part.name or (source if isinstance(source, str) else None)
    return f"[{title}]\n{words}" if words and title else words
