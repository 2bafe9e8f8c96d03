"""The user's side and instructions as messages, each with the borders that it had."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from normalizer.parts import Json
from normalizer.providers.openai_chat import encoding, media, preamble, schema_keys, wire

if TYPE_CHECKING:
    from normalizer.projecting.draft import Draft, Value
    from normalizer.projecting.user_turn import UserTurn
    from normalizer.projection import AdjustmentKind
    from normalizer.providers.openai_chat.context import ChatContext
    from normalizer.transcript import Entry

_OF_ITEMS: Final = frozenset({"type", "status"})
"""Keys by which Responses says that an item is a message, and whole."""


def said(chat: ChatContext, entry: Entry, turn: UserTurn, draft: Draft) -> bool:
    """What the user's side says; whether there is anything."""
    fact: Any = entry.fact
    blocks = _blocks(chat, entry, draft)
    if not blocks:
        draft.reports.entry(
            entry, "dropped_empty", "a user message with nothing in it is left out", "OAC-STRUCT-005"
        )
        return False
    raw: Any = fact.raw.value if fact.kind == "user_said" and fact.raw is not None else None
    framed = isinstance(raw, dict) and raw.get("role") == "user"
    turn.add(
        encoding.one_text(chat, entry, blocks, draft), getattr(fact, "group", None),
        string=getattr(fact, "string", False),
        frame=partial(_ordered, entry=entry, raw=raw, draft=draft) if framed else None,
    )  # fmt: skip
    return True


def _blocks(chat: ChatContext, entry: Entry, draft: Draft) -> list[Value]:
    blocks: list[Value] = []
    reports = draft.reports
    for part in entry.parts:
        raw = getattr(part, "raw", None)
        if part.kind == "text":
            value = raw.value if raw is not None else None
            blocks.append(encoding.text_block(chat, entry, part.text, value, draft))
        elif part.kind == "media":
            made, rule = media.blocks(part, chat.profile, chat.model)
            blocks.extend(made)
            if rule is not None:
                reports.part(entry, "media_moved", f"a medium ({part.media}) that the API cannot take is told", rule,
                             part)  # fmt: skip
            elif (rest := media.rest(part, made)) is not None:
                message = f"a medium ({part.media}) says more than the API has a place for"
                reports.entry(entry, "trimmed", message, "unmapped", rest)
        elif (
            part.kind == "opaque"
            and wire.is_unknown(part.type)
            and chat.profile.other_parts
            and chat.is_own(draft.step)
        ):
            blocks.append(part.raw.value)
        else:
            message = f"a part of kind {part.kind!r} has no place in a user message"
            reports.part(entry, "dropped_fragment", message, "OAC-CONTENT-010", part)
    return blocks


def _ordered(message: Value, *, entry: Entry, raw: Value, draft: Draft) -> Value:
    """The keys in the order in which they were received, less those that the API does not take."""
    found: Value = {}
    known = schema_keys.MESSAGE_KEYS["user"] | (_OF_ITEMS if raw.get("type") == "message" else frozenset())
    for key, value in raw.items():
        if key in message:
            found[key] = message[key]
        elif key == "name":
            encoding.put_name(entry, found, value, draft)
    if extra := {k: v for k, v in raw.items() if k not in known and v is not None}:
        text = f"a {message['role']} message has keys that the API does not take back"
        draft.reports.entry(entry, "trimmed", text, "unmapped", Json.of(extra).text)
    return found | {key: value for key, value in message.items() if key not in found}


# ---------------------------------------------------------------- instructions


def instructions(chat: ChatContext, entry: Entry, turn: UserTurn, draft: Draft) -> None:
    """Instructions where they were given, all in one role."""
    head = chat.head
    if entry.kind == "tools" or is_elsewhere(chat, entry):
        return
    fact: Any = entry.fact
    blocks, moved = instruction_blocks(chat, entry, draft)
    recorded = preamble.recorded_role(entry)
    if recorded is not None and recorded != head.role and blocks:
        rule = "OAC-ROLE-001" if head.role == "user" else chat.profile.developer_rule
        text = f"{recorded} instructions are sent in the role {head.role!r}"
        draft.reports.entry(entry, "moved", text, rule)
    if blocks:
        single = fact.string or recorded is None
        content = encoding.content(chat, entry, blocks, draft, single=single)
        message = {"role": head.role, "content": content}
        raw = fact.raw.value if fact.raw is not None else None
        if isinstance(raw, dict) and raw.get("role") in wire.INSTRUCTION_ROLES:
            message = _ordered(message, entry=entry, raw=raw, draft=draft)
        turn.message(message)
    if moved:
        turn.add(moved)


def is_elsewhere(chat: ChatContext, entry: Entry) -> bool:
    """Whether instructions are not sent where they were given: others replaced them, or all stand at the beginning."""
    gathered = entry.kind == "instructions" and bool(chat.head.gathered)
    return gathered or entry.fact.fact_id in chat.head.replaced


def instruction_blocks(chat: ChatContext, entry: Entry, draft: Draft) -> tuple[list[Value], list[Value]]:
    """The texts of instructions, and the media in them, which only a user message can hold."""
    texts: list[Value] = []
    moved: list[Value] = []
    reports, recorded = draft.reports, preamble.recorded_role(entry)
    for part in entry.parts:
        raw = getattr(part, "raw", None)
        if part.kind == "text" and (part.text or recorded):
            value = raw.value if raw is not None else None
            texts.append(encoding.text_block(chat, entry, part.text, value, draft))
        elif part.kind == "media":
            made, _ = media.blocks(part, chat.profile, chat.model)
            moved.extend(made)
            reports.part(entry, "media_moved", "a medium in instructions is sent in a user message", "OAC-CONTENT-004",
                         part)  # fmt: skip
        else:
            kind: AdjustmentKind = "dropped_empty" if part.kind == "text" else "dropped_fragment"
            message = "instructions hold text only; the rest is left out"
            reports.part(entry, kind, message, "OAC-CONTENT-004", part)
    if not entry.parts and recorded is not None:
        message = "instructions with nothing in them are left out"
        reports.entry(entry, "dropped_empty", message, "OAC-STRUCT-003")
    return texts, moved
