"""The text of a chunk stream -> its data. Pieces may be of any size, cut anywhere.

https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

DONE: Final = "[DONE]"
_BESIDE: Final = ("event:", "id:", "retry:", ":")


class Frames:
    """Collects lines; hands out the data of a frame at the blank line behind it."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._rest = ""
        self._data: list[str] = []

    def take(self, chunk: str | bytes | bytearray) -> Iterator[tuple[str, bool]]:
        """The data of each frame that ends in this piece (True), and lines that are no SSE (False).

        A JSON text alone, as other clients hand it out, is the data of a frame.
        """
        text = chunk if isinstance(chunk, str) else self._decoder.decode(bytes(chunk))
        if not self.unfinished and text.lstrip().startswith("{"):
            yield text, True
            return
        text = self._rest + text
        held = "\r" if text.endswith("\r") else ""  # it may be half of a line end
        lines = text.removesuffix("\r").replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._rest = lines.pop() + held
        for line in lines:
            yield from self._line(line)

    def _line(self, line: str) -> Iterator[tuple[str, bool]]:
        if line.startswith("data:"):
            self._data.append(line[5:].removeprefix(" "))
        elif not line:
            if self._data:
                yield "\n".join(self._data), True
            self._data = []
        elif not line.startswith(_BESIDE):
            yield line, False

    @property
    def unfinished(self) -> str:
        """What came of a frame that has not ended."""
        return "\n".join([*(f"data: {data}" for data in self._data), self._rest]) if self._data else self._rest
