"""POSIX: the command leads a session and process group of its own, which is signalled at once."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psutil

from normalizer.execution.families import Family

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from normalizer.execution.families import Force


def spawning() -> dict[str, Any]:
    """How a command is started, so that it leads a family."""
    return {"start_new_session": True}


class PosixFamily(Family):
    """The command leads a session and process group of its own."""

    # By name: not every platform that reads this module has all of them.
    signals: Mapping[Force, str] = {"interrupt": "SIGINT", "terminate": "SIGTERM", "kill": "SIGKILL"}

    def send(self, force: Force, members: Iterable[psutil.Process]) -> None:
        """The group at once, so that nobody forks away in between; those outside one by one."""
        number = getattr(signal, self.signals[force])
        outside = [process for process in members if not self._in_group(process)]
        if any(self._in_group(process) for process in self._known.values()):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.leader, number)
        self.send_each(force, outside)

    def send_each(self, force: Force, members: Iterable[psutil.Process]) -> None:
        """One by one."""
        for process in members:
            with suppress(psutil.Error):
                process.send_signal(getattr(signal, self.signals[force]))

    def deaf_to(self, force: Force) -> bool:
        """Read from `/proc`, so on Linux only."""
        if set(self._known) != {self.leader}:
            return False
        number = getattr(signal, self.signals[force])
        try:
            with open(f"/proc/{self.leader}/status", encoding="ascii", errors="replace") as status:  # noqa: PTH123
                caught = next(line for line in status if line.startswith("SigCgt:"))
        except (OSError, StopIteration):
            return False
        return not int(caught.split()[1], 16) >> (number - 1) & 1

    def _in_group(self, process: psutil.Process) -> bool:
        try:
            return os.getpgid(process.pid) == self.leader
        except OSError:
            return False

    def _belongs(self, process: psutil.Process) -> bool:
        # A shell with job control gives each job a group of its own, in its session.
        return os.getsid(process.pid) == self.leader or super()._belongs(process)
