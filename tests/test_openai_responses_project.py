"""Facts -> Responses requests: what is replayed, what is told, and that what was sent stays as it was sent."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter

sys.path.insert(0, str(Path(__file__).parent))

from test_openai_responses_rules import CASES, expanded

import normalizer
from normalizer import facts as f
from normalizer.parts import Json, Media, Reasoning, Text, Tool, ToolCall
from normalizer.projecting import canonical
from normalizer.projecting.sent_record import request_sent
from normalizer.providers.openai_responses import decoding, wire
from normalizer.rules import rejects

API = "openai_responses"
ITEM: TypeAdapter[Any] = TypeAdapter(ResponseInputItemParam)
HISTORY = {"history": True}
HI = {"role": "user", "content": "Hi"}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": "{}"}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
SHELL = {
    "type": "shell_call",
    "id": "sh_1",
    "call_id": "call_1",
    "status": "completed",
    "action": {"commands": ["ls"]},
}
SEARCH = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "q"},
}
ASKS = {
    "type": "mcp_approval_request",
    "id": "mcpr_1",
    "server_label": "d",
    "name": "find",
    "arguments": "{}",
}


def repaired(*history: Any, **more: Any) -> normalizer.Repair:
    origin = more.pop("origin", None)
    facts = more.pop("facts", ())
    options = {key: more.pop(key) for key in ("to", "server_tools") if key in more}
    payload = {"model": "gpt-5.4", "input": list(history), **more}
    return normalizer.repair(payload, format=API, origin=origin, facts=facts, **options)


def kinds(found: Any) -> set[str]:
    return {note.kind for note in found.adjustments}


def typed(request: dict[str, Any]) -> None:
    """Every item is of the SDK's types, but for what the API takes and the types do not."""
    for item in request["input"] if isinstance(request["input"], list) else ():
        if item.get("role") == "assistant" and isinstance(item.get("content"), list):
            item = {"id": "msg_0", "status": "completed", **item}  # noqa: PLW2901
        _exhaust(ITEM.validate_python({"id": "rs_0", **item} if item.get("type") == "reasoning" else item))


def _exhaust(value: Any) -> None:
    if isinstance(value, dict):
        value = value.values()
    elif isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        return
    for item in value:
        _exhaust(item)


# ---------------------------------------------------------------- what was read goes back

HISTORIES = [c for c in CASES if "endpoint" not in c and not c["rule"].startswith("OAR-LIMIT")]
HEALTHY = [case for case in HISTORIES if not case["violates"]]
BROKEN = [case for case in HISTORIES if case["violates"] and case["request"].get("input")]


@pytest.mark.parametrize("case", HEALTHY, ids=[case["id"] for case in HEALTHY])
def test_a_healthy_history_comes_out_as_it_was(case: dict[str, Any]) -> None:
    request = expanded(case["request"])
    found = normalizer.repair(copy.deepcopy(request), format=API)
    assert json.dumps(found.request["input"] if "input" in request else []) == json.dumps(
        request.get("input", [])
    )
    assert {k: v for k, v in found.request.items() if k != "input"} == {
        k: v for k, v in request.items() if k != "input"
    }


@pytest.mark.parametrize("case", BROKEN, ids=[case["id"] for case in BROKEN])
def test_a_broken_history_is_mended_once(case: dict[str, Any]) -> None:
    found = normalizer.repair(expanded(case["request"]), format=API)
    assert rejects(found.violations_after) == ()
    again = normalizer.repair(copy.deepcopy(found.request), format=API)
    assert json.dumps(again.request) == json.dumps(found.request)


def test_a_string_stays_a_string_and_a_list_a_list() -> None:
    for given in ("Hi", [HI]):
        assert normalizer.repair({"model": "gpt-5.4", "input": given}, format=API).request["input"] == given


def test_a_response_and_stored_items_are_read() -> None:
    message = {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
               "content": [{"type": "output_text", "text": "Hello.", "annotations": []}]}  # fmt: skip
    response = {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "model": "gpt-5.4",
        "output": [message],
    }
    reading = normalizer.read(response)
    assert (reading.format, reading.stop_reason) == (API, "completed")
    stored = {
        "object": "list",
        "data": [{"type": "function_call_output", "call_id": "call_1", "output": "x"}, CALL, HI],
    }
    request = normalizer.repair(stored).request
    assert request["input"] == stored["data"][::-1]


def test_a_list_that_fits_several_apis_is_read_as_that_of_the_target() -> None:
    words = [HI, {"role": "assistant", "content": "Hello."}, HI]
    assert normalizer.repair(words, to=API).format == API


# ---------------------------------------------------------------- reasoning


def test_reasoning_of_another_account_goes_and_takes_the_ids_along() -> None:
    found = repaired(HI, THOUGHT, CALL, {"type": "function_call_output", "call_id": "call_1", "output": "88"}, HI,
                     store=False, origin={"account": "other"})  # fmt: skip
    assert found.request["input"][1] == {k: v for k, v in CALL.items() if k != "id"}
    assert "foreign_signature" in kinds(found)


def test_reasoning_of_a_foreign_model_stays_away() -> None:
    found = repaired(HI, THOUGHT, {"role": "assistant", "content": "Hello."}, origin={"model": "qwen3"})
    assert [item.get("type") for item in found.request["input"]] == [None, None]


def test_reasoning_whose_follower_was_cut_is_left_out_and_the_sibling_goes_without_id() -> None:
    cut = {**CALL, "arguments": '{"x"', "status": "incomplete"}
    sibling = {**CALL, "id": "fc_2", "call_id": "call_2"}
    found = repaired(
        HI, THOUGHT, cut, sibling, {"type": "function_call_output", "call_id": "call_2", "output": "x"}
    )
    assert found.request["input"][1] == {k: v for k, v in sibling.items() if k != "id"}
    assert [fragment.call_id for fragment in found.fragments] == ["call_1"]


def test_a_hosted_call_without_its_reasoning_goes_too() -> None:
    found = repaired(HI, {k: v for k, v in THOUGHT.items() if k != "encrypted_content"}, SEARCH,
                     {"role": "assistant", "content": "It rains."}, store=False)  # fmt: skip
    assert found.request["input"] == [HI, {"role": "assistant", "content": "It rains."}]
    assert "dropped_server_tool" in kinds(found)


# ---------------------------------------------------------------- outcomes

FORMS = {
    "function_call": CALL,
    "custom_tool_call": {"type": "custom_tool_call", "call_id": "call_1", "name": "sql", "input": "select 1"},
    "local_shell_call": {"type": "local_shell_call", "id": "lsh_1", "call_id": "call_1", "status": "completed",
                         "action": {"type": "exec", "command": ["ls"], "env": {}}},
    "shell_call": SHELL,
    "apply_patch_call": {"type": "apply_patch_call", "call_id": "call_1", "status": "completed",
                         "operation": {"type": "delete_file", "path": "a"}},
    "computer_call": {"type": "computer_call", "id": "cu_1", "call_id": "call_1", "status": "completed",
                      "pending_safety_checks": [], "action": {"type": "screenshot"}},
    "tool_search_call": {"type": "tool_search_call", "call_id": "call_1", "execution": "client", "status": "completed",
                         "arguments": {"query": "time"}},
}  # fmt: skip
DENIED = [{"kind": "approval_denied", "call_id": "call_1", "by": "user"}]
LOST = [{"kind": "contact_lost", "call_id": "call_1"}]
DONE = [{"kind": "call_completed", "call_id": "call_1", "content": "done", "exit_code": 0}]
HAS_ITEM = {
    "denied": {"function_call", "custom_tool_call", "local_shell_call", "apply_patch_call"},
    "unknown": {"function_call", "custom_tool_call", "local_shell_call"},
    "completed": set(FORMS) - {"computer_call", "tool_search_call"},
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("outcome", "facts"), [("denied", DENIED), ("unknown", LOST), ("completed", DONE)])
def test_an_outcome_in_the_form_of_its_call(form: str, outcome: str, facts: list[Any]) -> None:
    found = repaired(HI, THOUGHT, FORMS[form], HI, facts=facts)
    assert found.transcript.calls["call_1"].outcome.kind == outcome
    typed(found.request)
    types = [item.get("type") for item in found.request["input"]]
    if form in HAS_ITEM[outcome]:
        assert types == [None, "reasoning", form, wire.ANSWERS[form], None]
    else:
        assert types == [None, None, None]
        assert f"[tool outcome: {outcome}] [told, call call_1]" in found.request["input"][1]["content"]
        assert {"told_as_text", "dropped_reasoning"} <= kinds(found)
    again = normalizer.repair(copy.deepcopy(found.request), format=API)
    assert json.dumps(again.request) == json.dumps(found.request)


def test_a_screenshot_is_acknowledged_by_a_recorded_decision_only() -> None:
    checks = [{"id": "s1", "code": "x", "message": "y"}]
    call = {**FORMS["computer_call"], "pending_safety_checks": checks}
    shot = [{"kind": "call_completed", "call_id": "call_1",
             "content": [{"kind": "media", "media": "image", "media_type": "image/png", "data": "aGk="}]}]  # fmt: skip
    assert "told_as_text" in kinds(repaired(HI, call, facts=shot))
    given = [{"kind": "approval_given", "call_id": "call_1"}, *shot]
    assert repaired(HI, call, facts=given).request["input"][2]["acknowledged_safety_checks"] == checks


def test_a_hosted_call_is_replayed_when_it_ended_and_left_out_when_not() -> None:
    failed = {"type": "mcp_call", "id": "mcp_1", "server_label": "d", "name": "find", "arguments": "{}",
              "status": "failed",
              "error": {"type": "http_error", "code": 500, "message": "boom"}}  # fmt: skip
    words = {"role": "assistant", "content": "Hello."}
    assert repaired(HI, failed, words).request["input"] == [HI, failed, words]
    found = repaired(HI, THOUGHT, {**SEARCH, "status": "searching"}, words)
    assert found.request["input"] == [HI, words]
    assert found.transcript.server_calls["ws_1"].outcome.kind == "unknown"


def test_nobody_answers_for_a_person() -> None:
    assert repaired(HI, ASKS).request["input"] == [HI, ASKS]  # it waits
    assert repaired(HI, ASKS, HI).request["input"] == [HI, HI]
    denied = [{"kind": "approval_denied", "call_id": "mcpr_1", "reason": "too risky"}]
    assert repaired(HI, ASKS, facts=denied).request["input"][2] == {
        "type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": False, "reason": "too risky",
    }  # fmt: skip


# ---------------------------------------------------------------- what was sent


class Live:
    """A conversation that goes on: facts, and requests that go out."""

    def __init__(self, **options: Any) -> None:
        self.facts: list[f.Fact] = []
        self.options = {"model": "gpt-5.4", "open_calls": "unknown", **options}
        self.previous: normalizer.Projection | None = None

    def add(self, kind: Any, **fields: Any) -> str:
        number = len(self.facts) + 1
        self.facts.append(kind(fact_id=f"f{number}", seq=number, turn_id="t", **fields))
        return f"f{number}"

    def said(self, text: str) -> None:
        self.add(f.UserSaid, parts=(Text(text),), string=True)

    def replied(self, *found: dict[str, Any], answers: str | None = None, **more: Any) -> None:
        pairing = decoding.Pairing()
        parts = tuple(part for n, item in enumerate(found) for part in pairing.parts(item, str(n)))
        self.add(
            f.ModelReplied, parts=parts, provider="openai", api=API, model="gpt-5.4", answers=answers, **more
        )

    def send(self) -> tuple[normalizer.Projection, str]:
        projection = self.project()
        number = len(self.facts) + 1
        self.facts.append(request_sent(projection, fact_id=f"f{number}", seq=number))
        return projection, f"f{number}"

    def project(self) -> normalizer.Projection:
        self.previous = normalizer.project(
            normalizer.fold(self.facts), API, previous=self.previous, **self.options
        )
        assert rejects(normalizer.check(self.previous.request, API, context=HISTORY)) == ()
        return self.previous


def starts_with(later: normalizer.Projection, earlier: normalizer.Projection) -> bool:
    return canonical.encode(later.request).startswith(canonical.encode(earlier.request))


def test_a_result_after_its_notice_is_late_news() -> None:
    live = Live()
    live.said("Deploy it.")
    live.replied(CALL)
    first, _ = live.send()
    assert "[tool outcome: unknown]" in first.request["input"][2]["output"]
    live.add(f.CallCompleted, call_id="call_1", content="published")
    second, sent = live.send()
    assert starts_with(second, first)
    assert second.request["input"][3]["content"].startswith(
        "[tool outcome: completed] [late, call call_1]\npublished"
    )
    live.replied({"role": "assistant", "content": "Fine."}, answers=sent)
    third = live.project()
    assert starts_with(third, second)
    assert not third.late_news


def test_an_asynchronous_call_gets_its_output_when_it_comes() -> None:
    live = Live()
    live.said("Hi")
    live.replied({**CALL, "async": True}, {"role": "assistant", "content": "Meanwhile?"})
    live.said("Go on.")
    first, sent = live.send()
    assert [item.get("type") for item in first.request["input"]] == [None, "function_call", None, None]
    live.replied({"role": "assistant", "content": "So."}, answers=sent)
    live.add(f.CallCompleted, call_id="call_1", content="12:00")
    second, _ = live.send()
    assert second.request["input"][-1] == {
        "type": "function_call_output",
        "call_id": "call_1",
        "output": "12:00",
    }
    assert starts_with(second, first)
    live.said("And?")
    assert starts_with(live.project(), second)


def test_a_call_that_was_told_in_words_stays_told() -> None:
    live = Live()
    live.said("Hi")
    live.replied(THOUGHT, SHELL)
    first, _ = live.send()
    assert [item.get("type") for item in first.request["input"]] == [None, None]
    live.add(f.CallCompleted, call_id="call_1", content="a.txt", exit_code=0)
    second = live.project()
    assert starts_with(second, first)
    assert "[late, call call_1]" in second.late_news[0]


def test_reasoning_that_the_api_refused_stays_away() -> None:
    live = Live()
    live.said("Hi")
    live.replied(THOUGHT, {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
                           "content": [{"type": "output_text", "text": "Hello.", "annotations": []}]})  # fmt: skip
    live.said("And?")
    first, sent = live.send()
    assert first.request["input"][1] == THOUGHT
    live.add(f.ReplyCut, refused=True, error="invalid_encrypted_content: could not be verified", answers=sent)
    second = live.project()
    assert [item.get("content") for item in second.request["input"]] == ["Hi", "Hello.", "And?"]
    assert "prefix_changed" in kinds(second)


def test_later_instructions_and_tools_are_appended() -> None:
    live = Live()
    live.add(f.InstructionsSet, parts=(Text("Be brief."),), string=True)
    live.add(f.ToolsDeclared, tools=(Tool("a"),))
    live.said("Hi")
    first, sent = live.send()
    live.replied({"role": "assistant", "content": "Hello."}, answers=sent)
    live.add(f.InstructionsSet, parts=(Text("Now in French."),), string=True)
    live.add(f.ToolsDeclared, tools=(Tool("a"), Tool("b")))
    second, _ = live.send()
    assert starts_with(second, first)
    assert second.request["input"][2] == {"role": "developer", "content": "Now in French."}
    assert [tool["name"] for tool in second.request["input"][3]["tools"]] == ["b"]
    assert not second.ready
    live.add(f.ToolsDeclared, tools=(Tool("b"),))
    third = live.project()
    assert [tool["name"] for tool in third.request["tools"]] == ["b"]
    assert "prefix_changed" in kinds(third)


def test_only_what_is_newer_is_sent_beside_a_stored_response() -> None:
    live = Live(stored=True)
    live.add(f.InstructionsSet, parts=(Text("Be brief."),), string=True)
    live.said("Hi")
    live.replied(CALL, raw=Json.of({"id": "resp_1"}))
    live.add(f.CallCompleted, call_id="call_1", content="12:00")
    live.said("And?")
    request = live.project().request
    assert request["previous_response_id"] == "resp_1"
    assert request["instructions"] == "Be brief."
    assert [item.get("output") or item.get("content") for item in request["input"]] == ["12:00", "And?"]
    live.replied(
        {"role": "assistant", "content": "x"}, raw=Json.of({"id": "resp_2", "conversation": {"id": "conv_1"}})
    )
    live.said("More.")
    request = live.project().request
    assert (request["conversation"], request["input"]) == ("conv_1", [{"role": "user", "content": "More."}])


def test_a_stored_call_without_a_truthful_output_needs_the_whole_history() -> None:
    live = Live(stored=True)
    live.said("Hi")
    live.replied(SHELL, raw=Json.of({"id": "resp_1"}))
    projection = live.project()
    assert "previous_response_id" not in projection.request
    assert "prefix_changed" in kinds(projection)


def test_halves_of_pairs_that_the_provider_holds_are_left_alone() -> None:
    output = {"type": "function_call_output", "call_id": "call_9", "output": "12:00"}
    assert repaired(output, HI, previous_response_id="resp_1").request["input"] == [output, HI]
    found = repaired(output, HI)
    assert found.request["input"] == [HI]
    assert "orphan_result" in {finding.kind for finding in found.findings}


# ---------------------------------------------------------------- ids, names, and other providers


def test_long_and_repeated_call_ids_are_mapped_on_both_sides() -> None:
    long = {**CALL, "id": "fc_2", "call_id": "c" * 65}
    output = {"type": "function_call_output", "call_id": "c" * 65, "output": "x"}
    again = [{**CALL, "id": "fc_3"}, {"type": "function_call_output", "call_id": "call_1", "output": "2"}]
    found = repaired(
        HI,
        CALL,
        {"type": "function_call_output", "call_id": "call_1", "output": "1"},
        HI,
        long,
        output,
        HI,
        *again,
    )
    names = [item["call_id"] for item in found.request["input"] if "call_id" in item]
    assert names[0::2] == names[1::2]
    assert len(set(names)) == 3
    assert names[4] == "call_1_2"
    assert found.ids == {"call_1": "call_1", "c" * 65: names[2], "call_1#2": "call_1_2"}


def test_an_item_id_occurs_once() -> None:
    twin = {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": "One.", "annotations": []}]}  # fmt: skip
    other = {**twin, "content": [{"type": "output_text", "text": "Two.", "annotations": []}]}
    found = repaired(HI, twin, HI, twin, other)
    assert found.request["input"] == [HI, twin, HI, {"role": "assistant", "content": "Two."}]


def anthropic_request() -> dict[str, Any]:
    return {
        "model": "claude-opus-4-8",
        "max_tokens": 100,
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "Look."},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
                {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="}},
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "plain words"}},
            ]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "abc"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"b": 1, "a": 2}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [
                    {"type": "text", "text": "seen"},
                    {"type": "image", "source": {"type": "url", "url": "https://example.test/a.png"}},
                ]},
                {"type": "text", "text": "And?"},
            ]},
        ],
        "tools": [{"name": "look", "description": "looks", "input_schema": {"type": "object"}}],
    }  # fmt: skip


def test_an_anthropic_history_as_items() -> None:
    found = normalizer.repair(anthropic_request(), to=API)
    request = found.request
    typed(request)
    assert request["instructions"] == "Be brief."
    assert [p["type"] for p in request["input"][0]["content"]] == [
        "input_text",
        "input_image",
        "input_file",
        "input_text",
    ]
    assert [item.get("type") or item["role"] for item in request["input"]] == [
        "user", "assistant", "function_call", "function_call_output", "user",
    ]  # fmt: skip
    assert request["input"][2]["arguments"] == '{"b":1,"a":2}'
    assert [p["type"] for p in request["input"][3]["output"]] == ["input_text", "input_image"]
    assert request["tools"] == [
        {
            "type": "function",
            "name": "look",
            "description": "looks",
            "parameters": {"type": "object"},
            "strict": False,
        }
    ]
    assert "dropped_reasoning" in kinds(found)


def test_there_and_back_the_words_outcomes_and_arguments_are_the_same() -> None:
    first = normalizer.repair(anthropic_request(), to=API)
    back = normalizer.repair(first.request, to="anthropic")
    again = normalizer.repair(back.request, to=API)
    assert json.dumps(again.request["input"]) == json.dumps(first.request["input"])
    for one, two in zip(first.transcript.calls.values(), back.transcript.calls.values(), strict=True):
        assert (one.outcome.kind, one.name, one.arguments) == (two.outcome.kind, two.name, two.arguments)


def test_this_apis_own_items_to_another_provider() -> None:
    history = [HI, THOUGHT, SEARCH, {"role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]},
               FORMS["custom_tool_call"], {"type": "custom_tool_call_output", "call_id": "call_1", "output": "1"},
               {"role": "developer", "content": [{"type": "input_text", "text": "Note."}]}, HI]  # fmt: skip
    for target in ("anthropic", "openai_chat"):
        found = repaired(*history, to=target)
        text = json.dumps(found.request)
        assert "gAAA" not in text
        assert "ws_1" not in text
        for words in ("Hello.", "select 1", "Note."):
            assert words in text


def test_another_providers_server_tools_are_quoted_when_asked() -> None:
    search = {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "web_search",
        "input": {"query": "trees"},
    }
    result = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [
        {"type": "web_search_result", "url": "http://example.test", "title": "Tall trees", "encrypted_content": "EqgfA"}
    ]}  # fmt: skip
    payload = {"model": "claude-opus-4-8", "messages": [
        HI, {"role": "assistant", "content": [search, result, {"type": "text", "text": "A redwood."}]}, HI,
    ]}  # fmt: skip
    dropped = normalizer.repair(copy.deepcopy(payload), to=API)
    assert dropped.request["input"] == [HI, {"role": "assistant", "content": "A redwood."}, HI]
    quoted = json.dumps(normalizer.repair(payload, to=API, server_tools="quote").request["input"])
    assert "Tall trees" in quoted
    assert "EqgfA" not in quoted


def test_names_fit_and_media_without_a_form_are_named() -> None:
    facts = (
        f.UserSaid(fact_id="u", seq=1, parts=(Text("Hi"), Media("audio", "audio/wav", "aGk=", name="a.wav"))),
        f.ModelReplied(fact_id="r", seq=2, parts=(Reasoning("hm"), ToolCall("c1", "fs.read", Json("{}")))),
        f.CallCompleted(fact_id="c", seq=3, call_id="c1", content="x"),
    )
    projection = normalizer.project(normalizer.fold(facts), API)
    assert projection.request["input"][0]["content"][1]["text"] == "[left out here: audio 'a.wav']"
    assert projection.request["input"][1]["name"].startswith("fs_read_")
    assert {"media_moved", "renamed_tool", "dropped_reasoning"} <= kinds(projection)
    assert projection.ready


def test_tools_that_a_message_added_have_the_names_of_their_calls() -> None:
    tools = [{"type": "function", "name": "fs.read", "parameters": {}}, {"type": "custom", "name": "fs.edit"}]
    more = {"type": "additional_tools", "role": "developer", "tools": tools}
    calls = [
        {**CALL, "name": "fs.read"},
        {"type": "function_call_output", "call_id": "call_1", "output": "done"},
        {"type": "custom_tool_call", "call_id": "call_2", "name": "fs.edit", "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": "done"},
    ]
    _, added, first, _, second, _ = repaired(HI, more, *calls).request["input"]
    assert [tool["name"] for tool in added["tools"]] == [first["name"], second["name"]]
    assert first["name"].startswith("fs_read_")
    assert added == {**more, "tools": added["tools"]}
    assert {**added["tools"][0], "name": "fs.read"} == tools[0]


def test_of_tools_that_others_took_the_place_of_nothing_is_reported() -> None:
    odd = {"name": "fs.read", "input_schema": {"type": "object"}, "defer_loading": True}
    payload = {"messages": [HI], "tools": [odd]}
    later = f.ToolsDeclared(fact_id="later", seq=99, tools=(Tool("look"),))
    reading = normalizer.read(payload, format="anthropic")
    first = normalizer.project(normalizer.fold(reading.facts), API)
    assert {"trimmed", "renamed_tool"} <= kinds(first)
    replaced = normalizer.project(normalizer.fold([*reading.facts, later]), API)
    assert [tool["name"] for tool in replaced.request["tools"]] == ["look"]
    assert not kinds(replaced)


def test_there_is_nothing_to_ask_of_nothing() -> None:
    with pytest.raises(normalizer.CannotProject):
        normalizer.project(normalizer.fold([]), API)
    with pytest.raises(normalizer.CannotProject):
        normalizer.project(normalizer.fold([]), API, profile="no such server")


def test_what_stands_beside_foreign_words_is_told() -> None:
    cited = {"type": "char_location", "cited_text": "q", "document_index": 0, "document_title": None,
             "start_char_index": 0, "end_char_index": 1}  # fmt: skip
    history = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "text", "text": "x", "citations": [cited]},
                                          {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "bad", "is_error": True}]},
    ]  # fmt: skip
    found = normalizer.repair({"messages": history}, to="openai_responses")
    told = [one.content for one in found.adjustments if one.kind == "trimmed"]
    assert json.loads(told[0] or "") == {"citations": [cited]}
    assert told[1] == "is_error"


def test_texts_of_an_instruction_that_are_sent_as_one_are_reported() -> None:
    payload = {"system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}],
               "messages": [{"role": "user", "content": "Hi"}]}  # fmt: skip
    found = normalizer.repair(payload, format="anthropic", to="openai_responses")
    assert found.request["instructions"] == "Be brief.\n\nBe kind."
    assert [note.kind for note in found.adjustments] == ["merged"]
    del payload["system"][0]  # type: ignore[attr-defined]
    assert not normalizer.repair(payload, format="anthropic", to="openai_responses").adjustments
