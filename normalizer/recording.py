"""What every reader uses to turn messages into facts: numbering, pairing, turns, and what is no fact.

Results are paired with calls in one pass over the history: a result belongs to the newest reply before it
that used its id, there to the first call without a real result. If no reply did, the first later one in
the same turn is meant, else the result is an orphan. A placeholder never takes a real result's place.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from pydantic_core import from_json

from normalizer.facts import (
    PLACEHOLDER,
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
from normalizer.frozen import maker
from normalizer.identity import next_key
from normalizer.notices import MARK, WAITS, read_back, stated
from normalizer.parts import Json, Text
from normalizer.placeholders import FIRST, placeholder
from normalizer.reading import Finding, Fragment, Leftover
from normalizer.redaction import named

if TYPE_CHECKING:
    from collections.abc import Callable

    from normalizer.facts import Fact, OutcomeKind
    from normalizer.notices import ReadBack
    from normalizer.parts import Part, ResultPart, ToolCall
    from normalizer.reading import FindingKind

Content: TypeAlias = "str | tuple[ResultPart, ...] | None"

CUT_SHORT: Final = frozenset(
    {
        "max_tokens",
        "model_context_window_exceeded",
        "refusal",
        "length",
        "content_filter",
        "max_output_tokens",
    }
)
"""Stop reasons that can end a reply inside a call's arguments."""

make_completed = maker(CallCompleted)
make_reply = maker(ModelReplied)
make_said = maker(UserSaid)


class _Use:
    """One call of the newest reply that used an id."""

    __slots__ = ("key", "place", "real", "said", "step")

    def __init__(self, key: str, step: int, place: str) -> None:
        self.key = key
        self.place = place
        self.step = step
        self.real = False
        self.said = False


class Recorder:
    """Collects the facts of one input, in the order in which it is read.

    `place` arguments are JSON pointers into the input (or `L12` and a pointer, in files of lines); they
    become the ids of the facts, so that a fact tells where it stood.
    """

    def __init__(self, source: str, *, provider: str | None = None, api: str | None = None) -> None:
        self.source = source
        self.provider = provider
        self.api = api
        self.facts: list[Fact] = []
        self.findings: list[Finding] = []
        self.leftovers: list[Leftover] = []
        self.fragments: list[Fragment] = []
        self.seq = 0
        self.turns = 1
        self.turn = "turn-1"
        self.step = 0
        self.first_step = 1
        self.talk_since_reply = False
        self.interrupted = False
        self.failed = False
        self.uses: dict[str, list[_Use]] = {}
        self.running: dict[str, None] = {}
        self.server_ids: set[str] = set()
        self._keys: set[str] = set()
        self._repeats: dict[str, int] = {}
        self._early: dict[str, list[Fact]] = {}
        self._replaced: list[tuple[str, list[_Use]]] = []

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
                fact_id=f"{self.turn}/ended",
                seq=self.next_seq(),
                source=self.source,
                turn_id=self.turn,
                status=status,
            )
        )

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
        fresh: dict[str, list[_Use]] = {}
        for number, part in enumerate(parts):
            kind = part.kind
            if kind == "tool_call":
                wire_id = part.id
                if wire_id and wire_id not in self._keys:
                    self._keys.add(wire_id)
                    fresh[wire_id] = [_Use(wire_id, self.step, place)]
                else:
                    self._register(part, parts[:number], fresh, f"{place}:{number}")
            elif kind == "server_tool_call":
                self._take(part.id, f"{place}:{number}")
                if part.id:
                    self.server_ids.add(part.id)
        if fresh:
            self._replaced.extend((w, self.uses[w]) for w in fresh if w in self.uses)
            self.uses.update(fresh)
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
            self.uses[wire_id] = [_Use(wire_id, step, place)]
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
        if uses is None or len(uses) != 1 or self.talk_since_reply or (content and content[0] in FIRST):
            self.result(place, wire_id, content, is_error=False, group=group)
            return
        use = uses[0]
        if use.real or use.said or use.step != self.step:
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

    def _take(self, wire_id: str | None, place: str) -> str:
        """The key of a new call, numbered as the fold numbers it."""
        if not wire_id:
            return place
        key = wire_id
        if key in self._keys:
            key = next_key(wire_id, self._keys.__contains__, self._repeats)
        self._keys.add(key)
        return key

    def _register(
        self, part: Any, before: tuple[Part, ...], fresh: dict[str, list[_Use]], place: str
    ) -> None:
        wire_id = part.id
        if wire_id in fresh and any(
            p.kind == "tool_call"
            and p.id == wire_id
            and p.name == part.name
            and p.arguments == part.arguments
            for p in before
        ):
            return  # the same call, written twice
        use = _Use(self._take(wire_id, place), self.step, place)
        if wire_id in fresh:
            fresh[wire_id].append(use)
        else:
            fresh[wire_id or place] = [use]

    def _without_fragments(
        self, place: str, parts: tuple[Part, ...], stop_reason: str | None, *, cut: bool
    ) -> tuple[Part, ...]:
        """The parts without calls whose arguments are only a beginning."""
        if not any(part.kind == "tool_call" and not _whole(part) for part in parts):
            return parts
        kept: list[Part] = []
        last = len(parts) - 1
        for number, part in enumerate(parts):
            if part.kind == "tool_call" and not _whole(part):
                told_cut = cut or (stop_reason in CUT_SHORT and number == last)
                if told_cut or (stop_reason is None and begins_json(part.arguments.text)):
                    self.fragment(
                        f"{place}:{number}", part.id, part.arguments.text, "input_incomplete", name=part.name,
                        type="tool_call", raw=part.raw,
                    )  # fmt: skip
                    continue
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
        text = content if type(content) is str else _only_text(content)
        if text and text[0] in FIRST and len(text) < _NO_STAND_IN:
            stated = self._stated(text, wire_id)
            if stated is not None:
                outcome, notice, evidence = stated
                return self.attest(
                    place, wire_id, outcome, notice=notice, evidence=evidence, raw=raw, group=group, at=at,
                    is_error=is_error, seq=self.seq, content=None if notice is not None else content,
                )  # fmt: skip
        if not wire_id:
            wire_id = self._only_open()
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
        use = next((u for u in uses if not u.real and not u.said), uses[0])
        if use.real or use.said:
            self._second(use, place)
        use.said = True
        self._say(fact, use)
        return use.key

    def late_news(self, place: str, found: ReadBack, group: int | None) -> None:
        """Late news of ours, in its place: what it says of its call counts from here on."""
        use = self.uses[found.call_id or ""][0]
        outcome, evidence = stated(found)
        fact = OutcomeAttested(
            fact_id=place, seq=self.next_seq(), source=self.source, turn_id=self.turn, call_id=use.key,
            outcome=outcome, evidence=evidence, notice=found.body, late=True, group=group,
        )  # fmt: skip
        self._say(fact, use)

    def _say(self, fact: Any, use: _Use) -> None:
        """Record what is stated of a call. One that was told as running keeps its turn open until something ends it."""
        self.facts.append(_for_call(fact, use.key))
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
        use = next((u for u in uses if not u.real and not u.said), uses[0])
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

    def _stated(self, text: str, wire_id: str | None) -> tuple[OutcomeKind, str | None, str] | None:
        if text.startswith(MARK) and (found := read_back(text, wire_id)) and found.form == "notice":
            outcome, evidence = stated(found)
            return outcome, found.body, evidence
        if meaning := placeholder(text):
            return meaning.outcome, None, f"{PLACEHOLDER} of {meaning.program}"
        return None

    def _owner(self, uses: list[_Use], wire_id: str | None, place: str) -> _Use:
        use = next((u for u in uses if not u.real), None)
        if use is None:
            use = uses[0]
            self._second(use, place)
        elif use.said:
            self._second(use, place)
        if use.step != self.step or self.talk_since_reply:
            self.finding(
                "displaced_result",
                f"the result of call {named(wire_id)} does not stand directly behind it",
                place,
                wire_id,
            )
        return use

    def _only_open(self) -> str | None:
        """The id of the one call of the newest reply that has no result yet: a result without an id can only be its."""
        found = [
            w for w, uses in self.uses.items() for u in uses if u.step == self.step and not (u.real or u.said)
        ]
        return found[0] if len(found) == 1 else None

    def _second(self, use: _Use, place: str) -> None:
        self.finding("duplicate_result", f"call {named(use.key)} has more than one result", place, use.key)

    def _pair_early(self, fresh: dict[str, list[_Use]]) -> None:
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
                self.finding(
                    "orphan_result", f"a result names the call {named(wire_id)}, which is not in the history",
                    fact.fact_id, wire_id or None,
                )  # fmt: skip
                self.leftover(fact.fact_id, "result without its call", _content_of(fact, wire_id))
        self._early.clear()

    # ------------------------------------------------------------ what is no fact

    def finding(
        self, kind: FindingKind, message: str, place: str | None = None, call_id: str | None = None
    ) -> None:
        """Something wrong, at a place."""
        line, pointer = split_place(place)
        self.findings.append(Finding(kind, message, line, pointer, call_id, (place,) if place else ()))

    def leftover(self, place: str, reason: str, value: Any) -> None:
        """A piece of the input that is no fact, whole."""
        line, pointer = split_place(place)
        text = value if isinstance(value, str) else value.text if isinstance(value, Json) else dump_any(value)
        self.leftovers.append(Leftover(reason, text, line, pointer))

    def fragment(
        self, place: str, call_id: str | None, text: str, reason: str, *, raw: Json | None = None, **more: Any
    ) -> None:
        """What was cut off. Never executed, never sent."""
        line, pointer = split_place(place)
        self.fragments.append(
            Fragment(
                call_id, raw.text if raw is not None else text, reason, line=line, pointer=pointer, **more
            )
        )
        self.finding("fragment", f"only the beginning of call {named(call_id)} arrived", place, call_id)

    def close(self, *, waiting: bool = False) -> tuple[Fact, ...]:
        """The facts, with the last turn ended unless something waits."""
        if waiting or self.running:
            self._give_up_early()
        else:
            self.end_turn()
            for wire_id, uses in (*self._replaced, *self.uses.items()):
                for use in uses:
                    if not (use.real or use.said):
                        self.finding(
                            "missing_result", f"call {named(use.key)} has no result", use.place, wire_id
                        )
        return tuple(self.facts)


_NO_STAND_IN: Final = 20_000


def _whole(part: ToolCall) -> bool:
    arguments = part.arguments
    return arguments.valid or not arguments.text.strip()


def begins_json(text: str) -> bool:
    """Whether a text that is no JSON could become JSON if it went on."""
    text = text.lstrip()
    if text[:1] not in ("{", "[", '"'):
        return False
    try:
        from_json(text, allow_partial="trailing-strings", allow_inf_nan=False)
    except ValueError:
        return False
    try:
        json.JSONDecoder().raw_decode(text)
    except ValueError:
        return True
    return False  # a whole value and something behind it: nothing that follows makes JSON of it


def _only_text(content: Content) -> str | None:
    """The text of a result that is nothing but one text."""
    if isinstance(content, tuple) and len(content) == 1 and isinstance(content[0], Text):
        return content[0].text
    return None


def _content_of(fact: Any, wire_id: str) -> Any:
    """A result as it stood in the input, with the id that it names."""
    if fact.raw is not None:
        return fact.raw
    return {"call_id": wire_id, "content": _plain_content(fact)}


def _plain_content(fact: Any) -> Any:
    content = getattr(fact, "content", None)
    if content is None or isinstance(content, str):
        return content
    return [part.raw.value if part.raw else getattr(part, "text", "") for part in content]


def _for_call(fact: Any, key: str) -> Any:
    from dataclasses import replace  # noqa: PLC0415 - rare

    return fact if fact.call_id == key else replace(fact, call_id=key)


def split_place(place: str | None) -> tuple[int | None, str | None]:
    """`L12/message/content/0` -> (12, "/message/content/0"); a pointer alone has no line."""
    if not place:
        return None, None
    if place[0] == "L" and (digits := place[1:].split("/", 1)[0].split(":", 1)[0]).isdigit():
        return int(digits), place[1 + len(digits) :] or None
    return None, place


def dump_any(value: Any) -> str:
    """Any value as JSON text; what JSON cannot say is told by its name."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=repr)
    except (ValueError, TypeError, RecursionError) as error:
        return json.dumps(f"a {type(value).__name__} that no JSON text can hold: {error}")
