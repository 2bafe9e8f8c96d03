"""A model's reply as assistant messages, each with the calls that its tool messages answer.

What was received from this API is replayed as received, less the keys that it does not take back. A refusal stays a
refusal, and reasoning never becomes text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from normalizer.parts import Json
from normalizer.projecting.draft import Spoken
from normalizer.projecting.unmapped_fields import whole
from normalizer.providers.openai_chat import calls, encoding, reasoning, wire

if TYPE_CHECKING:
    from normalizer.parts import Media, Reasoning
    from normalizer.projecting.draft import Draft, Piece, Value
    from normalizer.providers.openai_chat.context import ChatContext
    from normalizer.transcript import Call, Entry

_ABSENT: Final = object()
_NULLABLE: Final = frozenset({"refusal", "audio", "function_call"})


@dataclass(slots=True)
class _Said:
    """The pieces of a reply by what becomes of them; `skeleton` is the message as received from this API."""

    skeleton: Value | None = None
    texts: list[Value] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    thoughts: list[Reasoning] = field(default_factory=list)
    sound: str | None = None
    calls: list[tuple[Call, Value]] = field(default_factory=list)
    listed: bool = False
    """Whether the calls stand under `tool_calls`; the one of the form before it does not."""


# ---------------------------------------------------------------- pieces


def encode(chat: ChatContext, piece: Piece, draft: Draft) -> None:
    """A text, call, medium or unknown part: its value, or the report that it is left out."""
    part = piece.part
    match part.kind:
        case "text":
            raw = part.raw.value if part.raw is not None else None
            if not part.text and not draft.own:
                draft.drop(piece, "dropped_empty", "an empty text is left out", "empty")
            else:
                piece.value = encoding.text_block(chat, draft.entry, part.text, raw, draft)
        case "tool_call":
            piece.value = calls.block(chat, draft.entry, piece.key or "", part, draft)
        case "media":
            _medium(chat, piece, part, draft)
        case _:
            _opaque(chat, piece, part, draft)


def _medium(chat: ChatContext, piece: Piece, part: Media, draft: Draft) -> None:
    """A spoken reply is referred to while its server keeps it; else its transcript stands for it."""
    raw = part.raw.value if part.raw is not None else {}
    if draft.own and part.media == "audio" and part.file_id is not None:
        piece.value = {"id": part.file_id}
    elif isinstance(raw, dict) and isinstance(raw.get("transcript"), str) and raw["transcript"]:
        text = encoding.limited(chat, draft.entry, raw["transcript"], draft)
        piece.value = {"type": "text", "text": text}
        draft.note(
            "told_as_text", "a spoken reply is sent as its transcript", "OAC-CONTENT-009", part.file_id
        )
    else:
        message = f"a reply cannot hold a medium ({part.media}): it is left out"
        draft.drop(piece, "media_moved", message, "OAC-CONTENT-003")


def _opaque(chat: ChatContext, piece: Piece, part: Any, draft: Draft) -> None:
    block = part.raw.value
    if part.type == "refusal" and isinstance(block, dict) and isinstance(block.get("refusal"), str):
        piece.value = {"type": "refusal", "refusal": block["refusal"]}
    elif draft.own and chat.profile.other_parts and wire.is_unknown(part.type):
        piece.value = block
    elif draft.own or part.type != "message":  # the envelope of an item, whose parts stand beside it
        draft.drop(
            piece, "dropped_fragment", f"a part of type {part.type!r} is none of this API", "OAC-CONTENT-003"
        )


def _sorted(chat: ChatContext, draft: Draft) -> _Said:
    """Every piece that has a value in its place."""
    fact: Any = draft.entry.fact
    raw = fact.raw.value if draft.own and fact.raw is not None else None
    said = _Said(raw if isinstance(raw, dict) and raw.get("role") == "assistant" else None)
    for piece in draft.pieces:
        kind, value = piece.part.kind, piece.value
        if kind == "reasoning":
            said.thoughts.append(piece.part)
        elif value is None:
            continue
        elif kind == "tool_call":
            said.calls.append((chat.calls[piece.key or ""], value))
        elif kind == "opaque" and piece.part.type == "refusal":
            said.refusals.append(value["refusal"])
        elif value.keys() == {"id"}:
            said.sound = value["id"]
        else:
            said.texts.append(value)
            if said.calls and kind == "text" and piece.part.text:
                draft.note("moved", "words behind a call stand before it here", None)
    said.listed = bool(said.calls) and not (
        len(said.calls) == 1 and calls.is_legacy(draft.entry, said.calls[0][0].part)
    )
    return said


# ---------------------------------------------------------------- messages


def messages(chat: ChatContext, draft: Draft) -> list[Spoken]:
    """The messages of a reply."""
    said = _sorted(chat, draft)
    contents, refusal = _contents(chat, said, draft)
    if not contents and not (said.calls or said.sound):
        _nothing_left(draft)
        return []
    *before, last = contents or [_no_text(chat, said, draft)]
    spoken = [Spoken([{"role": "assistant", "content": content}], []) for content in before]
    thoughts = reasoning.fields(chat, said.thoughts, draft, calls=said.listed)
    if last == "" and draft.dropped and not said.calls and not said.sound and not thoughts:
        _nothing_left(draft)
        return spoken
    built: Value = {"role": "assistant"}
    if last is not _ABSENT:
        built["content"] = last
    if refusal is not None:
        built["refusal"] = refusal
    if said.sound is not None:
        built["audio"] = {"id": said.sound}
    built.update(thoughts)
    return [*spoken, *_with_calls(chat, said, built, draft)]


def _contents(chat: ChatContext, said: _Said, draft: Draft) -> tuple[list[Any], str | None]:
    """The contents of the reply's messages in order, and a refusal that stands in a key of its own."""
    fact: Any = draft.entry.fact
    found: list[Any] = []
    if said.texts:
        single = fact.string or not draft.own
        found.append(encoding.content(chat, draft.entry, said.texts, draft, single=single))
    elif (
        fact.string
        and draft.own
        and not (said.refusals or said.calls or said.sound)
        and not (said.skeleton is not None and said.skeleton.keys() & {"tool_calls", "function_call"})
    ):
        found.append("")
    if len(said.refusals) == 1 and found and said.skeleton is not None and "refusal" in said.skeleton:
        return found, said.refusals[0]
    if chat.profile.refusal_key and said.refusals:
        return found or [""], "\n".join(said.refusals)
    found.extend([{"type": "refusal", "refusal": text}] for text in said.refusals)
    if len(found) > 1:
        draft.note("split", "words and a refusal stand in messages of their own", "OAC-CONTENT-003")
    return found, None


def _no_text(chat: ChatContext, said: _Said, draft: Draft) -> Any:
    """The content of a message that says nothing beside its calls: as received, as far as the server takes it."""
    fact: Any = draft.entry.fact
    value: Any = None
    if draft.own and fact.string:
        value = ""
    elif said.skeleton is not None and "content" not in said.skeleton:
        value = _ABSENT
    wanted = chat.profile.no_words
    if wanted == "null" and said.listed and value == "":
        draft.note("dropped_empty", "an empty content beside calls is sent as null", "OCX-KIMI-002")
        return None
    if value is _ABSENT:
        return "" if wanted in ("string", "key") or (wanted == "calls" and not said.listed) else value
    return "" if value is None and (wanted == "string" or (wanted == "calls" and not said.listed)) else value


def _nothing_left(draft: Draft) -> None:
    held = "\n".join(text for part in draft.entry.parts if (text := whole(part))) or None
    draft.note("dropped_empty", "a reply with nothing in it is left out", "empty", held)


def _with_calls(chat: ChatContext, said: _Said, built: Value, draft: Draft) -> list[Spoken]:
    """The last message of the reply with its calls; more than a message may hold go into further ones."""
    if said.calls and not said.listed:
        call, block = said.calls[0]
        built["function_call"] = block
        return [Spoken([_ordered(chat, said, built, draft)], [call])]
    chunks = [said.calls[at : at + wire.MAX_CALLS] for at in range(0, len(said.calls), wire.MAX_CALLS)]
    if len(chunks) > 1:
        draft.note("split", f"a message holds at most {wire.MAX_CALLS} calls", "OAC-LIMIT-002")
    found: list[Spoken] = []
    for number, chunk in enumerate(chunks or [[]]):
        message = built if number == 0 else _further(chat, draft)
        if chunk:
            message["tool_calls"] = [block for _, block in chunk]
        if number == 0:
            message = _ordered(chat, said, message, draft)
        found.append(Spoken([message], [call for call, _ in chunk]))
    return found


def _further(chat: ChatContext, draft: Draft) -> Value:
    text = "" if chat.profile.no_words == "string" else None
    return {"role": "assistant", "content": text, **reasoning.fields(chat, [], draft, calls=True)}


def _ordered(chat: ChatContext, said: _Said, built: Value, draft: Draft) -> Value:
    """The keys in the order in which they were received, with those that only the message itself says."""
    if said.skeleton is None:
        return built
    message: Value = {}
    extra: Value = {}
    entry = draft.entry
    for key, value in said.skeleton.items():
        if key in built:
            message[key] = built.pop(key)
        elif key in _NULLABLE or key in chat.profile.reasoning_keys:
            if not _has_part(entry, key):  # then it was null
                message[key] = None
        elif key == "name":
            encoding.put_name(entry, message, value, draft)
        elif key not in ("content", "tool_calls", "response", *wire.REASONING_KEYS):
            extra[key] = value
    if extra:
        message_text = "a message has keys that the API does not take back"
        draft.note("trimmed", message_text, "unmapped", Json.of(extra).text)
    message.update(built)
    return message


def _has_part(entry: Entry, key: str) -> bool:
    """Whether a part of the reply came in this key of its message."""
    wanted = {
        "refusal": ("opaque", "type", "refusal"),
        "audio": ("media", "media", "audio"),
        "function_call": ("tool_call", "form", calls.LEGACY),
    }.get(key, ("reasoning", "kind", "reasoning"))
    kind, field_name, value = wanted
    return any(part.kind == kind and getattr(part, field_name) == value for part in entry.parts)
