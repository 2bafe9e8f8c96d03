"""All processes of one command: those of its group, and those that left it.

A process belongs to the family if it is in the group or session of the command, or carries the command's mark in
its environment, or descends from one that belongs. One that hides from all three (own session, cleaned environment,
parents gone) before anybody looked is not found; nothing short of a container would find it.

How a family is started and signalled is its system's: see `posix` and `windows`.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

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
