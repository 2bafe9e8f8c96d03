"""One started call, from the gate's permit to its end. Its laws:

1. No permit, no start: entering asks the gate.
2. Every way out is recorded before it goes on, and Ctrl-C waits for that. What is not known is recorded as unknown.
3. An end is recorded once; what is known better later (a late result) is recorded behind it.
"""

from __future__ import annotations

import threading
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar

import anyio
import anyio.to_thread

from normalizer.errors import JournalError
from normalizer.execution.contract import Control, Permit, shielded
from normalizer.execution.functions import failed, returned
from normalizer.facts import (
    CallCancelRequested,
    CallCompleted,
    CallTerminated,
    ContactLost,
    OutcomeAttested,
    OutputObserved,
    RemoteCancelUpdated,
    StartPermitted,
)
from normalizer.live.record import TurnRecord
from normalizer.live.sigint import uninterrupted

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from normalizer.execution.contract import End, Unit
    from normalizer.facts import Fact
    from normalizer.transcript import Call

T = TypeVar("T")

WHOLE: Final = 1 << 40  # a result that the host hands over is kept whole
PATIENCE: Final = 10.0  # seconds that the end of a block waits for the word of a `stop` that goes on
ENDS: Final = frozenset({"call_completed", "call_terminated", "contact_lost"})


class RunningTurn(TurnRecord, Protocol):
    """What the run of a call needs of its turn; `Turn` is one."""

    @property
    def running(self) -> Executions:
        """The calls of the turn that run in this process."""

    def permit(self, call: Call, options: dict[str, Any]) -> StartPermitted:
        """Ask the gate for a start. Raises StartRefused."""


class Execution:
    """A context manager, sync and async, around the run of one call.

    `stop` asks the tool to stop and says whether it was confirmed stopped; it is called at a cancel. `control` tells a
    tool that looks at it that somebody asked for the stop.
    """

    def __init__(
        self, turn: RunningTurn, call: Call, options: dict[str, Any], stop: Callable[[], bool] | None = None
    ) -> None:
        self.call: Final = call
        self.control: Final = Control()
        self.left: Final = threading.Event()
        self.owner: object = None
        self.permit: StartPermitted | None = None
        self._turn = turn
        self._options = options
        self._stop = stop
        self._by_unit = False
        self._stopping = threading.Lock()
        self._ends: set[str] = set()
        self._failure: BaseException | None = None

    # ------------------------------------------------------------ in and out

    def __enter__(self) -> Self:
        self.enter(threading.get_ident())
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _where: TracebackType | None
    ) -> None:
        self.leave(error)

    async def __aenter__(self) -> Self:
        await self.enter_in_thread()
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _where: TracebackType | None
    ) -> None:
        await in_thread(partial(self.leave, error))

    def enter(self, owner: object) -> None:
        """Ask the gate. Raises StartRefused (TurnClosed is one)."""
        self.owner = owner
        self._turn.running.add(self)  # before the permit: whoever closes the gate sees all that passed it
        try:
            with uninterrupted():
                self.permit = self._turn.permit(self.call, self._options)
        except BaseException as error:
            self.abandon(error)
            raise

    async def enter_in_thread(self) -> None:
        """As `enter`. A task that is cancelled meanwhile starts nothing."""
        try:
            await in_thread(partial(self.enter, task()))
        except BaseException as error:
            if not self.left.is_set():
                await in_thread(partial(self.abandon, error))
            raise

    def abandon(self, error: BaseException) -> None:
        """It is not started after all; where there is a permit already, that is said."""
        if self.permit is not None:
            self._never_started(error)
        self._go()

    def leave(self, error: BaseException | None, *, of_tool: bool = True) -> None:
        """Record how it ended, as far as the way out shows it. `of_tool`: an exception is what the tool raised."""
        try:
            with uninterrupted():
                self._settle(error, of_tool=of_tool)
        finally:
            self._go()

    def _go(self) -> None:
        self.left.set()
        self._turn.running.discard(self)

    def _settle(self, error: BaseException | None, *, of_tool: bool) -> None:
        # A `stop` that works is why the block is left: its word comes first.
        if self._stopping.acquire(timeout=PATIENCE):
            self._stopping.release()
        if self._ends or (error is not None and error is self._failure):
            return
        if error is None:
            raise JournalError(
                f"the block of call {self.call.key!r} was left, and nothing said how the call ended: it stays open;"
                " say execution.complete(result), .terminated() or .lost(reason)",
                reason="call_left_open",
            )
        if of_tool and isinstance(error, Exception):
            self.complete(failed(error).content, is_error=True)
        else:
            self._interrupted(error)

    def _interrupted(self, error: BaseException) -> None:
        """Who was cancelled is the caller. What became of the tool only the tool can confirm."""
        name = type(error).__name__
        self.cancel_requested(None, f"the program that ran it was interrupted ({name})")
        if self._confirmed_stopped():
            self.terminated()
        elif not self._ends:
            self.lost(f"the program that ran it was interrupted ({name}); its end was not observed")

    def _never_started(self, error: BaseException) -> None:
        with uninterrupted():
            self._tell(
                OutcomeAttested,
                outcome="never_run",
                attestor="query",
                by="program",
                evidence=f"it was permitted, and interrupted ({type(error).__name__}) before it was started",
            )

    # ------------------------------------------------------------ what is observed

    def complete(
        self,
        result: Any = None,
        *,
        is_error: bool = False,
        exit_code: int | None = None,
        truncated: bool = False,
    ) -> Fact:
        """It ran to its end. Text and parts are kept as they are, anything else as JSON."""
        if "call_completed" in self._ends:
            raise JournalError(
                f"call {self.call.key!r} is completed already, and its first result counts",
                reason="already_ended",
            )
        made = returned(result, WHOLE)
        return self._tell(
            CallCompleted,
            content=made.content,
            is_error=is_error,
            exit_code=exit_code,
            truncated=truncated,
        )

    def output(self, text: str, stream: str | None = None, *, truncated: bool = False) -> Fact:
        """Output of the running tool."""
        return self._tell(OutputObserved, text=text, stream=stream, truncated=truncated)

    def terminated(
        self,
        *,
        by: str | None = None,
        exit_code: int | None = None,
        signal: str | None = None,
        residue: tuple[str, ...] = (),
    ) -> Fact:
        """It was stopped from outside, and that is confirmed. `residue`: what could not be confirmed released."""
        asked = self.control.requested
        return self._tell(
            CallTerminated,
            by=by or (asked.by if asked else None),
            exit_code=exit_code,
            signal=signal,
            residue=residue,
        )

    def lost(self, reason: str) -> Fact:
        """Contact with it was lost."""
        return self._tell(ContactLost, reason=reason)

    def cancel_requested(self, by: str | None = None, reason: str | None = None) -> bool:
        """Somebody asked it to stop. False: that was on record before."""
        if not self.control.cancel(by, reason):
            return False
        self._tell(CallCancelRequested, by=by, reason=reason)
        return True

    def remote_cancelled(self, state: str) -> Fact:
        """What is known of a cancel that was sent to a remote tool (`requested`, `acknowledged`, `not_sent`)."""
        return self._tell(RemoteCancelUpdated, state=state)

    def _tell(self, make: Callable[..., Fact], **fields: Any) -> Fact:
        try:
            fact = self._turn.record(make, call_id=self.call.key, **fields)
        except BaseException as error:
            self._failure = error
            raise
        if fact.kind in ENDS:
            self._ends.add(fact.kind)
        return fact

    # ------------------------------------------------------------ being stopped from outside

    @property
    def ended(self) -> bool:
        """Whether an end of it is on record."""
        return bool(self._ends)

    def ask_to_stop(self, by: str | None, reason: str | None) -> None:
        """The turn is cancelled. A unit hears it and reports by itself; else `stop` is asked."""
        if self._by_unit:
            self.control.cancel(by, reason)
            return
        with self._stopping:
            if not self._ends and self.cancel_requested(by, reason) and self._confirmed_stopped():
                self.terminated(by=by)

    def _confirmed_stopped(self) -> bool:
        if self._stop is None:
            return False
        try:
            return self._stop() and not self._ends
        except Exception:  # noqa: BLE001 - it did not confirm anything, and the call stays unknown
            return False

    # ------------------------------------------------------------ units

    async def attend(self, unit: Unit) -> End:
        """Let a unit of execution run it; what the unit reports is recorded as it comes."""
        assert self.permit is not None  # noqa: S101 - it was entered
        return await unit.run(Permit.of(self.permit), self._report, self.control)

    def by_unit(self) -> Self:
        """Mark it as run by a unit, which reports ends and cancels itself."""
        self._by_unit = True
        return self

    async def _report(self, fact: Fact) -> None:
        await in_thread(partial(self._turn.conversation.append, fact))
        if fact.kind in ENDS:
            self._ends.add(fact.kind)


class Executions:
    """The calls of a turn that run here."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: list[Execution] = []

    def add(self, execution: Execution) -> None:
        """It is about to start."""
        with self._lock:
            self._all.append(execution)

    def discard(self, execution: Execution) -> None:
        """It is over."""
        with self._lock:
            if execution in self._all:
                self._all.remove(execution)

    def all(self) -> tuple[Execution, ...]:
        """Those that run."""
        with self._lock:
            return tuple(self._all)

    def keys(self) -> frozenset[str]:
        """The calls that run."""
        return frozenset(one.call.key for one in self.all())

    def own(self) -> frozenset[object]:
        """Who must not be waited for, being the one who asks."""
        return frozenset({threading.get_ident(), ASKING.get()})


ASKING: ContextVar[object] = ContextVar("asking", default=None)
"""The task on whose behalf a thread cancels."""


def task() -> object:
    """The task that asks, so that it does not wait for itself."""
    return anyio.get_current_task().id


async def in_thread(work: Callable[[], T]) -> T:
    """Do something that blocks, in a thread, and see it through: a caller who is cancelled waits for it first."""
    return await shielded(partial(anyio.to_thread.run_sync, work), Control())
