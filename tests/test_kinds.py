"""The kinds of fault that repairs of histories are known for, one test each: none of them happens here."""

from __future__ import annotations

import copy
import json
from typing import Any

import normalizer
from normalizer.testing import assert_accepts

Block = dict[str, Any]
TOOLS = [{"name": "run", "input_schema": {"type": "object"}}]


def body(*messages: Block) -> Block:
    return {"model": "claude-opus-4-8", "max_tokens": 1024, "messages": list(messages), "tools": TOOLS}


def user(*blocks: Block | str) -> Block:
    return {"role": "user", "content": [_text(b) if isinstance(b, str) else b for b in blocks]}


def model(*blocks: Block | str) -> Block:
    return {"role": "assistant", "content": [_text(b) if isinstance(b, str) else b for b in blocks]}


def _text(words: str) -> Block:
    return {"type": "text", "text": words}


def call(wire_id: str, **given: Any) -> Block:
    return {"type": "tool_use", "id": wire_id, "name": "run", "input": given}


def result(wire_id: str, content: str) -> Block:
    return {"type": "tool_result", "tool_use_id": wire_id, "content": content}


def repaired(payload: Block, **options: Any) -> normalizer.Repair:
    done = normalizer.repair(copy.deepcopy(payload), format="anthropic", **options)
    assert_accepts(done.request, "anthropic")
    return done


def results(request: Block) -> list[Block]:
    return [
        block
        for message in request["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    ]


def notices_of(request: Block) -> list[str]:
    return [block["content"] for block in results(request) if block["content"].startswith("[tool outcome: ")]


def test_a_real_result_is_not_replaced_because_user_text_stood_between() -> None:
    done = repaired(
        body(
            user("List the files."),
            model(call("toolu_1")),
            user("Are you still there?"),
            user(result("toolu_1", "a.txt b.txt")),
        )
    )
    assert [(b["tool_use_id"], b["content"]) for b in results(done.request)] == [("toolu_1", "a.txt b.txt")]
    behind = done.request["messages"][2]["content"]
    assert behind[0]["type"] == "tool_result"
    assert done.transcript.calls["toolu_1"].outcome.kind == "completed"
    assert [finding.kind for finding in done.findings] == ["displaced_result"]


def test_user_text_is_not_lost_while_pairing() -> None:
    words = ["List the files.", "before the result", "beside the result", "behind it", "and Rome?"]
    done = repaired(
        body(
            user(words[0]),
            model("I look.", call("toolu_1")),
            user(words[1]),
            user(words[2], result("toolu_1", "a.txt"), words[3]),
            model("There."),
            user(words[4]),
        )
    )
    sent = json.dumps(done.request["messages"])
    places = [sent.index(text) for text in words]
    assert places == sorted(places)
    assert sent.index("a.txt") < places[1]
    assert all(sent.count(text) == 1 for text in words)


def test_completed_siblings_are_not_dropped_with_a_missing_one() -> None:
    done = repaired(
        body(
            user("Do three things."),
            model(call("toolu_1", n=1), call("toolu_2", n=2), call("toolu_3", n=3)),
            user(result("toolu_1", "one done"), result("toolu_3", "three done")),
        )
    )
    told = {block["tool_use_id"]: block["content"] for block in results(done.request)}
    assert told["toolu_1"] == "one done"
    assert told["toolu_3"] == "three done"
    assert told["toolu_2"].startswith("[tool outcome: unknown]\n")
    sent = [b["id"] for m in done.request["messages"] if m["role"] == "assistant" for b in m["content"]]
    assert sent == ["toolu_1", "toolu_2", "toolu_3"]


def test_a_reused_id_is_not_answered_with_the_first_result() -> None:
    done = repaired(
        body(
            user("Now?"),
            model(call("call_0", at="now")),
            user(result("call_0", "ten past nine")),
            model("Ten past nine."),
            user("And now?"),
            model(call("call_0", at="later")),
            user(result("call_0", "half past nine")),
        )
    )
    first, second = results(done.request)
    assert (first["content"], second["content"]) == ("ten past nine", "half past nine")
    assert first["tool_use_id"] != second["tool_use_id"]
    assert list(done.transcript.calls) == ["call_0", "call_0#2"]


def test_a_reused_id_whose_second_result_is_lost_is_not_answered_with_the_first() -> None:
    done = repaired(
        body(
            user("Now?"),
            model(call("call_0")),
            user(result("call_0", "nine")),
            model(call("call_0")),
            user("Well?"),
        )
    )
    first, second = results(done.request)
    assert first["content"] == "nine"
    assert second["content"].startswith("[tool outcome: unknown]\n")
    assert "nine" not in second["content"]


def test_truncated_arguments_are_neither_completed_nor_emptied() -> None:
    torn = {"type": "tool_use", "id": "toolu_1", "name": "run", "input": '{"path": "/etc/pass'}
    done = repaired(body(user("Write it."), model("I write.", torn), user("Go on.")))
    sent = json.dumps(done.request["messages"])
    assert "tool_use" not in sent
    assert "toolu_1" not in sent
    assert "/etc/pass" not in sent
    assert [
        (fragment.call_id, '{"path": "/etc/pass' in json.loads(fragment.text)["input"])
        for fragment in done.fragments
    ] == [("toolu_1", True)]
    assert "toolu_1" not in done.transcript.calls


def test_whole_arguments_that_do_not_parse_are_sent_raw() -> None:
    odd = {"type": "tool_use", "id": "toolu_1", "name": "run", "input": "{'path': 'a.txt'}"}
    done = repaired(body(user("Write it."), model(odd), user("Go on.")))
    block = done.request["messages"][1]["content"][0]
    assert "{'path': 'a.txt'}" in block["input"].values()
    assert done.transcript.calls["toolu_1"].outcome.kind == "never_run"


def test_a_server_call_is_not_turned_into_a_client_call() -> None:
    search = {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "web_search",
        "input": {"query": "weather"},
    }
    done = repaired(
        body(user("Search."), model("I search.", search), user("Never mind, and Rome?"))
        | {"tools": [*TOOLS, {"type": "web_search_20250305", "name": "web_search"}]}
    )
    sent = json.dumps(done.request["messages"])
    assert "tool_use" not in sent
    assert "tool_result" not in sent
    assert "srvtoolu_1" not in sent
    assert done.transcript.server_calls["srvtoolu_1"].outcome.kind == "unknown"
    assert done.transcript.calls == {}
    assert [adjustment.kind for adjustment in done.adjustments] == ["dropped_server_tool"]


def test_a_client_result_for_a_server_call_is_not_sent() -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    done = repaired(
        body(user("Search."), model("I search.", search), user(result("srvtoolu_1", "made up"), "Well?"))
    )
    assert "made up" not in json.dumps(done.request["messages"])
    assert any("made up" in leftover.text for leftover in done.leftovers)


def test_the_user_is_not_named_as_the_cause_of_what_the_user_did_not_do() -> None:
    lost = body(user("Deploy it."), model(call("toolu_1")), user("And?"))
    untold = [
        {"kind": "call_skipped", "call_id": "toolu_1"},
        {"kind": "approval_denied", "call_id": "toolu_1"},
        {"kind": "call_terminated", "call_id": "toolu_1"},
        {"kind": "contact_lost", "call_id": "toolu_1"},
        {"kind": "start_permitted", "call_id": "toolu_1"},
        {"kind": "approval_denied", "call_id": "toolu_1", "by": "policy", "reason": "outside working hours"},
    ]
    for facts in ([], *([fact] for fact in untold)):
        (notice,) = notices_of(repaired(lost, facts=facts).request)
        assert "user" not in notice.lower()
        assert "interrupt" not in notice.lower()
    (named,) = notices_of(
        repaired(lost, facts=[{"kind": "approval_denied", "call_id": "toolu_1", "by": "user"}]).request
    )
    assert "user" in named


def test_denied_cancelled_and_unknown_are_not_told_in_one_text() -> None:
    lost = body(user("Deploy it."), model(call("toolu_1")), user("And?"))
    told = {}
    for kind in ("approval_denied", "call_skipped", "call_terminated", "contact_lost"):
        done = repaired(lost, facts=[{"kind": kind, "call_id": "toolu_1"}])
        (block,) = results(done.request)
        outcome = done.transcript.calls["toolu_1"].outcome.kind
        assert block["content"].startswith(f"[tool outcome: {outcome}]\n")
        told[outcome] = block["content"].split("\n")[1]
        assert block.get("is_error", False) is (outcome != "unknown")
    assert set(told) == {"denied", "never_run", "cancelled_while_running", "unknown"}
    assert len(set(told.values())) == 4
