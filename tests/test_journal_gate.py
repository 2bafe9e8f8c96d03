"""The launch gate: who may start, who may not, and that the answer is the one that the fold tells."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from journaling import address, done, ids, said

from normalizer import facts as f
from normalizer import fold
from normalizer.errors import JournalError, StartRefused, TurnClosed
from normalizer.journal import open_journal
from normalizer.journal.processes import ProcessId, alive, this_process
from normalizer.parts import Json, Text, ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from normalizer.facts import TurnOpened
    from normalizer.journal.journal import Journal

pytest_plugins = ("journal_fixtures",)
CALLS = ("toolu_1", "toolu_2")


@pytest.fixture
def turn(journal: Journal) -> TurnOpened:
    """An open turn with a reply that made two calls."""
    opened = journal.open_turn("c")
    parts = (Text("I look."), *(ToolCall(call_id, "run", Json("{}")) for call_id in CALLS))
    journal.append(
        "c",
        [
            said("ask", turn_id=opened.turn_id),
            f.ModelReplied(fact_id="reply", parts=parts, turn_id=opened.turn_id, run_id=opened.run_id),
        ],
    )
    return opened


def permit(journal: Journal, turn: TurnOpened, call_id: str = "toolu_1", **more: Any) -> f.StartPermitted:
    assert turn.turn_id is not None
    assert turn.run_id is not None
    return journal.permit_start("c", call_id, **{"turn_id": turn.turn_id, "run_id": turn.run_id, **more})


def refused(work: Callable[[], object]) -> tuple[type[Exception], str]:
    with pytest.raises((StartRefused, JournalError)) as caught:
        work()
    error = caught.value
    return next(
        kind for kind in (TurnClosed, StartRefused, JournalError) if isinstance(error, kind)
    ), error.reason


def outcome(journal: Journal, call_id: str = "toolu_1") -> str:
    return fold(journal.facts("c")).calls[call_id].outcome.kind


def test_a_permit_says_what_it_permits(journal: Journal, turn: TurnOpened) -> None:
    given = permit(
        journal,
        turn,
        operation_id="op-1",
        idempotency_key="key",
        remote=True,
        may_have_effects=False,
        recovery="query",
    )
    assert given == journal.facts("c")[-1]
    assert (given.turn_id, given.run_id, given.call_id) == (turn.turn_id, turn.run_id, "toolu_1")
    assert (given.operation_id, given.idempotency_key, given.recovery) == ("op-1", "key", "query")
    assert (given.remote, given.may_have_effects) == (True, False)
    assert given.at is not None
    assert outcome(journal) == "pending"


def test_a_call_starts_once(journal: Journal, turn: TurnOpened) -> None:
    permit(journal, turn)
    assert refused(lambda: permit(journal, turn)) == (StartRefused, "already_permitted")
    permit(journal, turn, "toolu_2")
    assert [fact.seq for fact in journal.facts("c")] == [1, 2, 3, 4, 5]


def test_a_permit_with_a_name_can_be_asked_for_again(journal: Journal, turn: TurnOpened) -> None:
    given = permit(journal, turn, fact_id="permit/1")
    assert permit(journal, turn, fact_id="permit/1") == given
    journal.cancel_turn("c", given.turn_id or "")
    assert permit(journal, turn, fact_id="permit/1") == given
    assert refused(lambda: permit(journal, turn, "toolu_2", fact_id="ask")) == (TurnClosed, "turn_cancelled")


def test_a_permit_never_takes_the_name_of_another_fact(journal: Journal, turn: TurnOpened) -> None:
    for taken in ("ask", turn.fact_id):
        assert refused(lambda: permit(journal, turn, fact_id=taken)) == (JournalError, "fact_id_reused")  # noqa: B023
    assert ids(journal.facts("c"))[1:] == ["ask", "reply"]


BEFORE: list[tuple[str, list[Any]]] = [
    ("denied", [f.ApprovalDenied(fact_id="1", call_id="toolu_1", by="user")]),
    (
        "denied",
        [f.ApprovalGiven(fact_id="1", call_id="toolu_1"), f.ApprovalDenied(fact_id="2", call_id="toolu_1")],
    ),
    ("awaiting_approval", [f.ApprovalRequested(fact_id="1", call_id="toolu_1")]),
    ("skipped", [f.CallSkipped(fact_id="1", call_id="toolu_1")]),
    ("cancel_requested", [f.CallCancelRequested(fact_id="1", call_id="toolu_1")]),
    ("already_ended", [done("1", "toolu_1")]),
    ("already_ended", [f.CallTerminated(fact_id="1", call_id="toolu_1")]),
    ("already_ended", [f.ContactLost(fact_id="1", call_id="toolu_1")]),
    (
        "already_ended",
        [f.OutcomeAttested(fact_id="1", call_id="toolu_1", outcome="never_run", attestor="operator")],
    ),
]


@pytest.mark.parametrize(("why", "before"), BEFORE)
def test_what_is_known_of_a_call_keeps_it_from_starting(
    journal: Journal, turn: TurnOpened, why: str, before: list[Any]
) -> None:
    journal.append("c", before)
    seen = journal.facts("c")
    assert refused(lambda: permit(journal, turn)) == (StartRefused, why)
    assert journal.facts("c") == seen
    permit(journal, turn, "toolu_2")  # it is nobody else's matter


def test_an_approved_call_starts(journal: Journal, turn: TurnOpened) -> None:
    journal.append(
        "c",
        [
            f.CallQueued(fact_id="0", call_id="toolu_1"),
            f.ApprovalRequested(fact_id="1", call_id="toolu_1"),
            f.ApprovalGiven(fact_id="2", call_id="toolu_1", by="user"),
        ],
    )
    assert permit(journal, turn).seq == 7


CLOSERS: list[tuple[str, Callable[[Journal, str, str], object]]] = [
    ("turn_cancelled", lambda journal, turn_id, _: journal.cancel_turn("c", turn_id, by="user")),
    (
        "turn_ended",
        lambda journal, turn_id, _: journal.append("c", [f.TurnEnded(fact_id="e", turn_id=turn_id)]),
    ),
    ("run_lost", lambda journal, _, run_id: journal.lose_run("c", run_id, by="operator")),
]


@pytest.mark.parametrize(("why", "close"), CLOSERS)
def test_a_closed_turn_starts_nothing_and_a_later_one_does(
    journal: Journal, turn: TurnOpened, why: str, close: Callable[[Journal, str, str], object]
) -> None:
    permit(journal, turn)
    close(journal, turn.turn_id or "", turn.run_id or "")
    assert refused(lambda: permit(journal, turn, "toolu_2")) == (TurnClosed, why)
    assert outcome(journal, "toolu_2") == "never_run"
    if why == "turn_cancelled":
        assert outcome(journal) == "pending"  # it winds up
        journal.append("c", [f.TurnEnded(fact_id="e", turn_id=turn.turn_id, status="cancelled")])
    assert outcome(journal) == "unknown"
    later = journal.open_turn("c")
    permit(journal, later, "toolu_3")
    assert refused(lambda: permit(journal, later, "toolu_2", reply="reply")) == (StartRefused, "unknown_call")


def test_an_old_callback_is_kept_and_changes_nothing_in_the_new_run(
    journal: Journal, turn: TurnOpened
) -> None:
    permit(journal, turn)
    journal.lose_run("c", turn.run_id or "", by="operator")
    later = journal.open_turn("c")
    late = done("late", "toolu_1", turn_id=turn.turn_id, run_id=turn.run_id)
    assert journal.append("c", [late])[0].seq == 7
    transcript = fold(journal.facts("c"))
    assert transcript.calls["toolu_1"].outcome.kind == "completed"
    assert transcript.turns[later.turn_id or ""].status == "running"
    permit(journal, later, "toolu_9")


def test_a_start_is_the_turns_own(journal: Journal, turn: TurnOpened) -> None:
    assert refused(lambda: permit(journal, turn, turn_id="t?")) == (StartRefused, "unknown_turn")
    assert refused(lambda: permit(journal, turn, run_id="r?")) == (StartRefused, "other_run")
    assert refused(lambda: permit(journal, turn, reply="ask")) == (StartRefused, "unknown_call")
    assert refused(lambda: permit(journal, turn, reply="none")) == (StartRefused, "unknown_call")
    journal.append("c", [f.TurnOpened(fact_id="imported", turn_id="old")])
    assert refused(lambda: permit(journal, turn, turn_id="old")) == (StartRefused, "not_gated")
    other = lambda: journal.permit_start("d", "toolu_1", turn_id=turn.turn_id or "", run_id=turn.run_id or "")  # noqa: E731
    assert refused(other) == (StartRefused, "unknown_turn")
    assert journal.conversations() == ("c",)
    assert permit(journal, turn, reply="reply").seq == 5


def test_stop_pressed_again_records_nothing(journal: Journal, turn: TurnOpened) -> None:
    first = journal.cancel_turn("c", turn.turn_id or "", by="user", reason="enough", run_id=turn.run_id)
    assert first is not None
    assert (first.by, first.reason, first.run_id, first.seq) == ("user", "enough", turn.run_id, 4)
    assert journal.cancel_turn("c", turn.turn_id or "", by="somebody") == first
    journal.append("c", [f.TurnEnded(fact_id="e", turn_id=turn.turn_id, status="cancelled")])
    assert journal.cancel_turn("c", turn.turn_id or "") == first
    assert len(journal.facts("c")) == 5


def test_a_turn_that_is_over_is_not_cancelled(journal: Journal, turn: TurnOpened) -> None:
    journal.append("c", [f.TurnEnded(fact_id="e", turn_id=turn.turn_id)])
    assert journal.cancel_turn("c", turn.turn_id or "") is None
    assert refused(lambda: journal.cancel_turn("c", "t?")) == (JournalError, "unknown_turn")
    assert len(journal.facts("c")) == 4


# ---------------------------------------------------------------- turns and runs


def test_one_turn_at_a_time(journal: Journal, turn: TurnOpened) -> None:
    assert turn.gated
    assert refused(lambda: journal.open_turn("c")) == (JournalError, "turn_open")
    journal.cancel_turn("c", turn.turn_id or "")
    assert refused(lambda: journal.open_turn("c")) == (JournalError, "turn_open")  # it winds up
    journal.open_turn("another conversation")
    journal.append("c", [f.TurnEnded(fact_id="e", turn_id=turn.turn_id)])
    assert refused(lambda: journal.open_turn("c", turn_id=turn.turn_id)) == (JournalError, "turn_exists")
    assert refused(lambda: journal.open_turn("c", run_id=turn.run_id)) == (JournalError, "run_exists")
    journal.open_turn("c")
    assert [run.state for run in journal.runs("c")] == ["ended", "open"]
    assert {run.conversation for run in journal.runs()} == {"c", "another conversation"}


def test_a_turn_asked_for_again_after_an_error_is_the_same_turn(tmp_path: Path) -> None:
    with open_journal(tmp_path / "a.db", new_id=lambda: "same") as journal:
        assert journal.open_turn("c") == journal.open_turn("c")
        assert len(journal.facts("c")) == len(journal.runs("c")) == 1


def test_a_run_names_its_process(journal: Journal, turn: TurnOpened) -> None:
    (run,) = journal.runs("c")
    assert (run.run_id, run.turn_id, run.process) == (turn.run_id, turn.turn_id, this_process())
    assert alive(run.process)
    assert (
        alive(ProcessId(run.process.host, run.process.pid, run.process.started - 60)) is False
    )  # its id was reused
    assert alive(ProcessId(run.process.host, 2**22 + 1, 0.0)) is False
    assert alive(ProcessId("another host", run.process.pid, run.process.started)) is None


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_lease_holds_until_it_runs_out(kind: str, tmp_path: Path) -> None:
    moment = [datetime(2026, 1, 1, tzinfo=UTC)]
    with open_journal(address(kind, tmp_path), now=lambda: moment[0]) as journal:
        turn = journal.open_turn("c", lease=30)
        run_id = turn.run_id or ""
        assert refused(lambda: journal.lose_run("c", run_id, if_expired=True)) == (JournalError, "run_alive")
        moment[0] += timedelta(seconds=29)
        assert journal.renew_lease("c", run_id, 30)
        moment[0] += timedelta(seconds=29)
        assert refused(lambda: journal.lose_run("c", run_id, if_expired=True)) == (JournalError, "run_alive")
        moment[0] += timedelta(seconds=1)
        lost = journal.lose_run("c", run_id, by="another host", how="its lease ran out", if_expired=True)
        assert lost is not None
        assert (lost.turn_id, lost.run_id, lost.how) == (turn.turn_id, run_id, "its lease ran out")
        assert journal.lose_run("c", run_id) == lost
        assert not journal.renew_lease("c", run_id, 30)
        assert [run.state for run in journal.runs("c")] == ["lost"]
        assert len(journal.facts("c")) == 2


def test_a_run_without_a_lease_never_expires(journal: Journal, turn: TurnOpened) -> None:
    run_id = turn.run_id or ""
    assert refused(lambda: journal.lose_run("c", run_id, if_expired=True)) == (JournalError, "run_alive")
    assert refused(lambda: journal.lose_run("c", "r?")) == (JournalError, "unknown_run")
    journal.append("c", [f.TurnEnded(fact_id="e", turn_id=turn.turn_id)])
    assert journal.lose_run("c", run_id) is None


def test_steering_is_applied_while_its_turn_is_open_and_once(journal: Journal, turn: TurnOpened) -> None:
    turn_id = turn.turn_id or ""
    queued = [
        f.SteeringQueued(fact_id=f"q{n}", steering_id=f"s{n}", parts=(Text("Faster."),)) for n in range(2)
    ]
    last = journal.append("c", queued)[-1].seq
    one, two = (f.SteeringApplied(fact_id=f"a{n}", steering_id=f"s{n}", turn_id=turn_id) for n in range(2))
    applied = journal.apply_steering("c", [one], turn_id=turn_id)
    assert [(fact.fact_id, fact.seq) for fact in applied] == [("a0", last + 1)]
    journal.cancel_turn("c", turn_id)
    assert journal.apply_steering("c", [one], turn_id=turn_id) == applied  # asked again, as after an error
    assert refused(lambda: journal.apply_steering("c", [one, two], turn_id=turn_id)) == (
        TurnClosed,
        "turn_cancelled",
    )
    assert [fact.kind for fact in journal.facts("c", last)] == ["steering_applied", "turn_cancel_requested"]


def test_the_gate_does_not_read_the_history(journal: Journal, turn: TurnOpened) -> None:
    """What it looks at stays small however long the conversation."""
    long = [
        f.OutputObserved(fact_id=f"o{n}", call_id="toolu_1", text="line", turn_id=turn.turn_id)
        for n in range(3000)
    ]
    journal.append("c", long)
    from sqlalchemy import event

    read = 0

    def count(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        nonlocal read
        read += statement.lstrip().upper().startswith("SELECT")

    event.listen(journal._database._opened.engine, "before_cursor_execute", count)
    permit(journal, turn)
    assert read == 1
    plan = "EXPLAIN QUERY PLAN" if journal._database.sqlite else "EXPLAIN"
    query = "SELECT body FROM normalizer_facts WHERE conversation = 'c' AND gate = 'call:toolu_1'"
    told = journal._database.read(lambda c: str(c.exec_driver_sql(f"{plan} {query}").all()))
    assert "normalizer_facts_gate" in told
