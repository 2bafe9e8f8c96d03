"""One input -> its facts, in one pass:

    load            a path, a text or bytes -> bytes
    file_reader     bytes -> the reader of a file format (sessions, our own facts), which takes them as they are; else
    parsed          bytes -> JSON, cleaned; parsed JSON of the caller is taken over in its place (`from_value`)
    json_reader     JSON -> the reader of an API
    _facts_of       JSON and reader -> facts

What there is to read with is handed in (`Readers`): this room does not know the formats by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from normalizer.errors import UnreadableInput
from normalizer.reading import sanitizing
from normalizer.reading.formats import AUTO, file_reader, is_empty, json_reader
from normalizer.reading.json_input import parsed
from normalizer.util.text import shape_of

if TYPE_CHECKING:
    from normalizer.findings import Reading
    from normalizer.provider import Assembler, Origin, Provider
    from normalizer.reading.formats import Readers

Source: TypeAlias = "Path | str | bytes | bytearray | Mapping[str, Any] | Sequence[Any]"
"""A path, a text (a path unless it begins with `{` or `[`), bytes, or parsed JSON with SDK objects anywhere in it."""

_CERTAIN: Final = 100


def read(source: Source, *, name: str, origin: Origin, to: str | None, readers: Readers) -> Reading:
    """The facts of an input, what was wrong with it, and everything that became no fact.

    `name` is the format, or `auto`. An input that fits several APIs alike is read as that of `to`, else as Chat
    Completions. Raises UnreadableInput (`no_messages` where there is nothing in it) and UnknownFormat.
    """
    if isinstance(source, (Path, str, bytes, bytearray)):
        reading = _read_bytes(load(source), name, origin, to, readers)
    else:
        reading = _borrowed(source, name, origin, readers) or _read_json(
            sanitizing.from_value(source), name, origin, to, readers
        )
    return _with_model(reading, origin.get("model"))


def read_events(events: Iterable[Any], assembler: Assembler) -> Reading:
    """The facts of a stream's events, up to where it ends or is cut."""
    if not isinstance(events, Iterable):
        raise UnreadableInput(f"a stream is an iterable of events, not {shape_of(events)}")
    for event in events:
        assembler.feed(event)
    return assembler.reading()


def load(source: Path | str | bytes | bytearray) -> bytes:
    """The bytes of a file, or of a text that was given as it is. Raises UnreadableInput, reason `not_found`."""
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


def _read_bytes(data: bytes, name: str, origin: Origin, to: str | None, readers: Readers) -> Reading:
    of_file = file_reader(data, name, readers)
    if of_file is not None:
        return of_file(data, origin)
    return _read_json(parsed(data), name, origin, to, readers)


def _read_json(
    cleaned: sanitizing.Cleaned, name: str, origin: Origin, to: str | None, readers: Readers
) -> Reading:
    reader, cleaned = json_reader(cleaned, name, to, readers)
    reading, cleaned = _facts_of(cleaned, reader, origin)
    if cleaned.findings:
        reading = replace(
            reading,
            findings=(*cleaned.findings, *reading.findings),
            leftovers=(*cleaned.leftovers, *reading.leftovers),
        )
    return reading


def _facts_of(
    cleaned: sanitizing.Cleaned, reader: Provider, origin: Origin
) -> tuple[Reading, sanitizing.Cleaned]:
    """What the reader makes of the JSON, and the JSON that it read: cleaned first where it met what no API takes.

    A reader sees each string anyway, so nobody looks for the few bad ones before it does.
    """
    try:
        return reader.read(cleaned.value, origin), cleaned
    except sanitizing.Unclean:
        cleaned = sanitizing.clean(cleaned)
        return reader.read(cleaned.value, origin), cleaned


def _borrowed(value: Any, name: str, origin: Origin, readers: Readers) -> Reading | None:
    """The reading of a usual request by a reader that copies only what it keeps, which saves a quarter of the time.

    None where there is no such reader, or where it met anything unusual.
    """
    if type(value) is not dict or is_empty(value):
        return None
    targets = readers.targets()
    for each in targets if name == AUTO else (name,) if name in targets else ():
        provider = readers.provider(each)
        if provider.borrow is not None and (name != AUTO or provider.sniff(value) == _CERTAIN):
            try:
                return provider.borrow(value, origin)
            except sanitizing.Unclean:
                return None
    return None


def _with_model(reading: Reading, model: str | None) -> Reading:
    """The reading, with the host's word for the model of those replies that do not say it."""
    if not model:
        return reading
    facts = tuple(
        replace(fact, model=model)
        if fact.kind in ("model_replied", "reply_cut") and fact.model is None
        else fact
        for fact in reading.facts
    )
    return replace(reading, facts=facts)
