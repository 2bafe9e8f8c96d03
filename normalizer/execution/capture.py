"""What is kept of a stream of bytes: its head and its tail, within a bound, as text that can be stored.

Pure. Bytes that are no UTF-8, and NUL, become U+FFFD; a character is never cut in half at a border of ours.
"""

from __future__ import annotations

import codecs
from typing import Final

_CONTINUED: Final = 0b1100_0000
_MARK: Final = "\n[… {} bytes left out …]\n"


def readable(data: bytes) -> str:
    """Bytes as text that every store takes."""
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")


def shortened(text: str, limit: int) -> tuple[str, bool]:
    """The text, or its head and tail where it takes more than `limit` bytes, and whether it was cut."""
    kept = Capture(limit - limit // 2, limit // 2)
    kept.feed(text.encode("utf-8", "replace"))
    return kept.text(), kept.truncated


class Capture:
    """The first `head` and the last `tail` bytes of a stream.

    `take` and `rest` give it piece by piece while it grows, each byte once: first the head as it comes, and at the end
    what of the tail was not given yet.
    """

    def __init__(self, head: int, tail: int) -> None:
        self._limits = (head, tail)
        self._head = bytearray()
        self._tail = bytearray()
        self._given = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.total = 0

    def feed(self, data: bytes) -> None:
        """More bytes of the stream."""
        head, tail = self._limits
        self.total += len(data)
        room = head - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room else data
        # Cut seldom: each cut moves all that stays.
        if len(self._tail) > 2 * tail + 65_536:
            del self._tail[: len(self._tail) - tail]

    @property
    def truncated(self) -> bool:
        """Whether bytes between head and tail were left out."""
        return self.total > sum(self._limits)

    @property
    def untold(self) -> bool:
        """Whether `take` would give something."""
        return self._given < len(self._head)

    def text(self) -> str:
        """What was kept, with a mark where bytes were left out."""
        tail = self._kept_tail()
        if not self.truncated:
            return readable(bytes(self._head) + tail)
        before, after = _whole_end(bytes(self._head)), _whole_start(tail)
        return readable(before) + _MARK.format(self.total - len(before) - len(after)) + readable(after)

    def take(self) -> str:
        """What came to the head since the last time; half a character at its end waits for its other half."""
        fresh = bytes(self._head[self._given :])
        self._given = len(self._head)
        return self._decoder.decode(fresh).replace("\0", "\ufffd")

    def rest(self) -> str:
        """What was not given yet, when the stream is over."""
        fresh, tail = bytes(self._head[self._given :]), self._kept_tail()
        self._given = len(self._head)
        if not self.truncated:
            return self._decoder.decode(fresh + tail, final=True).replace("\0", "\ufffd")
        before = self._decoder.decode(fresh).replace("\0", "\ufffd")
        after = _whole_start(tail)
        return before + _MARK.format(self.total - len(self._head) - len(after)) + readable(after)

    def _kept_tail(self) -> bytes:
        return bytes(self._tail[-self._limits[1] :]) if self._limits[1] else b""


def _whole_end(data: bytes) -> bytes:
    """Without the beginning of a character that does not end in it."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & _CONTINUED != 0b1000_0000:
            length = (
                2 if byte >> 5 == 0b110 else 3 if byte >> 4 == 0b1110 else 4 if byte >> 3 == 0b11110 else 1
            )
            return data[:-back] if length > back else data
    return data


def _whole_start(data: bytes) -> bytes:
    """Without the end of a character that does not begin in it."""
    for place in range(min(4, len(data))):
        if data[place] & _CONTINUED != 0b1000_0000:
            return data[place:]
    return data
