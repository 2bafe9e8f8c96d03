"""A recording process is killed at random points. What it was told is saved is there, and says what happened."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from journaling import Child, done, said

from normalizer import facts as f
from normalizer import fold
from normalizer.errors import StartRefused
from normalizer.findings import Fragment
from normalizer.journal import open_journal
from normalizer.parts import Json, Text, ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from normalizer.facts import Fact, TurnOpened
    from normalizer.journal.journal import Journal

pytest_plugins = ("journal_fixtures",)


class Recorder:
    """An agent that records one turn after the other, by chance, and tells its parent of all that was saved."""

    def __init__(
        self, journal: Journal, conversation: str, chance: random.Random, send: Callable[[Any], None]
    ) -> None:
        self.journal, self.conversation, self.chance, self.send = journal, conversation, chance, send
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"f{self.count}"

    def save(self, *facts: Fact, **more: Any) -> None:
        self.send(self.journal.append(self.conversation, facts, **more))

    def run(self) -> None:
        while True:
            turn = self.journal.open_turn(self.conversation)
            self.send((turn,))
            self.save(said(self.name(), turn_id=turn.turn_id))
            for _ in range(self.chance.randint(1, 4)):
                self.step(turn)
            if self.chance.random() < 0.4:
                cancelled = self.journal.cancel_turn(self.conversation, turn.turn_id or "", by="user")
                assert cancelled is not None
                self.send((cancelled,))
                self.start(turn, f"{self.name()}-late")
            self.save(f.TurnEnded(fact_id=self.name(), turn_id=turn.turn_id, run_id=turn.run_id))

    def step(self, turn: TurnOpened) -> None:
        ids = {"turn_id": turn.turn_id, "run_id": turn.run_id}
        calls = [f"call-{self.name()}" for _ in range(self.chance.randint(0, 3))]
        parts = (Text("I look."), *(ToolCall(call_id, "run", Json('{"n":1}')) for call_id in calls))
        if self.chance.random() < 0.2:
            cut = Fragment(None, '{"n', "not_closed")
            self.save(f.ReplyCut(fact_id=self.name(), parts=parts[:1], **ids), fragments=[cut])
            return
        reply = f.ModelReplied(fact_id=self.name(), parts=parts, **ids)
        self.save(reply, *(f.CallQueued(fact_id=self.name(), call_id=call_id, **ids) for call_id in calls))
        for call_id in calls:
            self.call(turn, call_id, ids)

    def call(self, turn: TurnOpened, call_id: str, ids: dict[str, Any]) -> None:
        if self.chance.random() < 0.3:
            self.save(f.ApprovalRequested(fact_id=self.name(), call_id=call_id, **ids))
            decided = self.chance.choice((f.ApprovalGiven, f.ApprovalDenied, None))
            if decided is not None:
                self.save(decided(fact_id=self.name(), call_id=call_id, by="user", **ids))
        if not self.start(turn, call_id):
            return
        self.save(f.OutputObserved(fact_id=self.name(), call_id=call_id, text="line\n" * 40, **ids))
        end = self.chance.random()
        if end < 0.7:
            self.save(done(self.name(), call_id, **ids))
        elif end < 0.85:
            self.save(f.CallTerminated(fact_id=self.name(), call_id=call_id, **ids))

    def start(self, turn: TurnOpened, call_id: str) -> bool:
        try:
            permit = self.journal.permit_start(
                self.conversation, call_id, turn_id=turn.turn_id or "", run_id=turn.run_id or ""
            )
        except StartRefused:
            return False
        self.send((permit,))
        return True


def record_until_killed(path: Path, seed: int) -> list[Fact]:
    """What a process that died was told is saved. Some die while they make or open the file."""
    chance = random.Random(seed)  # noqa: S311 - no secret

    def work(send: Callable[[Any], None]) -> None:
        with open_journal(path) as journal:
            Recorder(journal, f"c{seed}", chance, send).run()

    child = Child(work)
    early = chance.random() < 0.2
    enough = 0 if early else chance.randint(1, 8_000)
    give_up = time.monotonic() + 30
    # not after a time alone: a busy machine records little in it
    while child.told_bytes() < enough and time.monotonic() < give_up:
        time.sleep(0.001)
    time.sleep(chance.random() * (0.03 if early else 0.004))
    child.kill()
    return [fact for batch in child.sent() for fact in batch]


def check(path: Path, name: str, told: list[Fact]) -> Counter[str]:
    """Nothing is lost, and the facts tell a history that can have happened."""
    with open_journal(path) as journal:
        facts = journal.facts(name)
        assert facts[: len(told)] == tuple(told), "an acknowledged fact is lost"
        assert [fact.seq for fact in facts] == list(range(1, len(facts) + 1))
        cuts = [fact for fact in facts if fact.kind == "reply_cut"]
        assert len(journal.fragments(name)) == len(cuts), "a reply's fragments are stored apart from it"
        before = fold(facts)
        for run in journal.runs(name):
            journal.lose_run(name, run.run_id, by="test", how="it was killed")
        after = fold(journal.facts(name))
        journal.open_turn(name)  # goes on
    permits = Counter(fact.call_id for fact in facts if fact.kind == "start_permitted")
    assert max(permits.values(), default=0) <= 1
    ended = {fact.call_id for fact in facts if fact.kind == "call_completed"}
    for transcript in (before, after):
        assert not transcript.conflicts
        for key, call in transcript.calls.items():
            if key in permits:
                assert call.outcome.kind not in ("never_run", "denied"), "permitted, and told as never run"
            if key in ended:
                assert call.outcome.kind == "completed", "completed, and told otherwise"
    outcomes = Counter(call.outcome.kind for call in after.calls.values())
    assert not outcomes["pending"], "the run is lost, so every call has an outcome"
    for key, call in after.calls.items():
        if key not in permits:
            assert call.outcome.kind in ("never_run", "denied"), "never permitted, so it never ran"
    return outcomes


def kill_many(folder: Path, times: int) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    for seed in range(times):
        path = folder / f"{seed // 5}.db"  # several die over one file
        outcomes += check(path, f"c{seed}", record_until_killed(path, seed))
        if seed % 5 == 4:
            for left in folder.glob(f"{seed // 5}.db*"):
                left.unlink()
    return outcomes


def test_a_killed_process_loses_nothing_that_was_saved(quick: Path) -> None:
    outcomes = kill_many(quick, 120)
    for kind in ("completed", "cancelled_while_running", "unknown", "never_run", "denied"):
        assert outcomes[kind] > 8, f"the runs were too short to tell: {outcomes}"


@pytest.mark.soak
def test_a_killed_process_loses_nothing_that_was_saved_for_long(quick: Path) -> None:
    kill_many(quick, 5000)
