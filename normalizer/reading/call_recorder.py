"""Results and other facts of calls, as a reader comes upon them: each is told at its call.

A result whose id no reply before it used is that of the first later one in the same turn, else an orphan. A
placeholder never takes a real result's place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from normalizer.facts import RUNNING, CallCompleted, CallQueued, OutcomeAttested, StartPermitted
from normalizer.notices import WAITS, read_back, stated
from normalizer.reading.call_matching import Pairing, open_one
from normalizer.reading.diagnostics import Finder
from normalizer.reading.placeholders import FIRST
from normalizer.reading.stand_ins import stand_in
from normalizer.util.redaction import named
from normalizer.util.speed import maker

if TYPE_CHECKING:
    from collections.abc import Callable

    from normalizer.facts import Fact, OutcomeKind
    from normalizer.notices import ReadBack
    from normalizer.parts import Json, ResultPart
    from normalizer.reading.call_matching import Use

Content: TypeAlias = "str | tuple[ResultPart, ...] | None"

make_completed = maker(CallCompleted)


class CallRecorder(Finder):
    """Collects the facts of one input, those of its calls among them.

    `place` arguments are JSON pointers into the input (or `L12` and a pointer, in files of lines); they
    become the ids of the facts, so that a fact tells where it stood. `apart`: something else than results stands behind
    the newest reply.
    """

    def __init__(self, source: str, *, provider: str | None = None, api: str | None = None) -> None:
        super().__init__()
        self.source = source
        self.provider = provider
        self.api = api
        self.facts: list[Fact] = []
        self.seq = 0
        self.turns = 1
        self.turn = "turn-1"
        self.step = 0
        self.first_step = 1
        self.talk_since_reply = False
        self.apart = False
        self.interrupted = False
        self.failed = False
        self.running: dict[str, None] = {}
        self._pairing = pairing = Pairing()
        self.uses = pairing.uses
        self.server_ids = pairing.server_ids
        self._keys = pairing.keys
        self._early: dict[str, list[Fact]] = {}

    def next_seq(self) -> int:
        """The next place in the conversation."""
        self.seq += 1
        return self.seq

    def usual_result(self, place: str, wire_id: str, content: str, group: int) -> None:
        """The short way of `result` for a plain text that stands directly behind its call."""
        uses = self.uses.get(wire_id)
        use = uses[0] if uses is not None and len(uses) == 1 else None
        if (
            use is None or use.real or use.said or use.step != self.step or self.apart
            or (content and content[0] in FIRST)
        ):  # fmt: skip
            self.result(place, wire_id, content, is_error=False, group=group)
            return
        use.real = True
        self.seq = seq = self.seq + 1
        self.facts.append(
            make_completed(
                fact_id=place, call_id=use.key, seq=seq, source=self.source, turn_id=self.turn, group=group,
                content=content, is_error=False,
            )
        )  # fmt: skip

    def result(
        self, place: str, wire_id: str | None, content: Content, *, is_error: bool | None = None,
        raw: Json | None = None, group: int | None = None, at: str | None = None, **more: Any,
    ) -> str | None:  # fmt: skip
        """The result of a call, as it stands in the input: a real one, a notice, or a placeholder.

        Returns the key of the call it was paired with, None if there is none (yet).
        """
        self.seq += 1
        if (found := stand_in(content, wire_id)) is not None:
            return self.attest(
                place, wire_id, found.outcome, notice=found.notice, evidence=found.evidence, raw=raw, group=group,
                at=at, is_error=is_error, seq=self.seq, content=None if found.notice is not None else content,
            )  # fmt: skip
        if not wire_id:
            wire_id = self._pairing.only_open(self.step)
        uses = self.uses.get(wire_id or "")
        if uses is None:
            use = None
        elif (
            len(uses) == 1 and not (uses[0].real or uses[0].said or self.apart) and uses[0].step == self.step
        ):
            use = uses[0]
        else:
            use = self._owner(uses, wire_id, place)
        fact = make_completed(
            fact_id=place, seq=self.seq, source=self.source, turn_id=self.turn, call_id=use.key if use else "",
            content=content, is_error=is_error, raw=raw, group=group, at=at, **more,
        )  # fmt: skip
        if use is None:
            self._early.setdefault(wire_id or "", []).append(fact)
            return None
        use.real = True
        self.running.pop(use.key, None)
        self.facts.append(fact)
        return use.key

    def attest(
        self, place: str, wire_id: str | None, outcome: OutcomeKind, *, seq: int | None = None, **more: Any
    ) -> str | None:
        """An outcome that the input states without being the tool's own result. Returns the call's key."""
        uses = self.uses.get(wire_id or "")
        fact = OutcomeAttested(
            fact_id=place, seq=seq or self.next_seq(), source=self.source, turn_id=self.turn,
            call_id=uses[-1].key if uses else wire_id or "", outcome=outcome, **more,
        )  # fmt: skip
        if not uses:
            self._early.setdefault(wire_id or "", []).append(fact)
            return None
        use = open_one(uses)
        if use.real or use.said:
            self._second(use, place)
        use.said = True
        self._say(fact, use)
        return use.key

    def news_in(self, text: str) -> ReadBack | None:
        """The late news of ours about a call in the history that a text is, if it is one."""
        found = read_back(text, None)
        return found if found and found.form == "late" and (found.call_id or "") in self.uses else None

    def late_news(self, place: str, found: ReadBack, group: int | None) -> None:
        """Late news of ours, in its place: what it says of its call counts from here on."""
        use = self.uses[found.call_id or ""][0]
        self.apart = True
        outcome, evidence = stated(found)
        fact = OutcomeAttested(
            fact_id=place, seq=self.next_seq(), source=self.source, turn_id=self.turn, call_id=use.key,
            outcome=outcome, evidence=evidence, notice=found.body, late=True, group=group,
        )  # fmt: skip
        self._say(fact, use)

    def _say(self, fact: Any, use: Use) -> None:
        """Record what is stated of a call. One that was told as running keeps its turn open until something ends it."""
        self.facts.append(fact if fact.call_id == use.key else replace(fact, call_id=use.key))
        self.running.pop(use.key, None)
        if getattr(fact, "evidence", None) != RUNNING:
            return
        make = CallQueued if fact.notice == WAITS else StartPermitted
        self.facts.append(
            make(
                fact_id=f"{fact.fact_id}:running", seq=self.next_seq(), source=self.source, turn_id=self.turn,
                call_id=use.key,
            )
        )  # fmt: skip
        if use.step >= self.first_step:
            self.running[use.key] = None

    def about(
        self, place: str, wire_id: str | None, make: Callable[..., Fact], *, ends: bool = False, **more: Any
    ) -> str | None:
        """Any other fact about a call. `ends`: it stands where the call's result would stand.

        Returns the call's key; without such a call nothing is recorded, and None is returned.
        """
        uses = self.uses.get(wire_id or "")
        if not uses:
            return None
        use = open_one(uses)
        if ends:
            if use.real or use.said:
                self._second(use, place)
            use.said = True
        self.facts.append(
            make(
                fact_id=place, seq=self.next_seq(), source=self.source, turn_id=self.turn, call_id=use.key, **more
            )
        )  # fmt: skip
        return use.key

    def _owner(self, uses: list[Use], wire_id: str | None, place: str) -> Use:
        use = next((u for u in uses if not u.real), None)
        if use is None:
            use = uses[0]
            self._second(use, place)
        elif use.said:
            self._second(use, place)
        if use.step != self.step or self.apart:
            self._displaced(place, wire_id)
        return use

    def _displaced(self, place: str, wire_id: str | None) -> None:
        """A result elsewhere than directly behind its reply, as `folding.placement.displaced` decides by the facts."""
        message = f"the result of call {named(wire_id)} does not stand directly behind it"
        self.finding("displaced_result", message, place, wire_id)

    def _second(self, use: Use, place: str) -> None:
        self.finding("duplicate_result", f"call {named(use.key)} has more than one result", place, use.key)

    def _pair_early(self, fresh: dict[str, list[Use]]) -> None:
        for wire_id in [w for w in self._early if w in fresh]:
            for fact in self._early.pop(wire_id):
                use = self._owner(fresh[wire_id], wire_id, fact.fact_id)
                if fact.kind == "call_completed":
                    self._displaced(fact.fact_id, wire_id)
                use.real = use.real or fact.kind == "call_completed"
                use.said = use.said or fact.kind != "call_completed"
                self._say(fact, use)

    def _give_up_early(self) -> None:
        """Results whose call never came are orphans: kept whole, never sent as results."""
        for wire_id, facts in self._early.items():
            for fact in facts:
                self.orphan(fact, wire_id)
        self._early.clear()
