"""Instructions in mid-conversation, and tools that come or go: system messages at the end of a user's turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from normalizer.projection import Adjustment
from normalizer.providers.anthropic import assistant_turn, schema_keys, wire

if TYPE_CHECKING:
    from collections.abc import Iterable

    from normalizer.projecting.incremental import Rendered
    from normalizer.providers.anthropic.render import Out, Renderer
    from normalizer.transcript import Entry


def speak(renderer: Renderer, entries: tuple[Entry, ...], messages: list[dict[str, Any]], out: Out) -> None:
    """Put system messages at the end of a user turn, or behind a server's result."""
    for entry in entries:
        blocks = renderer.head.later[entry.fact.fact_id]
        raw = getattr(entry.fact, "raw", None)
        if raw is not None and raw.value.get("role") == "system" and raw.value.get("content") is not None:
            message = {k: v for k, v in raw.value.items() if k in schema_keys.SYSTEM_KEYS}
            if isinstance(message["content"], list):
                message["content"] = blocks
        elif getattr(entry.fact, "string", False) and len(blocks) == 1:
            message = {"role": "system", "content": blocks[0]["text"]}
        else:
            message = {"role": "system", "content": blocks}
        messages.append(message)
        out.betas.update(b["type"] for b in blocks if b.get("type") in wire.BETAS)
        out.betas.update(key for key in message if key in wire.BETAS)


def keep_back(renderer: Renderer, entries: tuple[Entry, ...], rendered: Rendered[Any]) -> None:
    """Report system messages behind a reply: they may only stand at the end of the user's next turn."""
    rendered.adjustments.extend(
        Adjustment(
            "withheld_steering",
            "a system message waits for the user's next turn",
            "ANT-SYS-005",
            facts=(entry.fact.fact_id,),
            content=assistant_turn.text_of(renderer.head.later[entry.fact.fact_id]),
        )
        for entry in entries
    )


def note_passed(passed: Iterable[str], rendered: Rendered[Any], out: Out) -> None:
    """Report system messages that words of the user's side now stand before."""
    for fact_id in passed:
        out.changed = True
        rendered.adjustments.append(
            Adjustment("moved", "a system message stands at the end of the user's turn", "ANT-SYS-005",
                       facts=(fact_id,))
        )  # fmt: skip
