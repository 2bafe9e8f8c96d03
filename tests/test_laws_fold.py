"""The fold, held against random facts of every target: only the set of facts counts, not how they arrived."""

from __future__ import annotations

from collections import Counter
from typing import get_args, get_type_hints

from judging import JUDGES, TARGETS
from lawful import Case, law, shared

import normalizer
from normalizer.facts import Fact


def same(left: normalizer.Transcript, right: normalizer.Transcript) -> None:
    """Two transcripts say the same, in the same order."""
    assert left == right
    for name in ("calls", "server_calls"):
        assert list(getattr(left, name)) == list(getattr(right, name))
    assert left.heads == right.heads
    assert sorted(left.pending) == sorted(right.pending)


RANGE = {
    "turn_opened", "turn_cancel_requested", "turn_ended", "run_lost", "approval_requested", "start_permitted",
    "call_completed", "rewound", "summarised", "steering_applied", "request_sent", "reply_cut",
}  # fmt: skip


def test_every_target_has_a_judge() -> None:
    assert set(JUDGES) == set(TARGETS), "a target without an independent judge: add a row to tests/judging.py"


def test_the_laws_are_tried_on_every_kind_of_fact() -> None:
    kinds = {
        get_args(get_type_hints(one)["kind"])[0]
        for group in get_args(Fact)
        for one in get_args(group) or [group]
    }
    told = {
        target: Counter(kind for case in shared(target) for kind in {fact.kind for fact in case.told})
        for target in TARGETS
    }
    print(told)  # noqa: T201 - the account of what the laws are tried on
    assert set().union(*told.values()) == kinds
    assert all(seen.keys() >= RANGE for seen in told.values())


@law(examples=150, least={"shuffled": 0.7})
def test_the_order_of_arrival_does_not_matter(case: Case) -> None:
    shuffled = case.dice.sample(case.told, len(case.told))
    if shuffled != case.told:
        case.count("shuffled")
    same(normalizer.fold(shuffled), normalizer.fold(case.told))


@law(examples=150, least={"shuffled": 0.3})
def test_folding_in_pieces_is_folding_at_once(case: Case) -> None:
    dice, arrived = case.dice, case.told
    if dice.random() < 0.5:
        arrived = dice.sample(case.told, len(case.told))
        case.count("shuffled")
    cut = dice.randint(0, len(arrived))
    first, whole = normalizer.fold(arrived[:cut]), normalizer.fold(case.told)
    same(normalizer.fold(arrived[cut:], onto=first), whole)
    # somebody else may go on from the same transcript, and it is still what it was
    same(normalizer.fold(arrived[cut:], onto=first), whole)
    same(first, normalizer.fold(arrived[:cut]))


@law(examples=150)
def test_a_repeated_fact_changes_nothing(case: Case) -> None:
    once = normalizer.fold(case.told)
    same(normalizer.fold([*case.told, *case.told]), once)
    same(normalizer.fold(case.told, onto=once), once)
