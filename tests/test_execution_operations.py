"""Ids of operations, and what may be tried again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normalizer.errors import StartRefused
from normalizer.execution import operations
from normalizer.execution.contract import Permit
from normalizer.execution.operations import Operation, Operations, named, of_call, retry
from normalizer.facts import (
    ApprovalDenied,
    CallCompleted,
    CallTerminated,
    ContactLost,
    EffectsVerified,
    ModelReplied,
    OutcomeAttested,
    OutputObserved,
    StartPermitted,
    TurnEnded,
    TurnOpened,
)
from normalizer.folding.fold_run import fold
from normalizer.parts import Json, ToolCall

if TYPE_CHECKING:
    from normalizer.transcript import Call

KEYED = {"operation_id": "op_1", "idempotency_key": "key_1"}
PLAIN = {"operation_id": "op_1"}


def call(*facts: Any, permit: dict[str, Any] | None = None, over: bool = True) -> Call:
    """The call after these facts, in a turn that was stopped."""
    start = (
        []
        if permit is None
        else [StartPermitted(fact_id="p", seq=3, call_id="c1", turn_id="t", run_id="r1", **permit)]
    )
    return fold(
        [
            TurnOpened(fact_id="o", seq=1, turn_id="t", gated=True),
            ModelReplied(fact_id="m", seq=2, turn_id="t", parts=(ToolCall("c1", "publish", Json("{}")),)),
            *start,
            *(
                make(fact_id=f"f{n}", seq=n, call_id="c1", turn_id="t", **more)
                for n, (make, more) in enumerate(facts, 4)
            ),
            *([TurnEnded(fact_id="e", seq=99, turn_id="t", status="cancelled")] if over else []),
        ]
    ).calls["c1"]


@given(
    st.lists(st.text() | st.integers(), min_size=1, max_size=4),
    st.lists(st.text() | st.integers(), min_size=1, max_size=4),
)
def test_the_same_names_are_the_same_operation_and_others_are_not(one: list[Any], other: list[Any]) -> None:
    assert named(*one) == named(*one)
    assert (named(*one) == named(*other)) == (one == other)


def test_ids_do_not_depend_on_the_release() -> None:
    # sha256 of `["c-42", "publish", 7]`
    assert named("c-42", "publish", 7) == Operation(
        "op_0b2a13ec2873221400c7bfcc1f2dcc39", "key_3f8c2d95f0c9d76a6e4f011ed41a4171"
    )
    assert named("a", keyed=False).idempotency_key is None
    with pytest.raises(ValueError, match="at least one name"):
        named()


def test_operations_are_made_once_and_taken_up_again() -> None:
    ids = iter(["one", "two"])
    book = Operations(lambda: next(ids))
    assert book.of("publish page 7") is book.of("publish page 7")
    assert book.of("publish page 7") == Operation("one", "one")
    assert book.of("publish page 8", keyed=False) == Operation("two", None)
    again = Operations()
    again.remember("publish page 7", Operation("one", "one"))
    assert again.of("publish page 7") == Operation("one", "one")
    assert again.of("another").operation_id != Operations().of("another").operation_id
    with pytest.raises(ValueError, match="already 'one'"):
        again.remember("publish page 7", Operation("three", None))


def test_the_permit_carries_them() -> None:
    fact = StartPermitted(fact_id="p", call_id="c1", turn_id="t", run_id="r1", **KEYED)
    permit, other = Permit.of(fact), Permit.of(fact)
    assert (permit.call_id, permit.turn_id, permit.run_id) == ("c1", "t", "r1")
    assert (permit.operation_id, permit.idempotency_key) == ("op_1", "key_1")
    assert permit.mark != other.mark


LOST = (ContactLost, {})
STOPPED = (CallTerminated, {})
NOT_FOUND = (EffectsVerified, {"effects": "none"})
FOUND = (EffectsVerified, {"effects": "happened"})


@pytest.mark.parametrize(
    ("subject", "operation"),
    [
        (call(LOST, permit=KEYED), Operation("op_1", "key_1")),  # the remote knows the key
        (call(LOST, FOUND, permit=KEYED), Operation("op_1", "key_1")),
        (call(STOPPED, permit=KEYED), Operation("op_1", "key_1")),
        (call(LOST, NOT_FOUND, permit=PLAIN), Operation("op_1", None)),  # somebody looked
        (call(LOST, permit={**PLAIN, "may_have_effects": False}), Operation("op_1", None)),
        (call(permit=None), named("run", "", "call", "c1", keyed=False)),  # it never ran
        (call((CallCompleted, {"content": "503", "is_error": True}), permit=PLAIN), Operation("op_1", None)),
        (
            call(LOST, (OutcomeAttested, {"outcome": "never_run", "attestor": "query"}), permit=KEYED),
            Operation("op_1", "key_1"),
        ),
    ],
)
def test_what_may_be_tried_again_is_the_same_operation(subject: Call, operation: Operation) -> None:
    assert retry(subject) == operation
    assert retry(subject) == operation


@pytest.mark.parametrize(
    ("subject", "reason"),
    [
        (call(LOST, permit=PLAIN), "retry_unverified"),
        (call(LOST, permit={}), "retry_unverified"),
        (call(STOPPED, permit=PLAIN), "retry_unverified"),
        (call((OutputObserved, {"text": "x"}), permit=PLAIN), "retry_unverified"),
        (call(LOST, FOUND, permit=PLAIN), "already_happened"),
        (call((CallCompleted, {"content": "ok", "is_error": False}), permit=KEYED), "already_completed"),
        (call((CallCompleted, {"content": "ok"}), permit=KEYED), "already_completed"),
        (call((ApprovalDenied, {}), permit=None), "denied"),
        (call(permit=KEYED, over=False), "still_running"),
    ],
)
def test_what_could_do_harm_is_refused_with_an_explanation(subject: Call, reason: str) -> None:
    with pytest.raises(StartRefused) as refused:
        retry(subject)
    assert refused.value.reason == reason
    assert operations.REFUSALS[reason] in str(refused.value)
    assert "'c1'" in str(refused.value)


def test_a_call_without_an_operation_gets_one_that_stays() -> None:
    subject = call(LOST, NOT_FOUND, permit={})
    assert of_call(subject) is None
    assert retry(subject) == retry(subject) == named("run", "r1", "call", "c1", keyed=False)
