"""Histories that the provider holds: which response a request continues, and what is newer than it.

The newest response on record that the server can have stored is the base. What stands behind it is sent; what it
holds is not repeated. https://developers.openai.com/api/docs/guides/conversation-state
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from normalizer.projecting.incremental import Step
from normalizer.projection import Adjustment
from normalizer.providers.openai_responses import assistant_turn, wire
from normalizer.providers.openai_responses.render import Out

if TYPE_CHECKING:
    from normalizer.projecting.incremental import Rendering
    from normalizer.projection import Options
    from normalizer.providers.openai_responses.render import Flow, Renderer
    from normalizer.transcript import Transcript


@dataclass(slots=True)
class Border:
    """Where the input begins among all items, and the setting that names what stands before it."""

    start: int = 0
    named: dict[str, Any] = field(default_factory=dict)


def border(
    transcript: Transcript,
    options: Options,
    renderer: Renderer,
    rendering: Rendering[Flow],
    notes: list[Adjustment],
) -> Border:
    """Where the provider's part of the history ends. Without `stored`, or a response to continue, all is sent."""
    if options.stored is not True or options.account == "other":
        return Border()
    entries = transcript.entries
    slots = rendering.slots
    for at in range(len(slots) - 1, -1, -1):
        start = slots[at].start
        entry = entries[start] if start < len(entries) else None
        named = _name(entry.fact) if entry is not None and entry.kind == "reply" else None
        if named is None:
            continue
        end = slots[at + 1].start if at + 1 < len(slots) else len(entries)
        out = Out(held=set(slots[at].flow.held))
        assistant_turn.render(
            renderer, Step(at, entry, entries[start + 1 : end], end, end == len(entries)), out
        )
        if out.told:
            notes.append(
                Adjustment(
                    "prefix_changed", "a call of the stored response has no truthful output: the whole history is sent",
                    "OAR-STATE-004", out.told[0][0].key, (entry.fact.fact_id,),  # type: ignore[union-attr]
                )
            )  # fmt: skip
            return Border()
        return Border((slots[at - 1].messages_to if at else 0) + len(out.items), named)
    return Border()


def _name(fact: Any) -> dict[str, Any] | None:
    """The setting that continues from this reply; None where the server does not have it."""
    about = fact.raw.value if fact.raw is not None else None
    if fact.kind != "model_replied" or fact.api != wire.API or not isinstance(about, dict):
        return None
    if not isinstance(about.get("id"), str) or about.get("store") is False:
        return None
    where = about.get("conversation")
    name = where.get("id") if isinstance(where, dict) else where
    return {"conversation": name} if isinstance(name, str) else {"previous_response_id": about["id"]}
