"""What the host knows beside an input, as facts: what it leaves out of them (ids, places, turns) is filled in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import chain, count
from typing import TYPE_CHECKING, Any

from normalizer.errors import UnreadableInput
from normalizer.facts import Observation, fact_validator
from normalizer.findings import Finding, Leftover, Reading
from normalizer.reading.facts_jsonl import same
from normalizer.rules import pointer
from normalizer.util.redaction import named
from normalizer.util.text import readable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from normalizer.facts import Fact


def completed(given: Iterable[Fact | Mapping[str, Any]] | None, read_facts: Sequence[Fact]) -> Reading:
    """The facts of a host, whole, and what was wrong with those that are plain objects.

    `{"kind": "call_skipped", "call_id": "toolu_1"}` gets an id (`host/1`), the next number, and the turn of its call.
    Raises UnreadableInput naming the fact and the field that is wrong.
    """
    plain = _each(given)
    if not plain:
        return Reading("facts")
    turns = {
        part.id: fact.turn_id
        for fact in read_facts
        if fact.kind in ("model_replied", "reply_cut")
        for part in fact.parts
        if part.kind == "tool_call"
    }
    seq = max((fact.seq for fact in read_facts), default=0)
    last = next((fact.turn_id for fact in reversed(read_facts) if fact.turn_id), None)
    usual = next((turns[c] for c in map(_call_id, plain) if c in turns), last)
    known = {fact.fact_id: fact for fact in read_facts}
    facts: list[Fact] = []
    findings: list[Finding] = []
    leftovers: list[Leftover] = []
    for number, said in enumerate(plain, start=1):
        if not isinstance(said, Mapping):
            facts.append(_another(number, said, known))
            continue
        turn = turns.get(_call_id(said), usual)
        beside = {"fact_id": _free(number, known), "seq": seq + number, "source": "host", "turn_id": turn}
        facts.append(_another(number, _fact(number, {**beside, **_readable(said)}), known))
        for place, text in _unreadable(said, ()):
            message = f"half a surrogate pair or NUL in host fact {number}; it is read as U+FFFD"
            findings.append(Finding("bad_unicode", message, number, place, facts=(facts[-1].fact_id,)))
            leftovers.append(
                Leftover("the text as it was, with bad characters", json.dumps(text), number, place)
            )
    return Reading("facts", tuple(facts), tuple(findings), tuple(leftovers))


def _each(given: Any) -> list[Any]:
    if given is None:
        return []
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise UnreadableInput(f"facts= is of type {type(given).__name__!r}; pass a list of facts or objects")
    plain = list(given)
    for number, said in enumerate(plain, start=1):
        if not isinstance(said, (Mapping, Observation)):
            what = type(said).__name__
            raise UnreadableInput(
                f"host fact {number} is of type {what!r}; pass a fact or an object", line=number
            )
    return plain


def _fact(number: int, said: dict[str, Any]) -> Fact:
    from pydantic import ValidationError  # noqa: PLC0415 - the validator loads it, and no one else needs it

    try:
        made: Fact = fact_validator().validate_python(said)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = "".join(f"/{step}" for step in first["loc"][1:]) or "/kind"
        raise UnreadableInput(
            f"host fact {number}: {first['msg']} at {place}", pointer=place, line=number
        ) from None
    return made


def _free(number: int, known: Mapping[str, Fact]) -> str:
    """An id for a host's fact. What was read may hold facts of a host itself, from an earlier time."""
    own = f"host/{number}"
    return next(name for name in chain((own,), (f"{own}_{n}" for n in count(2))) if name not in known)


def _another(number: int, fact: Fact, known: dict[str, Fact]) -> Fact:
    """The fact, unless its id is that of another one, which would hide it."""
    earlier = known.setdefault(fact.fact_id, fact)
    if not same(earlier, fact):
        raise UnreadableInput(
            f"host fact {number}: another fact ({earlier.kind}) has its id {named(fact.fact_id)}; leave fact_id out, or"
            " give every fact an id of its own",
            pointer="/fact_id",
            line=number,
        )
    return fact


def _call_id(said: Any) -> Any:
    found = said.get("call_id") if isinstance(said, Mapping) else getattr(said, "call_id", None)
    return found if isinstance(found, str) else None


def _readable(value: Any) -> Any:
    """The value with texts that every API takes; parts may stand in it as they are."""
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, Mapping):
        return {key: _readable(item) for key, item in value.items()}
    return [_readable(item) for item in value] if isinstance(value, (list, tuple)) else value


def _unreadable(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[str, str]]:
    """The texts with bad characters, each with its place."""
    if isinstance(value, str):
        if readable(value) != value:
            yield pointer(*path), value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _unreadable(item, (*path, key))
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _unreadable(item, (*path, number))
