"""Facts: what is stored comes back as it was, byte for byte; what is no fact is named with its line and field."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from normalizer import facts as f
from normalizer.errors import UnreadableInput
from normalizer.facts import FACT, FACTS, Fact, dump, dump_lines, load_lines
from normalizer.parts import Json, Opaque, Text, ToolCall
from normalizer.testing import facts, histories

KINDS = {
    kind.__dataclass_fields__["kind"].default: kind
    for group in get_args(f.Fact)
    for kind in (get_args(group) or (group,))
}
DESIGNED = {
    "instructions_set", "tools_declared", "turn_opened", "user_said", "model_replied", "reply_cut", "steering_queued",
    "steering_applied", "steering_withdrawn", "summarised", "rewound", "request_sent", "turn_cancel_requested",
    "turn_ended", "run_lost", "approval_requested", "approval_given", "approval_denied", "call_queued", "call_skipped",
    "start_permitted", "output_observed", "call_cancel_requested", "remote_cancel_updated", "call_completed",
    "call_terminated", "contact_lost", "effects_verified", "outcome_attested",
}  # fmt: skip


def test_the_list_of_facts_is_closed() -> None:
    assert set(KINDS) == DESIGNED


def test_the_validators_are_built_once() -> None:
    assert f.FACT is FACT
    assert f.FACTS is FACTS
    with pytest.raises(AttributeError, match="has no attribute 'FICTION'"):
        _ = f.FICTION  # type: ignore[attr-defined]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(facts())
def test_any_fact_comes_back_as_it_was_byte_for_byte(fact: Fact) -> None:
    line = dump(fact)
    assert b"\n" not in line
    again = FACT.validate_json(line)
    assert again == fact
    assert dump(again) == line


@settings(max_examples=60, deadline=None, derandomize=True)
@given(histories())
def test_a_conversation_comes_back_from_its_lines(told: list[Fact]) -> None:
    lines = dump_lines(told)
    again = list(load_lines(lines))
    assert again == told
    assert dump_lines(again) == lines
    assert FACTS.validate_json(b"[" + b",".join(dump(fact) for fact in told) + b"]") == tuple(told)


@given(
    st.sampled_from(
        ['{"b":1,"a":2}', '{"b": 1,  "a": 2}', '{"a":1,"a":2}', '{"n":1.0}', '{"n":1e5}', '"é"', "[]"]
    )
)
def test_json_of_others_keeps_its_bytes(text: str) -> None:
    fact = f.UserSaid(fact_id="x", parts=(Text("hi", Json(text)),))
    (again,) = load_lines(dump(fact))
    assert again.parts[0].raw.text == text  # type: ignore[union-attr]


def test_a_block_of_an_unknown_type_survives_whole() -> None:
    block = {"type": "novelty", "z": {"deep": [1, None, "é"]}, "a": 2}
    fact = f.ModelReplied(fact_id="x", parts=(Opaque("novelty", Json.of(block)),))
    (again,) = load_lines(dump(fact))
    part = again.parts[0]  # type: ignore[union-attr]
    assert (part.type, part.raw.value) == ("novelty", block)
    assert list(part.raw.value) == list(block)


def test_a_call_without_an_id_survives() -> None:
    fact = f.ModelReplied(fact_id="x", parts=(ToolCall(None, "run", Json("{}")),))
    assert list(load_lines(dump(fact))) == [fact]


def test_arguments_that_are_no_json_survive() -> None:
    fact = f.ModelReplied(fact_id="x", parts=(ToolCall("toolu_1", "run", Json('{"path":"a.t')),))
    (again,) = load_lines(dump(fact))
    assert again == fact
    assert not again.parts[0].arguments.valid  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", sorted(DESIGNED))
def test_unknown_keys_are_refused(kind: str) -> None:
    with pytest.raises(ValidationError):
        FACT.validate_python({"kind": kind, "fact_id": "x", "surprise": 1})


@pytest.mark.parametrize(
    ("line", "pointer"),
    [
        (b'{"kind":"turn_ended","fact_id":"x","status":"done"}', "/status"),
        (b'{"kind":"call_completed","fact_id":"x"}', "/call_id"),
        (b'{"kind":"user_said","fact_id":"x","parts":[{"kind":"text"}]}', "/parts/0/text/text"),
    ],
)
def test_a_line_that_is_no_fact_is_named_with_its_field(line: bytes, pointer: str) -> None:
    with pytest.raises(UnreadableInput, match="line 3") as caught:
        list(load_lines(b'{"kind":"turn_opened","fact_id":"a"}\n\n' + line + b"\n"))
    assert (caught.value.line, caught.value.pointer) == (3, pointer)


def test_facts_are_frozen_and_compared_by_value() -> None:
    fact = f.TurnOpened(fact_id="x", seq=1)
    with pytest.raises(AttributeError):
        fact.seq = 2  # type: ignore[misc]
    assert fact == f.TurnOpened(fact_id="x", seq=1)
    assert Json('{"a":1}') == Json.of({"a": 1})
    assert Json('{"a": 1}') != Json.of({"a": 1})
    assert len({Json("1"), Json.of(1)}) == 1


@given(st.sampled_from(["", "{", "nul", "[" * 100_000]))
def test_json_says_whether_it_is_json(text: str) -> None:
    assert not Json(text).valid


def test_what_is_absent_is_left_out() -> None:
    line: dict[str, Any] = json.loads(dump(f.CallCompleted(fact_id="x", call_id="toolu_1")))
    assert "at" not in line
    assert "content" not in line
    assert line["kind"] == "call_completed"
