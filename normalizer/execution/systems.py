"""How this system starts a command, and which family it then leads.

On Windows a Job Object takes the place of the process group. No test here runs Windows.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from normalizer.execution import posix

if TYPE_CHECKING:
    from normalizer.execution.families import Family


def spawning() -> dict[str, Any]:
    """How a command is started, so that it leads a family."""
    if sys.platform == "win32":
        from normalizer.execution import windows  # noqa: PLC0415 - its library is there only

        return windows.spawning()
    return posix.spawning()


def family(leader: int, mark: str) -> Family:
    """The family of a command that was started with `spawning`."""
    if sys.platform == "win32":
        from normalizer.execution import windows  # noqa: PLC0415 - its library is there only

        return windows.WindowsFamily(leader, mark)
    return posix.PosixFamily(leader, mark)
