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

if TYPE_CHECKING:
    from normalizer.rules import Rulebook

RULES: Final[Rulebook] = (
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
