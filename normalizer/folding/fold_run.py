"""Facts -> transcript, incrementally. The same set of facts gives the same transcript, whatever its order.

A reply stands directly behind the facts that its request held, whatever was appended before it came. Facts
may come before the call they are about. `fold(new, onto=transcript)` costs what is new, beside copying
references; only a conversation fact that belongs before an earlier reply folds everything again.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from normalizer.findings import Finding
from normalizer.folding.calls import FoldedCalls
from normalizer.folding.compaction import visible
from normalizer.folding.state import Kept, turn_of
from normalizer.transcript import EVERYTHING, Entry, Transcript
from normalizer.util.collector import collector_paused
from normalizer.util.redaction import named
from normalizer.util.speed import maker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from normalizer.facts import Fact, RequestSent, Rewound, Summarised

Order = tuple[int, int, int]
"""Where an entry stands: behind which `seq`, before (0) or as (1) the answer to it, and its own `seq`."""

_entry = maker(Entry)
_by_seq = attrgetter("seq")


class _OutOfOrder(Exception):
    """A fact belongs before something that is folded already."""


@collector_paused
def fold(facts: Iterable[Fact], onto: Transcript | None = None) -> Transcript:
    """The transcript of these facts, together with those of `onto`. A fact that is there already changes nothing."""
    new = list(facts)
    if onto is None or onto._kept is None:  # noqa: SLF001
        return _Folding(Kept(), Transcript(), full=True).run(new)
    try:
        return _Folding(onto._kept.extended(), onto, full=False).run(new)  # noqa: SLF001
    except _OutOfOrder:
        return _Folding(Kept(), Transcript(), full=True).run([*onto.facts, *new])


class _Folding:
    """One run of a fold: the state of the transcript while facts are added. `full`: it has all the facts at hand."""

    def __init__(self, kept: Kept, onto: Transcript, *, full: bool) -> None:
        self.kept = kept
        self.full = full
        self.turns = dict(onto.turns)
        self.base = onto.entries
        self.entries: list[Entry] = []
        self.calls = FoldedCalls(kept, onto)
        self.requests = list(onto.requests)
        self.heads = list(onto.heads)
        self.dirty_turns: dict[str, None] = {}

    def run(self, facts: Sequence[Fact]) -> Transcript:
        kept = self.kept
        index, stored = kept.index, kept.facts
        before = len(stored)
        new = self._new(facts)
        get = _HANDLERS.get
        fresh = self.calls.fresh
        try:
            for fact in new:
                handler = get(fact.kind)
                if handler is not None:
                    handler(self, fact)
                else:
                    call_id: str = fact.call_id  # type: ignore[union-attr]
                    if call_id in fresh:
                        fresh[call_id].append(fact)  # type: ignore[arg-type]
                    else:
                        fresh[call_id] = [fact]  # type: ignore[list-item]
        except _OutOfOrder:
            # leave the shared lists as they were: somebody else may go on from them
            for undone in stored[before:]:
                del index[undone.fact_id]
            del stored[before:]
            kept.claim.give(before)
            raise
        kept.size = len(stored)
        if self.full and kept.cut:
            self.entries = visible(self.entries, kept.cut)
            self.heads = [entry for entry in self.entries if entry.kind in ("instructions", "tools")]
        self._settle_turns()
        self.calls.settle(self.turns)
        if kept.open_server:
            entries = chain(reversed(self.entries), reversed(self.base))
            self.calls.settle_servers(next((e.fact for e in entries if e.kind == "reply"), None), self.turns)
        kept.touched_to = len(kept.touched)
        kept.claim.give(kept.size)
        return self._transcript()

    def _new(self, facts: Sequence[Fact]) -> list[Fact]:
        """The facts that are not there yet, each once, in the order of the conversation."""
        kept = self.kept
        index, stored = kept.index, kept.facts
        new: list[Fact] = []
        anchored = False
        rising = True
        last = -1
        fact: Any
        for fact in facts:
            if fact.fact_id in index:
                continue
            index[fact.fact_id] = len(stored)
            stored.append(fact)
            new.append(fact)
            if fact.seq <= last:
                rising = False
            last = fact.seq
            kind = fact.kind
            if kind == "request_sent":
                kept.through[fact.fact_id] = fact.through
                anchored = True
            elif kind == "steering_queued":
                self._queue(fact)
            elif kind in _REPLIES and fact.answers:
                anchored = True
        kept.last = max(kept.last, last if rising else max(fact.seq for fact in new))
        if anchored or not rising:
            new.sort(key=self._order)
        return new

    def _order(self, fact: Any) -> Order:
        """Where a fact stands: a reply directly behind what its request held, anything else at its own place."""
        kind = fact.kind
        if kind in _REPLIES:
            answers = fact.answers
            through = self.kept.through.get(answers) if answers else None
            if through is not None:
                return through, 1, fact.seq
        return fact.seq, 0, fact.seq

    def _late(self) -> None:
        """Something belongs before what is folded already; with all the facts at hand there is no such thing."""
        if not self.full:
            raise _OutOfOrder

    # ------------------------------------------------------------ entries

    def _append(self, entry: Entry) -> None:
        """Put an entry in its place. Only what is no reply may have to make room: replies number the calls."""
        entries = self.entries
        if self.kept.cut and entry.fact.seq < max(cut.seq for cut in self.kept.cut):
            self._late()
        last = entries[-1] if entries else self.base[-1] if self.base else None
        if last is None or self._order(entry.fact) > self._order(last.fact):
            entries.append(entry)
            return
        if self.base:
            self.entries = entries = [*self.base, *entries]
            self.base = ()
        place = bisect_right(entries, self._order(entry.fact), key=lambda e: self._order(e.fact))
        if self.kept.cut or any(later.kind == "reply" for later in entries[place:]):
            self._late()
        entries.insert(place, entry)

    def reply(self, fact: Any) -> None:
        if fact.answers and fact.answers not in self.kept.through:
            self.kept.unanswered.add(fact.answers)
        if fact.kind == "reply_cut" and fact.refused and fact.answers:
            self.kept.refused[fact.answers] = fact.error
        add = self.calls.add
        keys = tuple([add(fact, n, part) for n, part in enumerate(fact.parts) if part.kind in _WITH_KEY])
        if keys and fact.turn_id:
            self.kept.undecided.setdefault(fact.turn_id, ())
        self._append(_entry(kind="reply", fact=fact, parts=fact.parts, calls=keys))

    def said(self, fact: Any) -> None:
        self._append(_entry(kind="user", fact=fact, parts=fact.parts, calls=()))

    def instructions(self, fact: Any) -> None:
        self._head(_entry(kind="instructions", fact=fact, parts=fact.parts, calls=()))

    def tools(self, fact: Any) -> None:
        self._head(_entry(kind="tools", fact=fact, parts=(), calls=()))

    def _head(self, entry: Entry) -> None:
        if self.heads and self.heads[-1].fact.seq > entry.fact.seq:
            self._late()
        self.heads.append(entry)
        self._append(entry)

    def _queue(self, fact: Any) -> None:
        """Steering is known before it is applied, whatever the order of arrival."""
        if fact.steering_id in self.kept.queued:
            self._late()
        self.kept.queued[fact.steering_id] = fact

    def steering_applied(self, fact: Any) -> None:
        queued = self.kept.queued.get(fact.steering_id)
        self.kept.queued[fact.steering_id] = None
        if queued is not None:
            entry = _entry(kind="steering", fact=fact, parts=queued.parts, calls=())
            self._append(entry)

    def steering_withdrawn(self, fact: Any) -> None:
        self.kept.queued[fact.steering_id] = None

    def request_sent(self, fact: RequestSent) -> None:
        if fact.fact_id in self.kept.unanswered or (self.requests and self.requests[-1].seq > fact.seq):
            self._late()
        self.requests.append(fact)

    def nothing(self, fact: Any) -> None:
        """Taken in beforehand."""

    def cut(self, fact: Summarised | Rewound) -> None:
        """A summary or a rewind puts entries away, or brings them back: only the whole history says which."""
        self._late()
        self.kept.cut.append(fact)
        self.kept.touched.append(EVERYTHING)

    # ------------------------------------------------------------ turns and calls

    def turn(self, fact: Any) -> None:
        if fact.turn_id is None:
            return
        if fact.kind == "turn_opened" and fact.gated and fact.turn_id in self.kept.undecided:
            self._late()
        known = self.kept.turn_facts.get(fact.turn_id, ())
        self.kept.turn_facts[fact.turn_id] = tuple(sorted((*known, fact), key=_by_seq))
        self.dirty_turns[fact.turn_id] = None

    def news(self, fact: Any) -> None:
        """An attested outcome; one that stood as late news is an entry as well."""
        self.calls.fresh.setdefault(fact.call_id, []).append(fact)
        if fact.late:
            self._append(_entry(kind="news", fact=fact, parts=(), calls=()))

    def _settle_turns(self) -> None:
        for turn_id in self.dirty_turns:
            self.turns[turn_id] = turn_of(turn_id, self.kept.turn_facts[turn_id])
            for key in self.kept.undecided.get(turn_id, ()):
                self.calls.fresh.setdefault(key, [])

    def _transcript(self) -> Transcript:
        kept = self.kept
        calls = self.calls.calls
        disputed = [key for key in calls if key in kept.conflicts] if kept.conflicts else []
        found = tuple(conflict for key in disputed for conflict in kept.conflicts[key])
        findings = (
            *sorted(kept.notes, key=lambda n: (_seq_of(kept, n), n.message)),
            *(Finding("contradiction", c.message, call_id=c.call_id, facts=c.facts) for c in found),
            *(
                Finding(
                    "unknown_call",
                    f"a fact names the call {named(key)}, which no reply has made",
                    call_id=key,
                    facts=tuple(f.fact_id for f in waiting),
                )
                for key, waiting in sorted(kept.waiting.items())
            ),
        )
        return Transcript(
            turns=self.turns,
            entries=(*self.base, *self.entries) if self.base else tuple(self.entries),
            heads=tuple(self.heads),
            pending=tuple(kept.pending),
            calls=calls,
            server_calls=self.calls.server_calls,
            conflicts=found,
            findings=findings,
            requests=tuple(self.requests),
            refusals=kept.refused,
            steering=tuple(
                k for k, q in sorted(kept.queued.items()) if q is not None and q.kind == "steering_queued"
            ),
            _kept=kept,
        )


def _seq_of(kept: Kept, note: Finding) -> int:
    return kept.facts[kept.index[note.facts[0]]].seq


_REPLIES: Final = frozenset({"model_replied", "reply_cut"})
_WITH_KEY: Final = frozenset({"tool_call", "server_tool_call", "server_tool_result"})
_HANDLERS: Final[dict[str, Callable[[_Folding, Any], None]]] = {
    "model_replied": _Folding.reply,
    "reply_cut": _Folding.reply,
    "user_said": _Folding.said,
    "instructions_set": _Folding.instructions,
    "tools_declared": _Folding.tools,
    "steering_queued": _Folding.nothing,
    "steering_applied": _Folding.steering_applied,
    "steering_withdrawn": _Folding.steering_withdrawn,
    "request_sent": _Folding.request_sent,
    "summarised": _Folding.cut,
    "rewound": _Folding.cut,
    "outcome_attested": _Folding.news,
    "turn_opened": _Folding.turn,
    "turn_cancel_requested": _Folding.turn,
    "turn_ended": _Folding.turn,
    "run_lost": _Folding.turn,
}
