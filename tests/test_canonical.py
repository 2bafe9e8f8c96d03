"""Canonical bytes: what makes two requests begin the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normalizer.projecting import canonical

MARK = {"cache_control": {"type": "ephemeral"}}


def request(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"messages": list(messages), **more}


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content[0] if isinstance(content[0], str) else list(content)}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


SAME = [
    (request(user("hi")), request(user(text("hi")))),
    (request(user(text("hi"))), request(user(text("hi", **MARK)))),
    (request(user(text("a"), text("b"))), request(user(text("a")), user(text("b")))),
    (request(user("hi"), system="Be brief."), request(user("hi"), system=[text("Be brief.", **MARK)])),
    (
        request(user({"type": "tool_result", "tool_use_id": "a", "content": [text("x")]})),
        request(user({"type": "tool_result", "tool_use_id": "a", "content": [text("x", **MARK)], **MARK})),
    ),
    (request(user("hi"), tools=[{"name": "run"}]), request(user("hi"), tools=[{"name": "run", **MARK}])),
    (request(user("hi"), model="a", max_tokens=1), request(user("hi"), model="b", temperature=1)),
]
DIFFERENT = [
    (request(user(text("hi"))), request({"role": "assistant", "content": "hi"})),
    (request(user({"a": 1, "b": 2})), request(user({"b": 2, "a": 1}))),
    (request(user("hi")), request(user("hi"), system="Be brief.")),
    (request(user("hi")), request(user("hi"), tools=[{"name": "run"}])),
    (request(user(text("ab"))), request(user(text("a"), text("b")))),
    (request({"role": "system", "content": "x"}), request({"role": "system", "content": "x", "clear_at": 1})),
]


@pytest.mark.parametrize(("left", "right"), SAME)
def test_the_same_bytes(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert canonical.encode(left) == canonical.encode(right)


@pytest.mark.parametrize(("left", "right"), DIFFERENT)
def test_other_bytes(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert canonical.encode(left) != canonical.encode(right)


def test_a_last_message_may_grow() -> None:
    before = request(user(text("a")), system="s", tools=[{"name": "run"}])
    after = request(
        user(text("a"), text("b")), {"role": "assistant", "content": "c"}, system="s", tools=[{"name": "run"}]
    )
    assert canonical.encode(after).startswith(canonical.encode(before))


@pytest.mark.parametrize(
    ("key", "content"), [("messages", "content"), ("input", "content"), ("contents", "parts")]
)
def test_every_wires_history_has_blocks(key: str, content: str) -> None:
    held = {key: [{"role": "user", content: [{"text": "a"}, {"text": "b"}]}]}
    assert len(list(canonical.blocks(held))) == 2


def test_an_input_that_is_one_text_is_a_message_of_the_user() -> None:
    plain = canonical.encode({"input": "hi"})
    assert plain == canonical.encode({"input": [{"role": "user", "content": "hi"}]})


def test_items_without_content_are_blocks() -> None:
    items = [{"type": "function_call", "call_id": "a", "name": "run", "arguments": "{}"}]
    assert len(list(canonical.blocks({"input": items}))) == 1


def test_half_a_surrogate_pair_does_not_stop_the_bytes() -> None:
    assert canonical.encode(request(user("\ud83d")))


@given(st.lists(st.binary(max_size=6), max_size=6), st.integers(0, 6))
def test_a_running_digest_goes_on_from_anywhere(pieces: list[bytes], cut: int) -> None:
    whole = canonical.running(canonical.EMPTY, pieces)
    assert canonical.running(canonical.running(canonical.EMPTY, pieces[:cut]), pieces[cut:]) == whole


@given(st.lists(st.binary(min_size=1, max_size=4), min_size=2, max_size=4))
def test_a_running_digest_knows_the_borders_of_blocks(pieces: list[bytes]) -> None:
    joined = [pieces[0] + pieces[1], *pieces[2:]]
    assert canonical.running(canonical.EMPTY, pieces) != canonical.running(canonical.EMPTY, joined)
