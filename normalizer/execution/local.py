"""Local commands: started in a session of their own, heard within bounds, stopped with all that they started.

A command that ends by itself is `Finished`, with exit code or signal; so is one that the system does not start. What
it started and left running is named and left alone, and output that such a process might still add is cut off after
a short wait. A stop goes from polite to forced, reaches also processes that left the group, and is `Stopped` only
when the command is gone; processes that are not are its residue. A time limit is a stop by `limit`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from subprocess import DEVNULL, PIPE
from typing import TYPE_CHECKING

import anyio

from normalizer.execution.contract import Control, Finished, Reporter, forestalled
from normalizer.execution.families import marked
from normalizer.execution.limits import DEFAULTS, Limits
from normalizer.execution.systems import family, spawning
from normalizer.execution.winding import Running
from normalizer.util.text import excerpt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anyio.abc import Process

    from normalizer.execution.contract import End, Permit, Report

__all__ = ["DEFAULTS", "Limits", "LocalCommand"]


@dataclass(frozen=True, slots=True)
class LocalCommand:
    """A program with its arguments, or one text for the system's shell.

    `environment` is what the program gets, None: that of this process. `stdin` is written to its input, which is
    empty otherwise.
    """

    command: Sequence[str] | str
    directory: str | os.PathLike[str] | None = None
    environment: Mapping[str, str] | None = None
    stdin: bytes = field(default=b"", repr=False)
    limits: Limits = DEFAULTS

    async def run(self, permit: Permit, report: Report, control: Control | None = None) -> End:
        """Start it and see it to its end."""
        reporter, control = Reporter(permit, report, "local"), control or Control()
        if (end := await forestalled(control, reporter)) is not None:
            return end
        with anyio.CancelScope(shield=True):  # a start that is broken off would leave a process behind
            try:
                process = await self._start(permit)
            except (OSError, ValueError) as error:
                refused = Finished(content=_refusal(error), is_error=True, started=False)
                await reporter.end(refused)
                reporter.check()
                return refused
            relatives = family(process.pid, permit.mark)
        running = Running(process, relatives, self.limits, reporter, control)
        seen = await running.see_to_its_end(self.stdin)
        reporter.check()
        return seen

    async def _start(self, permit: Permit) -> Process:
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


def _refusal(error: OSError | ValueError) -> str:
    return f"The program was not started: {excerpt(str(error), 300)}"
