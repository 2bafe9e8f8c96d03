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

if TYPE_CHECKING:
    from normalizer.rules import Rulebook

RULES: Final[Rulebook] = (
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
