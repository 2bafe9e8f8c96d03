"""Output of a running tool, told while it runs: in order, each piece once, and never more than the bounds allow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio

from normalizer.execution.capture import Capture

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from normalizer.execution.contract import Reporter

_LONGEST_PAUSE: Final = 30.0


class Telling:
    """What is kept of each stream, and what of it was told.

    The pause before each telling doubles, from `pause` seconds up to 30: what ends at once is told by its end alone,
    and what runs for hours leaves no thousands of facts.
    """

    def __init__(
        self, streams: Iterable[str], reporter: Reporter, *, head: int, tail: int, pause: float
    ) -> None:
        self.captures = {name: Capture(head, tail) for name in streams}
        self._reporter = reporter
        self._pause = pause
        self._news = anyio.Event()

    def feed(self, stream: str, data: bytes) -> None:
        """More of a stream."""
        self.captures[stream].feed(data)
        self._news.set()

    @property
    def truncated(self) -> bool:
        """Whether something was left out."""
        return any(capture.truncated for capture in self.captures.values())

    async def go_on(self) -> None:
        """Tell what comes, until this is cancelled."""
        pause = self._pause
        while True:
            await self._news.wait()
            await anyio.sleep(pause)
            self._news = anyio.Event()
            with anyio.CancelScope(shield=True):  # what was taken is told
                for name, capture in self.captures.items():
                    if capture.untold and (text := capture.take()):
                        await self._reporter.output(text, name)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def tell_rest(self, cut: Collection[str] = ()) -> None:
        """Tell what was kept and not told yet; the streams in `cut` were left before their end."""
        for name, capture in self.captures.items():
            truncated = capture.truncated or name in cut
            if (text := capture.rest()) or truncated:
                await self._reporter.output(text, name, truncated=truncated)
