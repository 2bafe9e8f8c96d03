"""The bytes of an input -> the reader of a file format, which takes them as they are: sessions, and our own facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from normalizer.errors import UnreadableInput
from normalizer.reading import facts_jsonl
from normalizer.reading.readers import AUTO

if TYPE_CHECKING:
    from collections.abc import Callable

    from normalizer.findings import Reading
    from normalizer.provider import Origin
    from normalizer.reading.readers import Readers

_SNIFFED: Final = 65_536


def file_reader(data: bytes, name: str, readers: Readers) -> Callable[[bytes, Origin], Reading] | None:
    """The reader that takes the bytes of a file as they are; None where they are JSON for the reader of an API.

    Raises UnreadableInput where there is nothing in it, UnknownFormat where there is no format of the name.
    """
    if not data.strip(b" \t\r\n\0"):
        raise UnreadableInput("the input is empty: there are no messages in it", reason="no_messages")
    if name == facts_jsonl.NAME or (name == AUTO and facts_jsonl.sniff(data)):
        return facts_jsonl.read
    if name == AUTO:
        return _session_reader(data[:_SNIFFED], readers)
    return None if name in readers.targets() else readers.session_format(name).read


def _session_reader(head: bytes, readers: Readers) -> Callable[[bytes, Origin], Reading] | None:
    scores = {name: readers.session_format(name).sniff(head) for name in readers.session_formats()}
    best = max(scores, key=lambda name: scores[name], default="")
    return readers.session_format(best).read if scores.get(best, 0) > 0 else None
