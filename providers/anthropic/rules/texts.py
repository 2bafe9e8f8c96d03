"""All strings of a request, weighed in one pass: how long they are, and whether UTF-8 can hold them.

A history has tens of thousands of strings in few kinds of objects, so they are gathered column by column and weighed
by functions that run in C.
"""

from __future__ import annotations

from collections import Counter
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
    names, read, unread = _strings(root)
    length = sum(map(len, read)) + sum(len(name) * count for name, count in names.items())
    wide = [(_encoded(text), 1) for text in filterfalse(str.isascii, chain(read, unread))]
    wide += [(_encoded(name), count) for name, count in names.items() if not name.isascii()]
    size = length + sum(map(len, unread)) + sum(extra * count for (extra, _), count in wide)
    return Weight(size, length, any(torn for (_, torn), _ in wide))


def _encoded(text: str) -> tuple[int, bool]:
    """By how much the bytes of a text outnumber its characters, and whether it is torn."""
    try:
        return len(text.encode()) - len(text), False
    except UnicodeEncodeError:
        return len(text.encode("utf-8", "surrogatepass")) - len(text), True


def _strings(root: Any) -> tuple[Counter[str], list[str], list[str]]:
    """The strings of a JSON value: its keys and how often they occur, what may be read as prompt, and the others."""
    names: Counter[str] = Counter()
    read: list[str] = []
    unread: list[str] = []
    pending: list[tuple[Any, list[Any]]] = [("", [root])]  # a key, and the values that stand under it
    while pending:
        key, values = pending.pop()
        if set(map(type, values)) == {str}:
            (unread if key in _UNREAD else read).extend(values)
            continue
        (unread if key in _UNREAD else read).extend(value for value in values if isinstance(value, str))
        if inside := [item for value in values if isinstance(value, list) for item in value]:
            pending.append((key, inside))
        alike: dict[tuple[Any, ...], list[dict[Any, Any]]] = {}
        for value in values:
            if isinstance(value, dict):
                alike.setdefault(tuple(value), []).append(value)
        for keys, objects in alike.items():
            names.update(dict.fromkeys(map(str, keys), len(objects)))
            pending.extend((name, [one[name] for one in objects]) for name in keys)
    return names, read, unread
