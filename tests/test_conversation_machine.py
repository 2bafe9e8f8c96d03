"""Any order of what a host can do with a conversation, against a model of the truth that is a dozen lines long.

The model keeps for each call a few words of what happened; what the library makes of its facts has to agree, from the
outcome to the request, and again when the journal is opened anew.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from judging import JUDGES, TARGETS

from normalizer import check
from normalizer.errors import JournalError, OpenCalls, StartRefused, TurnClosed
from normalizer.journal import open_journal
from normalizer.parts import Json, Tool
from normalizer.rules import rejects

if TYPE_CHECKING:
    from normalizer.live.tool_run import Execution
    from normalizer.live.turn import Turn

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - a folder of its own is made in it
numbers = st.integers(0, 30)


@dataclass
class Truth:
    """What really became of one call."""

    turn: str
    words: set[str] = field(default_factory=set)

    def outcome(self, closed: set[str], over: set[str]) -> str:
        for word, kind in (
            ("completed", "completed"),
            ("terminated", "cancelled_while_running"),
            ("lost", "unknown"),
        ):
            if word in self.words:
                return kind
        if "started" in self.words:
            return "unknown" if self.turn in over else "pending"
        if "denied" in self.words:
            return "denied"
        return "never_run" if "skipped" in self.words or self.turn in closed else "pending"


class Conversing(RuleBasedStateMachine):
    """A host, its journal, and the truth. `target` is who it talks with."""

    target = ""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="conversing-", dir=MEMORY)
        self.where = Path(self.folder.name) / "agent.db"
        self.journal = open_journal(self.where)
        self.conversation = self.journal.conversation("c")
        self.conversation.tools(Tool("run", schema=Json.of({"type": "object"})))
        self.turn: Turn | None = None
        self.truths: dict[str, Truth] = {}
        self.executions: dict[str, Execution] = {}
        self.closed: set[str] = set()
        self.over: set[str] = set()
        self.steering: dict[str, str] = {}
        self.asked = False

    def teardown(self) -> None:
        if hasattr(self, "journal"):
            self.journal.close()
            self.folder.cleanup()

    # ------------------------------------------------------------ turns

    @property
    def runs(self) -> bool:
        return self.turn is not None and self.turn.turn_id not in self.closed

    def end(self) -> None:
        assert self.turn
        self.closed.add(self.turn.turn_id)
        self.over.add(self.turn.turn_id)
        self.turn = None

    @rule()
    def open(self) -> None:
        if self.turn is not None:
            with pytest.raises(JournalError, match="open"):
                self.conversation.open_turn()
            return
        self.turn = self.conversation.open_turn()
        self.turn.user_said("Go on")
        self.asked = True

    @precondition(lambda self: self.turn)
    @rule(times=st.integers(1, 3))
    def cancel(self, times: int) -> None:
        facts = {self.turn.cancel(by="user", budget=0).fact_id for _ in range(times)}  # type: ignore[union-attr]
        assert len(facts) == 1
        self.end()

    @precondition(lambda self: self.turn)
    @rule()
    def close(self) -> None:
        assert self.turn
        if self.turn.running.keys():
            with pytest.raises(OpenCalls):
                self.turn.close()
            return
        self.turn.close()
        self.end()

    @precondition(lambda self: self.turn)
    @rule()
    def lose(self) -> None:
        """Its process goes down, and somebody notices."""
        assert self.turn
        self.journal.lose_run("c", self.turn.run_id, by="test")
        self.end()

    @rule()
    def reopen(self) -> None:
        """What another process reads is the same."""
        with open_journal(self.where, read_only=True) as other:
            assert other.conversation("c").transcript == self.conversation.transcript

    # ------------------------------------------------------------ the model

    @precondition(lambda self: self.runs and self.asked and not self.conversation.transcript.pending)
    @rule(count=st.integers(0, 3), whole=st.booleans())
    def reply(self, count: int, *, whole: bool) -> None:
        assert self.turn
        ids = [f"toolu_{len(self.truths) + n}" for n in range(count)]
        judge = JUDGES[self.target]
        self.conversation.sent(self.conversation.project(self.target, model=judge.model))
        self.turn.receive(self.target, judge.answer(ids) if whole else judge.events(ids))
        assert [call.key for call in self.turn.calls_to_run()] == ids
        self.truths |= {name: Truth(self.turn.turn_id) for name in ids}
        self.asked = bool(count)

    # ------------------------------------------------------------ calls

    def waiting(self, number: int) -> str | None:
        """One of the calls that nothing was decided about."""
        found = [key for key, truth in self.truths.items() if not truth.words - {"asked"}]
        return found[number % len(found)] if found else None

    @precondition(lambda self: self.runs and self.waiting(0))
    @rule(number=numbers, what=st.sampled_from(["request_approval", "deny", "skip", "queue"]))
    def decide(self, number: int, what: str) -> None:
        key = self.waiting(number)
        assert key
        if self.truths[key].turn in self.closed:
            return
        getattr(self.turn, what)(self.conversation.transcript.calls[key])
        word = {"request_approval": "asked", "deny": "denied", "skip": "skipped"}.get(what)
        self.truths[key].words |= {word} if word else set()

    @precondition(lambda self: self.turn and self.truths)
    @rule(number=numbers)
    def start(self, number: int) -> None:
        """The gate lets through what may start, once, and nothing else."""
        assert self.turn
        key = list(self.truths)[number % len(self.truths)]
        truth = self.truths[key]
        execution = self.turn.execute(self.conversation.transcript.calls[key])
        if truth.words - {"approved"} or truth.turn != self.turn.turn_id:
            with pytest.raises(StartRefused):
                execution.__enter__()
            if truth.words == {"asked"} and truth.turn == self.turn.turn_id:
                self.turn.approve(execution.call, by="user")
                truth.words = {"approved"}
            return
        execution.__enter__()
        truth.words.add("started")
        self.executions[key] = execution

    @precondition(lambda self: self.executions)
    @rule(
        number=numbers,
        how=st.sampled_from(["complete", "raise", "terminated", "lost", "interrupt", "silent"]),
    )
    def end_call(self, number: int, how: str) -> None:
        """It ends, in time or long after its turn."""
        key = list(self.executions)[number % len(self.executions)]
        execution, truth = self.executions.pop(key), self.truths[key]
        if how in ("terminated", "lost", "complete"):
            getattr(execution, how)(**({"reason": "gone"} if how == "lost" else {}))
        error = {"raise": ValueError("no"), "interrupt": KeyboardInterrupt()}.get(how)
        if how == "silent" and not execution.ended:
            with pytest.raises(JournalError, match="stays open"):
                execution.__exit__(None, None, None)
            return
        execution.__exit__(type(error) if error else None, error, None)
        truth.words.add(
            {"complete": "completed", "raise": "completed", "terminated": "terminated"}.get(how, "lost")
        )

    @precondition(lambda self: self.turn is None and self.truths)
    @rule(number=numbers)
    def start_late(self, number: int) -> None:
        """No turn is open, so the gate is shut, whoever asks."""
        key = list(self.truths)[number % len(self.truths)]
        call = self.conversation.transcript.calls[key]
        run = next(run for run in self.journal.runs("c") if run.turn_id == self.truths[key].turn)
        with pytest.raises(TurnClosed):
            self.journal.permit_start("c", call.key, turn_id=run.turn_id, run_id=run.run_id, reply=call.reply)

    # ------------------------------------------------------------ steering

    @precondition(lambda self: self.turn)
    @rule()
    def steer(self) -> None:
        assert self.turn
        self.steering[self.conversation.steering.queue("faster")] = self.turn.turn_id

    @rule()
    def apply(self) -> None:
        applied = {fact.steering_id for fact in self.conversation.steering.apply()}  # type: ignore[union-attr]
        due = {name for name, turn in self.steering.items() if self.turn and turn == self.turn.turn_id}
        assert applied == (set() if self.conversation.transcript.pending else due)
        self.steering = {name: turn for name, turn in self.steering.items() if name not in applied}
        self.asked = self.asked or bool(applied)

    # ------------------------------------------------------------ the laws

    @invariant()
    def every_call_is_told_as_what_became_of_it(self) -> None:
        if not hasattr(self, "journal"):
            return
        transcript = self.conversation.transcript
        found = {key: call.outcome.kind for key, call in transcript.calls.items()}
        assert found == {key: truth.outcome(self.closed, self.over) for key, truth in self.truths.items()}
        assert set(transcript.steering) == set(self.steering)
        assert not transcript.findings

    @invariant()
    def every_request_is_accepted(self) -> None:
        if not hasattr(self, "journal") or not any(
            e.kind == "user" for e in self.conversation.transcript.entries
        ):
            return
        options = {"model": JUDGES[self.target].model, "open_calls": "say_running"}
        projection = self.conversation.project(self.target, **options)
        assert not rejects(check(projection.request, self.target, context={"history": True}))
        assert all(one.kind != "prefix_changed" for one in projection.adjustments)


def _search(target: str, examples: int, steps: int, *, derandomize: bool) -> None:
    machine = type(f"Conversing_{target}", (Conversing,), {"target": target})
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, derandomize=derandomize, database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
def test_the_conversation_agrees_with_the_truth(target: str) -> None:
    _search(target, 12, 25, derandomize=True)


@pytest.mark.soak
@pytest.mark.parametrize("target", TARGETS)
def test_the_conversation_agrees_with_the_truth_for_long(target: str) -> None:
    _search(target, 700, 60, derandomize=False)
