"""How much work something is, counted and not timed: a busy machine changes nothing about it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_OURS: Final = tuple(f"{Path(__file__).parent.parent / folder}/" for folder in ("normalizer", "providers"))


def steps(work: Callable[[], object]) -> int:
    """How many lines of our own code run while `work` does; each round of a loop counts again."""
    count = 0

    def line(_frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return line

    def call(frame: FrameType, _event: str, _: Any) -> Any:
        return line if frame.f_code.co_filename.startswith(_OURS) else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
