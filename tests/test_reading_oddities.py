"""What no message can be is told alike by every reader: a finding, and a leftover that holds all of it."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

import normalizer

KEYS: Final = {"anthropic": "messages", "openai_chat": "messages", "openai_responses": "input"}
each_api = pytest.mark.parametrize("api", list(KEYS))
HELLO: Final = {"role": "user", "content": "Hello"}


def read(api: str, *messages: Any, **more: Any) -> normalizer.Reading:
    return normalizer.read({KEYS[api]: [HELLO, *messages], **more}, format=api)


@each_api
@pytest.mark.parametrize(
    ("odd", "kind", "says"),
    [
        (7, "bad_line", "is not an object"),
        (["x"], "bad_line", "is not an object"),
        ({"role": "narrator", "content": "x"}, "unknown_block", "of the unknown role 'narrator'"),
        ({"role": "user", "content": {"x": 1}}, "bad_line", "neither text nor a list of blocks"),
        ({"role": "assistant", "content": {"x": 1}}, "bad_line", "neither text nor a list of blocks"),
        ({"role": "system", "content": {"x": 1}}, "bad_line", "neither text nor a list of blocks"),
        ({"role": "tool", "tool_use_id": "a", "tool_call_id": "a", "content": "r"}, "orphan_result", "'a'"),
    ],
)
def test_what_no_message_can_be_is_told_and_kept(api: str, odd: Any, kind: str, says: str) -> None:
    if api == "openai_responses" and isinstance(odd, dict) and odd["role"] == "assistant":
        pytest.skip("an item of the model's is kept as it came, whatever is in it")
    reading = read(api, odd)
    assert [found.message for found in reading.findings if found.kind == kind and says in found.message]
    held = odd["content"] if isinstance(odd, dict) and kind != "unknown_block" else odd
    assert any(json.dumps(held, separators=(",", ":")) in left.text for left in reading.leftovers)
    assert "Hello" in str(reading.facts)


@each_api
@pytest.mark.parametrize("odd", [{"a": 1}, "none", 5])
def test_tools_that_are_no_list_are_kept_aside(api: str, odd: Any) -> None:
    reading = read(api, tools=odd)
    assert [left.reason for left in reading.leftovers] == ["tools are not a list"]
    assert not [fact for fact in reading.facts if fact.kind == "tools_declared" and fact.tools]


@each_api
@pytest.mark.parametrize("key", ["choices", "output", "input", "tool_calls", "data", "content"])
def test_a_value_without_a_history_never_raises_an_exception_of_the_language(api: str, key: str) -> None:
    for value in ({key: [{"x": 1}]}, {key: [{"x": 1}], "id": "a"}):
        reading = normalizer.read(value, format=api)
        assert reading.format == api


def test_a_message_alone_is_read() -> None:
    for api in ("anthropic", "openai_chat"):
        reading = normalizer.read({"role": "user", "content": "Hello"}, format=api)
        assert [fact.parts[0].text for fact in reading.facts if fact.kind == "user_said"] == ["Hello"]  # type: ignore[union-attr]


@each_api
def test_settings_are_all_that_is_no_history(api: str) -> None:
    reading = read(api, temperature=0.5, tools=[])
    assert reading.settings == {"temperature": 0.5}
    assert (reading.format, reading.home, reading.stored) == (api, api, None)
