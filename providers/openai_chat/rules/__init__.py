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

if TYPE_CHECKING:
    from normalizer.rules import Rulebook

RULES: Final[Rulebook] = (
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
