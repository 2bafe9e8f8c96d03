"""Law 5, both ways: a change is reported, and every adjustment is true."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accounting import Account, displaced, unreported
from judging import TARGETS
from known_gaps import gap
from lawful import Case, law, on_requests
from truths import untrue

from normalizer import registry

if TYPE_CHECKING:
    from collections.abc import Iterable

RULES = {target: frozenset(rule.id for rule in registry.provider(target).rules) for target in TARGETS}


def beyond_gaps(case: Case, found: Iterable[str]) -> list[str]:
    """What is wrong beside what is known to be; that is counted."""
    left = []
    for words in found:
        known = gap(case.target, words)
        if known is None:
            left.append(words)
        else:
            case.count(f"known gap: {known}")
    return left


@law(least={"looked at": 0.6, "displaced": 0.02})
@on_requests
def test_a_change_is_reported(case: Case) -> None:
    """Every position, id, name, text or key of the request that differs from what was recorded is named."""
    account = Account(case)
    for key, call in case.transcript.calls.items():
        if call.reply in account.entries and displaced(
            account, account.entries[call.reply], call, strict=True
        ):
            case.count("displaced")
            assert account.piece("result", key) is not None
    assert beyond_gaps(case, unreported(account)) == []


@law(least={"adjustments": 1.0})
@on_requests
def test_every_adjustment_is_true(case: Case) -> None:
    """What it names did change, for a reason of this API."""
    account = Account(case)
    for note in account.notes:
        case.count("adjustments")
        case.count(note.kind)
    assert beyond_gaps(case, untrue(account, RULES[case.target])) == []
