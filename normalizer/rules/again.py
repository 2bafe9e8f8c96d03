"""Judging a request that is much like one that was judged before: only what differs is looked at again.

Of each rule it is taken down which keys of the request it reads. Where none of them changed, its violations stay.
Where the history alone changed, a rule with a reach looks at the messages that changed, and at their neighbours if it
has to; every other rule looks at the whole request. The outcome is that of judging all of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from normalizer.rules import Watched, in_sight
from normalizer.util.collector import collector_paused

if TYPE_CHECKING:
    from collections.abc import Iterable

    from normalizer.rules import Context, Request, Rule, Rulebook, Violation

    _Found: TypeAlias = tuple[tuple[Violation, ...], frozenset[str | None]]
    """What a rule found, and which keys of the request it read for that."""

_ABSENT: Final = object()
_JUDGED: Final = {"step": 0, "neighbours": 2}
_SHOWN: Final = {"step": 0, "neighbours": 4}
"""So many turns on each side of a change are judged anew, and so many are shown to the rule that judges them."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What each rule of a rulebook found in a request."""

    rulebook: Rulebook
    request: Request
    context: Context
    found: tuple[_Found, ...]

    @property
    def violations(self) -> tuple[Violation, ...]:
        """All violations, rule by rule, as `judge` finds them."""
        return tuple(violation for violations, _ in self.found for violation in violations)

    @collector_paused
    def again(self, request: Request) -> Judgement:
        """The judgement on another request, by the same rules and in the same context."""
        look = _Look(self, request)
        with in_sight(look.watched):
            pairs = zip(self.rulebook, self.found, strict=True)
            found = tuple(look.at(rule, earlier) for rule, earlier in pairs)
        return replace(self, request=request, found=found)


@collector_paused
def judgement(rulebook: Rulebook, request: Request, context: Context) -> Judgement:
    """The judgement on a request that is like no other."""
    watched = Watched(request)
    with in_sight(watched):
        found = tuple(_whole(rule, watched, context) for rule in rulebook)
    return Judgement(rulebook, request, context, found)


def _whole(rule: Rule, request: Watched, context: Context) -> _Found:
    request.read = set()
    found = tuple(rule.violations(request, context))
    return found, frozenset(request.read)


def _changed(before: Request, after: Request) -> frozenset[str | None]:
    """The keys whose values differ; None, for all of them, too if their order does."""
    keys = {key for key in {**before, **after} if not same(before.get(key, _ABSENT), after.get(key, _ABSENT))}
    return frozenset(keys) if list(before) == list(after) else frozenset({*keys, None})


def same(one: Any, other: Any) -> bool:
    """Whether no rule can tell two JSON values apart: 1, 1.0 and true differ, and so does another order of keys."""
    return one is other or (bool(one == other) and _alike(one, other))


def _alike(one: Any, other: Any) -> bool:
    """Whether two equal values have the same types and orders, too."""
    if isinstance(one, str):
        return True
    if isinstance(one, dict):
        return list(one) == list(other) and all(map(_alike, one.values(), other.values()))
    if isinstance(one, list):
        return all(map(_alike, one, other))
    return type(one) is type(other)


class _Look:
    """A second look: at a request, by the rules that judged another one before."""

    def __init__(self, before: Judgement, request: Request) -> None:
        self.before = before
        self.watched = Watched(request)
        self.changed = _changed(before.request, request)
        self.histories: dict[str, _History | None] = {}

    def at(self, rule: Rule, earlier: _Found) -> _Found:
        """What the rule finds now."""
        everything = None in earlier[1]
        touched = self.changed if everything else self.changed & earlier[1]
        if not touched:
            return earlier
        found: _Found | None = None
        if rule.reach is not None and touched == {rule.reach.history} and not everything:
            history = self._history(rule.reach.history)
            if history is not None:
                found = history.judge(rule, rule.reach.span, earlier, self.before.context)
        return found or _whole(rule, self.watched, self.before.context)

    def _history(self, key: str) -> _History | None:
        if key not in self.histories:
            old, new = self.before.request.get(key), dict.get(self.watched, key)
            both = isinstance(old, list) and isinstance(new, list)
            self.histories[key] = (
                _History(key, old, dict(self.watched)) if both and isinstance(old, list) else None
            )
        return self.histories[key]


class _History:
    """Two histories: equal in front of `first`, and from `end` of the new one, which is longer by `moved`, on."""

    def __init__(self, key: str, old: list[Any], after: Request) -> None:
        self.key, self.after = key, after
        self.new: list[Any] = after[key]
        self.moved = len(self.new) - len(old)
        self.first = _equal(zip(old, self.new, strict=False))
        rest = zip(reversed(old[self.first :]), reversed(self.new[self.first :]), strict=False)
        self.end = len(self.new) - _equal(rest)
        self.shown: dict[str, tuple[int, Watched]] = {}

    def judge(self, rule: Rule, span: str, earlier: _Found, context: Context) -> _Found | None:
        """What a rule finds by looking at what changed; None where it has to look at the whole."""
        start, end = self._around(_JUDGED[span])
        offset, piece = self._piece(span)
        with in_sight(piece):
            found, read = _whole(rule, piece, context)
        old = [self._place(violation) for violation in earlier[0]]
        new = [self._place(violation) for violation in found]
        if -1 in old or -1 in new:
            return None
        kept = [violation for place, violation in zip(old, earlier[0], strict=True) if place < start]
        kept += [
            self._further(violation, offset)
            for place, violation in zip(new, found, strict=True)
            if start <= place + offset < end
        ]
        kept += [
            self._further(violation, self.moved)
            for place, violation in zip(old, earlier[0], strict=True)
            if place + self.moved >= end
        ]
        return tuple(kept), earlier[1] | read

    def _piece(self, span: str) -> tuple[int, Watched]:
        """The request with the part of its history that rules of this span have to see, and where that begins."""
        if span not in self.shown:
            start, end = self._around(_SHOWN[span])
            self.shown[span] = (start, Watched({**self.after, self.key: self.new[start:end]}))
        return self.shown[span]

    def _around(self, turns: int) -> tuple[int, int]:
        """The borders in the new history of what changed, with so many turns on both sides."""
        start, end = self.first, self.end
        for _ in range(turns):
            start -= 1
            while start > 0 and _joined(self.new, start):
                start -= 1
            end += 1
            while end < len(self.new) and _joined(self.new, end):
                end += 1
        return max(start, 0), min(end, len(self.new))

    def _place(self, violation: Violation) -> int:
        """The number of the message that a violation points to, -1 if it points elsewhere."""
        _, key, number, *_ = *violation.pointer.split("/"), "", "", ""
        return int(number) if key == self.key and number.isdigit() else -1

    def _further(self, violation: Violation, by: int) -> Violation:
        """The violation so many messages further on."""
        _, _, number, *rest = violation.pointer.split("/")
        return replace(violation, pointer="/".join(("", self.key, str(int(number) + by), *rest)))


def _equal(pairs: Iterable[tuple[Any, Any]]) -> int:
    """How many pairs in front are of values that are the same."""
    return sum(1 for _ in takewhile(lambda pair: same(*pair), pairs))


def _joined(history: list[Any], at: int) -> bool:
    """Whether the message at this place and the one before it have the same role, and so are one turn."""
    before, this = history[at - 1], history[at]
    if not isinstance(before, dict) or not isinstance(this, dict):
        return False
    return isinstance(this.get("role"), str) and this["role"] == before.get("role")
