"""What a history comes in: a file, its text or bytes, parsed JSON, SDK objects, or the events of a stream -> facts.

Says which API's or session's reader an input is for, where the caller does not, and what is wrong with one that none
can read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from normalizer import registry
from normalizer.errors import UnknownFormat, UnreadableInput
from normalizer.findings import Finding, Leftover, Reading
from normalizer.options import checked_origin
from normalizer.reading import facts_jsonl, sanitizing
from normalizer.util.collector import collector_paused
from normalizer.util.text import excerpt

if TYPE_CHECKING:
    from normalizer.provider import Assembler, Provider

Source: TypeAlias = "Path | str | bytes | bytearray | Mapping[str, Any] | Sequence[Any]"
"""A path, a text (a path unless it begins with `{` or `[`), bytes, or parsed JSON with SDK objects anywhere in it."""

_CERTAIN: Final = 100
_SNIFFED: Final = 65_536
_WHERE_IN_DOUBT: Final = "openai_chat"
_HOLDERS: Final = frozenset(  # keys of requests, messages, responses and lists of items
    {"messages", "content", "choices", "tool_calls", "input", "output", "data"}
)
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


@sanitizing.depth_told
@collector_paused
def read(
    source: Source, *, format: str | None = "auto", origin: Mapping[str, Any] | None = None, to: str | None = None,  # noqa: A002
) -> Reading:  # fmt: skip
    """The facts of an input, what was wrong with it, and everything that became no fact.

    An input that fits several APIs alike is read as that of `to`, else as Chat Completions.
    Raises UnreadableInput (`no_messages` where there is nothing in it) and UnknownFormat.
    """
    known = checked_origin(origin)
    name = "auto" if format is None else format
    if isinstance(source, (Path, str, bytes, bytearray)):
        reading = _from_bytes(_load(source), name, known, to)
    else:
        reading = _borrowed(source, name, known) or _from_value(
            sanitizing.from_value(source), name, known, to
        )
    model = known.get("model")
    if model:
        facts = tuple(
            replace(fact, model=model)
            if fact.kind in ("model_replied", "reply_cut") and fact.model is None
            else fact
            for fact in reading.facts
        )
        reading = replace(reading, facts=facts)
    return reading


def _load(source: Path | str | bytes | bytearray) -> bytes:
    if isinstance(source, str):
        if source.lstrip()[:1] in ("{", "["):
            return source.encode("utf-8", "surrogatepass")
        source = Path(source)
    if isinstance(source, Path):
        try:
            return source.read_bytes()
        except OSError as error:
            what = error.strerror or type(error).__name__
            raise UnreadableInput(
                f"cannot read {str(source)!r}: {what}; check the path", reason="not_found"
            ) from None
        except ValueError:
            raise UnreadableInput(
                "the path holds a NUL character; check the path", reason="not_found"
            ) from None
    return bytes(source)


def _from_bytes(data: bytes, name: str, origin: Mapping[str, Any], to: str | None) -> Reading:
    if not data.strip(b" \t\r\n\0"):
        raise UnreadableInput("the input is empty: there are no messages in it", reason="no_messages")
    if not isinstance(name, str) or name in registry.FORMATS:
        return registry.session_format(name).read(data, origin)
    if name == "facts" or (name == "auto" and _is_facts(data)):
        return facts_jsonl.read(data)
    if name == "auto":
        head = data[:_SNIFFED]
        scores = {n: registry.session_format(n).sniff(head) for n in registry.FORMATS}
        best = max(scores, key=lambda n: scores[n], default="")
        if scores.get(best, 0) > 0:
            return registry.session_format(best).read(data, origin)
    elif name not in registry.PROVIDERS:
        registry.session_format(name)  # raises with the names there are
    try:
        cleaned = sanitizing.from_text(data)
    except ValueError as error:
        found = _lines(data)
        if found is None:
            raise _no_json(data, error) from None
        cleaned = found
    return _from_value(cleaned, name, origin, to)


def _is_facts(data: bytes) -> bool:
    first = data.lstrip()[:400]
    return first.startswith(b'{"fact_id"') or (
        first.startswith(b"{") and b'"fact_id"' in first and b'"kind"' in first
    )


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


def _borrowed(value: Any, name: str, origin: Mapping[str, Any]) -> Reading | None:
    """The reading of a usual request by a reader that copies only what it keeps, which saves a quarter of the time.

    None where there is no such reader, or where it met anything unusual.
    """
    if type(value) is not dict or _empty(value):
        return None
    for each in registry.PROVIDERS if name == "auto" else (name,) if name in registry.PROVIDERS else ():
        provider = registry.provider(each)
        if provider.borrow is not None and (name != "auto" or provider.sniff(value) == _CERTAIN):
            try:
                return provider.borrow(value, origin)
            except sanitizing.Unclean:
                return None
    return None


def _from_value(cleaned: sanitizing.Cleaned, name: str, origin: Mapping[str, Any], to: str | None) -> Reading:
    value = cleaned.value
    if name != "auto":
        chosen = _named(name)
    else:
        scores = {n: registry.provider(n).sniff(value) for n in registry.PROVIDERS}
        best = max(scores, key=lambda n: (scores[n], n == to, n == _WHERE_IN_DOUBT))
        if scores[best] <= 0 and cleaned.given is not None:  # it may have tuples for lists
            return _from_value(sanitizing.clean(cleaned), name, origin, to)
        if scores[best] <= 0:
            if _empty(value):
                raise UnreadableInput("there are no messages in the input", reason="no_messages")
            raise UnknownFormat(
                f"this JSON ({shape_of(value)}) is no history that is known; formats: {', '.join(registry.names())}"
            )
        chosen = registry.provider(best)
    if _empty(value):
        raise UnreadableInput("there are no messages in the input", reason="no_messages")
    if not isinstance(value, (dict, list)) or not (isinstance(value, list) or not _HOLDERS.isdisjoint(value)):
        raise UnknownFormat(f"this JSON ({shape_of(value)}) is no history of {chosen.name!r}")
    try:
        reading = chosen.read(value, origin)
    except sanitizing.Unclean:
        cleaned = sanitizing.clean(cleaned)
        reading = chosen.read(cleaned.value, origin)
    if cleaned.findings:
        reading = replace(
            reading,
            findings=(*cleaned.findings, *reading.findings),
            leftovers=(*cleaned.leftovers, *reading.leftovers),
        )
    return reading


def _named(name: Any) -> Provider:
    """The reader of parsed JSON of this name."""
    if isinstance(name, str) and name in (*registry.FORMATS, "facts"):
        raise UnknownFormat(f"{name!r} is a format of files; pass a path, or the bytes or text of one")
    if not isinstance(name, str) or name not in registry.PROVIDERS:
        registry.session_format(name)  # raises with the names there are
    return registry.provider(name)


def _empty(value: Any) -> bool:
    return value in ([], {}) or (
        isinstance(value, dict) and any(value.get(k) == [] for k in ("messages", "input", "contents"))
    )


def shape_of(value: Any) -> str:
    """What a value looks like, for a message."""
    if isinstance(value, dict):
        return f"an object with {', '.join(repr(excerpt(str(k), 30)) for k in list(value)[:5]) or 'no keys'}"
    if isinstance(value, list):
        return (
            f"a list of {len(value)} items, the first a {type(value[0]).__name__}"
            if value
            else "an empty list"
        )
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


@sanitizing.depth_told
def read_stream(events: Iterable[Any], target: str) -> Reading:
    """The facts of a stream's events, up to where it ends or is cut.

    Events are SDK objects, parsed `data`, or SSE text.
    """
    assembler: Assembler = registry.provider(target).assembler()
    if not isinstance(events, Iterable):
        raise UnreadableInput(f"a stream is an iterable of events, not {shape_of(events)}")
    for event in events:
        assembler.feed(event)
    return assembler.reading()
