"""The bounds of a local command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of a command, in seconds and bytes.

    `time` is how long it may run; None: as long as it likes. A stop interrupts first, terminates after `interrupt`
    seconds and kills after `terminate` more; a zero leaves that step out. `kill` is the wait for the killed to be gone,
    `pipes` the wait for the streams behind the command's end. Of each stream the first `head` and the last `tail`
    bytes are kept. Output is told while it runs, the head only, with pauses from `tell` seconds up to 30.
    """

    time: float | None = None
    interrupt: float = 1.0
    terminate: float = 2.0
    kill: float = 2.0
    pipes: float = 1.0
    head: int = 16_384
    tail: int = 16_384
    tell: float = 0.25


DEFAULTS: Final = Limits()
