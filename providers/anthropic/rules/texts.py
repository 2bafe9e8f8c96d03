"""All strings of a request, weighed in one pass: how long they are, and whether UTF-8 can hold them.

A history has tens of thousands of strings in few kinds of objects, so they are gathered column by column and weighed
by functions that run in C.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, filterfalse
from typing import TYPE_CHECKING, Any, Final

from normalizer.rules import remembered

if TYPE_CHECKING:
    from normalizer.rules import Request

# Text under these keys is no prompt: bytes, seals, and what the server may leave out.
_UNREAD: Final = frozenset({"data", "signature", "thinking", "encrypted_content", "encrypted_index"})


@dataclass(frozen=True, slots=True)
class Weight:
    """What the strings of a JSON value add up to; keys are strings too."""

    size: int
    """Bytes of UTF-8."""
    read: int
    """Characters that may be part of the prompt."""
    torn: bool
    """Whether one of them holds half of a surrogate pair."""


@remembered
def weights(request: Request) -> dict[str, Weight]:
    """The weight of each value of the request, by its key; what is not there weighs nothing and is not listed."""
    return {key: weigh(value) for key, value in request.items()}


def weigh(root: Any) -> Weight:
    """The weight of a JSON value."""
    read, unread = _strings(root)
    length = sum(map(len, read))
    wide = [_encoded(text) for text in filterfalse(str.isascii, chain(read, unread))]
    size = length + sum(map(len, unread)) + sum(extra for extra, _ in wide)
    return Weight(size, length, any(torn for _, torn in wide))


def _encoded(text: str) -> tuple[int, bool]:
    """By how much the bytes of a text outnumber its characters, and whether it is torn."""
    try:
        return len(text.encode()) - len(text), False
    except UnicodeEncodeError:
        return len(text.encode("utf-8", "surrogatepass")) - len(text), True


def _strings(root: Any) -> tuple[list[str], list[str]]:
    """The strings of a JSON value: those that may be read as prompt, and the others."""
    read: list[str] = []
    unread: list[str] = []
    pending: list[tuple[Any, list[Any]]] = [("", [root])]  # a key, and the values that stand under it
    while pending:
        key, values = pending.pop()
        texts = unread if key in _UNREAD else read
        if set(map(type, values)) == {str}:
            texts.extend(values)
            continue
        alike: dict[tuple[Any, ...], list[dict[Any, Any]]] = {}
        inside: list[Any] = []
        for value in values:
            if isinstance(value, str):
                texts.append(value)
            elif isinstance(value, dict):
                alike.setdefault(tuple(value), []).append(value)
            elif isinstance(value, list):
                inside.extend(value)
        if inside:
            pending.append((key, inside))
        for names, objects in alike.items():
            read.extend([*map(str, names)] * len(objects))
            pending.extend((name, [one[name] for one in objects]) for name in names)
    return read, unread
