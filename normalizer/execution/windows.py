"""Windows: the command and all that it starts are in one Job Object (through pywin32), which ends them together.

No test here runs Windows; what is written here follows the documentation of the system and of pywin32.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psutil

from normalizer.execution.families import Family

if TYPE_CHECKING:
    from collections.abc import Iterable

    from normalizer.execution.families import Force

if sys.platform == "win32":  # pragma: no cover - no test here runs Windows
    import pywintypes
    import win32api
    import win32con
    import win32job

    # The first thread waits until the process is in its job, so that no child is born outside of it.
    _SUSPENDED = 0x0000_0004

    def spawning() -> dict[str, Any]:
        """In a process group, which a break can be sent to, and not running yet."""
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | _SUSPENDED}

    class WindowsFamily(Family):
        """The command and its descendants, held together by a Job Object."""

        def __init__(self, leader: int, mark: str) -> None:
            super().__init__(leader, mark)
            self._job: Any = win32job.CreateJobObject(None, "")
            rights = win32con.PROCESS_SET_QUOTA | win32con.PROCESS_TERMINATE
            handle = win32api.OpenProcess(rights, False, leader)
            try:
                win32job.AssignProcessToJobObject(self._job, handle)
            finally:
                win32api.CloseHandle(handle)
                psutil.Process(leader).resume()

        def send(self, force: Force, members: Iterable[psutil.Process]) -> None:
            """A break to the group; then the whole job at once, and those outside one by one."""
            if force == "interrupt":
                with suppress(OSError):
                    os.kill(self.leader, signal.CTRL_BREAK_EVENT)
                return
            with suppress(pywintypes.error):
                win32job.TerminateJobObject(self._job, 1)
            self.send_each(force, members)

        def send_each(self, force: Force, members: Iterable[psutil.Process]) -> None:
            """Killed; there is no polite way to one process alone."""
            for process in members if force != "interrupt" else ():
                with suppress(psutil.Error):
                    process.kill()

        def _in_group(self, process: psutil.Process) -> bool:
            with suppress(pywintypes.error):
                return process.pid in win32job.QueryInformationJobObject(
                    self._job, win32job.JobObjectBasicProcessIdList
                )
            return False
