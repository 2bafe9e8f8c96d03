"""Which call a result belongs to: the calls of a history, by the ids that results name them by.

A result belongs to the newest reply before it that used its id, there to the first call without a real result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from normalizer.util.ids import next_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from normalizer.parts import Part


class Use:
    """One call of the newest reply that used an id. `real`: it has a result; `said`: its outcome is stated."""

    __slots__ = ("key", "place", "real", "said", "step")

    def __init__(self, key: str, step: int, place: str) -> None:
        self.key = key
        self.place = place
        self.step = step
        self.real = False
        self.said = False


class Pairing:
    """The calls so far. `uses` are those of each id's newest reply, `keys` all keys, `server_ids` the server's."""

    __slots__ = ("_repeats", "_replaced", "keys", "server_ids", "uses")

    def __init__(self) -> None:
        self.uses: dict[str, list[Use]] = {}
        self.keys: set[str] = set()
        self.server_ids: set[str] = set()
        self._repeats: dict[str, int] = {}
        self._replaced: list[tuple[str, list[Use]]] = []

    def enter(self, parts: tuple[Part, ...], step: int, place: str) -> dict[str, list[Use]]:
        """Take in the calls of a reply: results of these ids are theirs from here on. Returns the client's."""
        fresh: dict[str, list[Use]] = {}
        part: Any
        for number, part in enumerate(parts):
            kind = part.kind
            if kind == "tool_call":
                wire_id = part.id
                if wire_id and wire_id not in self.keys:
                    self.keys.add(wire_id)
                    fresh[wire_id] = [Use(wire_id, step, place)]
                elif not (wire_id in fresh and _twice(part, parts[:number])):
                    at = f"{place}:{number}"
                    fresh.setdefault(wire_id or at, []).append(Use(self._take(wire_id, at), step, at))
            elif kind == "server_tool_call":
                self._take(part.id, f"{place}:{number}")
                if part.id:
                    self.server_ids.add(part.id)
        if fresh:
            self._replaced.extend((w, self.uses[w]) for w in fresh if w in self.uses)
            self.uses.update(fresh)
        return fresh

    def _take(self, wire_id: str | None, place: str) -> str:
        """The key of a new call, numbered as the fold numbers it."""
        if not wire_id:
            return place
        key = wire_id
        if key in self.keys:
            key = next_key(wire_id, self.keys.__contains__, self._repeats)
        self.keys.add(key)
        return key

    def only_open(self, step: int) -> str | None:
        """The id of the one call of a step that has no result yet: a result without an id can only be its."""
        found = [
            w for w, uses in self.uses.items() for u in uses if u.step == step and not (u.real or u.said)
        ]
        return found[0] if len(found) == 1 else None

    def unanswered(self) -> Iterator[tuple[str, Use]]:
        """The calls without a result, and the ids that replies gave them."""
        for wire_id, uses in (*self._replaced, *self.uses.items()):
            for use in uses:
                if not (use.real or use.said):
                    yield wire_id, use


def open_one(uses: list[Use]) -> Use:
    """The first of these calls without a result or a stated outcome; the first one if all have one."""
    return next((u for u in uses if not u.real and not u.said), uses[0])


def runnable(parts: tuple[Part, ...]) -> tuple[str, ...]:
    """Ids of the client's calls in a reply that can be run: their arguments can be read, or there are none."""
    called = [part for part in parts if part.kind == "tool_call"]
    can = [call.id for call in called if call.arguments.valid or not call.arguments.text.strip()]
    return tuple(dict.fromkeys(wire_id for wire_id in can if wire_id))


def _twice(call: Any, before: tuple[Part, ...]) -> bool:
    """Whether a reply has the same call twice."""
    return any(
        p.kind == "tool_call" and p.id == call.id and p.name == call.name and p.arguments == call.arguments
        for p in before
    )
