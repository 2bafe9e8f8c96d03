"""What a stream brings -> events. What every assembler does before its own steps, and with what is no event."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from normalizer.errors import UnreadableInput
from normalizer.findings import Leftover
from normalizer.reading import sanitizing
from normalizer.reading.diagnostics import dump_any
from normalizer.reading.sse import Frames

if TYPE_CHECKING:
    from collections.abc import Iterator

    from normalizer.findings import Finding


class Collector(ABC):
    """Takes parsed `data` objects, objects of an SDK, and pieces of the SSE text, cut anywhere.

    `_END` is the text by which a stream says that nothing follows, where the API has one.
    """

    _END: str | None = None

    def __init__(self) -> None:
        self._frames = Frames()
        self._findings: list[Finding] = []
        self._leftovers: list[Leftover] = []

    def feed(self, event: Any) -> None:
        """Take one event, or the next piece of the stream's text."""
        if isinstance(event, str | bytes | bytearray):
            for text, is_data in self._frames.take(event):
                self._line(text, is_data=is_data)
        elif isinstance(event, Mapping):
            self._take(event)
        else:
            self._object(event)

    @abstractmethod
    def _take(self, event: Mapping[str, Any]) -> None:
        """Take one event as it came."""

    @abstractmethod
    def _object(self, event: Any) -> None:
        """Take an event object of the SDK; whatever else it is, leave it."""

    def _line(self, text: str, *, is_data: bool) -> None:
        if self._END is not None and text.strip() == self._END:
            return
        try:
            event = json.loads(text) if is_data else None
        except (ValueError, RecursionError):
            event = None
        if isinstance(event, dict):
            self._take(event)
        else:
            self._leave("unknown event", text)

    def _cleaned(self, event: Mapping[str, Any]) -> Any:
        """The event as plain JSON, with what was bad in it on record; None where it cannot be read."""
        try:
            cleaned = sanitizing.from_event(event)
        except UnreadableInput as error:
            self._leave(f"unreadable event: {error}", "")
            return None
        self._findings.extend(cleaned.findings)
        self._leftovers.extend(cleaned.leftovers)
        return cleaned.value

    def _leave(self, reason: str, value: Any) -> None:
        self._leftovers.append(Leftover(reason, value if isinstance(value, str) else dump_any(value)))

    def _unfinished(self) -> Iterator[Leftover]:
        """The text of a frame that has not ended."""
        if text := self._frames.unfinished:
            yield Leftover("unfinished frame", text)


def plain(event: Any) -> dict[str, Any]:
    """An object of an SDK as it was on the wire."""
    held: dict[str, Any] = event.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
    return held
