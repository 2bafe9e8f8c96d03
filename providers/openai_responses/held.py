"""Histories that the provider holds: which response a request continues, and what is newer than it.

The newest response on record that the server can have stored is the base. What stands behind it is sent; what it
holds is not repeated. https://developers.openai.com/api/docs/guides/conversation-state
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from normalizer.providers.openai_responses import wire

if TYPE_CHECKING:
    from normalizer.projecting.draft import Flow
    from normalizer.projecting.incremental import Rendering
    from normalizer.projecting.reports import Reports
    from normalizer.providers.openai_responses.context import ItemsContext


@dataclass(frozen=True, slots=True)
class Shown:
    """What a step hands on: how many items its reply became, and the key of a call of it that is rendered as text."""

    items: int
    as_text: str | None


@dataclass(slots=True)
class Border:
    """Where the input begins among all items, and the setting that names what stands before it."""

    start: int = 0
    named: dict[str, Any] = field(default_factory=dict)


def border(items: ItemsContext, rendering: Rendering[Flow], reports: Reports) -> Border:
    """Where the provider's part of the history ends. Without `stored`, or a response to continue, all is sent."""
    if items.options.stored is not True or items.options.account == "other":
        return Border()
    entries, slots = items.entries, rendering.slots
    for at in range(len(slots) - 1, -1, -1):
        start = slots[at].start
        entry = entries[start] if start < len(entries) else None
        named = _name(entry.fact) if entry is not None and entry.kind == "reply" else None
        if named is None or entry is None:
            continue
        shown: Shown = slots[at].rendered.flow.own
        if shown.as_text is not None:
            message = "a call of the stored response has no truthful output: the whole history is sent"
            reports.entry(entry, "prefix_changed", message, "OAR-STATE-004", call_id=shown.as_text)
            return Border()
        return Border((slots[at - 1].messages_to if at else 0) + shown.items, named)
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
