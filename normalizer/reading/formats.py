"""Which reader an input is for: by the name that the caller gives, else by what it looks like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from normalizer.errors import UnknownFormat, UnreadableInput
from normalizer.reading import facts_jsonl, sanitizing
from normalizer.util.text import shape_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from normalizer.findings import Reading
    from normalizer.provider import Format, Origin, Provider

AUTO: Final = "auto"
"""The name of a format that is to be found out."""

_SNIFFED: Final = 65_536
_WHERE_IN_DOUBT: Final = "openai_chat"
_HOLDERS: Final = frozenset(  # keys of requests, messages, responses and lists of items
    {"messages", "content", "choices", "tool_calls", "input", "output", "data"}
)


class Readers(Protocol):
    """What there is to read with, by name. The registry is one."""

    def targets(self) -> tuple[str, ...]:
        """The APIs."""

    def session_formats(self) -> tuple[str, ...]:
        """The formats of session files."""

    def names(self) -> tuple[str, ...]:
        """All of them, and our own facts."""

    def provider(self, name: str) -> Provider:
        """An API by its name. Raises UnknownFormat."""

    def session_format(self, name: str) -> Format:
        """A format of session files by its name. Raises UnknownFormat with the names of everything there is."""


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


def json_reader(
    cleaned: sanitizing.Cleaned, name: str, to: str | None, readers: Readers
) -> tuple[Provider, sanitizing.Cleaned]:
    """The API whose history this JSON is, and the JSON: cleaned further where only so it looked like one.

    Raises UnreadableInput where there is nothing in it, UnknownFormat where no reader is for it.
    """
    if name != AUTO:
        found: Provider | None = _named(name, readers)
    else:
        found = _fitting(cleaned.value, to, readers)
        if found is None and cleaned.given is not None:  # the caller's own value may have tuples for lists
            cleaned = sanitizing.clean(cleaned)
            found = _fitting(cleaned.value, to, readers)
    value = cleaned.value
    if is_empty(value):
        raise UnreadableInput("there are no messages in the input", reason="no_messages")
    if found is None:
        raise UnknownFormat(
            f"this JSON ({shape_of(value)}) is no history that is known; formats: {', '.join(readers.names())}"
        )
    if not isinstance(value, (dict, list)) or (isinstance(value, dict) and _HOLDERS.isdisjoint(value)):
        raise UnknownFormat(f"this JSON ({shape_of(value)}) is no history of {found.name!r}")
    return found, cleaned


def _fitting(value: Any, to: str | None, readers: Readers) -> Provider | None:
    """The API that the JSON fits best: of those that it fits alike, the one it is meant for, else Chat Completions."""
    scores = {name: readers.provider(name).sniff(value) for name in readers.targets()}
    best = max(scores, key=lambda name: (scores[name], name == to, name == _WHERE_IN_DOUBT))
    return readers.provider(best) if scores[best] > 0 else None


def _named(name: Any, readers: Readers) -> Provider:
    """The reader of parsed JSON of this name."""
    if isinstance(name, str) and name in (*readers.session_formats(), facts_jsonl.NAME):
        raise UnknownFormat(f"{name!r} is a format of files; pass a path, or the bytes or text of one")
    if name not in readers.targets():
        readers.session_format(name)  # raises with the names there are
    return readers.provider(name)


def is_empty(value: Any) -> bool:
    """Whether there is nothing in parsed JSON: `[]`, `{}`, or a request without messages."""
    return value in ([], {}) or (
        isinstance(value, dict) and any(value.get(k) == [] for k in ("messages", "input", "contents"))
    )
