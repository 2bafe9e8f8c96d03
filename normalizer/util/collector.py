"""The garbage collector rests while a long history is built.

Reading and folding make many small objects that all stay. Python's cyclic collector would look through them
again and again while they are made, and find nothing: that is a third of the time of a long history.
"""

from __future__ import annotations

import gc
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")


def collector_paused(function: Callable[P, R]) -> Callable[P, R]:
    """The function, run with the collector paused if it was on; it is on again behind it, whatever happens."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if not gc.isenabled():
            return function(*args, **kwargs)
        gc.disable()
        try:
            return function(*args, **kwargs)
        finally:
            gc.enable()

    return run
