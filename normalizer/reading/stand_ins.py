"""Texts that stand in a result's place and are none: notices of ours, and other programs' placeholders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from normalizer.facts import PLACEHOLDER
from normalizer.notices import MARK, read_back, stated
from normalizer.parts import Text
from normalizer.reading.placeholders import FIRST, placeholder

if TYPE_CHECKING:
    from normalizer.facts import OutcomeKind

_LONGEST: Final = 20_000


class StandIn(NamedTuple):
    """What such a text states of its call: an outcome, what that is known by, and the words of a notice of ours."""

    outcome: OutcomeKind
    evidence: str
    notice: str | None


def stand_in(content: Any, wire_id: str | None) -> StandIn | None:
    """What a result's content states if it is nothing but such a text; None for a result of the tool's own."""
    text = content if type(content) is str else _only_text(content)
    if not text or text[0] not in FIRST or len(text) >= _LONGEST:
        return None
    if text.startswith(MARK) and (found := read_back(text, wire_id)) and found.form == "notice":
        return StandIn(*stated(found), found.body)
    if meaning := placeholder(text):
        return StandIn(meaning.outcome, f"{PLACEHOLDER} of {meaning.program}", None)
    return None


def _only_text(content: Any) -> str | None:
    """The text of a result that is nothing but one text."""
    if isinstance(content, tuple) and len(content) == 1 and isinstance(content[0], Text):
        return content[0].text
    return None
