"""What the facts of one call add up to: a table, read from the top; the first row that fits decides.

Only the set of facts and their `seq` count, never the order in which they arrived. What an importer attests
counts as the completion, termination, denial or skip that it states, and yields to signs of a start where it
says that nothing was started. Facts that contradict each other are conflicts; nobody's word is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from normalizer.facts import CallFact, OutcomeKind

Basis: TypeAlias = Literal[
    "completed",
    "terminated",
    "attested",
    "contact_lost",
    "no_end_recorded",
    "running",
    "denied",
    "skipped",
    "bad_arguments",
    "approval_unanswered",
    "gate_closed",
    "waiting",
    "not_recorded",
]


class TurnState(Protocol):
    """What counts of the turn that a call was made in; a `Turn` of the transcript is one."""

    @property
    def gated(self) -> bool:
        """Whether its permits are on record, so that a call without one never ran."""

    @property
    def marks(self) -> frozenset[str]:
        """Its marks in the table: some of `gated`, `cancelling`, `over`."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is known about a call. `kind` is one of the five outcomes, or `pending`, which is none.

    `basis` says on what it rests. `is_error` is of a completed call: whether its result is an error, None where that
    is not known. `by` and `reason` are there only where a fact says them.
    """

    kind: OutcomeKind | Literal["pending"]
    basis: Basis
    is_error: bool | None = None
    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Conflict:
    """Facts about one call that cannot all be true. All of them stay facts."""

    call_id: str
    message: str
    facts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table: it fits where a mark of `any_of` is seen, all of `all_of` and none of `none_of`."""

    outcome: OutcomeKind | Literal["pending"]
    basis: Basis
    any_of: frozenset[str] = frozenset()
    all_of: frozenset[str] = frozenset()
    none_of: frozenset[str] = frozenset()

    def fits(self, marks: frozenset[str]) -> bool:
        """Whether this row decides for these marks."""
        return (
            (not self.any_of or not self.any_of.isdisjoint(marks))
            and self.all_of <= marks
            and self.none_of.isdisjoint(marks)
        )


def _set(*marks: str) -> frozenset[str]:
    return frozenset(marks)


STARTED: Final = _set("start_permitted", "output_observed")
ATTESTED: Final = "attested"

OUTCOMES: Final[tuple[Row, ...]] = (
    Row("completed", "completed", any_of=_set("call_completed")),
    Row("cancelled_while_running", "terminated", any_of=_set("call_terminated")),
    # the newest word of an operator or a recovery query; which outcome, it says itself
    Row("unknown", "attested", any_of=_set(ATTESTED)),
    Row("unknown", "contact_lost", any_of=_set("contact_lost")),
    Row("unknown", "no_end_recorded", any_of=STARTED, all_of=_set("over")),
    Row("pending", "running", any_of=STARTED),
    Row("denied", "denied", any_of=_set("approval_denied")),
    Row("never_run", "skipped", any_of=_set("call_skipped")),
    Row("never_run", "bad_arguments", any_of=_set("bad_arguments")),
    Row("never_run", "approval_unanswered", all_of=_set("approval_requested", "over"), none_of=_set("approval_given")),
    Row("never_run", "gate_closed", any_of=_set("over", "cancelling", "call_cancel_requested"), all_of=_set("gated")),
    Row("pending", "waiting", all_of=_set("gated")),
    Row("pending", "waiting", any_of=_set("call_queued"), none_of=_set("over")),
    Row("pending", "waiting", all_of=_set("approval_requested"), none_of=_set("over", "approval_given")),
    Row("unknown", "not_recorded"),
)  # fmt: skip

_IMPORTED: Final[dict[str, str | None]] = {
    "completed": "call_completed",
    "cancelled_while_running": "call_terminated",
    "denied": "approval_denied",
    "never_run": "call_skipped",
    "unknown": None,
}
_NOT_STARTED: Final = _set("denied", "never_run")
# They change what stands beside the outcome, and the notice, but decide nothing.
_SILENT: Final = _set("remote_cancel_updated", "effects_verified")

COMPLETED: Final = Outcome("completed", "completed", is_error=False)
FAILED: Final = Outcome("completed", "completed", is_error=True)
COMPLETED_UNFLAGGED: Final = Outcome("completed", "completed")
_COMPLETED: Final = {False: COMPLETED, True: FAILED, None: COMPLETED_UNFLAGGED}
NOT_RECORDED: Final = Outcome("unknown", "not_recorded")


def mark(fact: CallFact) -> str | None:
    """What a fact counts as in the table."""
    if fact.kind == "outcome_attested":
        return _IMPORTED[fact.outcome] if fact.attestor == "importer" else ATTESTED
    return None if fact.kind in _SILENT else fact.kind


def decide(facts: Sequence[Any], turn: TurnState | None, *, valid_arguments: bool = True) -> Outcome:
    """The outcome of a call with these facts, in order of `seq`, in this turn (None: no turn is recorded)."""
    if len(facts) == 1 and facts[0].kind == "call_completed":  # the usual case, and the table's first row
        return _COMPLETED[facts[0].is_error]
    if not facts and turn is None and valid_arguments:
        return NOT_RECORDED
    facts = _superseded(facts)
    marks = {found for fact in facts if (found := mark(fact))}
    if turn is not None:
        marks |= turn.marks
    if not valid_arguments and not any(map(_rendered_unknown, facts)):
        marks.add("bad_arguments")
    word = _newest_word(facts, marks)
    if word is None:
        marks.discard(ATTESTED)
    elif ATTESTED in marks and marks.isdisjoint({"call_completed", "call_terminated"}):
        return Outcome(word.outcome, "attested", word.is_error, word.by, word.reason)
    seen = frozenset(marks)
    row = next(row for row in OUTCOMES if row.fits(seen))
    return _with_details(row, facts)


def _rendered_unknown(fact: Any) -> bool:
    """Whether a notice rendered the call as unknown: in spite of broken arguments, for a sign of a start."""
    return fact.kind == "outcome_attested" and fact.notice is not None and fact.outcome == "unknown"


def _superseded(facts: Sequence[Any]) -> Sequence[Any]:
    """Without what was rendered of the call before a late update about it, which corrects it."""
    late = max((f.seq for f in facts if f.kind == "outcome_attested" and f.late), default=None)
    if late is None:
        return facts
    return [f for f in facts if f.kind != "outcome_attested" or f.attestor != "importer" or f.seq >= late]


def _newest_word(facts: Sequence[Any], marks: set[str]) -> Any:
    """The newest statement of an operator or a query; one that nothing started never counts against output."""
    words = [
        fact
        for fact in facts
        if fact.kind == "outcome_attested"
        and fact.attestor != "importer"
        and not (fact.outcome in _NOT_STARTED and "output_observed" in marks)
    ]
    return max(words, key=lambda fact: fact.seq) if words else None


def _with_details(row: Row, facts: Sequence[Any]) -> Outcome:
    """The row's outcome with what the facts behind it say: error flag, who and why."""
    if row.outcome == "completed":
        return _COMPLETED[next(f.is_error for f in facts if mark(f) == "call_completed")]
    wanted = {
        "terminated": ("call_terminated",),
        "denied": ("approval_denied",),
        "skipped": ("call_skipped",),
        "contact_lost": ("contact_lost",),
        "gate_closed": ("call_cancel_requested",),
    }.get(row.basis, ())
    by = reason = None
    for fact in facts:
        if mark(fact) in wanted:
            by = by or getattr(fact, "by", None)
            reason = reason or getattr(fact, "reason", None)
    return Outcome(row.outcome, row.basis, by=by, reason=reason)


def conflicts(call_id: str, facts: Sequence[CallFact], turn: TurnState | None) -> tuple[Conflict, ...]:
    """The contradictions among the facts of one call."""
    if len(facts) < 2 and not (turn and turn.gated):
        return ()
    by_mark: dict[str, list[CallFact]] = {}
    for fact in facts:
        if seen := mark(fact):
            by_mark.setdefault(seen, []).append(fact)
    started = [f for m in ("start_permitted", "output_observed", "call_completed", "call_terminated", "contact_lost")
               for f in by_mark.get(m, ())]  # fmt: skip
    found = [*_against_a_start(call_id, by_mark, started), *_differing_ends(call_id, by_mark)]
    if turn is not None and turn.gated and started and "start_permitted" not in by_mark:
        found.append(_conflict(call_id, "it shows signs of a start, but the gate gave no permit", started))
    if by_mark.get("approval_given") and by_mark.get("approval_denied"):
        both = [*by_mark["approval_given"], *by_mark["approval_denied"]]
        found.append(_conflict(call_id, "it was both approved and denied; the denial holds", both))
    return tuple(found)


def _against_a_start(
    call_id: str, by_mark: dict[str, list[CallFact]], started: list[CallFact]
) -> Iterable[Conflict]:
    attested = [f for f in by_mark.get(ATTESTED, ()) if getattr(f, "outcome", None) in _NOT_STARTED]
    for word, group in (
        ("denied", by_mark.get("approval_denied", [])),
        ("skipped", by_mark.get("call_skipped", [])),
        ("attested as not started", attested),
    ):
        if group and started:
            yield _conflict(call_id, f"it is recorded as {word} and also as started", [*group, *started])


def _differing_ends(call_id: str, by_mark: dict[str, list[CallFact]]) -> Iterable[Conflict]:
    completions = by_mark.get("call_completed", [])
    if len({repr((_content(f), getattr(f, "is_error", None))) for f in completions}) > 1:
        yield _conflict(call_id, "two different results are recorded; the earlier one counts", completions)
    ends = [*by_mark.get("call_completed", ()), *by_mark.get("call_terminated", ())]
    if len({mark(f) for f in ends}) > 1:
        yield _conflict(call_id, "it is recorded as ended by itself and also as stopped", ends)
    stated = by_mark.get(ATTESTED, [])
    attested = {getattr(f, "outcome", None) for f in stated}
    ended = {"completed"} if by_mark.get("call_completed") else set()
    ended |= {"cancelled_while_running"} if by_mark.get("call_terminated") else set()
    if ended and attested - ended - _NOT_STARTED:
        yield _conflict(
            call_id, "its attested outcome is not the recorded one, which counts", [*ends, *stated]
        )
    if len({getattr(f, "outcome", None) for f in stated}) > 1:
        yield _conflict(call_id, "its attested outcomes differ; the newest counts", stated)


def _content(fact: CallFact) -> object:
    return getattr(fact, "content", None)


def _conflict(call_id: str, message: str, facts: Iterable[CallFact]) -> Conflict:
    return Conflict(
        call_id, f"call {named(call_id)}: {message}", tuple(dict.fromkeys(f.fact_id for f in facts))
    )
