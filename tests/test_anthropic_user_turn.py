"""What stands behind results in a Messages request: quotes of another provider's server, media of failed results."""

from __future__ import annotations

import json
from typing import Any

import pytest

from normalizer import fold, project, repair
from normalizer.facts import CallCompleted, ModelReplied, ToolsDeclared, UserSaid
from normalizer.parts import Json, ServerToolCall, ServerToolResult, Text, Tool, ToolCall

SEARCH = ServerToolCall(
    "ws_1", "web_search", Json('{"query":"kite weather"}'), raw=Json('{"type":"web_search_call"}')
)
QUOTE = {"type": "text", "text": '[run by the provider\'s server: web_search]\n{"query":"kite weather"}'}


def searched(*parts: Any, seq: int, stop: str | None = None) -> ModelReplied:
    """A reply of another API with a search of its server's in it."""
    return ModelReplied(
        fact_id=f"r{seq}", seq=seq, api="openai_responses", parts=(SEARCH, *parts), stop_reason=stop
    )


def said(text: str, seq: int) -> UserSaid:
    return UserSaid(fact_id=f"u{seq}", seq=seq, parts=(Text(text),), group=seq)


def test_a_quote_stands_behind_the_results_and_before_words() -> None:
    facts = [
        said("Can we fly kites?", 1),
        searched(Text("I look."), ToolCall("c1", "run", Json("{}")), seq=2),
        CallCompleted(fact_id="d", seq=3, call_id="c1", content="windy"),
        said("Until when?", 4),
    ]
    sent = project(fold(facts), "anthropic", server_tools="quote")
    assert sent.request["messages"][2:] == [
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "windy"}, QUOTE],
        },
        {"role": "user", "content": [{"type": "text", "text": "Until when?"}]},
    ]
    assert [a.because for a in sent.adjustments if a.kind == "dropped_server_tool"] == ["ANT-ID-002"]
    dropped = project(fold(facts), "anthropic").request
    assert "kite weather" not in json.dumps(dropped)


@pytest.mark.parametrize("model", ["claude-opus-4-8", "claude-haiku-4-5"])
def test_a_quote_makes_no_finished_history_ask(model: str) -> None:
    facts = [said("Can we fly kites?", 1), searched(Text("Yes. "), seq=2)]
    sent = project(fold(facts), "anthropic", server_tools="quote", model=model)
    assert sent.request["messages"][1:] == [
        {"role": "assistant", "content": [{"type": "text", "text": "Yes. "}]},
        {"role": "user", "content": [QUOTE]},
    ]
    assert not sent.ready


def test_a_quote_waits_while_the_server_goes_on_with_a_call() -> None:
    tools = [{"type": "web_search_20250305", "name": "web_search"}]
    block = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "tides"}}
    own = ServerToolCall("srvtoolu_1", "web_search", Json('{"query":"tides"}'), raw=Json.of(block))
    facts: list[Any] = [
        ToolsDeclared(
            fact_id="t", seq=1, api="anthropic",
            tools=(Tool("web_search", raw=Json.of(tools[0]), server=True),),
        ),
        said("Can we sail?", 2),
        ModelReplied(fact_id="r3", seq=3, api="anthropic", parts=(own,), stop_reason="pause_turn"),
        searched(seq=4),
    ]  # fmt: skip
    waits = project(fold(facts), "anthropic", server_tools="quote")
    assert waits.ready
    assert waits.request["messages"][1:] == [{"role": "assistant", "content": [block]}]
    found = {
        "type": "web_search_tool_result", "tool_use_id": "srvtoolu_1",
        "content": [
            {"type": "web_search_result", "title": "Tides", "url": "https://example.test/", "encrypted_content": "x"}
        ],
    }  # fmt: skip
    facts.append(
        ModelReplied(
            fact_id="r5", seq=5, api="anthropic", stop_reason="end_turn",
            parts=(ServerToolResult("srvtoolu_1", Json.of(found)), Text("At noon.")),
        )
    )  # fmt: skip
    went_on = project(fold([*facts, said("And later?", 6)]), "anthropic", server_tools="quote")
    assert went_on.request["messages"][1:] == [
        {"role": "assistant", "content": [block]},
        {"role": "assistant", "content": [found, {"type": "text", "text": "At noon."}]},
        {"role": "user", "content": [QUOTE]},
        {"role": "user", "content": [{"type": "text", "text": "And later?"}]},
    ]


def test_what_moves_out_of_a_result_stays_in_its_place_when_words_come() -> None:
    picture = {"type": "image", "source": {"type": "url", "url": "https://example.test/a.png"}}
    failed = {"type": "tool_result", "tool_use_id": "t1", "is_error": True,
              "content": [{"type": "text", "text": "no"}, picture]}  # fmt: skip
    call = {"type": "tool_use", "id": "t1", "name": "run", "input": {}}
    messages = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": [call]},
                {"role": "user", "content": [failed]}]  # fmt: skip
    first = repair({"messages": messages}, to="anthropic").request["messages"]
    assert first[2]["content"] == [{**failed, "content": [{"type": "text", "text": "no"}]}, picture]
    then = repair({"messages": [*messages, {"role": "user", "content": "Why?"}]}, to="anthropic")
    assert then.request["messages"] == [*first, {"role": "user", "content": "Why?"}]
