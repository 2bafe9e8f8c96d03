"""Bytes of a Claude Code session -> its records, however damaged the file is.

A line ends at a line feed and nowhere else. What cannot be read as a record is a finding and stands whole in a
leftover; what stands before and after it is used. A parsed record is handed over and forgotten: `Record` remembers only
where it stands, so that a long session never lies in memory as objects.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import from_json

from normalizer.reading import sanitizing
from normalizer.reading.diagnostics import dump_any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from normalizer.reading.fact_builder import Recorder

_BLANK: Final = " \t\r\n\ufeff"
_JUNK: Final = _BLANK + "\0"
_NUL: Final = b"\\u0000"
# A pair of surrogates and any other escape are passed over, so that what is left over is alone.
_ESCAPE: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(\\u(?:[dD][89a-fA-F][0-9a-fA-F]{2}|0000))"
    r"|\\."
)
_GAP: Final = re.compile("[ \t\r\n\ufeff\0]+")
_START: Final = re.compile(r'\{"')
_DECODER: Final = json.JSONDecoder()
# Each failed try may read the rest of the line: a line of nothing but beginnings is given up.
_TRIES: Final = 200
_KEYS: Final = ("sessionId", "uuid", "leafUuid", "messageId", "parentUuid")


class Record:
    """Where one record stands: line, number on that line, and its bytes or, where it was mended, its text."""

    __slots__ = ("end", "nth", "number", "start", "text")

    def __init__(self, number: int, start: int, end: int, text: str | None = None, nth: int = 0) -> None:
        self.number = number
        self.start = start
        self.end = end
        self.text = text
        self.nth = nth

    @property
    def place(self) -> str:
        """`L12`, or `L12:1` for the second record on line 12."""
        return f"L{self.number}:{self.nth}" if self.nth else f"L{self.number}"

    def value(self, data: bytes) -> dict[str, Any]:
        """The record, parsed again."""
        found: dict[str, Any] = from_json(
            data[self.start : self.end] if self.text is None else self.text, cache_strings="keys"
        )
        return found

    def raw(self, data: bytes) -> str:
        """The record as it stands in the file."""
        return data[self.start : self.end].decode() if self.text is None else self.text


def records(
    data: bytes, recorder: Recorder, *, closely: bool = False
) -> Iterator[tuple[Record, dict[str, Any]]]:
    """All records in order of the file, each with its parsed value. Findings and leftovers go to the recorder.

    `closely`: also what is wrong inside sound lines, a number that is out of range, is mended.
    """
    holds_nul = _NUL in data
    start = number = 0
    size = len(data)
    while start < size:
        end = data.find(b"\n", start)
        if end < 0:
            end = size
        number += 1
        line = data[start:end]
        if not (closely or (holds_nul and _NUL in line)):
            try:
                value = from_json(line, cache_strings="keys", allow_inf_nan=False)
            except ValueError:
                value = None
            if type(value) is dict and sanitizing.faithful(line, value):
                yield Record(number, start, end), value
                start = end + 1
                continue
        yield from _mended(line, number, recorder)
        start = end + 1


def _mended(line: bytes, number: int, recorder: Recorder) -> Iterator[tuple[Record, dict[str, Any]]]:
    """What can be used of a line that is not one clean record."""
    text = _text(line, number, recorder)
    if not text.strip(_BLANK):
        return
    bare = text.strip(_JUNK)
    found: list[tuple[str, dict[str, Any]]] = []
    rest: list[str] = []
    value = _parsed(bare)
    if value is not None:
        found.append((bare, value))
        rest.extend(piece for piece in text.split(bare, 1) if piece.strip(_BLANK))
    else:
        for piece, parsed in _pieces(bare):
            if parsed is None:
                rest.append(piece)
            else:
                found.append((piece, parsed))
    place = f"L{number}"
    if rest or len(found) != 1:
        recorder.finding("bad_line", _fault(len(found), torn=bool(rest)), place)
    for piece in rest:
        recorder.leftover(place, "a piece of a line that is no record", piece)
    for nth, (piece, parsed) in enumerate(found):
        cleaned = sanitizing.clean(sanitizing.from_text(piece.encode()))
        if cleaned.findings:
            recorder.findings.extend(replace(f, line=number, facts=(place,)) for f in cleaned.findings)
            recorder.leftovers.extend(replace(left, line=number) for left in cleaned.leftovers)
            yield Record(number, 0, 0, dump_any(cleaned.value), nth), cleaned.value
        else:
            yield Record(number, 0, 0, piece, nth), parsed


def _fault(count: int, *, torn: bool) -> str:
    if not count:
        return "the line is no record"
    if not torn:
        return f"{count} records stand on one line"
    return f"the line is damaged; {count} whole record{'s are' if count > 1 else ' is'} read from it"


def _text(line: bytes, number: int, recorder: Recorder) -> str:
    """The line as text without lone surrogates, escaped NULs and bytes that are no UTF-8; the original is kept."""
    try:
        text = line.decode()
        mended = text
    except UnicodeDecodeError:
        text = line.decode(errors="backslashreplace")
        mended = line.decode(errors="replace")
    mended = _ESCAPE.sub(lambda found: "\\ufffd" if found[1] else found[0], mended)
    if mended != text:
        place = f"L{number}"
        recorder.finding("bad_unicode", "the line holds what is no text; U+FFFD is read in its place", place)
        recorder.leftover(place, "a line with characters that are no text", text)
    return mended


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        value = from_json(text)
    except ValueError:
        return None
    return value if type(value) is dict else None


def _pieces(text: str) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """A line cut into whole records (with their value) and what stands between them (with None)."""
    at = bad = tries = 0
    size = len(text)
    while at < size and tries < _TRIES:
        if blank := _GAP.match(text, at):
            at = blank.end()
            continue
        end, value = _whole(text, at)
        # in the middle of torn text only what is surely a line of its own counts, not an inner object
        if value is not None and (bad == at or _is_line(value)):
            if torn := text[bad:at].strip(_BLANK):
                yield torn, None
            yield text[at:end], value
            at = bad = end
            while bad < size and text[bad] in _BLANK:
                at = bad = bad + 1
            continue
        tries += value is None
        following = _START.search(text, at + 1 if value is None else end)
        at = following.start() if following else size
    if torn := text[bad:].strip(_BLANK):
        yield torn, None


def _whole(text: str, at: int) -> tuple[int, dict[str, Any] | None]:
    """The object that begins here, and where it ends."""
    if text[at] != "{":
        return at, None
    try:
        _, end = _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return at, None
    return end, _parsed(text[at:end])


def _is_line(value: dict[str, Any]) -> bool:
    return isinstance(value.get("type"), str) and any(key in value for key in _KEYS)
