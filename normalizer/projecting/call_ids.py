"""The id of every call in the requests to one API: given once, in the order of the calls, and to no other call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from normalizer.util.ids import newest
from normalizer.util.sharing import SharedDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from normalizer.facts import Told
    from normalizer.projecting.dialect_policies import IdPolicy
    from normalizer.transcript import Call, ServerCall


class WireIds:
    """The ids given so far, by the keys of the calls. `server` says how many server calls were seen."""

    __slots__ = ("by_key", "renamed", "server")

    def __init__(self) -> None:
        self.by_key: SharedDict[str, str] = SharedDict()
        self.renamed: set[str] = set()
        self.server = 0

    def __getitem__(self, key: str) -> str:
        return self.by_key.lookup[key]

    def __len__(self) -> int:
        return len(self.by_key)

    def __contains__(self, wire_id: object) -> bool:
        # most calls have the id that they are known by: only the others, and server calls, are in a set of their own
        return self.by_key.lookup.get(wire_id) == wire_id or wire_id in self.renamed  # type: ignore[call-overload]

    def continued(self) -> WireIds:
        """These, to give more."""
        new = WireIds()
        new.by_key, new.server = self.by_key.continued(), self.server
        new.renamed = self.renamed.copy()
        return new

    def reserve(self, wire_ids: Iterable[str]) -> None:
        """Keep the ids of server calls from being given."""
        for wire_id in wire_ids:
            self.renamed.add(wire_id)
            self.server += 1


def wire_ids(
    calls: Mapping[str, Call],
    server_calls: Mapping[str, ServerCall],
    told: Mapping[str, Told],
    policy: IdPolicy,
    before: WireIds | None,
    newly_told: Iterable[str] = (),
) -> WireIds:
    """The ids of these calls. What was sent of a call holds its id (`told`), and so does every later request.

    `before` are the ids of an earlier transcript of the same conversation. They stay, unless what came since has a
    better claim: a server call with one of them, or a record that a call was sent under another. `server_calls` are
    those whose ids the request may hold.
    """
    if before is not None and _holds(before, calls, server_calls, told, newly_told):
        if len(before) == len(calls) and before.server == len(server_calls):
            return before
        ids = before.continued()
    else:
        ids = WireIds()
    ids.reserve(server_calls[key].part.id or "" for key in newest(server_calls, ids.server))
    given, renamed = ids.by_key.lookup, ids.renamed
    for key in newest(calls, len(ids)):
        sent = told[key].wire_id if key in told else None
        given[key] = wire_id = sent or policy.give(key, calls[key].part.id, ids)
        if wire_id != key:
            renamed.add(wire_id)
    ids.by_key.settle()
    return ids


def _holds(
    before: WireIds,
    calls: Mapping[str, Call],
    server_calls: Mapping[str, ServerCall],
    told: Mapping[str, Told],
    newly_told: Iterable[str],
) -> bool:
    """Whether everything that was given would be given again."""
    if len(before) > len(calls) or before.server > len(server_calls):
        return False
    given = before.by_key.lookup
    if any(
        told[key].wire_id not in (None, given.get(key)) for key in newly_told if key in told and key in given
    ):
        return False
    return not any(server_calls[key].part.id in before for key in newest(server_calls, before.server))
