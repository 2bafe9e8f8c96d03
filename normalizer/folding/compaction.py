"""What summaries and rewinds leave of a history."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from normalizer.facts import Rewound, Summarised
from normalizer.transcript import Entry

if TYPE_CHECKING:
    from collections.abc import Sequence


def visible(entries: Sequence[Entry], cuts: Sequence[Summarised | Rewound]) -> list[Entry]:
    """What summaries and rewinds leave of a history.

    A rewind takes away what stands behind its border and before it, summaries too; each summary that is left
    stands for everything up to its border. Instructions and tools are no history: a rewind leaves them, and of those
    before a summary the newest stay.
    """
    rewinds = [(cut.to, cut.seq) for cut in cuts if isinstance(cut, Rewound)]

    def stays(seq: int) -> bool:
        return not any(to < seq < at for to, at in rewinds)

    left = [e for e in entries if e.kind in ("instructions", "tools") or stays(e.fact.seq)]
    for cut in sorted((c for c in cuts if isinstance(c, Summarised) and stays(c.seq)), key=attrgetter("seq")):
        border = cut.through
        top = {e.kind: e for e in left if e.kind in ("instructions", "tools") and e.fact.seq <= border}
        summary = Entry("summary", cut, cut.parts)
        left = [*top.values(), summary, *(e for e in left if _reach(e) > border)]
    return left


def _reach(entry: Entry) -> int:
    """The `seq` up to which an entry speaks."""
    reach: int = entry.fact.through if entry.kind == "summary" else entry.fact.seq
    return reach
