"""Strings of strangers, made fit to be shown: no control codes, no half characters, no secrets, not too long."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from normalizer.util.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

_UNREADABLE: Final = re.compile("[\ud800-\udfff\x00]")
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
# C0 and C1 controls, and the marks that reorder or hide text in a terminal.
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_SPACE: Final = re.compile(r"\s+")


def escaped(text: str) -> str:
    """The text as valid Unicode: half a surrogate pair becomes its escape, six visible characters."""
    return text if text.isascii() else _SURROGATES.sub(_escape, text)


def readable(text: str) -> str:
    """The text as every API takes it: half a surrogate pair and NUL become U+FFFD."""
    return _UNREADABLE.sub("\ufffd", text)


def visible(text: str) -> str:
    """The text without anything that a terminal would obey."""
    return escaped(_CONTROLS.sub(_escape, text))


def excerpt(text: str, limit: int = 80) -> str:
    """The beginning of a text on one line, redacted."""
    # Redacted before it is cut, with room, so that no secret is cut in half and slips through.
    line = _SPACE.sub(" ", visible(redact(text[: limit + 4096]))).strip()
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def json_text(value: Any) -> str:
    """A value as JSON text that every reader takes.

    What JSON cannot hold is made visible in its place: half surrogate pairs, NaN and infinities (told by name), and
    values of other kinds. The work is done on the text, which may be nested deeper than this language likes to recurse.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError):
        text = json.dumps(value, ensure_ascii=False, default=repr)
        text = _SURROGATES.sub(lambda found: "\\" + _escape(found), text)
        text = json.dumps(json.loads(text, parse_constant=str), ensure_ascii=False)
    return text


def jsonable(value: Any) -> Any:
    """The value itself where JSON can hold it, else a copy with its faults made visible, as `json_text` does."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError):
        return json.loads(json_text(value))
    return value


def shape_of(value: Any) -> str:
    """What a value looks like, for a message: `an object with 'a'`, `a list of 2 items, the first a dict`, `a str`."""
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


def words_under(keys: Container[str], value: Any, key: str = "") -> Iterator[str]:
    """The strings that say something under one of these keys, anywhere in a JSON value (which stands under `key`)."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from words_under(keys, item, name)
    elif isinstance(value, list):
        for item in value:
            yield from words_under(keys, item, key)
    elif isinstance(value, str) and key in keys and value.strip():
        yield value


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
