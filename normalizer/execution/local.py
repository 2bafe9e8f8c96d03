"""Local commands: started in a session of their own, heard within bounds, stopped with all that they started.

A command that ends by itself is `Finished`, with exit code or signal; so is one that the system does not start. What
it started and left running is named and left alone, and output that such a process might still add is cut off after
a short wait. A stop goes from polite to forced, reaches also processes that left the group, and is `Stopped` only
when the command is gone; processes that are not are its residue. A time limit is a stop by `limit`.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import anyio
import anyio.to_thread
from anyio.abc import CancelScope

from normalizer.execution.capture import Capture
from normalizer.execution.contract import INTERRUPTED, Control, Finished, Reporter, Stopped, Unknown
from normalizer.execution.families import described, family, marked, spawning
from normalizer.text import excerpt

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from subprocess import DEVNULL, PIPE

    from anyio.abc import ByteReceiveStream, Process

    from normalizer.execution.contract import CancelRequest, End, Permit, Report
    from normalizer.execution.families import Family, Force

PIPES: Final = ("stdout", "stderr")
_CHUNK: Final = 65_536
_LOOK: Final = 0.25  # seconds between two looks at all processes while a stop goes on
_NAP: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of a command, in seconds and bytes.

    `time` is how long it may run; None: as long as it likes. A stop interrupts first, terminates after `interrupt`
    seconds and kills after `terminate` more; a zero leaves that step out. `kill` is the wait for the killed to be gone,
    `pipes` the wait for the streams behind the command's end. Of each stream the first `head` and the last `tail`
    bytes are kept. Running output is told at most every `tell` seconds; the pause doubles each time, up to 30 s.
    """

    time: float | None = None
    interrupt: float = 1.0
    terminate: float = 2.0
    kill: float = 2.0
    pipes: float = 1.0
    head: int = 16_384
    tail: int = 16_384
    tell: float = 0.25


@dataclass(frozen=True, slots=True)
class LocalCommand:
    """A program with its arguments, or one text for the system's shell.

    `environment` is what the program gets, None: that of this process. `stdin` is written to its input, which is empty
    otherwise.
    """

    command: Sequence[str] | str
    directory: str | os.PathLike[str] | None = None
    environment: Mapping[str, str] | None = None
    stdin: bytes = b""
    limits: Limits = field(default_factory=Limits)

    async def run(self, permit: Permit, report: Report, control: Control | None = None) -> End:
        """Start it and see it to its end."""
        reporter, control = Reporter(permit, report, "local"), control or Control()
        with anyio.CancelScope(shield=True):  # a start that is broken off would leave a process behind
            try:
                process = await self._start(permit)
            except (OSError, ValueError) as error:
                end = _not_started(error)
                await reporter.end(end)
                reporter.check()
                return end
        end = await _Execution(process, family(process.pid, permit.mark), self, reporter, control).run()
        reporter.check()
        return end

    async def _start(self, permit: Permit) -> Process:
        from subprocess import DEVNULL, PIPE  # noqa: PLC0415

        environment = os.environ if self.environment is None else self.environment
        return await anyio.open_process(
            self.command,
            stdin=PIPE if self.stdin else DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            cwd=self.directory,
            env=marked(environment, permit.mark),
            **spawning(),
        )


def _not_started(error: OSError | ValueError) -> Finished:
    text = excerpt(str(error), 300)
    return Finished(content=f"The program was not started: {text}", is_error=True, started=False)
