"""Which blocks of a result say something that the API can take, as far as the block alone and the tools decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from normalizer.providers.anthropic import encoding, wire

if TYPE_CHECKING:
    from normalizer.projecting.draft import Value
    from normalizer.providers.anthropic.preamble import Top

UNSOUND: Final = {
    "image": "ANT-BLK-006",
    "tool_reference": "ANT-RES-008",
    "browser_state": "ANT-RES-010",
    "document": "ANT-BLK-007",
    "search_result": "ANT-BLK-010",
}


def sound(head: Top, block: Value, before: list[Value]) -> bool:
    """Whether a block says something that the API can take; what an executor observed is never corrected."""
    kind = block.get("type")
    if kind == "tool_reference":
        return wire.word(block, "tool_name") in head.offered
    if kind == "browser_state":
        return _consistent(block) and not any(b.get("type") == kind for b in before)
    if kind == "text":
        return isinstance(block.get("text"), str)
    return kind not in ("image", "document", "search_result") or encoding.usable(block)


def _consistent(state: Value) -> bool:
    """https://platform.claude.com/docs/en/agents-and-tools/tool-use/browser-use-tool"""
    tabs, changes = state.get("tabs"), state.get("state_changes")
    if changes == [] or (tabs is not None and not isinstance(tabs, list)):
        return False
    if not tabs:
        return True
    if not all(isinstance(tab, dict) for tab in tabs):
        return False
    names = [tab.get("tab_id") for tab in tabs]
    return len(set(map(str, names))) == len(names) and sum(tab.get("active") is True for tab in tabs) == 1
