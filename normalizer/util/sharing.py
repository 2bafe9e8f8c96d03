"""A list and a dict that grow from one projection to the next, with their beginnings shared.

Whoever goes on from one holds the same items in the same memory: it costs what is new, not what is there. What a
holder sees never changes. Only the first that goes on shares; a second one, from the same place, gets a copy, and so
does one that comes at the same time in another thread.
"""

from __future__ import annotations

from itertools import islice
from typing import Generic, TypeVar, overload

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class Claim:
    """Who may make something longer that several hold: whoever takes the claim on its length first, and nobody else.

    Taking is one step for the interpreter. A lock could be held by another thread when a process forks, and then for
    good in its child; a claim that was taken and never given back only costs a copy.
    """

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: list[int] = []

    def give(self, length: int) -> None:
        """Let somebody go on from this length."""
        self._open[:] = [length]

    def take(self, length: int) -> bool:
        """Whether the caller is the one to go on from this length."""
        try:
            self._open.remove(length)
        except ValueError:
            return False
        return True


class SharedList(Generic[T]):
    """The first `settled` items of a list that others may have made longer since, and items of its `own`.

    It grows by its `own` items, which are a plain list since most of the time of a long history goes there.
    """

    __slots__ = ("_claim", "_shared", "own", "settled")

    def __init__(self) -> None:
        self._shared: list[T] = []
        self._claim = Claim()
        self.settled = 0
        self.own: list[T] = []

    def __len__(self) -> int:
        return self.settled + len(self.own)

    @overload
    def __getitem__(self, at: int) -> T: ...

    @overload
    def __getitem__(self, at: slice) -> list[T]: ...

    def __getitem__(self, at: int | slice) -> T | list[T]:
        settled = self.settled
        if isinstance(at, slice):
            start, stop, step = at.indices(len(self))
            items = self._shared[start : min(stop, settled)] if start < settled else []
            items += self.own[max(start - settled, 0) : max(stop - settled, 0)]
            return items[::step]
        if at < 0:
            at += len(self)
        if at < 0:
            raise IndexError(at)
        return self._shared[at] if at < settled else self.own[at - settled]

    def beginning(self, count: int) -> SharedList[T]:
        """A list that begins with the first `count` items of this one, to go on with."""
        new: SharedList[T] = SharedList()
        more = count - self.settled
        new._shared, new._claim, new.settled = self._shared, self._claim, count
        if more > 0:
            if not self._claim.take(self.settled):  # somebody else went on from here
                new._shared, new._claim = self._shared[: self.settled], Claim()
            new._shared.extend(self.own[:more])
            new.settled = len(new._shared)
            new._claim.give(new.settled)
        return new

    def listed(self) -> list[T]:
        """All items, as a list of the caller's own."""
        found = self._shared[: self.settled]
        found += self.own
        return found


class SharedDict(Generic[K, V]):
    """The first `size` items of a dict to which others may have added since."""

    __slots__ = ("_claim", "_shared", "_size")

    def __init__(self) -> None:
        self._shared: dict[K, V] = {}
        self._claim = Claim()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def lookup(self) -> dict[K, V]:
        """The dict to look things up in. Once somebody went on from here, it has that one's items, too."""
        return self._shared

    def continued(self) -> SharedDict[K, V]:
        """A dict that begins with these items, to go on with."""
        new: SharedDict[K, V] = SharedDict()
        if self._claim.take(self._size):
            new._shared, new._claim = self._shared, self._claim
        else:
            new._shared = self.made()
        new._size = self._size
        return new

    def settle(self) -> None:
        """Take what was put into `lookup` for this dict's own. Only who went on last may put anything there."""
        self._size = len(self._shared)
        self._claim.give(self._size)

    def made(self) -> dict[K, V]:
        """All items, as a dict of the caller's own."""
        found = self._shared.copy()  # in one step: somebody may be adding to it
        return found if len(found) == self._size else dict(islice(found.items(), self._size))
