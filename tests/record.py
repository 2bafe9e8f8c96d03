"""What the facts hold, as the laws compare it with a request: texts, raw blocks, and which words are nobody's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from views import strings

from normalizer.notices import read_back
from normalizer.parts import Json

if TYPE_CHECKING:
    from normalizer.facts import Fact

OURS: Final = ("[left out here:", "[from the result of call", "[cut here:", "[tool outcome:")
"""How words of ours begin, which are no words of anybody's."""


def recorded_strings(told: Iterable[Fact]) -> set[str]:
    """Every text that a fact records, also inside of JSON, and every JSON text."""
    found: set[str] = set()
    for fact in told:
        if fact.kind == "request_sent":
            continue
        for value in _values(fact):
            found.update(texts_in(value))
    return {text for text in found if text.strip()}


def _values(value: Any) -> Iterator[Any]:
    for name in getattr(type(value), "__dataclass_fields__", ()):
        held = getattr(value, name)
        if isinstance(held, tuple):
            for item in held:
                yield from [item] if isinstance(item, str) else _values(item)
        elif isinstance(held, str | Json):
            yield held


def texts_in(value: Any) -> Iterator[str]:
    """A text or JSON, and every text in it, also where JSON stands in JSON as a text."""
    if isinstance(value, str):
        yield value
        value = Json(value) if value[:1] in "{[" else value
    if isinstance(value, Json):
        yield value.text
        if value.valid:
            for text in strings(value.value):
                yield from [text] if text == value.text else texts_in(text)


def invented(text: str, recorded: set[str]) -> str:
    """What of a text is neither recorded nor of ours; empty if nothing is."""
    if text in recorded or not text.strip() or text.startswith(OURS) or read_back(text, None) is not None:
        return ""
    left = text
    for known in sorted(recorded, key=len, reverse=True):
        if known in left:
            left = left.replace(known, "\0")
        elif (bare := known.strip()) and bare == left.strip("\0 \n"):
            left = ""
    left = left.replace("\0", "").strip()
    return "" if not left or left.startswith("[") else left


def same_but_for_marks(sent: Any, raw: Any) -> bool:
    """Whether a block is a recorded one: keys may be left out, what is there is equal, cache marks do not count."""
    if isinstance(sent, Mapping) and isinstance(raw, Mapping):
        return all(
            key == "cache_control" or (key in raw and same_but_for_marks(value, raw[key]))
            for key, value in sent.items()
        )
    if isinstance(sent, list) and isinstance(raw, list):
        return len(sent) == len(raw) and all(map(same_but_for_marks, sent, raw))
    return json.dumps(sent) == json.dumps(raw)
