"""Situations in which one API was treated otherwise than the others. Each is tried on every target.

A target that breaks a law today is marked, strictly: what is mended has to be unmarked, and its row in `known_gaps.py`
goes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from accounting import Account, unreported
from judging import JUDGES, TARGETS
from lawful import Case, facts_of, projected, request_sent
from test_laws_report import RULES
from truths import untrue
from views import heads, lines

import normalizer
from normalizer import facts as f
from normalizer.parts import Json, Text, Tool, ToolCall

Mark = Callable[[Callable[..., None]], Callable[..., None]]


def every_target(**broken: str) -> Mark:
    """Every target; those named break the law today, and why."""
    rows = [
        pytest.param(
            target, marks=pytest.mark.xfail(strict=True, reason=broken[target]) if target in broken else ()
        )
        for target in TARGETS
    ]
    return pytest.mark.parametrize("target", rows)


def said(seq: int, text: str) -> f.UserSaid:
    return f.UserSaid(fact_id=f"u{seq}", seq=seq, turn_id="t", parts=(Text(text),))


def replied(seq: int, *parts: Any, **more: Any) -> f.ModelReplied:
    return f.ModelReplied(fact_id=f"r{seq}", seq=seq, turn_id="t", parts=parts, **more)


def call(name: str = "run") -> ToolCall:
    return ToolCall("call_1", name, Json("{}"))


def case(target: str, *told: Any, **options: Any) -> Case:
    return Case(target, list(told), {"open_calls": "unknown", **options})


# ---------------------------------------------------------------- updates


@every_target()
def test_an_update_stands_behind_what_was_sent(target: str) -> None:
    """A request told the call as running; then its process is lost, and no fact of the call itself is newer."""
    told = [
        f.TurnOpened(fact_id="o", seq=1, turn_id="t", gated=True),
        said(2, "Bake the bread."),
        replied(3, Text("In it goes."), call()),
        f.StartPermitted(fact_id="p", seq=4, turn_id="t", call_id="call_1"),
        said(5, "How far is it?"),
    ]
    options = {"open_calls": "say_running"}
    first = projected(normalizer.fold(told), target, **options)
    assert first is not None
    lost = f.RunLost(fact_id="l", seq=7, turn_id="t")
    later = projected(
        normalizer.fold([*told, request_sent(first, fact_id="s", seq=6), lost]), target, **options
    )
    assert later is not None
    history = JUDGES[target].history
    before, now = lines(first.request, history), lines(later.request, history)
    assert len(later.late_news) == 1
    assert now[: len(before)] == before
    assert heads(first.request, history) == heads(later.request, history)


# ---------------------------------------------------------------- positions


@every_target()
def test_a_result_that_stands_elsewhere_than_on_record_is_reported(target: str) -> None:
    done = f.CallCompleted(fact_id="c", seq=4, turn_id="t", call_id="call_1", content="ground")
    found = case(target, said(1, "§1 Run."), replied(2, call()), said(3, "§2 Are you there?"), done)
    assert list(unreported(Account(found))) == []


@every_target()
def test_a_result_that_an_input_has_elsewhere_is_reported(target: str) -> None:
    use = {"type": "tool_use", "id": "toolu_ml", "name": "mill", "input": {"rounds": 3}}
    result = {"type": "tool_result", "tool_use_id": "toolu_ml", "content": "ground"}
    payload = {
        "messages": [
            {"role": "user", "content": "§1 Run the mill."},
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": "§2 Are you there?"},
            {"role": "user", "content": [result]},
        ]
    }
    assert list(unreported(Account(case(target, *facts_of(payload, "anthropic"))))) == []


@every_target()
def test_a_summary_stands_before_what_it_does_not_cover(target: str) -> None:
    summary = f.Summarised(fact_id="s", seq=4, turn_id="t", parts=(Text("§3 They met."),), through=1)
    found = case(target, said(1, "§1 Hello."), said(2, "§2 And Rome?"), summary)
    assert [piece.text for piece in found.pieces] == ["§3 They met.", "§2 And Rome?"]


# ---------------------------------------------------------------- names


def names_of(target: str, *told: Any) -> list[str]:
    """The names of the declared tools and of the calls."""
    found = case(target, *told)
    assert found.projection is not None
    declared = [
        tool.get("name") or tool["function"]["name"]
        for tool in found.projection.request.get("tools", ())
        if "name" in tool or "function" in tool
    ]
    return declared + [piece.name or "" for piece in found.pieces if piece.kind == "call"]


def declared(*names: str) -> f.ToolsDeclared:
    return f.ToolsDeclared(fact_id="d", seq=1, turn_id="t", tools=tuple(Tool(name) for name in names))


@every_target()
def test_a_renamed_tool_does_not_get_the_name_of_a_declared_one(target: str) -> None:
    chosen, *_ = names_of(target, declared("read file"), said(2, "Hello."))
    assert chosen != "read file"
    both = names_of(target, declared("read file", chosen), said(2, "Hello."))
    assert len(set(both)) == 2
    assert both[1] == chosen


@every_target()
def test_a_renamed_call_does_not_hit_a_declared_tool(target: str) -> None:
    chosen, *_ = names_of(target, declared("read file"), said(2, "Hello."))
    *_, called = names_of(
        target, declared(chosen), said(2, "Hello."), replied(3, call("read file")), said(4, "So?")
    )
    assert called not in ("read file", chosen)


# ---------------------------------------------------------------- quoting

SEARCHES: dict[str, dict[str, Any]] = {
    "openai_responses": {
        "input": [
            {"role": "user", "content": "Can we fly kites?"},
            {"type": "web_search_call", "id": "ws_1", "status": "completed",
             "action": {"type": "search", "query": "kite weather"}},
            {"role": "assistant", "content": "Yes, it is windy."},
            {"role": "user", "content": "Until when?"},
        ]
    },
    "anthropic": {
        "messages": [
            {"role": "user", "content": "Can we fly kites?"},
            {"role": "assistant", "content": [
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search",
                 "input": {"query": "kite weather"}},
                {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [
                    {"type": "web_search_result", "url": "http://a.test", "title": "Kites", "encrypted_content": "E"}]},
                {"type": "text", "text": "Yes, it is windy."}]},
            {"role": "user", "content": "Until when?"},
        ]
    },
}  # fmt: skip


QUOTED = [pytest.param(api, target) for api in SEARCHES for target in TARGETS]


@pytest.mark.parametrize(("api", "target"), QUOTED)
def test_what_a_server_of_another_api_did_is_quoted(api: str, target: str) -> None:
    found = case(target, *facts_of(SEARCHES[api], api), server_tools="quote")
    assert found.projection is not None
    told = json.dumps(found.projection.request)
    assert "kite weather" in told
    assert told.index("Can we fly") < told.index("kite weather") < told.index("Until when?")


# ---------------------------------------------------------------- flags and reasons


@every_target()
def test_that_a_result_is_an_error_is_sent_or_reported(target: str) -> None:
    action = {"type": "exec", "command": ["ls"], "env": {}}
    item = {
        "type": "local_shell_call",
        "id": "lsh_1",
        "call_id": "call_1",
        "action": action,
        "status": "completed",
    }
    asked = facts_of({"input": [{"role": "user", "content": "Go."}, item]}, "openai_responses")[:-1]
    done = f.CallCompleted(
        fact_id="c", seq=9, turn_id="turn-1", call_id="call_1", content="no ls", is_error=True
    )
    assert list(unreported(Account(case(target, *asked, done)))) == []


@every_target()
def test_a_refused_reply_of_another_api_is_left_out_for_a_rule_of_the_target(target: str) -> None:
    refused = replied(2, Text("No."), stop_reason="refusal", provider="anthropic", api="anthropic")
    found = case(target, said(1, "Go."), refused, said(3, "Again."))
    assert list(untrue(Account(found), RULES[target])) == []


@every_target()
def test_a_call_is_reported_under_its_key(target: str) -> None:
    function = {"name": "run", "arguments": "{}"}
    made = {"id": "x" * 70, "type": "function", "function": function, "beside": "kept"}
    reply = {"role": "assistant", "content": None, "tool_calls": [made]}
    told = facts_of({"messages": [{"role": "user", "content": "Go."}, reply]}, "openai_chat")
    assert list(untrue(Account(case(target, *told)), RULES[target])) == []


@every_target(openai_responses="a step that a request left something out of keeps its report of before")
def test_going_on_behind_a_request_reports_what_a_fresh_projection_does(target: str) -> None:
    picture = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": None}
    (read,) = (
        one.parts for one in facts_of({"input": [picture]}, "openai_responses") if one.kind == "model_replied"
    )
    told: list[Any] = [said(1, "Draw.")]
    for seq, more in ((2, [replied(3, *read[:1], api="openai_responses"), replied(4)]), (5, [])):
        before = normalizer.fold(told)
        sent = projected(before, target)
        assert sent is not None
        told += [request_sent(sent, fact_id=f"s{seq}", seq=seq), *more]
    going_on = normalizer.project(normalizer.fold(told[-1:], onto=before), target, previous=sent)
    assert going_on.adjustments == normalizer.project(normalizer.fold(told), target).adjustments


@every_target()
def test_words_behind_a_call_are_moved_for_a_rule_that_there_is(target: str) -> None:
    done = f.CallCompleted(fact_id="c", seq=3, turn_id="t", call_id="call_1", content="ok")
    found = case(target, said(1, "Go."), replied(2, call(), Text("So.")), done)
    assert list(untrue(Account(found), RULES[target])) == []
