"""Ids that stay the same: keys of calls by occurrence, and ids mapped into the alphabet of an API.

Nothing here depends on time, chance or what came before in the process.
"""

from __future__ import annotations

import hashlib
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Container, Mapping


def next_key(wire_id: str, taken: Callable[[str], bool], repeats: dict[str, int]) -> str:
    """The key of a further call with the id `wire_id`: `id#2`, `id#3`, ... `repeats` remembers the last number."""
    count = repeats.get(wire_id, 1) + 1
    while taken(key := f"{wire_id}#{count}"):
        count += 1
    repeats[wire_id] = count
    return key


def mapped(wire_id: str, pattern: re.Pattern[str], taken: Container[str], *, limit: int = 64) -> str:
    """An id that `pattern` accepts and nobody has: the id itself if possible, else `id_2`, ..., else a hash.

    The same id and the same earlier ids give the same answer.
    """
    fits = pattern.fullmatch(wire_id) is not None
    if fits and wire_id not in taken:
        return wire_id
    if fits:
        for number in range(2, 10_000):
            candidate = f"{wire_id}_{number}"
            if (
                len(candidate) <= max(limit, len(wire_id) + 6)
                and candidate not in taken
                and pattern.fullmatch(candidate)
            ):
                return candidate
    return hashed("call_", wire_id, taken)


def hashed(prefix: str, wire_id: str, taken: Container[str], length: int = 24) -> str:
    """`prefix` and hexadecimal digits of a hash of the id; the next hash where that is taken."""
    number = 0
    while True:
        text = f"{wire_id}\0{number}".encode("utf-8", "surrogatepass")
        candidate = prefix + hashlib.sha256(text).hexdigest()[:length]
        if candidate not in taken:
            return candidate
        number += 1


def plain_name(name: str, taken: Container[str]) -> str:
    """A tool's name in the letters that every API takes; its hash keeps it from being another tool's."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in name)[:40]
    return hashed(f"{plain}_", name, taken, 8)


def newest(keyed: Mapping[str, object], seen: int) -> list[str]:
    """The keys behind the first `seen`, in their order, at the cost of those keys alone."""
    backwards = reversed(keyed) if isinstance(keyed, dict) else reversed(list(keyed))
    return list(islice(backwards, max(len(keyed) - seen, 0)))[::-1]
