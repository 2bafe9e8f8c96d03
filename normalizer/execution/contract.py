"""What every unit of execution takes and gives. Its laws:

1. Every fact goes through `report`, in order, the one about the end included; nothing is kept for later.
2. `run` returns one end, which says the same as the last fact. Only a late answer is reported behind it.
3. A stop has its own time budget. Where the caller's task is cancelled, the unit winds up first, shielded,
   reports the end, and then lets the cancellation go on.
4. A tool that ended by itself is `Finished`, whatever else was asked of it; what was confirmed stopped is `Stopped`;
   all else is `Unknown`.
5. Where `report` fails, the tool is still wound up; then its error is raised.
"""

from __future__ import annotations

import inspect
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar
from uuid import uuid4

import anyio
import anyio.lowlevel

from normalizer.facts import CallCancelRequested, CallCompleted, CallTerminated, ContactLost, OutputObserved

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from normalizer.facts import Fact, StartPermitted
    from normalizer.parts import ResultPart

T = TypeVar("T")
Report: TypeAlias = "Callable[[Fact], Awaitable[object] | None]"
"""Takes one fact. It may be a coroutine function; a plain one is called on the event loop and must not block it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """The gate's leave to start one call once. `mark` is unique to this start; `fact_id`s and processes carry it."""

    call_id: str
    turn_id: str | None = None
    run_id: str | None = None
    operation_id: str | None = None
    idempotency_key: str | None = None
    mark: str = field(default_factory=lambda: uuid4().hex)

    @classmethod
    def of(cls, fact: StartPermitted) -> Permit:
        """The permit that the gate's fact gives."""
        return cls(
            call_id=fact.call_id,
            turn_id=fact.turn_id,
            run_id=fact.run_id,
            operation_id=fact.operation_id,
            idempotency_key=fact.idempotency_key,
        )


# ---------------------------------------------------------------- ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """It ran to its end, well or badly, or could not be started at all (`started`).

    `truncated`: not all output is in `content`. `pipes_open` are streams that somebody still held when the wait for
    them ended, `left_running` processes that the tool started and that live on.
    """

    content: str | tuple[ResultPart, ...]
    is_error: bool = False
    exit_code: int | None = None
    signal: str | None = None
    truncated: bool = False
    started: bool = True
    pipes_open: tuple[str, ...] = ()
    left_running: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """It was stopped from outside, and that is confirmed. `residue` names what could not be confirmed released."""

    by: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    residue: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Nobody here can say how it ended, or whether it did. `residue` is as in `Stopped`."""

    reason: str
    residue: tuple[str, ...] = ()


End: TypeAlias = Finished | Stopped | Unknown


# ---------------------------------------------------------------- being asked to stop


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """Who asked for the stop (`user`, `limit`, ...; None: not known), and why."""

    by: str | None = None
    reason: str | None = None


INTERRUPTED: Final = CancelRequest(None, "the program that ran it was interrupted")


class Control:
    """How a running unit is asked to stop: from any task, thread or signal handler. Asking again changes nothing."""

    def __init__(self) -> None:
        # Reentrant: a signal handler may ask while the code that it interrupts holds the lock.
        self._lock = threading.RLock()
        self._request: CancelRequest | None = None
        self._wakers: list[Callable[[], object]] = []

    @property
    def requested(self) -> CancelRequest | None:
        """The first request, if there was one."""
        return self._request

    def cancel(self, by: str | None = None, reason: str | None = None) -> bool:
        """Ask for the stop. False: somebody had asked before."""
        with self._lock:
            if self._request is not None:
                return False
            self._request = CancelRequest(by, reason)
            wakers, self._wakers = self._wakers, []
        for wake in wakers:
            with suppress(RuntimeError):  # its event loop is over, and so is who waited there
                wake()
        return True

    async def wait(self) -> CancelRequest:
        """Wait until somebody asks."""
        event = anyio.Event()
        with self._lock:
            if self._request is None:
                self._wakers.append(_waker(event))
            else:
                event.set()
        await event.wait()
        assert self._request is not None  # noqa: S101 - what the wakers wait for
        return self._request


def _waker(event: anyio.Event) -> Callable[[], object]:
    """Sets the event from wherever it is called; neither loop's way blocks or needs a lock of ours."""
    native: Any = anyio.lowlevel.current_token().native_token
    call_soon = getattr(native, "run_sync_soon", None) or native.call_soon_threadsafe
    return lambda: call_soon(event.set)


async def shielded(work: Callable[[], Awaitable[T]], control: Control) -> T:
    """Do the work whatever becomes of the caller: its cancellation, and Ctrl-C, count as a request to stop the work.

    They go on when the work is done. It has a task of its own, since some of them are not held up by a shield.
    """
    results: list[T] = []
    failures: list[BaseException] = []
    done = anyio.Event()

    async def sheltered() -> None:
        try:
            with anyio.CancelScope(shield=True):
                results.append(await work())
        except BaseException as error:  # noqa: BLE001 - raised below, and not wrapped in a group
            failures.append(error)
        finally:
            done.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sheltered)
        try:
            await done.wait()
        except BaseException as error:  # noqa: BLE001 - as above
            failures.append(error)
            control.cancel(INTERRUPTED.by, INTERRUPTED.reason)
            tasks.cancel_scope.cancel()
    if failures:
        raise failures[0]
    return results[0]


async def watch_the_clock(seconds: float, control: Control) -> None:
    """A time limit: a stop, by `limit`."""
    await anyio.sleep(seconds)
    control.cancel("limit", f"it ran longer than {seconds:g} s")


class Unit(Protocol):
    """What runs one call of a tool."""

    async def run(self, permit: Permit, report: Report, control: Control | None = None) -> End:
        """Start it, wait for its end, and report all that is observed."""
        ...


def run(unit: Unit, permit: Permit, report: Report, control: Control | None = None) -> End:
    """Run a unit where no event loop runs. Ctrl-C stops the tool first and is raised then."""
    return anyio.run(unit.run, permit, report, control)


# ---------------------------------------------------------------- reporting


class Reporter:
    """Makes the facts about one started call and hands them to `report`.

    A failure to report does not stop the unit in the middle of its work: the first one is kept, and `check` raises it.
    """

    def __init__(self, permit: Permit, report: Report, source: str) -> None:
        self._permit = permit
        self._report = report
        self._source = source
        self._count = 0
        self._failure: Exception | None = None

    async def output(self, text: str, stream: str, *, truncated: bool = False) -> None:
        """A piece of output of the running tool."""
        await self.tell(OutputObserved, text=text, stream=stream, truncated=truncated)

    async def cancel_requested(self, request: CancelRequest) -> None:
        """Somebody asked for the stop, and the unit begins with it."""
        await self.tell(CallCancelRequested, by=request.by, reason=request.reason)

    async def end(self, end: End) -> None:
        """The fact that says this end."""
        match end:
            case Finished():
                await self.tell(
                    CallCompleted,
                    content=end.content,
                    is_error=end.is_error,
                    truncated=end.truncated,
                    exit_code=end.exit_code,
                    signal=end.signal,
                )
            case Stopped():
                await self.tell(
                    CallTerminated, exit_code=end.exit_code, signal=end.signal, by=end.by, residue=end.residue
                )
            case Unknown():
                left = f" Could not be confirmed released: {', '.join(end.residue)}." if end.residue else ""
                await self.tell(ContactLost, reason=end.reason + left)

    def fact(self, make: Callable[..., Fact], **fields: Any) -> Fact:
        """The fact, observed now."""
        self._count += 1
        return make(
            fact_id=f"{self._permit.mark}.{self._source}.{self._count}",
            at=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            source=self._source,
            call_id=self._permit.call_id,
            turn_id=self._permit.turn_id,
            run_id=self._permit.run_id,
            **fields,
        )

    async def tell(self, make: Callable[..., Fact], **fields: Any) -> None:
        """Report one fact."""
        try:
            told = self._report(self.fact(make, **fields))
            if inspect.isawaitable(told):
                await told
        except Exception as error:  # noqa: BLE001 - a stranger's function; `check` raises it
            self._failure = self._failure or error

    def check(self) -> None:
        """Raise what `report` raised first."""
        if self._failure is not None:
            raise self._failure


async def forestalled(control: Control, reporter: Reporter) -> Stopped | None:
    """The end of a call whose stop was asked for before anything was started."""
    request = control.requested
    if request is None:
        return None
    await reporter.cancel_requested(request)
    end = Stopped(by=request.by)
    await reporter.end(end)
    reporter.check()
    return end
