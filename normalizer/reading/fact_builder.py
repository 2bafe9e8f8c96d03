"""What every reader uses to turn messages into facts: numbering, turns, and what a reading holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from normalizer.facts import InstructionsSet, ModelReplied, ReplyCut, ToolsDeclared, TurnEnded, UserSaid
from normalizer.findings import Reading
from normalizer.folding.placement import PLACED
from normalizer.parts import Json
from normalizer.reading.call_matching import Use
from normalizer.reading.call_recorder import CallRecorder
from normalizer.reading.truncation import is_beginning
from normalizer.util.redaction import named
from normalizer.util.speed import maker

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from normalizer.facts import Fact
    from normalizer.parts import Part, Tool

make_reply = maker(ModelReplied)
make_said = maker(UserSaid)


class Recorder(CallRecorder):
    """Collects the facts of one input, in the order in which it is read."""

    def add(self, fact: Fact) -> None:
        """Append a fact that the caller has made, with `seq` from `next_seq`."""
        if fact.kind in PLACED:
            self.apart = True
        self.facts.append(fact)

    def instructions(
        self, place: str, parts: tuple[Part, ...], *, additional: bool = False, string: bool = False,
        raw: Json | None = None, group: int | None = None,
    ) -> None:  # fmt: skip
        """Instructions; `additional` where they stand in the middle of the conversation."""
        self.apart = True
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

    def offered(self, place: str, given: Any, make: Callable[[Any], Tool]) -> tuple[Tool, ...]:
        """The tools of a request, as far as they are a list; `make` makes one of a declaration."""
        if isinstance(given, list):
            tools = tuple(map(make, given))
            self.tools(place, tools)
            return tools
        if given is not None:
            self.leftover(place, f"{place[1:]} are not a list", given)
        return ()

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
        self.talk_since_reply = self.apart = True
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
        self.talk_since_reply = self.apart = False
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
        self.talk_since_reply = self.apart = False
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

    def close(self, *, waiting: bool = False) -> tuple[Fact, ...]:
        """The facts, with the last turn ended unless something waits."""
        if waiting or self.running:
            self._give_up_early()
        else:
            self.end_turn()
            for wire_id, use in self._pairing.unanswered():
                self.finding("missing_result", f"call {named(use.key)} has no result", use.place, wire_id)
        return tuple(self.facts)

    def reading(
        self, *, waiting: bool = False, request: dict[str, Any] | None = None, history: Container[str] = (),
        stop_reason: Any = None, stored: bool | None = None,
    ) -> Reading:  # fmt: skip
        """What was read: of a request, its settings are all but the keys of `history`.

        `waiting`: the last turn goes on, since the server or somebody else has still to answer.
        """
        facts = self.close(waiting=waiting)
        api = self.api or ""
        return Reading(
            format=api,
            facts=facts,
            findings=tuple(self.findings),
            leftovers=tuple(self.leftovers),
            fragments=tuple(self.fragments),
            home=api,
            settings={key: value for key, value in (request or {}).items() if key not in history},
            request=request,
            stop_reason=stop_reason if isinstance(stop_reason, str) else None,
            stored=stored,
        )


def as_request(value: Any, history: str) -> dict[str, Any]:
    """The request that a value is, or is the history of: a list of messages, or one message alone.

    >>> as_request([{"role": "user", "content": "Hi"}], "messages")
    {'messages': [{'role': 'user', 'content': 'Hi'}]}
    """
    if isinstance(value, list):
        return {history: value}
    return value if history in value else {history: [value]}
