"""The rulebook of Chat Completions, and of servers that are compatible with it.

One module a group of rules. The rules of a server apply under its profile only (`profile` in the context). They share
nothing with the projection, which they judge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from normalizer.providers.openai_chat.rules import (
    content,
    identifiers,
    mistral,
    pairing,
    requests,
    servers,
    streams,
    structure,
    thinkers,
)
from normalizer.rules import reaching

if TYPE_CHECKING:
    from normalizer.rules import Rulebook

# How far rules look. A rule may stand here if it finds its violations in the order of the messages.
_STEP: Final = """
    CONTENT-001 CONTENT-002 CONTENT-004 CONTENT-005 CONTENT-006 CONTENT-007 CONTENT-008 CONTENT-010
    CUSTOM-001 ID-001 ID-003 LIMIT-002 ROLE-003 STRUCT-002 STRUCT-003 STRUCT-004 STRUCT-005
    STRUCT-007 STRUCT-008 STRUCT-009 STRUCT-010 STRUCT-011 STRUCT-012
"""
_NEIGHBOURS: Final = "PAIR-001 PAIR-003 PAIR-004 PAIR-005 PAIR-006 PAIR-007"

_RULES: Final[Rulebook] = (
    *structure.RULES,
    *identifiers.RULES,
    *pairing.RULES,
    *content.RULES,
    *requests.RULES,
    *streams.RULES,
    *thinkers.RULES,
    *servers.RULES,
    *mistral.RULES,
)
RULES: Final[Rulebook] = reaching(
    _RULES,
    "messages",
    step=frozenset(f"OAC-{name}" for name in _STEP.split()),
    neighbours=frozenset(f"OAC-{name}" for name in _NEIGHBOURS.split()),
)
