"""The rulebook of the Anthropic Messages API: what a request may hold as conversation history.

One module a group of rules. `view`, `texts`, `exchanges`, `recorded`, `streamed` and `media` are what rules
read requests through; they share nothing with the projection, which the rules judge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from normalizer.providers.anthropic.rules import (
    caching,
    connector,
    content,
    context,
    identifiers,
    limits,
    pairing,
    programmatic,
    refusals,
    results,
    roles,
    server_tools,
    streams,
    structure,
    system,
    thinking,
    tools,
)
from normalizer.rules import reaching

if TYPE_CHECKING:
    from normalizer.rules import Rulebook

# How far rules look. A rule may stand here if it finds its violations in the order of the messages.
_STEP: Final = """
    BLK-001 BLK-002 BLK-003 BLK-004 BLK-005 BLK-006 BLK-007 BLK-010 ID-001 ID-002 ID-003 ID-004
    LIM-004 LIM-006 MSG-003 PAIR-009 RES-001 RES-002 RES-003 RES-004 RES-005 RES-006 RES-007
    ROLE-001 ROLE-005 ROLE-006 ROLE-007 ROLE-008 ROLE-009 SRV-006 THK-002 THK-008 THK-009 THK-010
"""
_NEIGHBOURS: Final = "PAIR-001 PAIR-003 PAIR-006 PAIR-007 ROLE-002 THK-007 THK-018"

_RULES: Final[Rulebook] = (
    *structure.RULES,
    *roles.RULES,
    *pairing.RULES,
    *results.RULES,
    *server_tools.RULES,
    *programmatic.RULES,
    *connector.RULES,
    *thinking.RULES,
    *content.RULES,
    *identifiers.RULES,
    *caching.RULES,
    *system.RULES,
    *tools.RULES,
    *streams.RULES,
    *refusals.RULES,
    *context.RULES,
    *limits.RULES,
)
RULES: Final[Rulebook] = reaching(
    _RULES,
    "messages",
    step=frozenset(f"ANT-{name}" for name in _STEP.split()),
    neighbours=frozenset(f"ANT-{name}" for name in _NEIGHBOURS.split()),
)
