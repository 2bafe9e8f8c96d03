"""Facts that come beside an input, or as one: none hides another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import normalizer
from normalizer.errors import UnreadableInput
from normalizer.facts import ApprovalDenied, Fact, StartPermitted, UserSaid, dump_lines, load_lines
from normalizer.parts import Text

CALLS = [{"type": "tool_use", "id": wire_id, "name": "f", "input": {}} for wire_id in ("toolu_1", "toolu_2")]
HISTORY = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": CALLS}]
DENIED = {"kind": "approval_denied", "call_id": "toolu_2", "by": "user"}
STARTED = {"kind": "start_permitted", "call_id": "toolu_1"}


def repaired(source: Any, *facts: Any) -> normalizer.Repair:
    chosen = "auto" if isinstance(source, bytes) else "anthropic"
    return normalizer.repair(source, format=chosen, to="anthropic", facts=facts)


def bases(found: normalizer.Repair) -> list[str]:
    return [call.outcome.basis for call in found.transcript.calls.values()]


def said(words: str, seq: int) -> UserSaid:
    return UserSaid(fact_id="said", seq=seq, turn_id="t", parts=(Text(words),))


def test_a_hosts_fact_is_not_taken_for_one_that_a_host_gave_before() -> None:
    earlier = repaired(HISTORY, STARTED).transcript.facts
    assert bases(repaired(dump_lines(earlier), DENIED)) == ["no_end_recorded", "denied"]


@pytest.mark.parametrize(
    "facts",
    [
        [{**DENIED, "fact_id": "same"}, {**STARTED, "fact_id": "same"}],
        [{**DENIED, "fact_id": "/messages/1"}],
        [ApprovalDenied(fact_id="/messages/1", call_id="toolu_2")],
        [StartPermitted(fact_id="same", call_id="toolu_1"), {**STARTED, "fact_id": "same"}],
    ],
)
def test_a_hosts_fact_with_the_id_of_another_fact_is_told(facts: list[Any]) -> None:
    with pytest.raises(UnreadableInput, match=r"another fact .* has its id '(same|/messages/1)'") as caught:
        repaired(HISTORY, *facts)
    assert (caught.value.line, caught.value.pointer) == (len(facts), "/fact_id")


def test_a_hosts_fact_twice_is_the_same_as_once() -> None:
    named = {**DENIED, "fact_id": "same"}
    assert repaired(HISTORY, named, named).request == repaired(HISTORY, named).request


def test_of_two_facts_with_one_id_in_a_file_the_first_counts_and_the_other_is_kept_aside() -> None:
    lines = dump_lines([said("one", 1)]) + b"\n" + dump_lines([said("two", 2), said("one", 3)])
    reading = normalizer.read(lines)
    assert reading.facts == (said("one", 1),)
    assert [(found.kind, found.line, found.facts) for found in reading.findings] == [
        ("bad_line", 3, ("said",))
    ]
    (left,) = reading.leftovers
    kept: tuple[Fact, ...] = tuple(load_lines(left.text.encode()))
    assert (left.line, kept) == (3, (said("two", 2),))


def test_facts_come_back_from_their_file() -> None:
    facts = (said("one", 1), replace(said("two", 2), fact_id="other"))
    reading = normalizer.read(dump_lines(facts))
    assert (reading.facts, reading.findings, reading.leftovers) == (facts, (), ())
