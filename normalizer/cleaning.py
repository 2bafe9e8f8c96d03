"""Values from outside, made fit to be read: plain JSON of our own, without what no API takes.

Lone surrogates and NUL are read as U+FFFD; the string as it was is kept as a leftover. SDK objects become
the JSON that they stand for, without the fields that nobody set.
"""

from __future__ import annotations

import base64
import json
import marshal
import re
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import from_json

from normalizer.errors import UnreadableInput
from normalizer.reading import Finding, Leftover
from normalizer.rules import pointer
from normalizer.text import readable

if TYPE_CHECKING:
    from collections.abc import Mapping

_BAD_ESCAPES: Final = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
# in the bytes of marshal; the worst that a chance hit can do is a slower way
_SURROGATES: Final = re.compile(rb"\xed[\xa0-\xbf]")
_DEEPEST: Final = 500


class Cleaned:
    """A value that is ours, and what had to be replaced in it."""

    __slots__ = ("findings", "leftovers", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.findings: list[Finding] = []
        self.leftovers: list[Leftover] = []


def from_text(data: bytes) -> Cleaned:
    """Parse a JSON text. Raises ValueError where it is none, UnreadableInput where it is nested too deeply."""
    if data[:3] == b"\xef\xbb\xbf":
        data = data[3:]
    if b"\0" not in data and _BAD_ESCAPES.search(data) is None:
        try:
            return Cleaned(from_json(data))
        except ValueError:
            pass  # the other parser knows more texts, and says better what is wrong
    try:
        return clean(json.loads(data.decode("utf-8", "surrogateescape")))
    except RecursionError:
        raise _too_deep() from None


_PLAIN: Final = frozenset({int, float, bool, type(None)})


class Unclean(Exception):
    """A reader met a character that has to be replaced: the value must go through `clean` first."""


def look(value: Any) -> None:
    """Raise Unclean if there is a NUL anywhere in the value, or something that is no JSON (a tuple, bytes).

    Surrogates are found when the value is taken over.
    """
    kind = type(value)
    if kind is str:
        if "\0" in value:
            raise Unclean
    elif kind is dict:
        for key, item in value.items():
            if "\0" in key:
                raise Unclean
            look(item)
    elif kind is list:
        for item in value:
            look(item)
    elif kind not in _PLAIN:
        raise Unclean


def from_value(value: Any) -> Cleaned:
    """Take over a parsed value, with SDK objects anywhere in it; the caller's own objects are copied.

    A NUL may be left in it: readers look for it where they see each string anyway, and raise `Unclean`.
    """
    try:
        return Cleaned(own(value))
    except Unclean:
        return clean(value)


def own(value: Any) -> Any:
    """A copy of a plain JSON value that is the caller's. Raises Unclean for what has to go through `clean`.

    A NUL may be left in it, as in `from_value`.
    """
    try:
        copied = marshal.dumps(value)
    except ValueError:
        raise Unclean from None
    if b"\xed" in copied and _SURROGATES.search(copied) is not None:
        raise Unclean
    return marshal.loads(copied)  # noqa: S302 - our own bytes of a few lines before


def sound(text: str) -> str:
    """The text, if every API takes it. Raises Unclean where it has a NUL or half a surrogate pair."""
    if "\0" in text:
        raise Unclean
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Unclean from None
    return text


def clean(value: Any) -> Cleaned:
    """The value as plain JSON, with every bad character replaced, and what it was."""
    result = Cleaned(None)
    try:
        result.value = _walk(_plain(value, 0), (), result)
    except RecursionError:
        raise _too_deep() from None
    return result


def _walk(value: Any, path: tuple[str | int, ...], result: Cleaned) -> Any:
    if isinstance(value, str):
        return _text(value, path, result)
    if isinstance(value, list):
        return [_walk(item, (*path, n), result) for n, item in enumerate(value)]
    if isinstance(value, dict):
        return {_text(k, path, result): _walk(item, (*path, k), result) for k, item in value.items()}
    return value


def _text(text: str, path: tuple[str | int, ...], result: Cleaned) -> str:
    read = readable(text)
    if read == text:
        return text
    place = pointer(*(readable(step) if isinstance(step, str) else step for step in path))
    result.findings.append(
        Finding("bad_unicode", "half a surrogate pair or NUL; it is read as U+FFFD", pointer=place, facts=())
    )
    result.leftovers.append(
        Leftover("the text as it was, with bad characters", json.dumps(text), pointer=place)
    )
    return read


def _plain(value: Any, depth: int) -> Any:
    """Parsed JSON for whatever SDK object, dataclass or mapping this is."""
    if depth > _DEEPEST:
        raise _too_deep()
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, (bytes, bytearray)):
        return {"$b64": base64.b64encode(bytes(value)).decode("ascii")}
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return _plain(dump(mode="python", by_alias=True, exclude_unset=True), depth + 1)
    if hasattr(value, "keys") and hasattr(value, "__getitem__"):
        mapping: Mapping[str, Any] = value
        return {str(key): _plain(mapping[key], depth + 1) for key in mapping.keys()}  # noqa: SIM118
    if hasattr(value, "__iter__"):
        return [_plain(item, depth + 1) for item in value]
    raise UnreadableInput(
        f"an object of type {type(value).__name__!r} is no JSON; pass parsed JSON or SDK objects"
    )


def _too_deep() -> UnreadableInput:
    return UnreadableInput("the JSON is nested too deeply to be a history", reason="too_deep")
