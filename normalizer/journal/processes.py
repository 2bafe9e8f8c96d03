"""Which process runs a turn: its host, its id and when it started, so that a reused id is told apart.

A process on this host is looked up; one on another host is lost only when its lease ran out, or when a person
says so. Nothing here writes a fact: `run_lost` is the journal's.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import psutil

if TYPE_CHECKING:
    from datetime import datetime

RunState: TypeAlias = Literal["open", "ended", "lost"]


@dataclass(frozen=True, slots=True)
class ProcessId:
    """One process among all hosts. `started` is its start time, in seconds since 1970."""

    host: str
    pid: int
    started: float


@dataclass(frozen=True, slots=True)
class Run:
    """The execution of one turn, which `opened` at this `seq`. `lease_until` (UTC): until then other hosts take it
    for alive.
    """

    conversation: str
    run_id: str
    turn_id: str
    opened: int
    process: ProcessId
    lease_until: datetime | None
    state: RunState

    def expired(self, now: datetime) -> bool:
        """Whether it had a lease, and the lease ran out."""
        return self.lease_until is not None and self.lease_until <= now


def this_process() -> ProcessId:
    """The process that asks."""
    return ProcessId(platform.node(), os.getpid(), psutil.Process().create_time())


def alive(process: ProcessId, here: ProcessId | None = None) -> bool | None:
    """Whether a process lives; None where it is on another host, which cannot be looked up from here."""
    if process.host != (here or this_process()).host:
        return None
    try:
        found = psutil.Process(process.pid)
        # the system counts in hundredths of a second, and corrects its clock
        return abs(found.create_time() - process.started) < 1 and found.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
