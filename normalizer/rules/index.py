"""The objects of a request, sorted once, so that each rule asks for those that it is about.

An API says what its objects are (messages, items, blocks, parts) and of what sort each is; their keys are taken down
with them. A rule about objects of one sort, or about those with a certain key, looks at no others, and one about
what does not occur costs nothing.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Object: TypeAlias = dict[str, Any]
Placed: TypeAlias = tuple[str, Object]
"""An object of the request and its JSON pointer, as `("/input/3", {"type": "message", …})`."""

Sort = TypeVar("Sort", bound=tuple[str, ...])
"""What an object is, by the words of its API: a named tuple, as `Sort(role="user", form="text")`."""


class Index(Generic[Sort]):
    """Placed objects by their sort and their keys. Every answer is in document order.

    `entries` are all of them; the number of an entry is its place there. Objects with the same sort and the same keys
    in the same order form one group, and a question is put to the groups: a history has few. `objects` come with
    plain tuples, of which `make` makes the sorts of the groups: named tuples are slow to build.
    """

    __slots__ = ("_groups", "entries")

    def __init__(
        self, make: Callable[[Any], Sort], objects: Iterable[tuple[tuple[str, ...], Placed]]
    ) -> None:
        self.entries: list[Placed] = []
        groups: dict[tuple[tuple[str, ...], tuple[str, ...]], list[int]] = {}
        keep = self.entries.append
        for number, (sort, placed) in enumerate(objects):
            keep(placed)
            group = (sort, tuple(placed[1]))
            if group in groups:
                groups[group].append(number)
            else:
                groups[group] = [number]
        self._groups = [(make(sort), keys, row) for (sort, keys), row in groups.items()]

    def numbers(self, fits: Callable[[Sort, tuple[str, ...]], bool]) -> list[int]:
        """The numbers of the entries whose sort and keys fit."""
        rows = [row for sort, keys, row in self._groups if fits(sort, keys)]
        return rows[0] if len(rows) == 1 else sorted(chain.from_iterable(rows))

    def where(self, fits: Callable[[Sort, tuple[str, ...]], bool]) -> list[Placed]:
        """The entries whose sort and keys fit."""
        entries = self.entries
        return [entries[number] for number in self.numbers(fits)]

    def sorted_where(self, fits: Callable[[Sort, tuple[str, ...]], bool]) -> list[tuple[Sort, Placed]]:
        """The entries whose sort and keys fit, each with its sort."""
        sorts = {number: sort for sort, keys, row in self._groups if fits(sort, keys) for number in row}
        return [(sorts[number], self.entries[number]) for number in sorted(sorts)]

    def having(self, *keys: str) -> list[Placed]:
        """The entries with any of these keys."""
        wanted = frozenset(keys)
        return self.where(lambda _sort, held: not wanted.isdisjoint(held))
