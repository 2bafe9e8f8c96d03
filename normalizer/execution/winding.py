"""A command while it runs: its output is taken in, its end awaited, a stop carried through.

All of it is shielded from the caller's cancellation, which counts as a request to stop: the wind-up has time of its
own, and each of its waits a bound. What breaks in from outside even so (Ctrl-C) starts the wind-up; the second time
it kills and goes on.
"""

from __future__ import annotations

import signal
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread
import psutil

from normalizer.execution.capture import Capture
from normalizer.execution.contract import INTERRUPTED, Finished, Stopped, Unknown
from normalizer.execution.families import described

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import Process

    from normalizer.execution.contract import CancelRequest, Control, End, Reporter
    from normalizer.execution.families import Family, Force
    from normalizer.execution.local import Limits

PIPES: Final = ("stdout", "stderr")
_CHUNK: Final = 65_536
_LOOK: Final = 0.25  # seconds between two looks at all processes while a stop goes on
_NAP: Final = 0.02
_LONGEST_PAUSE: Final = 30.0
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
        self._captures = {name: Capture(limits.head, limits.tail) for name in PIPES}
        self._open = set(PIPES)
        self._closed = anyio.Event()
        self._news = anyio.Event()
        self._waiting = anyio.CancelScope()
        self._over = False
        self._interrupt: BaseException | None = None

    async def see_to_its_end(self, stdin: bytes) -> End:
        """Wait for its end, or bring it about, and report it."""
        async with anyio.create_task_group() as caller:
            caller.start_soon(self._hear_cancellation)
            with anyio.CancelScope(shield=True):
                end = await self._attend(stdin)
                await self._report(end)
                await self._release()
            self._over = True
            caller.cancel_scope.cancel()
        if self._interrupt is not None:
            raise self._interrupt
        return end

    async def _attend(self, stdin: bytes) -> End:
        async with anyio.create_task_group() as helpers:
            for name in PIPES:
                helpers.start_soon(self._read, name)
            if stdin:
                helpers.start_soon(self._write, stdin)
            helpers.start_soon(self._tell_output)
            helpers.start_soon(self._hear_control)
            if self._limits.time is not None:
                helpers.start_soon(self._watch_the_clock, self._limits.time)
            try:
                end = await self._end()
            except BaseException as error:  # noqa: BLE001 - raised again when the command is wound up
                self._interrupt = error
                self._control.cancel(INTERRUPTED.by, INTERRUPTED.reason)
                end = await self._interrupted()
            helpers.cancel_scope.cancel()
        return end

    async def _interrupted(self) -> End:
        try:
            return await self._wind_up(INTERRUPTED)
        except BaseException as error:  # noqa: BLE001 - raised again; now only the processes count
            self._interrupt = error
            self._family.send("kill", self._family.members())
            return Unknown(reason="its stop was interrupted; it was killed, which was not waited for")

    # ------------------------------------------------------------ helpers, one task each

    async def _hear_cancellation(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            if not self._over:
                self._control.cancel(INTERRUPTED.by, INTERRUPTED.reason)

    async def _hear_control(self) -> None:
        await self._control.wait()
        self._waiting.cancel()

    async def _watch_the_clock(self, seconds: float) -> None:
        await anyio.sleep(seconds)
        self._control.cancel("limit", f"it ran longer than {seconds:g} s")

    async def _read(self, name: str) -> None:
        stream = self._process.stdout if name == "stdout" else self._process.stderr
        assert stream is not None  # noqa: S101 - it was started with pipes
        with suppress(*_BROKEN):
            while True:
                self._captures[name].feed(await stream.receive(_CHUNK))
                self._news.set()
        self._open.discard(name)
        if not self._open:
            self._closed.set()

    async def _write(self, data: bytes) -> None:
        stream = self._process.stdin
        assert stream is not None  # noqa: S101 - it was started with a pipe
        with suppress(*_BROKEN):
            await stream.send(data)
            await stream.aclose()

    async def _tell_output(self) -> None:
        pause = self._limits.tell
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            with anyio.CancelScope(shield=True):  # what was taken is told
                for name, capture in self._captures.items():
                    if capture.untold and (text := capture.take()):
                        await self._reporter.output(text, name)
            await anyio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

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
            truncated=bool(pipes) or any(capture.truncated for capture in self._captures.values()),
            pipes_open=pipes,
            left_running=left,
        )

    def _content(self, exit_code: int | None, name: str | None, pipes: tuple[str, ...]) -> str:
        """What the command printed, and below it what it could not print itself."""
        out, err = (self._captures[pipe].text() for pipe in PIPES)
        lines = [out.removesuffix("\n")] if out else []
        if err:
            lines += ["[stderr]", err.removesuffix("\n")]
        if exit_code:
            lines.append(f"[exit code {exit_code}]")
        if name:
            lines.append(f"[ended by {name}]")
        if pipes:
            lines.append(f"[output cut: another process still holds {' and '.join(pipes)} open]")
        return out if lines == [out.removesuffix("\n")] else "\n".join(lines)

    async def _wind_up(self, request: CancelRequest) -> End:
        await self._reporter.cancel_requested(request)
        await self._look()
        at_once = not self._family.leader_alive()
        sent, deaf = await self._stop_all()
        if self._family.leader_alive():
            return Unknown(reason="it could not be confirmed stopped", residue=self._residue)
        with anyio.move_on_after(self._limits.kill):
            await self._process.wait()
        if self._process.returncode is None:
            return Unknown(reason="its exit was not observed", residue=self._residue)
        with anyio.move_on_after(self._limits.pipes):
            await self._closed.wait()
        exit_code, name = _ended(self._process.returncode)
        if at_once or (deaf and name not in sent):
            return self._described_end(self._residue)
        held = tuple(f"{pipe}, held open" for pipe in sorted(self._open, reverse=True))
        return Stopped(by=request.by, exit_code=exit_code, signal=name, residue=self._residue + held)
