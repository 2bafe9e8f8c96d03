"""The rulebook of the OpenAI Responses API: what a request may hold as conversation history.

One module a group of rules. `view` is what rules read requests through; it shares nothing with the projection,
which the rules judge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from normalizer.providers.openai_responses.rules import (
    content,
    hosted,
    identifiers,
    machines,
    pairing,
    programs,
    reasoning,
    settings,
    state,
    streams,
    structure,
)
from normalizer.rules import reaching

if TYPE_CHECKING:
    from normalizer.rules import Rulebook

# How far rules look. A rule may stand here if it finds its violations in the order of the items.
_STEP: Final = """
    COMP-004 COMP-005 CONTENT-001 CONTENT-002 CONTENT-003 CONTENT-004 CONTENT-005 CONTENT-006
    CONTENT-008 CUSTOM-001 CUSTOM-003 HOST-002 HOST-004 HOST-005 ID-001 ID-003 ID-004 ID-005
    LIMIT-001 LIMIT-002 LIMIT-003 PAIR-007 PATCH-002 REASON-005 REASON-010 REASON-011 REASON-014
    REASON-016 SHELL-002 STREAM-014 STRUCT-002 STRUCT-003 STRUCT-004 STRUCT-005 STRUCT-006
    STRUCT-007 STRUCT-008 STRUCT-009 STRUCT-010 STRUCT-011 STRUCT-012 STRUCT-014
"""
_NEIGHBOURS: Final = "REASON-001 REASON-017"

_RULES: Final[Rulebook] = (
    *structure.RULES,
    *content.RULES,
    *pairing.RULES,
    *identifiers.RULES,
    *reasoning.RULES,
    *hosted.RULES,
    *machines.RULES,
    *programs.RULES,
    *settings.RULES,
    *streams.RULES,
    *state.RULES,
)
RULES: Final[Rulebook] = reaching(
    _RULES,
    "input",
    step=frozenset(f"OAR-{name}" for name in _STEP.split()),
    neighbours=frozenset(f"OAR-{name}" for name in _NEIGHBOURS.split()),
)
