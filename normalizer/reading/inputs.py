"""One input -> its facts, in one pass:

load           a path, a text or bytes -> bytes
file_reader    bytes -> the reader of a file format, which takes them as they are; for any other
parsed         bytes -> JSON, cleaned; JSON that the caller has parsed is taken over in its place (`from_value`)
read_json      JSON -> the API whose history it is -> facts
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from normalizer.errors import UnreadableInput
from normalizer.reading import sanitizing
from normalizer.reading.file_formats import file_reader
from normalizer.reading.json_formats import borrowed, read_json
from normalizer.reading.json_input import parsed
from normalizer.util.text import shape_of

if TYPE_CHECKING:
    from normalizer.findings import Reading
    from normalizer.provider import Assembler, Origin
    from normalizer.reading.readers import Readers

Source: TypeAlias = "Path | str | bytes | bytearray | Mapping[str, Any] | Sequence[Any]"
"""A path, a text (a path unless it begins with `{` or `[`), bytes, or parsed JSON with SDK objects anywhere in it."""


def read(source: Source, *, name: str, origin: Origin, to: str | None, readers: Readers) -> Reading:
    """The facts of an input, what was wrong with it, and everything that became no fact.

    `name` is the format, or `auto`. An input that fits several APIs alike is read as that of `to`, else as Chat
    Completions. Raises UnreadableInput (`no_messages` where there is nothing in it) and UnknownFormat.
    """
    if isinstance(source, (Path, str, bytes, bytearray)):
        data = load(source)
        of_file = file_reader(data, name, readers)
        if of_file is not None:
            return _with_model(of_file(data, origin), origin)
        cleaned = parsed(data)
    else:
        usual = borrowed(source, name, origin, readers)
        if usual is not None:
            return _with_model(usual, origin)
        cleaned = sanitizing.from_value(source)
    return _with_model(read_json(cleaned, name, origin, to, readers), origin)


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


def _with_model(reading: Reading, origin: Origin) -> Reading:
    """The reading, with the model that the host names in those replies that name none."""
    model = origin.get("model")
    if not model:
        return reading
    facts = tuple(
        replace(fact, model=model)
        if fact.kind in ("model_replied", "reply_cut") and fact.model is None
        else fact
        for fact in reading.facts
    )
    return replace(reading, facts=facts)
