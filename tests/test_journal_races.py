"""The gate under real concurrency: sixteen processes ask for permits while one more cancels the turn."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from journaling import DATABASES, Child, address

from normalizer.errors import StartRefused, TurnClosed
from normalizer.journal import open_journal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from normalizer.facts import TurnOpened

pytest_plugins = ("journal_fixtures",)
WORKERS = 16
SHARED = ("shared",)  # every process wants this call, and each its own


@dataclass(frozen=True)
class Asked:
    """One request for a permit, when it began, and what came of it: the number of the permit, or why not."""

    round: int
    call_id: str
    began: float
    seq: int | None = None
    refused: str = ""
    closed: bool = False


@dataclass(frozen=True)
class Cancelled:
    """The turn was closed with this number, at the latest at this time."""

    round: int
    seq: int
    at: float


def worker(
    where: str, number: int, turns: list[TurnOpened], barrier: Any, send: Callable[[Any], None]
) -> None:
    chance = random.Random(number)  # noqa: S311 - no secret
    with open_journal(where) as journal:
        for index, turn in enumerate(turns):
            calls = [*SHARED, f"own-{number}"]
            chance.shuffle(calls)
            barrier.wait(60)
            for call_id in calls:
                began = time.monotonic()
                try:
                    seq = journal.permit_start(
                        f"round-{index}", call_id, turn_id=turn.turn_id or "", run_id=turn.run_id or ""
                    ).seq
                except StartRefused as error:
                    send(Asked(index, call_id, began, None, error.reason, isinstance(error, TurnClosed)))
                else:
                    send(Asked(index, call_id, began, seq))


def canceller(
    where: str, turns: list[TurnOpened], barrier: Any, send: Callable[[Any], None], longest: float
) -> None:
    chance = random.Random(-1)  # noqa: S311 - no secret
    with open_journal(where) as journal:
        for index, turn in enumerate(turns):
            barrier.wait(60)
            time.sleep(chance.random() * longest)
            fact = journal.cancel_turn(f"round-{index}", turn.turn_id or "", by="user")
            assert fact is not None
            send(Cancelled(index, fact.seq, time.monotonic()))


def race(where: str, rounds: int, longest: float) -> list[tuple[int, int]]:
    """Run the rounds and hold the law of each. How many calls were permitted, and how many refused, in each."""
    with open_journal(where) as journal:
        turns = [journal.open_turn(f"round-{index}") for index in range(rounds)]
    barrier = multiprocessing.get_context("fork").Barrier(WORKERS + 1)
    children = [
        Child(lambda send, n=n: worker(where, n, turns, barrier, send))  # type: ignore[misc]
        for n in range(WORKERS)
    ]
    children.append(Child(lambda send: canceller(where, turns, barrier, send, longest)))
    told = [event for child in children for event in child.sent()]
    cancelled = {event.round: event for event in told if isinstance(event, Cancelled)}
    asked: dict[int, list[Asked]] = {index: [] for index in range(rounds)}
    for event in told:
        if isinstance(event, Asked):
            asked[event.round].append(event)
    with open_journal(where, read_only=True) as journal:
        return [
            check_round(journal.facts(f"round-{index}"), asked[index], cancelled[index])
            for index in range(rounds)
        ]


def check_round(facts: tuple[Any, ...], asked: list[Asked], cancelled: Cancelled) -> tuple[int, int]:
    assert [fact.seq for fact in facts] == list(range(1, len(facts) + 1))
    (close,) = [fact for fact in facts if fact.kind == "turn_cancel_requested"]
    assert close.seq == cancelled.seq == len(facts), "a start after the close"
    permits = [fact for fact in facts if fact.kind == "start_permitted"]
    assert max(Counter(fact.call_id for fact in permits).values(), default=0) <= 1, "a call permitted twice"
    given = sorted((event.seq, event.call_id) for event in asked if event.seq is not None)
    assert given == [(fact.seq, fact.call_id) for fact in permits], (
        "a permit that nobody was told, or the reverse"
    )
    for event in asked:
        assert event.closed or event.seq is not None or event.refused == "already_permitted"
        assert event.closed or event.began < cancelled.at or event.refused == "already_permitted"
    assert len(asked) == WORKERS * (len(SHARED) + 1)
    return len(permits), sum(event.closed for event in asked)


@pytest.mark.parametrize("kind", DATABASES)
def test_no_start_after_the_close_and_none_twice(kind: str, quick: Path) -> None:
    results = race(address(kind, quick), 100, longest=0.02)
    assert sum(bool(permits and closed) for permits, closed in results) >= 20, "hardly any round was a race"


@pytest.mark.soak
@pytest.mark.parametrize("kind", DATABASES)
def test_no_start_after_the_close_and_none_twice_for_long(kind: str, tmp_path: Path) -> None:
    results = race(address(kind, tmp_path), 1000, longest=0.05)
    assert sum(bool(permits and closed) for permits, closed in results) >= 200
