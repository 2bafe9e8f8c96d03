"""Instructions in mid-conversation, and tools that come or go: system messages at the end of a user's turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from normalizer.parts import Json
from normalizer.providers.anthropic import schema_keys, wire
from normalizer.providers.anthropic.context import notes_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from normalizer.projecting.draft import Draft, Value
    from normalizer.providers.anthropic.context import ClaudeContext
    from normalizer.transcript import Entry


def made(claude: ClaudeContext, entries: Iterable[Entry], draft: Draft) -> list[Value]:
    """System messages for these entries: they stand at the end of a user turn, or behind a server's result."""
    found: list[Value] = []
    betas = notes_of(draft).betas
    for entry in entries:
        blocks = claude.head.later[entry.fact.fact_id]
        raw = getattr(entry.fact, "raw", None)
        if raw is not None and raw.value.get("role") == "system" and raw.value.get("content") is not None:
            message = {k: v for k, v in raw.value.items() if k in schema_keys.SYSTEM_KEYS}
            if isinstance(message["content"], list):
                message["content"] = blocks
        elif getattr(entry.fact, "string", False) and len(blocks) == 1:
            message = {"role": "system", "content": blocks[0]["text"]}
        else:
            message = {"role": "system", "content": blocks}
        found.append(message)
        betas.update(block["type"] for block in blocks if block.get("type") in wire.BETAS)
        betas.update(key for key in message if key in wire.BETAS)
    return found


def keep_back(claude: ClaudeContext, entries: Iterable[Entry], draft: Draft) -> None:
    """Report system messages behind a reply: they may only stand at the end of the user's next turn."""
    for entry in entries:
        blocks = claude.head.later[entry.fact.fact_id]
        message = "a system message waits for the user's next turn"
        draft.reports.entry(entry, "withheld_steering", message, "ANT-SYS-005", Json.of(blocks).text)


def note_passed(entries: Iterable[Entry], draft: Draft) -> None:
    """Report system messages that something of the user's side stands before, though it came later."""
    for entry in entries:
        message = "a system message stands at the end of the user's turn"
        draft.reports.entry(entry, "moved", message, "ANT-SYS-005")
        draft.changed = True
