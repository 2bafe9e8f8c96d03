"""All processes of one command: those of its group, and those that left it.

A process belongs to the family if it is in the group or session of the command, or carries the command's mark in
its environment, or descends from one that belongs. One that hides from all three (own session, cleaned environment,
parents gone) before anybody looked is not found; nothing short of a container would find it.

On Windows a Job Object takes the group's place. No test here runs Windows.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Force: TypeAlias = Literal["interrupt", "terminate", "kill"]

MARK: Final = "NORMALIZER_EXECUTION"
"""The environment variable that children inherit: the marks of all executions that a process is part of."""

_GONE: Final = frozenset({psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD})


def marked(environment: Mapping[str, str], mark: str) -> dict[str, str]:
    """The environment with the mark, behind those of executions around this one."""
    outer = environment.get(MARK, "")
    return {**environment, MARK: f"{outer}:{mark}" if outer else mark}


def alive(process: psutil.Process) -> bool:
    """Whether it is this process and still runs; what only waits to be reaped does not."""
    try:
        return process.is_running() and process.status() not in _GONE
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def described(processes: Iterable[psutil.Process]) -> tuple[str, ...]:
    """Names and numbers, for people."""
    return tuple(sorted(_described(process) for process in processes))


def _described(process: psutil.Process) -> str:
    try:
        return f"{process.name()} (pid {process.pid})"
    except psutil.Error:
        return f"pid {process.pid}"


class Family:
    """The processes of one command, found by looking at all that run. `signals` are the names of what is sent."""

    signals: Mapping[Force, str] = {}

    def __init__(self, leader: int, mark: str) -> None:
        self.leader = leader
        self._mark = mark
        self._known: dict[int, psutil.Process] = {}
        with suppress(psutil.NoSuchProcess):
            self._known[leader] = psutil.Process(leader)

    def leader_alive(self) -> bool:
        """Whether the command itself still runs."""
        process = self._known.get(self.leader)
        return process is not None and alive(process)

    def known_alive(self) -> bool:
        """Whether one of those found so far still runs; cheap."""
        return any(alive(process) for process in self._known.values())

    def members(self) -> list[psutil.Process]:
        """All that run. Looks at every process of the machine; call it in a worker thread."""
        parents: dict[int, int] = {}
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                parents[process.pid] = process.ppid()
                if process.pid not in self._known and self._belongs(process):
                    self._known[process.pid] = process
        self._known = {pid: process for pid, process in self._known.items() if alive(process)}
        self._adopt(parents)
        return list(self._known.values())

    def deaf_to(self, _force: Force) -> bool:
        """Whether the command is alone, and a signal can only kill it or leave it as it is.

        If it then ends with an exit code, it came to its end by itself. False where that cannot be found out.
        """
        return False

    def send(self, force: Force, members: Iterable[psutil.Process]) -> None:
        """Tell the group and all these members to stop."""
        raise NotImplementedError

    def send_each(self, force: Force, members: Iterable[psutil.Process]) -> None:
        """Tell these members alone."""
        raise NotImplementedError

    def _in_group(self, process: psutil.Process) -> bool:
        raise NotImplementedError

    def _belongs(self, process: psutil.Process) -> bool:
        if self._in_group(process):
            return True
        return self._mark in process.environ().get(MARK, "").split(":")

    def _adopt(self, parents: Mapping[int, int]) -> None:
        """Add the descendants of all that belong."""
        found = True
        while found:
            found = False
            for pid, parent in parents.items():
                if parent in self._known and pid not in self._known and pid != os.getpid():
                    with suppress(psutil.NoSuchProcess):
                        process = psutil.Process(pid)
                        if alive(process):
                            self._known[pid] = process
                            found = True


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


def spawning() -> dict[str, Any]:
    """How a command is started, so that it leads a family."""
    if sys.platform == "win32":
        from normalizer.execution import windows  # noqa: PLC0415 - its library is there only

        return windows.spawning()
    return {"start_new_session": True}


def family(leader: int, mark: str) -> Family:
    """The family of a command that was started with `spawning`."""
    if sys.platform == "win32":
        from normalizer.execution import windows  # noqa: PLC0415 - its library is there only

        return windows.WindowsFamily(leader, mark)
    return PosixFamily(leader, mark)
