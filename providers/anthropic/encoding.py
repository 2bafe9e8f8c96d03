"""Words, pictures and documents as blocks of the Messages wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.parts import Json
from normalizer.projecting.unmapped_fields import beside_content, of_one_piece, received, remainder, whole
from normalizer.projection import Adjustment
from normalizer.providers.anthropic import pictures, schema_keys, wire

if TYPE_CHECKING:
    from normalizer.parts import Media, Text
    from normalizer.providers.anthropic.render import Out, Renderer
    from normalizer.transcript import Entry


def user_blocks(renderer: Renderer, entry: Entry, out: Out) -> list[dict[str, Any]]:
    """The blocks of a user message: blank text and what has no place on the user's side are left out."""
    blocks: list[dict[str, Any]] = []
    note_message(out, entry)
    part: Any
    for part in entry.parts:
        kind = part.kind
        if kind == "text":
            text = part.text
            if not text or text.isspace():
                left_out(entry, out, "dropped_empty", "a blank text is left out", "ANT-BLK-002", part)
            else:
                blocks.append(spoken(part, out, entry))
        elif kind == "media":
            made = block_of(part)
            block = pictures.honest(made, out.notes, entry.fact.fact_id)
            if block is None or not usable(block):
                left_out(
                    entry,
                    out,
                    "media_moved",
                    "a picture or document that the API cannot take",
                    "ANT-BLK-006",
                    part,
                )
            elif block.get("type") == "container_upload" and not any(
                (wire.word(tool, "type") or "").startswith(wire.CODE_TOOLS)
                for tool in renderer.head.tools_at(None)
            ):
                left_out(
                    entry, out, "media_moved", "an upload needs the code execution tool", "ANT-BLK-012", part
                )
            else:
                note_rest(out, entry, received(part), made, part.media_type)
                blocks.append(replay(block, out, entry))
        elif (
            kind == "opaque"
            and part.type not in FOREIGN
            and part.type not in wire.ASSISTANT_BLOCKS
            and part.type
            and (part.type not in wire.USER_BLOCKS or usable(part.raw.value))
        ):
            blocks.append(replay(part.raw.value, out, entry))
        else:
            left_out(
                entry,
                out,
                "dropped_fragment",
                f"a {kind} block has no place in a user message",
                "ANT-MSG-003",
                part,
            )
    return blocks


def left_out(entry: Entry, out: Out, kind: Any, message: str, because: str, part: Any) -> None:
    """Report a part that is not sent."""
    out.notes.append(Adjustment(kind, message, because, facts=(entry.fact.fact_id,), content=whole(part)))
    out.changed = True


def spoken(part: Text, out: Out, entry: Entry) -> dict[str, Any]:
    """Words as a block: as received, or anew where another API wrote them otherwise."""
    if part.raw is None:
        return {"type": "text", "text": part.text}
    if part.raw.value.get("type") == "text":
        return replay(part.raw.value, out, entry)
    note_rest(out, entry, of_one_piece(part.raw), part.text)
    return {"type": "text", "text": part.text}


def note_rest(
    out: Out, entry: Entry, raw: Json | None, *said: Any, call_id: str | None = None, what: str = "block"
) -> None:
    """Report what a block of another API says beyond what is sent of it."""
    if raw is not None and (rest := remainder(raw, *said)) is not None:
        out.notes.append(
            Adjustment("trimmed", f"a {what} of another API says more than this API has a place for", "ANT-MSG-004",
                       call_id, (entry.fact.fact_id,), rest)
        )  # fmt: skip


def note_message(out: Out, entry: Entry) -> None:
    """Report what a message of another API says beside its content: who speaks."""
    if (rest := beside_content(entry.fact)) is not None:
        out.notes.append(
            Adjustment("trimmed", "a message says more beside its content than this API has a place for", "ANT-MSG-004",
                       facts=(entry.fact.fact_id,), content=rest)
        )  # fmt: skip


FOREIGN: Final = wire.ELSEWHERE | {"text", "tool_use", "tool_result", "image", "document"}
"""Types of other wires, and of this one where the block is broken: such an opaque part is no block of this API."""


def replay(block: dict[str, Any], out: Out, entry: Entry) -> dict[str, Any]:
    """A block as it was received, less the keys that the API does not take back."""
    kind = block.get("type")
    known = schema_keys.BLOCK_KEYS.get(kind) if isinstance(kind, str) else None
    if known is None or block.keys() <= known:
        return block
    extra = {k: v for k, v in block.items() if k not in known}
    out.notes.append(
        Adjustment("trimmed", f"a {kind} block has keys that the API does not know", "ANT-MSG-004",
                   facts=(entry.fact.fact_id,), content=Json.of(extra).text)
    )  # fmt: skip
    return {k: v for k, v in block.items() if k in known}


def usable(block: dict[str, Any]) -> bool:
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


def _says(block: dict[str, Any]) -> bool:
    return isinstance(block.get("text"), str) and bool(block["text"].strip())


# A document's kinds of source: the key that holds it, and the media type that goes with it.
_SOURCES: Final[dict[str | None, tuple[str, str | None]]] = {
    "base64": ("data", "application/pdf"),
    "text": ("data", "text/plain"),
    "content": ("content", None),
    "url": ("url", None),
    "file": ("file_id", None),
}


def _whole(source: dict[str, Any]) -> bool:
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


def block_of(part: Any) -> dict[str, Any]:
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


def _media(part: Media) -> dict[str, Any]:
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
