"""Values from outside, made fit to be read: plain JSON of our own, without what no API takes.

Lone surrogates and NUL are read as U+FFFD, numbers that JSON does not have as their names; of a key that stands twice
the last value counts. What it was is kept as a leftover. SDK objects become the JSON that they stand for, without the
fields that nobody set.
"""

from __future__ import annotations

import base64
import json
import marshal
import re
from math import isfinite
from typing import Any, Final, TypeAlias

from normalizer.errors import UnreadableInput
from normalizer.findings import Finding, Leftover
from normalizer.rules import pointer
from normalizer.util.text import excerpt, json_text, readable

# NUL, half a surrogate pair, and a colon, by which keys are counted
_ODD_ESCAPES: Final = re.compile(rb"\\u(?:0000|003[aA]|[dD][89a-fA-F])")
# in the bytes of marshal; the worst that a chance hit can do is a slower way
_SURROGATES: Final = re.compile(rb"\xed[\xa0-\xbf]")
_DEEPEST: Final = 500


class Cleaned:
    """A value that is ours, and what had to be replaced in it.

    `given` is the caller's own value that it is a plain copy of: what is no JSON may look otherwise in the copy.
    """

    __slots__ = ("findings", "given", "leftovers", "value")

    def __init__(self, value: Any, given: Any = None) -> None:
        self.value = value
        self.given = given
        self.findings: list[Finding] = []
        self.leftovers: list[Leftover] = []


def from_text(data: bytes) -> Cleaned:
    """Parse a JSON text. Raises ValueError where it is none, UnreadableInput where it is nested too deeply."""
    from pydantic_core import from_json  # noqa: PLC0415 - loaded with the first text, not with the library

    if data[:3] == b"\xef\xbb\xbf":
        data = data[3:]
    if b"\0" not in data and _ODD_ESCAPES.search(data) is None:
        try:
            value = from_json(data, allow_inf_nan=False)
        except ValueError:
            pass  # the other parser knows more texts, and says better what is wrong
        else:
            if faithful(data, value):
                return Cleaned(value)
    try:
        return clean(json.loads(data.decode("utf-8", "surrogateescape"), object_pairs_hook=_object_of))
    except RecursionError:
        raise too_deep() from None


def faithful(data: bytes, value: Any) -> bool:
    """Whether what was parsed is all that a JSON text says: no object of it gives a key twice.

    Each pair has a colon, and each string keeps those that are in it, so that a pair that got lost is missed in what
    was read of it. (The text has no colon that is written as an escape.) Looking at each object costs twice as much.
    """
    from pydantic_core import to_json  # noqa: PLC0415 - as above

    return data.count(b":") == to_json(value).count(b":")


def repeats(text: str, value: Any) -> bool:
    """Whether a JSON text, parsed to this value, gives a key of an object twice: the value lacks the earlier one."""
    data = text.encode("utf-8", "surrogatepass")
    if _ODD_ESCAPES.search(data) is None and faithful(data, value):
        return False
    found: list[dict[str, Any]] = []

    def look(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = _object_of(pairs)
        if isinstance(made, _Repeating):
            found.append(made)
        return made

    json.loads(text, object_pairs_hook=look)
    return bool(found)


class _Repeating(dict[str, Any]):
    """An object whose text gives a key more than once: the last value counts, `earlier` are the others."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        last = {key: number for number, (key, _) in enumerate(pairs)}
        self.earlier = [(key, value) for number, (key, value) in enumerate(pairs) if last[key] != number]


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of a JSON text, `_Repeating` where a key stands in it twice."""
    made = dict(pairs)
    return made if len(made) == len(pairs) else _Repeating(pairs)


_PLAIN: Final = frozenset({bool, type(None)})
LARGEST: Final = 10**4300
"""The first number with more digits than this language turns into text; no API accepts any near it."""


class Unclean(Exception):
    """A reader met what has to be replaced: the value must go through `clean` first."""


def look(value: Any) -> None:
    """Raise Unclean if there is a NUL anywhere in the value, or something that is no JSON (a tuple, bytes, NaN).

    Surrogates are found when the value is taken over.
    """
    kind = type(value)
    if kind is str:
        if "\0" in value:
            raise Unclean
    elif kind is dict:
        for key, item in value.items():
            if type(key) is not str or "\0" in key:
                raise Unclean
            look(item)
    elif kind is list:
        for item in value:
            look(item)
    elif kind is int:
        if not -LARGEST < value < LARGEST:
            raise Unclean
    elif kind is float:
        if not isfinite(value):
            raise Unclean
    elif kind not in _PLAIN:
        raise Unclean


def from_value(value: Any) -> Cleaned:
    """Take over a parsed value, with SDK objects anywhere in it; the caller's own objects are copied.

    A NUL may be left in it: readers look for it where they see each string anyway, and raise `Unclean`.
    """
    try:
        return Cleaned(own(value), value)
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


def from_event(event: Any) -> Cleaned:
    """Take over one event of a stream, with everything bad in it replaced."""
    cleaned = from_value(event)
    try:
        look(cleaned.value)
    except Unclean:
        return clean(cleaned)
    return cleaned


def clean(value: Any) -> Cleaned:
    """The value as plain JSON, with everything bad in it replaced, and what it was.

    SDK objects, dataclasses and mappings become the JSON that they stand for. What was found in a value that was
    cleaned before stays found.
    """
    result = Cleaned(None)
    if isinstance(value, Cleaned):
        result.findings, result.leftovers = value.findings, value.leftovers
        value = value.value if value.given is None else value.given
    try:
        result.value = _taken(value, (), result)
    except RecursionError:
        raise too_deep() from None
    return result


_Path: TypeAlias = "tuple[str | int, ...]"


def _taken(value: Any, path: _Path, result: Cleaned) -> Any:
    if len(path) > _DEEPEST:
        raise too_deep()
    if isinstance(value, str):
        return _text(str.__str__(value), path, result)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return _whole_number(int(value), path)
    if isinstance(value, float):
        return _number(float(value), path, result)
    if isinstance(value, dict):
        return _object(value, path, result)
    if isinstance(value, (list, tuple)):
        return [_taken(item, (*path, n), result) for n, item in enumerate(value)]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"$b64": base64.b64encode(bytes(value)).decode("ascii")}
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return _taken(dump(mode="python", by_alias=True, exclude_unset=True), path, result)
    if hasattr(value, "keys") and hasattr(value, "__getitem__"):
        return _object({key: value[key] for key in value.keys()}, path, result)  # noqa: SIM118
    if hasattr(value, "__iter__"):
        return [_taken(item, (*path, n), result) for n, item in enumerate(value)]
    raise UnreadableInput(
        f"an object of type {type(value).__name__!r} is no JSON{_at(path)}; pass parsed JSON or SDK objects",
        pointer=_pointer(path),
    )


def _object(value: dict[Any, Any], path: _Path, result: Cleaned) -> dict[str, Any]:
    """An object with names for keys. Of two values under one name the later counts, as everywhere."""
    for key, lost in value.earlier if isinstance(value, _Repeating) else ():
        _note_repeated(key, lost, path, result)
    made: dict[str, Any] = {}
    for given, item in value.items():
        named = _name(given, path)
        key = _text(named, path, result)
        if not path and isinstance(item, float) and not isfinite(item):
            _note_number(item, (key,), result, "left out")  # a setting: any other value would be made up
            continue
        if key in made:
            _note_repeated(key, made[key], path, result)
        made[key] = _taken(item, (*path, key), result)
    return made


# What JSON writers make of a key that is no text; any other is refused.
_NAMES: Final[dict[Any, str]] = {None: "null", True: "true", False: "false"}


def _name(key: Any, path: _Path) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    if key is None or isinstance(key, bool):
        return _NAMES[key]
    if isinstance(key, int | float) and (isinstance(key, float) or -LARGEST < key < LARGEST):
        return repr(key)
    raise UnreadableInput(
        f"a key of type {type(key).__name__!r} is no JSON{_at(path)}; the keys of an object are texts",
        pointer=_pointer(path),
    )


def _whole_number(value: int, path: _Path) -> int:
    if -LARGEST < value < LARGEST:
        return value
    raise UnreadableInput(
        f"a number in the input has more digits than can be read{_at(path)}; no API accepts it",
        pointer=_pointer(path),
    )


def _number(value: float, path: _Path, result: Cleaned) -> float | str:
    if isfinite(value):
        return value
    _note_number(value, path, result, "read as its name, a text")
    return json.dumps(value)


def _note_number(value: float, path: _Path, result: Cleaned, what: str) -> None:
    place = _pointer(path)
    name = json.dumps(value)
    result.findings.append(Finding("bad_line", f"{name} is no number of JSON; it is {what}", pointer=place))
    result.leftovers.append(Leftover("a number that JSON does not have", name, pointer=place))


def _note_repeated(key: str, lost: Any, path: _Path, result: Cleaned) -> None:
    place = _pointer((*path, key))
    message = f"the key {excerpt(key, 40)!r} stands twice in one object; the last value counts"
    result.findings.append(Finding("bad_line", message, pointer=place))
    result.leftovers.append(
        Leftover("an earlier value of a key that stands twice", json_text(lost), pointer=place)
    )


def _text(text: str, path: _Path, result: Cleaned) -> str:
    read = readable(text)
    if read == text:
        return text
    place = _pointer(path)
    result.findings.append(
        Finding("bad_unicode", "half a surrogate pair or NUL; it is read as U+FFFD", pointer=place, facts=())
    )
    result.leftovers.append(
        Leftover("the text as it was, with bad characters", json.dumps(text), pointer=place)
    )
    return read


def _pointer(path: _Path) -> str:
    return pointer(*(readable(step) if isinstance(step, str) else step for step in path))


def _at(path: _Path) -> str:
    return f" (at {excerpt(_pointer(path), 120)})" if path else ""


def too_deep() -> UnreadableInput:
    """That a value is nested deeper than this language recurses."""
    return UnreadableInput("the JSON is nested too deeply to be a history", reason="too_deep")
