"""Bytes -> JSON, cleaned: one JSON text, or messages one a line."""

from __future__ import annotations

import json
from typing import Final

from normalizer.errors import UnknownFormat, UnreadableInput
from normalizer.findings import Finding, Leftover
from normalizer.reading import sanitizing

# marks of UTF-16 and UTF-32, and how JSON begins in them without one
_OTHER_ENCODINGS: Final = (
    b"\xff\xfe",
    b"\xfe\xff",
    b"\0\0\xfe\xff",
    b"{\0",
    b"[\0",
    b"\0{",
    b"\0[",
    b"\0\0\0{",
    b"\0\0\0[",
)


def parsed(data: bytes) -> sanitizing.Cleaned:
    """What the bytes say as JSON. Raises UnreadableInput or UnknownFormat, which say why they are none."""
    try:
        return sanitizing.from_text(data)
    except ValueError as error:
        found = _lines(data)
        if found is None:
            raise _no_json(data, error) from None
        return found


def _no_json(data: bytes, error: ValueError) -> UnreadableInput | UnknownFormat:
    if data.startswith(_OTHER_ENCODINGS):
        return UnreadableInput("the input is not UTF-8, it looks like UTF-16 or UTF-32; save it as UTF-8")
    if not isinstance(error, json.JSONDecodeError) and "digits" in str(error):
        # only the language's own limit on numbers says this: as JSON the text is sound
        return UnreadableInput("a number in the input has more digits than can be read; no API accepts it")
    if data[:1] not in b"{[" and data.lstrip()[:1] not in b"{[":
        return UnknownFormat(
            "the input is no JSON and no session file that is known; pass the history as JSON"
        )
    line = getattr(error, "lineno", None)
    where = f"line {line}, column {getattr(error, 'colno', 0)}: " if line else ""
    return UnreadableInput(
        f"{where}the input is not valid JSON ({getattr(error, 'msg', 'cut off?')})", line=line
    )


def _lines(data: bytes) -> sanitizing.Cleaned | None:
    """Messages one a line; a line that is none is a finding."""
    result = sanitizing.Cleaned([])
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            found = sanitizing.from_text(line)
        except ValueError:
            found = None
        if found is None or not (isinstance(found.value, dict) and "role" in found.value):
            if number == 1:
                return None
            place = Finding("bad_line", "the line is no message", line=number)
            result.findings.append(place)
            text = line.decode("utf-8", "replace")
            result.leftovers.append(Leftover("a line that is no message", text, line=number))
            continue
        result.value.append(found.value)
        result.findings.extend(found.findings)
        result.leftovers.extend(found.leftovers)
    return result if result.value else None
