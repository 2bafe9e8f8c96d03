"""Notices: what they say, what they never say, and when one is read back."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normalizer import facts as f
from normalizer import notices
from normalizer.folding.fold_run import fold
from normalizer.outcomes import OUTCOMES
from normalizer.parts import Json, Text, ToolCall
from normalizer.reading.placeholders import placeholder

if TYPE_CHECKING:
    from normalizer.transcript import Call

FORBIDDEN = re.compile(
    r"\b(retry|retries|try again|again now|run it again|re-?run|repeat it|call it again|please|crash\w*|timed? ?out"
    r"|network|interrupt\w*|aborted|because)\b",
    re.IGNORECASE,
)
"""Words that name a cause or invite to do it again."""
BLAMING = re.compile(r"\b(user|human|person|you|policy|host)\b", re.IGNORECASE)


def call(*said: Any, gated: bool = False, over: bool = True, arguments: str = "{}") -> Call:
    """A call about which these facts are known, in a turn that is over or not."""
    told: list[Any] = [
        f.TurnOpened(fact_id="open", seq=1, turn_id="t", gated=gated),
        f.ModelReplied(fact_id="r", seq=2, turn_id="t", parts=(ToolCall("toolu_1", "run", Json(arguments)),)),
    ]
    for number, (kind, values) in enumerate(said):
        told.append(kind(fact_id=f"f{number}", seq=3 + number, turn_id="t", call_id="toolu_1", **values))
    if over:
        told.append(f.TurnEnded(fact_id="end", seq=99, turn_id="t"))
    return fold(told).calls["toolu_1"]


DENIED = (f.ApprovalDenied, {})
PERMITTED = (f.StartPermitted, {})
LOST = (f.ContactLost, {})
STOPPED = (f.CallTerminated, {})


def said(kind: str) -> tuple[Any, dict[str, Any]]:
    return f.OutcomeAttested, {"outcome": kind, "attestor": "operator"}


CALLS: dict[str, tuple[Call, str]] = {
    "denied": (call(DENIED), "denied"),
    "denied, attested": (call(LOST, said("denied")), "denied"),
    "skipped": (call((f.CallSkipped, {})), "never_run"),
    "never run, attested": (call(LOST, said("never_run")), "never_run"),
    "bad arguments": (call(arguments='{"a'), "never_run"),
    "approval unanswered": (call((f.ApprovalRequested, {})), "never_run"),
    "gate closed": (call(gated=True), "never_run"),
    "terminated": (call(PERMITTED, STOPPED), "cancelled_while_running"),
    "cancelled, attested": (call(LOST, said("cancelled_while_running")), "cancelled_while_running"),
    "contact lost": (call(PERMITTED, LOST), "unknown"),
    "no end recorded": (call(PERMITTED), "unknown"),
    "not recorded": (call(), "unknown"),
    "unknown, attested": (call(LOST, said("unknown")), "unknown"),
    "completed without content": (call((f.CallCompleted, {})), "completed"),
    "completed, attested": (call(LOST, said("completed")), "completed"),
    "running": (call(PERMITTED, over=False), "running"),
    "waiting": (call((f.CallQueued, {}), over=False), "running"),
}


def test_every_outcome_and_basis_has_a_text_of_its_own() -> None:
    for row in OUTCOMES:
        kind = "running" if row.outcome == "pending" else row.outcome
        assert (kind, row.basis) in notices._BODIES
    for kind in get_args(f.OutcomeKind):
        assert (kind, "attested") in notices._BODIES
    shown = {(kind, each.outcome.basis) for each, kind in CALLS.values()}
    assert shown == set(notices._BODIES)


@pytest.mark.parametrize("name", CALLS)
def test_a_notice_is_a_marker_a_body_and_a_seal(name: str) -> None:
    each, kind = CALLS[name]
    assert notices.told_kind(each, running=True) == kind
    first, *body, last = notices.notice(each, kind, "toolu_1").split("\n")
    assert first == f"[tool outcome: {kind}]"
    assert re.fullmatch(r"\[seal [0-9a-f]{8}\]", last)
    assert "".join(body).strip()


@pytest.mark.parametrize("name", CALLS)
def test_a_notice_names_no_cause_without_evidence_and_invites_to_nothing(name: str) -> None:
    each, kind = CALLS[name]
    text = notices.body(each, kind)
    assert FORBIDDEN.search(text) is None
    assert BLAMING.search(text) is None


def test_outcomes_that_differ_are_told_differently() -> None:
    texts = {
        name: notices.body(*CALLS[name]) for name in ("denied", "terminated", "contact lost", "not recorded")
    }
    texts |= {
        name: notices.body(*CALLS[name]) for name in ("skipped", "gate closed", "completed without content")
    }
    for left, right in itertools.combinations(texts, 2):
        assert texts[left] != texts[right], (left, right)


UNSURE = [name for name, (_, kind) in CALLS.items() if kind in ("unknown", "cancelled_while_running")]


@pytest.mark.parametrize("name", UNSURE)
def test_what_may_have_had_effects_says_what_to_check_first(name: str) -> None:
    assert "check" in notices.body(*CALLS[name]).lower()


def test_by_whom_and_why_are_told_where_they_are_recorded() -> None:
    text = notices.body(call((f.ApprovalDenied, {"by": "policy", "reason": "not on a Friday"})), "denied")
    assert "policy" in text
    assert "not on a Friday" in text


def test_after_a_stop_the_output_so_far_is_told() -> None:
    observed = f.OutputObserved, {"text": "compiled 3 of 7\n", "truncated": True}
    each = call(PERMITTED, observed, (f.CallTerminated, {"exit_code": 130, "residue": ("port 8080",)}))
    text = notices.notice(each, "cancelled_while_running", "toolu_1")
    assert "compiled 3 of 7" in text
    assert "130" in text
    assert "port 8080" in text
    assert "not all" in text
    assert notices.read_back(text, "toolu_1") is not None


def test_what_was_found_about_effects_is_told() -> None:
    nothing = notices.body(call(LOST, (f.EffectsVerified, {"effects": "none"})), "unknown")
    something = notices.body(call(LOST, (f.EffectsVerified, {"effects": "happened"})), "unknown")
    assert len({nothing, something, notices.body(call(LOST), "unknown")}) == 3


def test_unknown_and_running_carry_no_error_flag() -> None:
    assert {"denied", "never_run", "cancelled_while_running"} == notices.ERROR_FLAGGED


# ---------------------------------------------------------------- seals


@pytest.mark.parametrize(
    ("above", "digits"),
    [
        ("[tool outcome: unknown]\nContact was lost while it ran.", "81f8cdb2"),
        ("[tool outcome: completed] [late, call toolu_1]\npublished as revision 18", "9fc71a14"),
    ],
)
def test_seals_are_as_in_the_examples(above: str, digits: str) -> None:
    assert notices.seal("toolu_1", above) == digits
    assert notices.sealed(above, "toolu_1") == f"{above}\n[seal {digits}]"
    assert notices.read_back(f"{above}\n[seal {digits}]", "toolu_1") is not None


@pytest.mark.parametrize("name", CALLS)
def test_a_notice_is_read_back_as_the_outcome_that_it_states(name: str) -> None:
    each, kind = CALLS[name]
    found = notices.read_back(notices.notice(each, kind, "toolu_1"), "toolu_1")
    assert found == notices.ReadBack(kind, notices.body(each, kind))


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("form", ["late", "told"])
def test_news_and_told_texts_say_their_call_and_are_read_back(name: str, form: str) -> None:
    each, kind = CALLS[name]
    make = notices.late_news if form == "late" else notices.told_as_text
    text = make(each, kind, "toolu_1")
    assert text.startswith(f"[tool outcome: {kind}] [{form}, call toolu_1]\n")
    found = notices.read_back(text, None)
    assert found is not None
    assert (found.outcome, found.form, found.call_id) == (kind, form, "toolu_1")


def test_late_news_of_a_result_is_the_result() -> None:
    each = call((f.CallCompleted, {"content": (Text("published as revision 18"),)}))
    assert notices.late_news(each, "completed", "toolu_1").split("\n")[1:-1] == ["published as revision 18"]


def test_a_text_without_a_fitting_seal_is_an_ordinary_text() -> None:
    text = notices.notice(*CALLS["denied"], "toolu_1")
    assert notices.read_back(text, "toolu_2") is None
    assert notices.read_back(text, None) is None
    assert notices.read_back(text.replace("had no effect", "had an effect"), "toolu_1") is None
    assert notices.read_back(text.rpartition("\n")[0], "toolu_1") is None
    assert notices.read_back("[tool outcome: never_run]", "toolu_1") is None
    assert notices.read_back(f"It printed:\n{text}", "toolu_1") is None
    assert notices.read_back(notices.sealed("[tool outcome: finished]\nbody", "toolu_1"), "toolu_1") is None
    late = notices.late_news(*CALLS["denied"], "toolu_1")
    assert notices.read_back(late.replace("call toolu_1", "call toolu_2"), None) is None


def test_white_space_that_a_program_folded_does_not_break_the_seal() -> None:
    above = "[tool outcome: unknown]\nContact was  lost\n\n  while it ran."
    sealed = notices.sealed(above, "toolu_1")
    folded = sealed.replace("was  lost\n\n  while", "was lost\n while")
    assert notices.read_back(folded, "toolu_1") is not None


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30), st.text(max_size=10))
def test_any_body_of_a_caller_is_read_back_verbatim(body: str, subject: str) -> None:
    own = call()
    text = notices.notice(own, "unknown", subject, lambda _: body)
    found = notices.read_back(text, subject)
    assert found is not None
    assert found.body == body


def test_a_body_that_was_read_back_stays_while_its_outcome_holds() -> None:
    read = f.OutcomeAttested, {"outcome": "unknown", "notice": "Nobody knows.", "evidence": "notice"}
    assert notices.body(call(read), "unknown") == "Nobody knows."
    assert notices.body(call(read), "unknown", lambda _: "Other words.") == "Nobody knows."
    assert notices.body(call(read, STOPPED), "cancelled_while_running") != "Nobody knows."


def test_a_caller_may_leave_an_outcome_to_us() -> None:
    assert notices.body(call(), "unknown", lambda _: None) == notices.body(call(), "unknown")


# ---------------------------------------------------------------- the placeholders of other programs


def test_no_placeholder_proves_that_a_call_completed() -> None:
    from normalizer.reading import placeholders

    meanings = [*placeholders._TEXTS.values(), *(meaning for _, meaning in placeholders._PATTERNS)]
    assert {m.outcome for m in meanings} <= {"unknown", "never_run", "denied", "cancelled_while_running"}


def test_a_placeholder_is_the_whole_text() -> None:
    found = placeholder("  No result provided\n")
    assert found is not None
    assert found.outcome == "unknown"
    assert placeholder("No result provided by the parser") is None
    assert placeholder("x" * 10_000) is None


def test_every_placeholder_is_found_by_its_first_letter() -> None:
    from normalizer.reading import placeholders
    from normalizer.reading.stand_ins import stand_in

    assert all(stand_in(text, "call_1") is not None for text in placeholders._TEXTS)
    begun = {pattern.pattern.removeprefix("\\")[0] for pattern, _ in placeholders._PATTERNS}
    assert {*begun, notices.MARK[0]} <= placeholders.FIRST
