"""A result that stands elsewhere than directly behind its reply: readers and the facts alone say the same of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import normalizer
from normalizer.facts import CallCompleted, InstructionsSet, ModelReplied, ToolsDeclared, UserSaid
from normalizer.folding.placement import displaced
from normalizer.parts import Json, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterable

    from normalizer.facts import Fact
    from normalizer.findings import Reading

RULES = Path(__file__).parent.parent / "fixtures" / "rules"
FILES: Final = {
    "anthropic": "anthropic_cases.jsonl",
    "openai_chat": "openai_chat_cases.jsonl",
    "openai_responses": "openai_responses_cases.jsonl",
}
APIS: Final = tuple(FILES)


def by_facts(facts: Iterable[Fact]) -> set[str]:
    """The ids of the displaced results, from the facts alone."""
    transcript = normalizer.fold(facts)
    entries = transcript.entries
    found = set()
    for number, entry in enumerate(entries):
        if entry.kind != "reply":
            continue
        after = [n for n, later in enumerate(entries) if n > number and later.kind == "reply"]
        behind = entries[number + 1 : (after[0] + 1 if after else None)]
        calls = [transcript.calls[key] for key in entry.calls if key in transcript.calls]
        found |= {call.result.fact_id for call in calls if displaced(call, entry, behind) and call.result}
    return found


def by_reader(reading: Reading) -> set[str]:
    """The ids of the results that count and that a finding calls displaced."""
    calls = normalizer.fold(reading.facts).calls.values()
    counting = {call.result.fact_id for call in calls if call.result is not None}
    told = [found for found in reading.findings if found.kind == "displaced_result"]
    return counting & {found.facts[0] for found in told if "directly behind" in found.message}


def history(api: str, pieces: str) -> Any:
    """A conversation: `a`, `b` are calls of one reply, `A`, `B` their results; `u`ser, `s`ystem, `r`eply."""
    made: list[Any] = []
    for n, piece in enumerate(pieces):
        if piece in "ab":
            call: dict[str, Any] = {
                "anthropic": {"type": "tool_use", "id": f"call_{piece}", "name": "f", "input": {}},
                "openai_chat": {
                    "id": f"call_{piece}",
                    "type": "function",
                    "function": {"name": "f", "arguments": "{}"},
                },
                "openai_responses": {
                    "type": "function_call",
                    "call_id": f"call_{piece}",
                    "name": "f",
                    "arguments": "{}",
                },
            }[api]
            key = {"anthropic": "content", "openai_chat": "tool_calls"}.get(api)
            if key is None:
                made.append(call)
            elif n and pieces[n - 1] in "ab":
                made[-1][key].append(call)
            else:
                made.append(
                    {"role": "assistant", **({} if key == "content" else {"content": None}), key: [call]}
                )
        elif piece in "AB":
            wire_id = f"call_{piece.lower()}"
            block = {"type": "tool_result", "tool_use_id": wire_id, "content": f"result {piece}"}
            made.append(
                {
                    "anthropic": {"role": "user", "content": [block]},
                    "openai_chat": {"role": "tool", "tool_call_id": wire_id, "content": f"result {piece}"},
                    "openai_responses": {
                        "type": "function_call_output",
                        "call_id": wire_id,
                        "output": f"result {piece}",
                    },
                }[api]
            )
        else:
            role = {"u": "user", "s": "system", "r": "assistant"}[piece]
            made.append({"role": role, "content": f"{role} {n}"})
    return made if api == "openai_responses" else {"messages": made}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ("uaA", ""),
        ("uabAB", ""),
        ("uabBA", ""),
        ("uaAu", ""),
        ("uauA", "A"),
        ("uasA", "A"),
        ("uabAuB", "B"),
        ("uauru", ""),
        ("uaruA", "A"),
        ("uAa", "A"),
        ("uabuAB", "AB"),
    ],
)
def test_each_reader_says_where_a_result_stands(api: str, pieces: str, expected: str) -> None:
    reading = normalizer.read(history(api, pieces), format=api)
    found = by_reader(reading)
    content = {fact.fact_id: fact.content for fact in reading.facts if isinstance(fact, CallCompleted)}
    assert {content[fact_id] for fact_id in found} == {f"result {piece}" for piece in expected}
    assert found == by_facts(reading.facts)


@settings(max_examples=150, deadline=None)
@given(
    api=st.sampled_from(APIS),
    pieces=st.lists(st.sampled_from(["u", "s", "r", "a", "ab", "A", "B"]), max_size=9),
)
def test_readers_and_facts_agree_on_any_history(api: str, pieces: list[str]) -> None:
    reading = normalizer.read(history(api, "u" + "".join(pieces)), format=api)
    assert by_reader(reading) == by_facts(reading.facts)


@pytest.mark.parametrize("api", APIS)
def test_readers_and_facts_agree_on_every_case(api: str) -> None:
    lines = [json.loads(line) for line in (RULES / FILES[api]).read_text("utf-8").splitlines()]
    seen = 0
    for line in lines:
        try:
            reading = normalizer.read(line["request"], format=api)
        except normalizer.NormalizerError:
            continue
        found = by_reader(reading)
        seen += len(found)
        assert found == by_facts(reading.facts), line["id"]
    assert seen


REPLY = ModelReplied(fact_id="r", seq=3, parts=(ToolCall("a", "f", Json("{}")),))
ANSWERING = ModelReplied(fact_id="r", seq=3, parts=REPLY.parts, answers="q")


def result(seq: int, content: str | None = "done") -> CallCompleted:
    return CallCompleted(fact_id="c", seq=seq, call_id="a", content=content)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ((REPLY, result(4)), set()),
        ((REPLY, result(4), UserSaid(fact_id="u", seq=5, parts=())), set()),
        ((REPLY, UserSaid(fact_id="u", seq=4, parts=()), result(5)), {"c"}),
        ((REPLY, InstructionsSet(fact_id="u", seq=4, parts=()), result(5)), {"c"}),
        ((REPLY, ToolsDeclared(fact_id="t", seq=4, tools=()), result(5)), set()),
        ((REPLY, ModelReplied(fact_id="r2", seq=4, parts=()), result(5)), {"c"}),
        ((REPLY, UserSaid(fact_id="u", seq=4, parts=()), result(5, None)), set()),
        ((REPLY, result(2)), {"c"}),
        ((ANSWERING, result(2)), set()),
        ((REPLY,), set()),
    ],
)
def test_what_the_facts_say(facts: tuple[Fact, ...], expected: set[str]) -> None:
    assert by_facts(facts) == expected
