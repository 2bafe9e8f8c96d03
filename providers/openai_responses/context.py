"""What a Responses projection goes by: what stands before the items, the transcript, who has an id or answer first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from normalizer.util.sharing import SharedDict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from normalizer.projecting.context import Context
    from normalizer.projecting.draft import Value
    from normalizer.projecting.incremental import Step
    from normalizer.projecting.preamble import Preamble
    from normalizer.projecting.wire import Results
    from normalizer.transcript import Entry


class ItemsContext:
    """One projection; `head` and `results` are set by who makes it. `before` is what an earlier one went by."""

    head: Preamble
    results: Results

    def __init__(self, context: Context, before: ItemsContext | None) -> None:
        self.model = context.model
        self.options = context.options
        self.history = context.history
        self.transcript = context.transcript
        self.entries = context.transcript.entries
        self.calls = context.transcript.calls
        self.server_calls = context.transcript.server_calls
        self.ids: Mapping[str, str] = context.ids.by_key.lookup
        self.first: First = first_of(self.entries, before.first if before is not None else None)

    def owns(self, item_id: str, fact_id: str, number: int) -> bool:
        """Whether this part is the first with its item's id."""
        return self.first.items.lookup.get(item_id, (fact_id, number)) == (fact_id, number)

    def answer_to(self, asked: Any, step: Step) -> str | None:
        """Which recorded answer to a question of the server's goes out, as the `fact_id` of its entry.

        The first, if something followed it, for then it was sent. Where several stand at the end, a refusal holds:
        nothing is permitted against it.
        """
        first = self.first.answers.lookup.get(asked)
        here = [entry for entry in step.behind if _answered(entry, asked) is not None]
        if not here or here[0].fact.fact_id != first:
            return first
        seq = here[0].fact.seq
        sent = min((s.through for s in self.history.requests.values() if s.through >= seq), default=None)
        if sent is not None:
            here = [entry for entry in here if entry.fact.seq <= sent]
        elif not step.last:
            here = here[:1]
        return next((e.fact.fact_id for e in here if _answered(e, asked) is False), first)

    def next_seq(self, step: Step) -> int:
        """The `seq` of the reply behind a step that is not the last."""
        seq: int = self.entries[step.end].fact.seq
        return seq

    def decision(self, key: str, step: Step) -> Any:
        """The host's fact that answers a question of the server's before the next reply; the first one holds."""
        kept = self.transcript._kept  # noqa: SLF001 - facts about what is no call of the client's
        waiting = kept.waiting.get(key, ()) if kept is not None else ()
        found = next((fact for fact in waiting if fact.kind in ("approval_given", "approval_denied")), None)
        return found if found is not None and (step.last or found.seq < self.next_seq(step)) else None


def _answered(entry: Entry, asked: Any) -> Any:
    """What an entry answers to this question; None if it answers another, or none."""
    for part in entry.parts:
        raw = part.raw.value if part.kind == "opaque" and part.type == "mcp_approval_response" else {}
        if raw.get("approval_request_id") == asked:
            return raw.get("approve")
    return None


@dataclass(slots=True)
class Reply:
    """What a reply comes to beside its pieces.

    `covered` is the number of the last part that an earlier piece's message holds, `decisions` are answers to the
    server's questions by the key of each, `items` counts the items that the reply became.
    """

    covered: int = -1
    decisions: dict[str, Value] = field(default_factory=dict)
    items: int = 0


@dataclass(slots=True)
class First:
    """Which part of which reply has an item's id first, and which fact answers a question of the server's first.

    Of the first `upto` entries, so that a later projection goes on from there.
    """

    items: SharedDict[str, tuple[str, int]] = field(default_factory=SharedDict)
    answers: SharedDict[str, str] = field(default_factory=SharedDict)
    upto: int = 0
    last: Entry | None = None


def first_of(entries: tuple[Entry, ...], before: First | None) -> First:
    """The first ones in these entries; `before` are those of an earlier transcript."""
    if before is not None and 0 < before.upto <= len(entries) and entries[before.upto - 1] is before.last:
        found = First(before.items.continued(), before.answers.continued(), before.upto)
    else:
        found = First()
    for entry in entries[found.upto :]:
        key = "id" if entry.kind == "reply" else "approval_request_id"
        for number, part in enumerate(entry.parts):
            raw: Any = part.raw.value if part.raw is not None else None
            named = raw.get(key) if isinstance(raw, dict) else None
            if isinstance(named, str) and entry.kind == "reply":
                found.items.lookup.setdefault(named, (entry.fact.fact_id, number))
            elif isinstance(named, str) and raw.get("type") == "mcp_approval_response":
                found.answers.lookup.setdefault(named, entry.fact.fact_id)
    found.items.settle()
    found.answers.settle()
    found.upto, found.last = len(entries), entries[-1] if entries else None
    return found
