"""Where the library breaks a law today. A law passes these over and counts them; a strict xfail shows each, minimal.

When a gap is mended its test passes, which fails the suite until the row and the mark are taken away.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Gap:
    """`targets` break it, in the words of the law that `shows` fits."""

    targets: frozenset[str]
    shows: re.Pattern[str]


GAPS: Final[dict[str, Gap]] = {
    "report of what was left out before": Gap(
        frozenset({"openai_responses"}), re.compile(r"^going on reports .* left it ")
    ),
}


def gap(target: str, words: str) -> str | None:
    """The gap by which a target breaks a law in these words."""
    return next(
        (name for name, one in GAPS.items() if target in one.targets and one.shows.search(words)), None
    )
