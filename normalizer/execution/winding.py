"""A command while it runs: its output is taken in, its end awaited, a stop carried through.

All of it is shielded from the caller's cancellation, which counts as a request to stop: the wind-up has time of its
own, and each of its waits a bound. What breaks through even so (Ctrl-C in one of the tasks here) starts it over, and
then it is polite no more.
"""

from __future__ import annotations

import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from normalizer.execution.contract import INTERRUPTED, Finished, Stopped, Unknown, shielded, watch_the_clock
from normalizer.execution.families import described
from normalizer.execution.telling import Telling

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import psutil
    from anyio.abc import Process

    from normalizer.execution.contract import CancelRequest, Control, End, Reporter
    from normalizer.execution.families import Family, Force
    from normalizer.execution.limits import Limits

PIPES: Final = ("stdout", "stderr")
_CHUNK: Final = 65_536
_LOOK: Final = 0.25  # seconds between two looks at all processes while a stop goes on
_NAP: Final = 0.02
_BROKEN: Final = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)


class Running:
    """One started command."""

    def __init__(
        self, process: Process, family: Family, limits: Limits, reporter: Reporter, control: Control
    ) -> None:
        self._process = process
        self._family = family
        self._limits = limits
        self._reporter = reporter
        self._control = control
        self._telling = Telling(PIPES, reporter, head=limits.head, tail=limits.tail, pause=limits.tell)
        self._open = set(PIPES)
        self._cut: set[str] = set()
        self._winding = False
        self._closed = anyio.Event()
        self._waiting = anyio.CancelScope()
        self._residue: tuple[str, ...] = ()
        # The signals that the command was sent, and whether the command was alone and deaf to all of them.
        self._sent: set[str] = set()
        self._deaf = True

    async def see_to_its_end(self, stdin: bytes) -> End:
        """Wait for its end, or bring it about, and report it."""
        return await shielded(lambda: self._all_of_it(stdin), self._control)

    async def _all_of_it(self, stdin: bytes) -> End:
        failure: BaseException | None = None
        try:
            end = await self._attend(stdin)
        except BaseException as error:  # noqa: BLE001 - raised below, when the command is wound up
            failure = error
            end = await self._put_down()
        await self._report(end)
        await self._release()
        while isinstance(failure, BaseExceptionGroup) and len(failure.exceptions) == 1:
            failure = failure.exceptions[0]
        if failure is not None:
            raise failure
        return end

    async def _put_down(self) -> End:
        """Stop it where Ctrl-C hit one of the tasks here, or the event loop is being closed; nobody reads any more."""
        self._cut |= self._open
        self._open.clear()
        self._closed.set()
        for _ in range(3):
            try:
                return await self._wind_up(INTERRUPTED)
            except BaseException:  # noqa: BLE001 - once more; the first error is raised behind the end
                self._send("kill", self._family.members())
        return Unknown(
            reason="its stop was interrupted again and again; it was killed, which was not waited for"
        )

    async def _attend(self, stdin: bytes) -> End:
        async with anyio.create_task_group() as helpers:
            for name in PIPES:
                helpers.start_soon(self._read, name)
            if stdin:
                helpers.start_soon(self._write, stdin)
            helpers.start_soon(self._telling.go_on)
            helpers.start_soon(self._hear_control)
            if self._limits.time is not None:
                helpers.start_soon(watch_the_clock, self._limits.time, self._control)
            end = await self._end()
            helpers.cancel_scope.cancel()
        return end

    # ------------------------------------------------------------ helpers, one task each

    async def _hear_control(self) -> None:
        await self._control.wait()
        self._waiting.cancel()

    async def _read(self, name: str) -> None:
        stream = self._process.stdout if name == "stdout" else self._process.stderr
        assert stream is not None  # noqa: S101 - it was started with pipes
        with suppress(*_BROKEN):
            while True:
                self._telling.feed(name, await stream.receive(_CHUNK))
        self._open.discard(name)
        if not self._open:
            self._closed.set()

    async def _write(self, data: bytes) -> None:
        stream = self._process.stdin
        assert stream is not None  # noqa: S101 - it was started with a pipe
        with suppress(*_BROKEN):
            await stream.send(data)
            await stream.aclose()

    # ------------------------------------------------------------ the end

    async def _end(self) -> End:
        if await self._unless_asked(self._process.wait):
            return await self._finished()
        assert self._control.requested is not None  # noqa: S101 - nothing else ends the wait
        return await self._wind_up(self._control.requested)

    async def _unless_asked(self, wait: Callable[[], Awaitable[object]], limit: float | None = None) -> bool:
        """Wait, within a limit. False: somebody asked for the stop meanwhile."""
        with anyio.CancelScope() as self._waiting:
            if self._control.requested is not None:
                return False
            with anyio.move_on_after(limit):
                await wait()
            return True
        return False

    async def _finished(self) -> End:
        """The end of a command that ended by itself. A stop that comes now is for what it left running."""
        if not await self._unless_asked(self._closed.wait, self._limits.pipes):
            await self._stop_all()
        return self._described_end(described(await self._look()))

    def _described_end(self, left: tuple[str, ...]) -> Finished:
        exit_code, name = _ended(self._process.returncode)
        pipes = tuple(sorted(self._open, reverse=True))
        return Finished(
            content=self._content(exit_code, name, pipes),
            is_error=exit_code != 0,
            exit_code=exit_code,
            signal=name,
            truncated=bool(pipes) or self._telling.truncated,
            pipes_open=pipes,
            left_running=left,
        )

    def _content(self, exit_code: int | None, name: str | None, pipes: tuple[str, ...]) -> str:
        """What the command printed, and below it what it could not print itself."""
        out, err = (self._telling.captures[pipe].text() for pipe in PIPES)
        notes = ["[stderr]", err.removesuffix("\n")] if err else []
        if exit_code:
            notes.append(f"[exit code {exit_code}]")
        if name:
            notes.append(f"[ended by {name}]")
        if pipes:
            notes.append(f"[output cut: another process still holds {' and '.join(pipes)} open]")
        if notes and out:
            notes.insert(0, out.removesuffix("\n"))
        return "\n".join(notes) if notes else out

    async def _wind_up(self, request: CancelRequest) -> End:
        # Broken off and begun anew, it is polite no more.
        hasty, self._winding = self._winding, True
        if not hasty:
            await self._reporter.cancel_requested(request)
        await self._look()
        at_once = not (self._sent or self._family.leader_alive())
        await self._stop_all(hasty=hasty)
        if self._family.leader_alive():
            return Unknown(reason="it could not be confirmed stopped", residue=self._residue)
        with anyio.move_on_after(self._limits.kill):
            await self._process.wait()
        if self._process.returncode is None:
            return Unknown(reason="its exit was not observed", residue=self._residue)
        with anyio.move_on_after(self._limits.pipes):
            await self._closed.wait()
        exit_code, name = _ended(self._process.returncode)
        if at_once or (self._deaf and name not in self._sent):
            return self._described_end(self._residue)
        held = tuple(f"{pipe}, held open" for pipe in sorted(self._open, reverse=True))
        return Stopped(by=request.by, exit_code=exit_code, signal=name, residue=self._residue + held)

    async def _stop_all(self, *, hasty: bool = False) -> None:
        """Stop all members, politely first. What is left of them in the end is the residue."""
        limits = self._limits
        steps: tuple[tuple[Force, float], ...] = (
            ("interrupt", limits.interrupt),
            ("terminate", limits.terminate),
            ("kill", limits.kill),
        )
        members = await self._look()
        for force, seconds in steps:
            if members and (force == "kill" or (seconds > 0 and not hasty)):
                self._send(force, members)
                members = await self._gone(force, members, seconds)
        self._residue = described(members)

    def _send(self, force: Force, members: list[psutil.Process]) -> None:
        if self._family.leader_alive():
            self._deaf = self._family.deaf_to(force) and self._deaf
            self._sent.add(self._family.signals.get(force, force))
        self._family.send(force, members)

    async def _gone(self, force: Force, told: list[psutil.Process], seconds: float) -> list[psutil.Process]:
        """Wait for the members to go; who is born meanwhile is told as well. Those that are left when time is up."""
        deadline = anyio.current_time() + seconds
        heard = set(told)
        while True:
            look = min(anyio.current_time() + _LOOK, deadline)
            while self._family.known_alive() and anyio.current_time() < look:  # noqa: ASYNC110 - strangers set no event
                await anyio.sleep(_NAP)
            members = await self._look()
            if not members or anyio.current_time() >= deadline:
                return members
            self._family.send_each(force, [member for member in members if member not in heard])
            heard.update(members)

    async def _look(self) -> list[psutil.Process]:
        return await anyio.to_thread.run_sync(self._family.members)

    # ------------------------------------------------------------ behind the end

    async def _report(self, end: End) -> None:
        if not isinstance(end, Finished):  # a completed call's content has it all
            await self._telling.tell_rest(self._open | self._cut)
        await self._reporter.end(end)

    async def _release(self) -> None:
        if self._process.returncode is not None:
            await self._process.aclose()
            return
        # `aclose` would wait for an end that does not come. On asyncio only the transport lets go of the pipes.
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                await stream.aclose()
        if (transport := getattr(self._process, "_transport", None)) is not None:
            transport.close()


def _ended(code: int | None) -> tuple[int | None, str | None]:
    """Exit code or signal."""
    if code is None or code >= 0:
        return code, None
    try:
        return None, signal.Signals(-code).name
    except ValueError:
        return None, f"signal {-code}"
