"""Texts, parts and names as the Chat wire has them, within its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from normalizer.parts import Json
from normalizer.projecting.unmapped_fields import of_one_piece, remainder
from normalizer.providers.openai_chat import schema_keys, wire

if TYPE_CHECKING:
    from normalizer.projecting.draft import Draft, Value
    from normalizer.providers.openai_chat.context import ChatContext
    from normalizer.transcript import Entry


def text_block(chat: ChatContext, entry: Entry, text: str, raw: Any, draft: Draft) -> Value:
    """A text part, as received or anew, less the keys that the API does not know."""
    kept_text = limited(chat, entry, text, draft)
    if not isinstance(raw, dict):
        return {"type": "text", "text": kept_text}
    known = schema_keys.PART_KEYS["text"] | chat.profile.part_keys
    kept = {key: value for key, value in raw.items() if key in known} if raw.get("type") == "text" else {}
    if rest := remainder(of_one_piece(Json.of(raw)), kept, text):
        draft.reports.entry(entry, "trimmed", "a text has keys that the API does not know", "unmapped", rest)
    if kept.get("text") != kept_text:
        return {"type": "text", "text": kept_text}
    return raw if raw.keys() <= known else kept


def limited(chat: ChatContext, entry: Entry, text: str, draft: Draft) -> str:
    """A text that is not longer than the API takes; a cut one says so at its end."""
    limit = chat.profile.max_string
    if len(text) <= limit:
        return text
    at = limit - len(wire.CUT_MARK)
    message = f"a text of {len(text)} characters is cut: the API takes {limit}"
    draft.reports.entry(entry, "trimmed", message, "OAC-LIMIT-001", text[at:])
    return text[:at] + wire.CUT_MARK


def content(chat: ChatContext, entry: Entry, blocks: list[Value], draft: Draft, *, single: bool) -> Any:
    """Parts as the content of a message; `single`: one plain text is sent as a string."""
    blocks = one_text(chat, entry, blocks, draft)
    if single and len(blocks) == 1 and blocks[0].keys() == {"type", "text"}:
        return blocks[0]["text"]
    return blocks


def one_text(chat: ChatContext, entry: Entry, blocks: list[Value], draft: Draft) -> list[Value]:
    """Several texts joined, for a server that would make a message of each."""
    if not chat.profile.one_text or len(blocks) < 2 or any(b.keys() != {"type", "text"} for b in blocks):
        return blocks
    draft.reports.entry(entry, "merged", "the texts of a message are sent as one", "OCX-OLLAMA-004")
    return [{"type": "text", "text": "\n".join(block["text"] for block in blocks)}]


def put_name(entry: Entry, message: Value, name: Any, draft: Draft) -> None:
    """The name of who speaks, where the API takes it."""
    if name is None or (isinstance(name, str) and wire.SPEAKER.fullmatch(name)):
        message["name"] = name
        return
    text = "a speaker's name that the API does not take is left out"
    draft.reports.entry(entry, "trimmed", text, "OAC-ROLE-003", Json.of(name).text)
