"""The outcome table: every row decides where it should, and what the rows above it see beats it."""

from __future__ import annotations

from typing import Any

import pytest

from normalizer import facts as f
from normalizer.folding.fold_run import fold
from normalizer.outcomes import OUTCOMES, Outcome, conflicts, decide, mark
from normalizer.parts import Json, Text, ToolCall
from normalizer.transcript import Turn

RUNNING = Turn("t")
CANCELLING = Turn("t", "cancelling", marks=frozenset({"cancelling"}))
OVER = Turn("t", "completed", marks=frozenset({"over"}))
LOST = Turn("t", "running", lost=True, marks=frozenset({"over"}))
GATED = Turn("t", gated=True, marks=frozenset({"gated"}))
GATED_CANCELLING = Turn("t", "cancelling", gated=True, marks=frozenset({"gated", "cancelling"}))
GATED_OVER = Turn("t", "cancelled", gated=True, marks=frozenset({"gated", "over"}))


def told(*said: str | tuple[str, dict[str, Any]]) -> tuple[Any, ...]:
    """Facts about one call, in this order."""
    made = []
    for number, item in enumerate(said):
        kind, values = (item, {}) if isinstance(item, str) else item
        needed = {
            "call_completed": {"content": "ok", "is_error": False},
            "output_observed": {"text": "half"},
            "effects_verified": {"effects": "none"},
            "remote_cancel_updated": {"state": "requested"},
        }.get(kind, {})
        make = {cls.__dataclass_fields__["kind"].default: cls for cls in f.CallFact.__args__}[kind]
        made.append(make(fact_id=f"f{number}", seq=number, call_id="toolu_1", **{**needed, **values}))
    return tuple(made)


def attested(outcome: str, attestor: str = "operator", **more: Any) -> tuple[str, dict[str, Any]]:
    return "outcome_attested", {"outcome": outcome, "attestor": attestor, **more}


# facts, turn -> outcome and basis. One line a case; the blocks are the rows of the table, from the top.
TABLE: list[tuple[tuple[Any, ...], Turn | None, str, str]] = [
    (told("call_completed"), RUNNING, "completed", "completed"),
    (
        told("call_completed", "call_terminated", "contact_lost", "approval_denied"),
        OVER,
        "completed",
        "completed",
    ),
    (told("call_cancel_requested", "call_completed"), CANCELLING, "completed", "completed"),
    (told(attested("completed", "importer", content="late")), OVER, "completed", "completed"),
    (told(attested("cancelled_while_running"), "call_completed"), OVER, "completed", "completed"),
    # confirmed terminated; a start is implied
    (told("call_terminated"), RUNNING, "cancelled_while_running", "terminated"),
    (
        told("start_permitted", "call_terminated", "contact_lost"),
        OVER,
        "cancelled_while_running",
        "terminated",
    ),
    (told("call_terminated"), GATED_OVER, "cancelled_while_running", "terminated"),
    (told(attested("cancelled_while_running", "importer")), OVER, "cancelled_while_running", "terminated"),
    (told("call_terminated", attested("unknown")), OVER, "cancelled_while_running", "terminated"),
    # attested by an operator or a recovery query
    (told("contact_lost", attested("completed")), OVER, "completed", "attested"),
    (told("start_permitted", attested("never_run", "query")), OVER, "never_run", "attested"),
    (told("contact_lost", attested("denied")), OVER, "denied", "attested"),
    (told(attested("never_run"), attested("unknown", "query")), OVER, "unknown", "attested"),
    (told(attested("unknown"), attested("never_run", "query")), OVER, "never_run", "attested"),
    (told("output_observed", attested("never_run")), OVER, "unknown", "no_end_recorded"),
    (
        told("output_observed", attested("cancelled_while_running")),
        OVER,
        "cancelled_while_running",
        "attested",
    ),
    # contact lost; or a sign of a start, and its turn is over or its run lost
    (told("contact_lost"), RUNNING, "unknown", "contact_lost"),
    (told("contact_lost", "approval_denied"), RUNNING, "unknown", "contact_lost"),
    (told("start_permitted"), OVER, "unknown", "no_end_recorded"),
    (told("start_permitted"), LOST, "unknown", "no_end_recorded"),
    (told("output_observed"), GATED_OVER, "unknown", "no_end_recorded"),
    (
        told("start_permitted", "effects_verified", "remote_cancel_updated"),
        OVER,
        "unknown",
        "no_end_recorded",
    ),
    (told("approval_denied", "start_permitted"), OVER, "unknown", "no_end_recorded"),
    (told(attested("denied", "importer"), "start_permitted"), OVER, "unknown", "no_end_recorded"),
    (told(attested("never_run", "importer"), "output_observed"), OVER, "unknown", "no_end_recorded"),
    # a sign of a start, turn running or cancelling
    (told("start_permitted"), RUNNING, "pending", "running"),
    (told("output_observed"), CANCELLING, "pending", "running"),
    (told("start_permitted", "approval_denied"), GATED, "pending", "running"),
    # denied
    (told("approval_denied"), RUNNING, "denied", "denied"),
    (told("approval_requested", "approval_given", "approval_denied"), GATED, "denied", "denied"),
    (told("approval_denied", "call_skipped"), OVER, "denied", "denied"),
    (told(attested("denied", "importer")), OVER, "denied", "denied"),
    # skipped, or asked for and never approved
    (told("call_skipped"), RUNNING, "never_run", "skipped"),
    (told(attested("never_run", "importer")), OVER, "never_run", "skipped"),
    (told("approval_requested"), OVER, "never_run", "approval_unanswered"),
    (told("approval_requested", "call_queued"), LOST, "never_run", "approval_unanswered"),
    # never permitted, and the gate is closed to it
    (told(), GATED_OVER, "never_run", "gate_closed"),
    (told("call_queued"), GATED_CANCELLING, "never_run", "gate_closed"),
    (told("call_queued", "call_cancel_requested"), GATED, "never_run", "gate_closed"),
    (told("approval_requested", "approval_given"), GATED_OVER, "never_run", "gate_closed"),
    # not over: it waits
    (told(), GATED, "pending", "waiting"),
    (told("call_queued"), RUNNING, "pending", "waiting"),
    (told("approval_requested"), CANCELLING, "pending", "waiting"),
    (told("approval_requested", "call_queued", "approval_given"), RUNNING, "pending", "waiting"),
    # anything else
    (told(), RUNNING, "unknown", "not_recorded"),
    (told(), OVER, "unknown", "not_recorded"),
    (told(), None, "unknown", "not_recorded"),
    (told("call_queued"), OVER, "unknown", "not_recorded"),
    (told("approval_requested", "approval_given"), OVER, "unknown", "not_recorded"),
    (told("effects_verified"), OVER, "unknown", "not_recorded"),
    (told("remote_cancel_updated"), OVER, "unknown", "not_recorded"),
    (told(attested("unknown", "importer")), OVER, "unknown", "not_recorded"),
]


@pytest.mark.parametrize(("facts", "turn", "kind", "basis"), TABLE)
def test_the_first_row_that_fits_decides(facts: Any, turn: Turn | None, kind: str, basis: str) -> None:
    outcome = decide(facts, turn)
    assert (outcome.kind, outcome.basis) == (kind, basis)
    assert decide(facts, turn) == outcome


def test_every_row_of_the_table_is_shown_above() -> None:
    shown = {(kind, basis) for _, _, kind, basis in TABLE} | {("never_run", "bad_arguments")}
    assert {(row.outcome, row.basis) for row in OUTCOMES} <= shown


@pytest.mark.parametrize("turn", [RUNNING, OVER, GATED, None])
def test_arguments_that_do_not_parse_mean_that_it_never_ran(turn: Turn | None) -> None:
    assert decide((), turn, valid_arguments=False) == Outcome("never_run", "bad_arguments")


@pytest.mark.parametrize(
    ("notice", "outcome", "kind"),
    [
        ("Lost.", "unknown", "unknown"),
        (None, "unknown", "never_run"),
        ("Not started.", "never_run", "never_run"),
    ],
)
def test_a_notice_that_says_unknown_holds_in_spite_of_arguments_that_do_not_parse(
    notice: str | None, outcome: Any, kind: str
) -> None:
    """It says so only where there was a sign of a start; another program's word is no such sign."""
    stated = f.OutcomeAttested(fact_id="a", seq=1, call_id="call_1", outcome=outcome, notice=notice)
    assert decide((stated,), OVER, valid_arguments=False).kind == kind


def test_evidence_of_a_start_beats_arguments_that_do_not_parse() -> None:
    assert decide(told("start_permitted"), OVER, valid_arguments=False).kind == "unknown"
    assert decide(told("call_completed"), OVER, valid_arguments=False).kind == "completed"


@pytest.mark.parametrize("is_error", [True, False, None])
def test_a_completed_call_says_whether_it_is_an_error(is_error: bool | None) -> None:
    said = told(("call_completed", {"is_error": is_error}))
    assert decide(said, OVER).is_error is is_error
    assert decide((*said, *told("call_cancel_requested")), OVER).is_error is is_error


@pytest.mark.parametrize("kind", ["approval_denied", "call_skipped"])
def test_who_and_why_are_told_where_a_fact_says_them(kind: str) -> None:
    outcome = decide(told((kind, {"by": "policy", "reason": "not on a Friday"})), OVER)
    assert (outcome.by, outcome.reason) == ("policy", "not on a Friday")
    assert decide(told(kind), OVER).by is None


def test_who_asked_for_a_stop_is_told_only_if_recorded() -> None:
    assert decide(told("call_terminated"), OVER).by is None
    assert decide(told(("call_terminated", {"by": "user"})), OVER).by == "user"
    cancelled = Turn("t", "cancelled", cancelled_by="user", marks=frozenset({"over"}))
    assert decide(told("call_terminated"), cancelled).by is None


def test_the_lowest_completion_is_the_result_and_the_highest_attestation_counts() -> None:
    facts = (
        f.ModelReplied(fact_id="r", seq=1, parts=(ToolCall("toolu_1", "run", Json("{}")),)),
        f.CallCompleted(fact_id="b", seq=9, call_id="toolu_1", content="second", is_error=True),
        f.CallCompleted(fact_id="a", seq=5, call_id="toolu_1", content="first", is_error=False),
    )
    call = fold(facts).calls["toolu_1"]
    assert call.result is not None
    assert call.result.fact_id == "a"
    assert call.outcome.is_error is False


# ---------------------------------------------------------------- conflicts

CONFLICTS: list[Any] = [
    (told("approval_denied", "output_observed"), OVER, 1),
    (told("approval_denied", "start_permitted"), GATED, 1),
    (told("call_skipped", "call_completed"), OVER, 1),
    (told("call_skipped", "call_terminated"), OVER, 1),
    (told("approval_denied", "contact_lost"), OVER, 1),
    (told(attested("denied", "importer"), "start_permitted"), OVER, 1),
    (told(attested("never_run"), "start_permitted"), OVER, 1),
    (told("output_observed"), GATED, 1),
    (told("call_completed"), GATED_OVER, 1),
    (told("approval_given", "approval_denied"), RUNNING, 1),
    (told(("call_completed", {"content": "a"}), ("call_completed", {"content": "b"})), OVER, 1),
    (told(attested("completed"), attested("denied", "query")), OVER, 1),
    (told("call_completed", "call_terminated"), OVER, 1),
    (told("call_completed", attested("cancelled_while_running")), OVER, 1),
    # no conflict
    (told("approval_denied"), GATED_OVER, 0),
    (told("approval_requested", "approval_given", "start_permitted", "call_completed"), GATED, 0),
    (told("start_permitted", "call_cancel_requested", "call_completed"), CANCELLING, 0),
    (told("start_permitted", "contact_lost", "call_completed"), OVER, 0),
    (told("call_completed", "call_completed"), OVER, 0),
    (told(attested("completed"), attested("completed", "query")), OVER, 0),
    (told("start_permitted", "call_terminated", "effects_verified", "remote_cancel_updated"), GATED, 0),
    (told("contact_lost", attested("never_run", "query")), OVER, 1),
    (told(attested("unknown", "importer"), "call_completed"), OVER, 0),
]


@pytest.mark.parametrize(("facts", "turn", "count"), CONFLICTS)
def test_facts_that_contradict_each_other_are_a_conflict(facts: Any, turn: Turn, count: int) -> None:
    found = conflicts("toolu_1", facts, turn)
    assert (len(found) > 0) == (count > 0)
    for conflict in found:
        assert conflict.call_id == "toolu_1"
        assert "toolu_1" in conflict.message
        assert len(conflict.facts) == len(set(conflict.facts)) > 0


def test_an_importers_word_counts_as_what_it_states() -> None:
    counts = {
        "completed": "call_completed",
        "cancelled_while_running": "call_terminated",
        "denied": "approval_denied",
        "never_run": "call_skipped",
        "unknown": None,
    }
    for outcome, expected in counts.items():
        (fact,) = told(attested(outcome, "importer"))
        assert mark(fact) == expected
    (stated,) = told(attested("denied"))
    assert mark(stated) == "attested"


def test_a_conflict_is_a_finding_and_nobodys_word_is_dropped() -> None:
    facts = (
        f.ModelReplied(
            fact_id="r", seq=1, turn_id="t", parts=(Text("hm"), ToolCall("toolu_1", "run", Json("{}")))
        ),
        f.ApprovalDenied(fact_id="d", seq=2, turn_id="t", call_id="toolu_1", by="user"),
        f.OutputObserved(fact_id="o", seq=3, turn_id="t", call_id="toolu_1", text="half"),
        f.TurnEnded(fact_id="e", seq=4, turn_id="t"),
    )
    transcript = fold(facts)
    call = transcript.calls["toolu_1"]
    assert call.outcome.kind == "unknown"
    assert [fact.fact_id for fact in call.facts] == ["d", "o"]
    assert [finding.kind for finding in transcript.findings] == ["contradiction"]
    assert set(transcript.findings[0].facts) == {"d", "o"}
