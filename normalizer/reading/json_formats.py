"""Parsed JSON -> facts: which API's history it is, by the name that the caller gives or by what it looks like, and what
that API's reader makes of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from normalizer.errors import UnknownFormat, UnreadableInput
from normalizer.reading import facts_jsonl, sanitizing
from normalizer.reading.readers import AUTO
from normalizer.util.text import shape_of

if TYPE_CHECKING:
    from normalizer.findings import Reading
    from normalizer.provider import Origin, Provider
    from normalizer.reading.readers import Readers

_CERTAIN: Final = 100
_WHERE_IN_DOUBT: Final = "openai_chat"
_HOLDERS: Final = frozenset(  # keys of requests, messages, responses and lists of items
    {"messages", "content", "choices", "tool_calls", "input", "output", "data"}
)


def read_json(
    cleaned: sanitizing.Cleaned, name: str, origin: Origin, to: str | None, readers: Readers
) -> Reading:
    """The facts of a history that was parsed and cleaned, with what was found in cleaning it.

    Raises UnreadableInput (`no_messages`) where there is nothing in it, UnknownFormat where no reader is for it.
    """
    api, cleaned = _api_of(cleaned, name, to, readers)
    reading, cleaned = _facts_of(cleaned, api, origin)
    if cleaned.findings:
        reading = replace(
            reading,
            findings=(*cleaned.findings, *reading.findings),
            leftovers=(*cleaned.leftovers, *reading.leftovers),
        )
    return reading


def borrowed(value: Any, name: str, origin: Origin, readers: Readers) -> Reading | None:
    """The reading of a usual request by a reader that copies only what it keeps, which saves a quarter of the time.

    None where there is no such reader, or where it met anything unusual.
    """
    if type(value) is not dict or _is_empty(value):
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


def _api_of(
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
    if _is_empty(value):
        raise UnreadableInput("there are no messages in the input", reason="no_messages")
    if found is None:
        raise UnknownFormat(
            f"this JSON ({shape_of(value)}) is no history that is known; formats: {', '.join(readers.names())}"
        )
    if not isinstance(value, (dict, list)) or (isinstance(value, dict) and _HOLDERS.isdisjoint(value)):
        raise UnknownFormat(f"this JSON ({shape_of(value)}) is no history of {found.name!r}")
    return found, cleaned


def _facts_of(
    cleaned: sanitizing.Cleaned, api: Provider, origin: Origin
) -> tuple[Reading, sanitizing.Cleaned]:
    """What the reader makes of the JSON, and the JSON that it read: cleaned first where it met what no API takes.

    A reader sees each string anyway, so nobody looks for the few bad ones before it does.
    """
    try:
        return api.read(cleaned.value, origin), cleaned
    except sanitizing.Unclean:
        cleaned = sanitizing.clean(cleaned)
        return api.read(cleaned.value, origin), cleaned


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


def _is_empty(value: Any) -> bool:
    """Whether there is nothing in parsed JSON: `[]`, `{}`, or a request without messages."""
    return value in ([], {}) or (
        isinstance(value, dict) and any(value.get(k) == [] for k in ("messages", "input", "contents"))
    )
