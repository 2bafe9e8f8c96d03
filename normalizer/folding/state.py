"""What a fold keeps so that the next one can go on from it, and what the facts of a turn add up to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.transcript import Turn, TurnStatus
from normalizer.util.sharing import Claim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from normalizer.facts import CallFact, Fact, Rewound, Summarised, TurnFact
    from normalizer.findings import Finding
    from normalizer.outcomes import Conflict


# what is small beside the history, and copied from one fold to the next
_COPIED: Final = (
    "repeats", "through", "turn_facts", "undecided", "waiting", "conflicts", "queued", "open_server", "unanswered",
    "refused", "pending", "cut", "notes",
)  # fmt: skip


class Kept:
    """What a fold keeps for the next one. Lists and indexes only grow and are shared; `size` and `touched_to` say how
    much of them belongs to this transcript, so that an older one can still be folded onto (by a copy). `claim` is on
    making them longer: a fold has it while it runs, and gives it back.
    """

    __slots__ = (
        "claim",
        "conflicts",
        "cut",
        "facts",
        "index",
        "last",
        "notes",
        "open_server",
        "pending",
        "queued",
        "refused",
        "repeats",
        "size",
        "through",
        "touched",
        "touched_to",
        "turn_facts",
        "unanswered",
        "undecided",
        "waiting",
    )  # fmt: skip

    def __init__(self) -> None:
        self.claim = Claim()
        self.facts: list[Fact] = []
        self.index: dict[str, int] = {}
        self.size = 0
        self.last = 0
        self.touched: list[str] = []
        self.touched_to = 0
        self.repeats: dict[str, int] = {}
        self.through: dict[str, int] = {}
        self.turn_facts: dict[str, tuple[TurnFact, ...]] = {}
        self.undecided: dict[str, tuple[str, ...]] = {}
        self.waiting: dict[str, tuple[CallFact, ...]] = {}
        self.conflicts: dict[str, tuple[Conflict, ...]] = {}
        self.queued: dict[str, Any] = {}
        self.open_server: dict[str, str] = {}
        self.unanswered: set[str] = set()
        self.refused: dict[str, str | None] = {}
        self.pending: dict[str, None] = {}
        self.cut: list[Summarised | Rewound] = []
        self.notes: list[Finding] = []

    def extended(self) -> Kept:
        """A copy to go on with; the big lists are shared if nobody went on from here before."""
        new = Kept()
        if self.claim.take(self.size):
            new.claim, new.facts, new.index = self.claim, self.facts, self.index
        else:
            new.facts = self.facts[: self.size]
            new.index = {fact.fact_id: n for n, fact in enumerate(new.facts)}
        new.size, new.last = self.size, self.last
        shares = new.facts is self.facts and len(self.touched) == self.touched_to
        new.touched = self.touched if shares else self.touched[: self.touched_to]
        new.touched_to = self.touched_to
        for name in _COPIED:
            setattr(new, name, getattr(self, name).copy())
        return new


def turn_of(turn_id: str, facts: Sequence[Any]) -> Turn:
    """What the facts of one turn add up to."""
    ended = next((f for f in facts if f.kind == "turn_ended"), None)
    asked = next((f for f in facts if f.kind == "turn_cancel_requested"), None)
    lost = any(f.kind == "run_lost" for f in facts)
    gated = any(f.kind == "turn_opened" and f.gated for f in facts)
    status: TurnStatus = ended.status if ended else "cancelling" if asked else "running"
    marks = {
        *(("over",) if ended or lost else ()),
        *(("cancelling",) if asked else ()),
        *(("gated",) if gated else ()),
    }
    runs = tuple(dict.fromkeys(f.run_id for f in facts if f.run_id))
    return Turn(turn_id, status, gated, lost, runs, asked.by if asked else None, frozenset(marks))
