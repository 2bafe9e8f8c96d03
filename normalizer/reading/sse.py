"""Server-sent events -> their data. The text may come in pieces of any size, cut anywhere.

https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
"""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_LINE_END: Final = re.compile(r"\r\n|\n|\r(?!\Z)")  # a last CR may be half of a CRLF
_FIELDS: Final = frozenset({"data", "event", "id", "retry", ""})


class Frames:
    """Collects the pieces of one stream and hands out each frame's data when the frame has ended."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._rest = ""
        self._frame: list[str] = []

    def take(self, chunk: str | bytes | bytearray) -> Iterator[tuple[str, bool]]:
        """The data of each frame that ends in this piece (True), and lines that are no SSE (False).

        A JSON text alone, as other SSE clients hand it out, is the data of a frame.
        """
        text = chunk if isinstance(chunk, str) else self._decoder.decode(bytes(chunk))
        if not self.unfinished and text.lstrip().startswith("{"):
            yield text, True
            return
        *lines, self._rest = _LINE_END.split(self._rest + text)
        for line in lines:
            yield from self._line(line)

    def _line(self, line: str) -> Iterator[tuple[str, bool]]:
        if line.partition(":")[0] not in _FIELDS:
            yield line, False
        elif line:
            self._frame.append(line)
        else:
            fields = [line.partition(":") for line in self._frame]
            data = [value.removeprefix(" ") for field, _, value in fields if field == "data"]
            self._frame = []
            if data:
                yield "\n".join(data), True

    @property
    def unfinished(self) -> str:
        """What came of a frame that has not ended."""
        rest = self._rest + self._decoder.getstate()[0].decode("utf-8", "replace")
        return "\n".join([*self._frame, rest]) if self._frame else rest
