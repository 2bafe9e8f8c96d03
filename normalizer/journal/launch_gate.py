"""The launch gate's decisions: which facts let a call start, or a turn be cancelled. Pure; the journal asks them
inside the transaction that records the answer, with the facts of the one call and of the one turn.

Only the set of facts counts, as in the table of outcomes, and the two agree: what is refused here is no start there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from normalizer.errors import JournalError, StartRefused, TurnClosed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from normalizer.facts import Fact, StartPermitted, TurnCancelRequested, TurnOpened

TURN_KINDS: Final = frozenset({"turn_opened", "turn_cancel_requested", "turn_ended", "run_lost"})
CALL_KINDS: Final = frozenset(
    {
        "approval_requested",
        "approval_given",
        "approval_denied",
        "call_skipped",
        "start_permitted",
        "call_cancel_requested",
        "call_completed",
        "call_terminated",
        "contact_lost",
        "outcome_attested",
    }
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """One row: a start is refused for `reason` where `seen` was recorded and `unseen` was not."""

    seen: str
    reason: str
    says: str
    unseen: str | None = None


# Read from the top; the first row that fits is told.
CLOSED: Final = (
    Refusal("turn_cancel_requested", "turn_cancelled", "its turn is being cancelled; open a turn to go on"),
    Refusal("run_lost", "run_lost", "the process that ran its turn was declared lost; open a turn to go on"),
    Refusal("turn_ended", "turn_ended", "its turn is over; open a turn to go on"),
)
REFUSED: Final = (
    Refusal("start_permitted", "already_permitted", "it was permitted to start before; a call starts once"),
    Refusal("call_completed", "already_ended", "a result of it is recorded"),
    Refusal("call_terminated", "already_ended", "it is recorded as stopped"),
    Refusal("contact_lost", "already_ended", "it is recorded as started, with an unknown end"),
    Refusal("outcome_attested", "already_ended", "its outcome is attested"),
    Refusal("approval_denied", "denied", "it was denied, and a denial is final"),
    Refusal("call_skipped", "skipped", "the program skipped it"),
    Refusal("call_cancel_requested", "cancel_requested", "somebody asked it to stop"),
    Refusal(
        "approval_requested",
        "awaiting_approval",
        "it waits for an approval; record approval_given or approval_denied first",
        unseen="approval_given",
    ),
)


def gate_of(fact: Fact) -> str | None:
    """The key under which the gate finds a fact; None where the fact decides nothing here."""
    if fact.kind in CALL_KINDS:
        return call_gate(fact.call_id)  # type: ignore[union-attr]
    if fact.kind in TURN_KINDS and fact.turn_id is not None:
        return turn_gate(fact.turn_id)
    return None


def call_gate(call_id: str) -> str:
    """Where the facts of a call are found."""
    return f"call:{call_id}"


def turn_gate(turn_id: str) -> str:
    """Where the facts of a turn are found."""
    return f"turn:{turn_id}"


def permit(asked: StartPermitted, seen: Sequence[Fact]) -> Fact | None:
    """None where the call may start; the permit itself where the same one was recorded before. Else it raises.

    `seen`: what the gate knows of the call and of its turn.
    """
    for fact in seen:
        if fact.fact_id == asked.fact_id and fact.kind == "start_permitted":
            return fact
    _opened(asked, seen)
    kinds = {fact.kind for fact in seen}
    for row in CLOSED:
        if row.seen in kinds:
            raise TurnClosed(_said(asked, row.says), reason=row.reason)
    for row in REFUSED:
        if row.seen in kinds and row.unseen not in kinds:
            raise StartRefused(_said(asked, row.says), reason=row.reason)
    return None


def _opened(asked: StartPermitted, turn: Iterable[Fact]) -> None:
    """Its turn is one whose starts are all permitted here, and the asker is the turn's run."""
    opened = next((fact for fact in turn if fact.kind == "turn_opened"), None)
    if opened is None:
        raise StartRefused(
            _said(asked, f"there is no turn {asked.turn_id!r}; open it first"), reason="unknown_turn"
        )
    if not opened.gated:
        raise StartRefused(
            _said(asked, f"turn {asked.turn_id!r} was not opened by a journal; open a turn of its own"),
            reason="not_gated",
        )
    if opened.run_id != asked.run_id:
        raise StartRefused(
            _said(asked, f"turn {asked.turn_id!r} is run by {opened.run_id!r}, not by {asked.run_id!r}"),
            reason="other_run",
        )


def _said(asked: StartPermitted, why: str) -> str:
    return f"call {asked.call_id!r} was not started: {why}"


def made_by(asked: StartPermitted, reply: Fact | None, named: str) -> None:
    """Refuse a call of another turn: there it may be over, and told so."""
    if reply is None or reply.kind not in ("model_replied", "reply_cut") or reply.turn_id != asked.turn_id:
        raise StartRefused(
            _said(
                asked,
                f"reply {named!r} is none of turn {asked.turn_id!r}; start a call in the turn that made it",
            ),
            reason="unknown_call",
        )


def cancel(asked: TurnCancelRequested, turn: Iterable[Fact]) -> tuple[bool, Fact | None]:
    """Whether to record it, and the earlier request where there is one. A turn that is over stays as it ended."""
    found = {fact.kind: fact for fact in reversed(tuple(turn))}
    if "turn_cancel_requested" in found:
        return False, found["turn_cancel_requested"]
    if not found:
        raise JournalError(
            f"turn {asked.turn_id!r} was not cancelled: no such turn was opened in this conversation",
            reason="unknown_turn",
        )
    return found.keys().isdisjoint({"turn_ended", "run_lost"}), None


def apply_steering(turn: Iterable[Fact]) -> None:
    """Refuse steering for a turn whose gate is closed. It stays queued."""
    kinds = {fact.kind for fact in turn}
    for row in CLOSED:
        if row.seen in kinds:
            raise TurnClosed(f"the steering was not applied, and is kept: {row.says}", reason=row.reason)


def open_turn(asked: TurnOpened, turn: Sequence[Fact], running: str | None) -> Fact | None:
    """None where the turn may open; the fact itself where it was recorded before. `running`: another open turn."""
    for fact in turn:
        if fact.fact_id == asked.fact_id:
            return fact
    if turn:
        raise JournalError(
            f"turn {asked.turn_id!r} was opened before; every turn needs an id of its own",
            reason="turn_exists",
        )
    if running is not None:
        raise JournalError(
            f"turn {running!r} of this conversation is still open; end it, or recover it if its process is gone,"
            " before another one opens",
            reason="turn_open",
        )
    return None
