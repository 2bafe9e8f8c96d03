"""Units of execution, run with a recorder in the journal's place."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import psutil

from normalizer.execution.contract import Control, Permit
from normalizer.execution.local import Limits
from normalizer.facts import StartPermitted
from normalizer.outcomes import Outcome, decide
from normalizer.transcript import Turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from normalizer.execution.contract import End, Unit
    from normalizer.facts import Fact

BACKENDS = ("asyncio", "trio")
QUICK = Limits(interrupt=0.25, terminate=0.25, kill=2.0, pipes=0.3, tell=0.01)
OVER = Turn("t1", status="cancelled", gated=True, marks=frozenset({"gated", "over"}))


def python(code: str) -> list[str]:
    """A program of these lines, its output unbuffered."""
    return [sys.executable, "-u", "-c", code]


@dataclass
class Recorder:
    """Takes facts. `on_fact` is called with each."""

    on_fact: Callable[[Fact], object] | None = None
    facts: list[Any] = field(default_factory=list)

    def __call__(self, fact: Fact) -> None:
        self.facts.append(fact)
        if self.on_fact is not None:
            self.on_fact(fact)

    @property
    def kinds(self) -> list[str]:
        return [fact.kind for fact in self.facts]

    @property
    def ends(self) -> list[str]:
        """The kinds of what was reported, output and its pieces aside."""
        return [kind for kind in self.kinds if kind != "output_observed"]

    @property
    def output(self) -> str:
        return "".join(fact.text for fact in self.facts if fact.kind == "output_observed")

    @property
    def outcome(self) -> Outcome:
        """What the table makes of these facts, in a turn that was stopped."""
        permit = StartPermitted(fact_id="permit", call_id="c1", turn_id="t1", run_id="r1")
        return decide([permit, *self.facts], OVER)


@dataclass
class Run:
    """What one run of a unit gave."""

    end: End
    recorder: Recorder


def execute(
    unit: Unit, backend: str = "asyncio", *, stop_at: str | None = None, control: Control | None = None
) -> Run:
    """Run it; ask for the stop when `stop_at` was printed."""
    control = control or Control()
    recorder = Recorder()

    def look(_: Fact) -> None:
        if stop_at is not None and stop_at in recorder.output:
            control.cancel("user", "enough")

    recorder.on_fact = look
    end = anyio.run(
        unit.run, Permit(call_id="c1", turn_id="t1", run_id="r1"), recorder, control, backend=backend
    )
    return Run(end, recorder)


def runs(pid: int) -> bool:
    """Whether this process does anything but wait to be reaped."""
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


def gone(pids: list[int], within: float = 10.0) -> bool:
    """Whether none of them runs, or will not soon."""
    deadline = time.monotonic() + within
    while any(runs(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
