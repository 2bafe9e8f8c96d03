"""What every reader uses to turn messages into facts: numbering, turns, and results at their calls.

A result whose id no reply before it used is that of the first later one in the same turn, else an orphan. A
placeholder never takes a real result's place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from normalizer.facts import (
    RUNNING,
    CallCompleted,
    CallQueued,
    InstructionsSet,
    ModelReplied,
    OutcomeAttested,
    ReplyCut,
    StartPermitted,
    ToolsDeclared,
    TurnEnded,
    UserSaid,
)
from normalizer.notices import WAITS, read_back, stated
from normalizer.parts import Json
from normalizer.reading.call_matching import Pairing, Use, open_one
from normalizer.reading.diagnostics import Finder
from normalizer.reading.placeholders import FIRST
from normalizer.reading.stand_ins import stand_in
from normalizer.reading.truncation import is_beginning
from normalizer.util.redaction import named
from normalizer.util.speed import maker

if TYPE_CHECKING:
    from collections.abc import Callable

    from normalizer.facts import Fact, OutcomeKind
    from normalizer.notices import ReadBack
    from normalizer.parts import Part, ResultPart

Content: TypeAlias = "str | tuple[ResultPart, ...] | None"

make_completed = maker(CallCompleted)
make_reply = maker(ModelReplied)
make_said = maker(UserSaid)


class Recorder(Finder):
    """Collects the facts of one input, in the order in which it is read.

    `place` arguments are JSON pointers into the input (or `L12` and a pointer, in files of lines); they
    become the ids of the facts, so that a fact tells where it stood.
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
        self.interrupted = False
        self.failed = False
        self.running: dict[str, None] = {}
        self._pairing = pairing = Pairing()
        self.uses = pairing.uses
        self.server_ids = pairing.server_ids
        self._keys = pairing.keys
        self._early: dict[str, list[Fact]] = {}

    # ------------------------------------------------------------ the conversation

    def next_seq(self) -> int:
        """The next place in the conversation."""
        self.seq += 1
        return self.seq

    def add(self, fact: Fact) -> None:
        """Append a fact that the caller has made, with `seq` from `next_seq`."""
        self.facts.append(fact)

    def instructions(
        self, place: str, parts: tuple[Part, ...], *, additional: bool = False, string: bool = False,
        raw: Json | None = None, group: int | None = None,
    ) -> None:  # fmt: skip
        """Instructions; `additional` where they stand in the middle of the conversation."""
        self.facts.append(
            InstructionsSet(
                fact_id=place, seq=self.next_seq(), source=self.source, turn_id=self.turn, parts=parts,
                additional=additional, string=string, raw=raw, group=group,
            )
        )  # fmt: skip

    def tools(self, place: str, tools: tuple[Any, ...], *, declared: bool = True) -> None:
        """The tools that were offered; not `declared`: the input says that there were none by not having any."""
        api = self.api if declared else None
        self.facts.append(
            ToolsDeclared(fact_id=place, seq=self.next_seq(), source=self.source, tools=tools, api=api)
        )

    def open_turn(self) -> None:
        """Whatever belongs to the turn so far is over, unless a call of it runs; what follows is a new one."""
        if (self.step or self.talk_since_reply) and not self.running:
            self.end_turn()
            self.turns += 1
            self.turn = f"turn-{self.turns}"
            self.first_step = self.step + 1
            self.talk_since_reply = False

    def end_turn(self, status: Literal["completed", "cancelled", "failed"] | None = None) -> None:
        """Say that the current turn is over, and give up results that came before any call."""
        self._give_up_early()
        status = status or ("cancelled" if self.interrupted else "failed" if self.failed else "completed")
        self.interrupted = self.failed = False
        self.facts.append(
            TurnEnded(
                fact_id=f"{self.turn}/ended", seq=self.next_seq(), source=self.source, turn_id=self.turn, status=status
            )
        )  # fmt: skip

    def user(
        self, place: str, parts: tuple[Part, ...], *, string: bool = False, group: int | None = None,
        by: Literal["person", "program"] | None = None, at: str | None = None, raw: Json | None = None,
    ) -> None:  # fmt: skip
        """Something said on the user's side."""
        self.seq += 1
        self.talk_since_reply = True
        self.facts.append(
            make_said(
                fact_id=place, seq=self.seq, source=self.source, turn_id=self.turn, parts=parts, string=string,
                group=group, by=by, at=at, raw=raw,
            )
        )  # fmt: skip

    def said(
        self, place: str, parts: tuple[Part, ...], *, string: bool = False, group: int | None = None,
        raw: Json | None = None,
    ) -> None:  # fmt: skip
        """Words of the user's side; late news of ours among them are attested outcomes in their place."""
        run: list[Part] = []
        for at, part in enumerate(parts):
            found = self.news_in(part.text) if part.kind == "text" and part.raw is None else None
            if found is None:
                run.append(part)
                continue
            if run:
                self.user(f"{place}:{at}", tuple(run), group=group, raw=raw)
                run = []
            self.late_news(f"{place}:late{at}", found, group)
        if run or not parts:
            self.user(place, tuple(run), string=string, group=group, raw=raw)

    def reply(self, place: str, parts: tuple[Part, ...], *, cut: bool = False, **more: Any) -> None:
        """A model's reply; `more` are fields of `ModelReplied`, with `cut` of `ReplyCut`.

        A last call whose arguments never arrived whole becomes a fragment. Results that came before their call are
        paired.
        """
        self.step += 1
        self.talk_since_reply = False
        missing = Json._missing  # noqa: SLF001
        part: Any
        for part in parts:
            if part.kind == "tool_call" and part.arguments._value is missing:  # noqa: SLF001
                parts = self._without_fragments(place, parts, more.get("stop_reason"), cut=cut)
                break
        fresh = self._pairing.enter(parts, self.step, place)
        self.seq += 1
        more.setdefault("provider", self.provider)
        more.setdefault("api", self.api)
        make = ReplyCut if cut else make_reply
        self.facts.append(
            make(fact_id=place, seq=self.seq, source=self.source, turn_id=self.turn, parts=parts, **more)
        )
        if self._early:
            self._pair_early(fresh)

    def usual_reply(self, place: str, parts: tuple[Part, ...], wire_ids: list[str], group: int) -> bool:
        """The short way of `reply` for a reply of text and calls with whole arguments and these ids, none of
        them known.

        Says False, having done nothing, where an id is known or results wait for a call.
        """
        keys = self._keys
        if self._early or (
            wire_ids and (not keys.isdisjoint(wire_ids) or len(set(wire_ids)) != len(wire_ids))
        ):
            return False
        self.step = step = self.step + 1
        self.talk_since_reply = False
        for wire_id in wire_ids:
            keys.add(wire_id)
            self.uses[wire_id] = [Use(wire_id, step, place)]
        self.seq = seq = self.seq + 1
        self.facts.append(
            make_reply(
                fact_id=place, parts=parts, seq=seq, source=self.source, turn_id=self.turn, group=group,
                provider=self.provider, api=self.api,
            )
        )  # fmt: skip
        return True

    def usual_result(self, place: str, wire_id: str, content: str, group: int) -> None:
        """The short way of `result` for a plain text that stands directly behind its call."""
        uses = self.uses.get(wire_id)
        use = uses[0] if uses is not None and len(uses) == 1 else None
        if (
            use is None or use.real or use.said or use.step != self.step or self.talk_since_reply
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

    def _without_fragments(
        self, place: str, parts: tuple[Part, ...], stop_reason: str | None, *, cut: bool
    ) -> tuple[Part, ...]:
        """The parts without calls whose arguments are only a beginning."""
        kept: list[Part] = []
        last = len(parts) - 1
        for number, part in enumerate(parts):
            if part.kind == "tool_call" and is_beginning(part, stop_reason, cut=cut, last=number == last):
                self.fragment(
                    f"{place}:{number}", part.id, part.arguments.text, "input_incomplete", name=part.name,
                    type="tool_call", raw=part.raw,
                )  # fmt: skip
            else:
                kept.append(part)
        return tuple(kept)

    # ------------------------------------------------------------ results

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
            len(uses) == 1
            and not (uses[0].real or uses[0].said or self.talk_since_reply)
            and uses[0].step == self.step
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
        if use.step != self.step or self.talk_since_reply:
            message = f"the result of call {named(wire_id)} does not stand directly behind it"
            self.finding("displaced_result", message, place, wire_id)
        return use

    def _second(self, use: Use, place: str) -> None:
        self.finding("duplicate_result", f"call {named(use.key)} has more than one result", place, use.key)

    def _pair_early(self, fresh: dict[str, list[Use]]) -> None:
        for wire_id in [w for w in self._early if w in fresh]:
            for fact in self._early.pop(wire_id):
                use = self._owner(fresh[wire_id], wire_id, fact.fact_id)
                use.real = use.real or fact.kind == "call_completed"
                use.said = use.said or fact.kind != "call_completed"
                self._say(fact, use)

    def _give_up_early(self) -> None:
        """Results whose call never came are orphans: kept whole, never sent as results."""
        for wire_id, facts in self._early.items():
            for fact in facts:
                self.orphan(fact, wire_id)
        self._early.clear()

    def close(self, *, waiting: bool = False) -> tuple[Fact, ...]:
        """The facts, with the last turn ended unless something waits."""
        if waiting or self.running:
            self._give_up_early()
        else:
            self.end_turn()
            for wire_id, use in self._pairing.unanswered():
                self.finding("missing_result", f"call {named(use.key)} has no result", use.place, wire_id)
        return tuple(self.facts)
