"""What a Responses request may not hold is mended or told: the last judge of a repair finds nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from normalizer import Repair, repair
from normalizer.errors import CannotProject

USER: dict[str, Any] = {"role": "user", "content": "Hi"}
HELLO: dict[str, Any] = {
    "type": "message",
    "id": "msg_1",
    "status": "completed",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Hello.", "annotations": []}],
}
PROGRAM = {
    "type": "program",
    "id": "prog_1",
    "call_id": "call_p",
    "code": "await tools.f({})",
    "fingerprint": "fp_1",
}
PROGRAM_OUTPUT = {
    "type": "program_output",
    "id": "progo_1",
    "call_id": "call_p",
    "result": "12",
    "status": "completed",
}
SEARCH = {
    "type": "tool_search_call", "call_id": None, "execution": "server", "status": "completed", "arguments": {},
}  # fmt: skip
FOUND = {
    "type": "tool_search_output", "call_id": None, "execution": "server", "status": "completed", "tools": [],
}  # fmt: skip
CALL = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "12"}
BY_PROGRAM = {"type": "program", "caller_id": "call_p"}


def mended(*items: Any, **options: Any) -> Repair:
    return repair({"model": "gpt-5.4", "input": [*items]}, format="openai_responses", **options)


def without(item: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != key}


def test_what_is_whole_stays_as_it_is() -> None:
    for items in ((PROGRAM, PROGRAM_OUTPUT), (SEARCH, FOUND)):
        assert mended(USER, *items, HELLO, USER).request["input"] == [USER, *items, HELLO, USER]


@pytest.mark.parametrize(
    ("call", "result"),
    [
        (SEARCH, without(FOUND, "tools")),
        (PROGRAM, without(PROGRAM_OUTPUT, "id")),
        (PROGRAM, without(PROGRAM_OUTPUT, "result")),
        (PROGRAM, {**PROGRAM_OUTPUT, "id": [{}]}),
        (without(PROGRAM, "id"), PROGRAM_OUTPUT),
        ({**PROGRAM, "code": 5}, PROGRAM_OUTPUT),
        (PROGRAM, {**PROGRAM_OUTPUT, "id": "msg_0"}),
    ],
)
def test_a_call_of_the_servers_goes_with_its_result(call: Any, result: Any) -> None:
    before = {**HELLO, "id": "msg_0"}
    repaired = mended(USER, before, USER, call, result, HELLO, USER)
    assert repaired.request["input"] == [USER, before, USER, HELLO, USER]
    told = [json.loads(note.content or "") for note in repaired.adjustments]
    assert call in told
    assert result in told
    assert mended(*repaired.request["input"]).request == repaired.request


def test_a_result_goes_with_a_program_that_stands_in_the_history_already() -> None:
    repaired = mended(PROGRAM, USER, {**PROGRAM, "code": "0"}, PROGRAM_OUTPUT, HELLO)
    assert [item for item in repaired.request["input"] if item.get("type", "message") != "message"] == []


@pytest.mark.parametrize(
    "caller", [None, True, {"type": "direct"}, {"type": "sandbox", "caller_id": "call_p"}]
)
def test_an_output_names_the_caller_that_its_call_names(caller: Any) -> None:
    repaired = mended(USER, {**CALL, "caller": caller}, {**OUTPUT, "caller": BY_PROGRAM}, HELLO, USER)
    output = next(item for item in repaired.request["input"] if item.get("type") == "function_call_output")
    assert output.get("caller") == (caller if isinstance(caller, dict) else None)


@pytest.mark.parametrize("odd", [True, 5, {}, []])
def test_a_message_whose_type_is_no_name_is_still_a_message(odd: Any) -> None:
    repaired = mended(USER, {**HELLO, "type": odd}, USER)
    assert repaired.request["input"] == [USER, HELLO, USER]
    assert json.dumps({"type": odd}) in [
        json.dumps(json.loads(n.content or "0")) for n in repaired.adjustments
    ]


def test_a_reference_without_a_type_keeps_its_null() -> None:
    reference = {"type": None, "id": "msg_1"}
    assert mended(USER, reference, USER).request["input"] == [USER, reference, USER]


def test_the_host_and_the_input_at_odds_about_what_is_stored() -> None:
    given = {"model": "gpt-5.4", "store": False, "input": [USER, {"id": "msg_1", "odd": 1}, USER]}
    assert repair(given, format="openai_responses").request["input"] == [USER, USER]
    with pytest.raises(CannotProject, match="leave stored=True out") as caught:
        repair(given, format="openai_responses", stored=True)
    assert caught.value.reason == "unmendable"


@pytest.mark.parametrize("frame", [{}, {"type": "message"}, {"odd_key": 1}])
def test_an_empty_message_of_this_api_stays(frame: dict[str, Any]) -> None:
    empty = {"role": "user", "content": [], **frame}
    repaired = mended(empty, USER)
    assert repaired.request["input"] == [{k: v for k, v in empty.items() if k != "odd_key"}, USER]
    assert mended(*repaired.request["input"]).request == repaired.request


def test_an_anthropic_caller_is_none_of_this_api() -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}, "caller": {"type": "direct"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}
    given = [USER, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    repaired = repair({"messages": given}, format="anthropic", to="openai_responses")
    assert repaired.request["input"][2] == {
        "type": "function_call_output",
        "call_id": "toolu_1",
        "output": "ok",
    }


def test_a_request_that_takes_no_model_gets_none() -> None:
    steering = {
        "type": "response.steer",
        "previous_response_id": "resp_1",
        "input": [{"type": "message", **USER}],
    }
    repaired = repair(steering, format="openai_responses", model="gpt-5.4")
    assert repaired.request == steering
    assert [note.because for note in repaired.adjustments] == ["OAR-STATE-012"]
