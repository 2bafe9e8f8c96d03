"""What a Messages request may not hold is mended or told: nothing crashes, nothing goes without a word."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from normalizer import Repair, fold, project, read, repair
from normalizer.errors import CannotProject, UnknownFormat, UnreadableInput
from normalizer.facts import CallCompleted, InstructionsSet, ModelReplied, ToolsDeclared, UserSaid
from normalizer.parts import Json, ServerToolCall, Text, Tool, ToolCall
from normalizer.reading.truncation import begins_json
from normalizer.testing import assert_accepts

if TYPE_CHECKING:
    from normalizer.facts import Fact

USER = {"role": "user", "content": "hi"}


def mended(value: Any) -> Repair:
    return repair(value, to="anthropic")


def said(repaired: Repair, kind: str) -> list[str | None]:
    return [note.content for note in repaired.adjustments if note.kind == kind]


def chat_tool(parameters: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", "parameters": parameters}}


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({}, {"type": "object"}),
        ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        ({"type": "string"}, {"type": "object"}),
    ],
)
def test_a_schema_of_no_object_is_mended_wherever_it_comes_from(schema: Any, sent: Any) -> None:
    own = {"name": "f", "input_schema": schema}
    for given in (own, chat_tool(schema)):
        repaired = mended({"messages": [USER], "tools": [given]})
        assert [tool["input_schema"] for tool in repaired.request["tools"]] == [sent]
        assert [json.loads(text or "") for text in said(repaired, "tools_not_declared")] == [given]


def test_a_schema_of_an_object_stays_as_it_is() -> None:
    repaired = mended({"messages": [USER], "tools": [chat_tool({"type": "object", "properties": {}})]})
    assert repaired.request["tools"][0]["input_schema"] == {"type": "object", "properties": {}}
    assert not said(repaired, "tools_not_declared")


@pytest.mark.parametrize("odd", [[], {}, 1, True])
@pytest.mark.parametrize(
    "hold",
    [
        lambda odd: {"messages": [USER, {"role": odd, "content": "x"}]},
        lambda odd: {"messages": [USER, {"role": "user", "content": [{"type": odd}]}]},
        lambda odd: {"messages": [USER, {"role": "assistant", "content": [{"type": odd}]}, USER]},
        lambda odd: {"messages": [USER], "system": [{"type": odd}]},
    ],
)
def test_a_name_that_is_no_string_is_told(hold: Any, odd: Any) -> None:
    repaired = mended(hold(odd))
    assert repaired.request["messages"][0] == USER
    kept = json.dumps(odd)
    told = [*(note.content for note in repaired.adjustments), *(piece.text for piece in repaired.leftovers)]
    assert any(kept in (text or "") for text in told)


CALL: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
FULL: dict[str, Any] = {
    "model": "claude-opus-4-8",
    "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
    "tools": [
        {"name": "f", "input_schema": {"type": "object"}},
        {"type": "web_search_20250305", "name": "web_search"},
        {"type": "mcp_toolset", "mcp_server_name": "m"},
    ],
    "messages": [
        USER,
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "t", "signature": "s"},
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
                {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
                {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "n", "server_name": "m", "input": {}},
                {**CALL, "caller": {"type": "direct"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "content": [
                        {"type": "text", "text": "x"},
                        {"type": "image", "source": {"type": "url", "url": "https://x"}},
                        {"type": "tool_reference", "tool_name": "f"},
                    ],
                },
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}},
            ],
        },
        {
            "role": "system",
            "content": [{"type": "tool_removal", "tool": {"type": "tool_reference", "name": "f"}}],
        },
    ],
}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at for key, item in items for at in ((*path, key), *places(item, (*path, key)))]


@pytest.mark.parametrize("path", places(FULL), ids=lambda path: "/".join(map(str, path)))
def test_no_value_of_another_type_crashes(path: tuple[Any, ...]) -> None:
    odds: tuple[Any, ...] = ([], {}, None, 7, [[]], {"type": []})
    for odd in odds:
        broken = json.loads(json.dumps(FULL))
        holder = broken
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = odd
        # a request that cannot be mended is refused with a reason
        with contextlib.suppress(CannotProject, UnknownFormat, UnreadableInput):
            mended(broken)


@pytest.mark.parametrize("text", ['{"a":NaN}', '{"a":1}}', '{"a":1} x', "{'a':1}", '{"a":Na', "1", ""])
def test_what_cannot_become_json_is_no_beginning(text: str) -> None:
    assert not begins_json(text)


@pytest.mark.parametrize(
    "text", ["{", '{"a', '{"a":', '{"a":1', '{"a":[1,', ' {"a":"b', '{"a":tr', '"a', "["]
)
def test_what_could_go_on_is_a_beginning(text: str) -> None:
    assert begins_json(text)


@pytest.mark.parametrize("text", ['{"a":NaN}', '{"a":1}}'])
def test_arguments_that_arrived_whole_keep_their_call_and_result(text: str) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": text}}
    chat = [
        USER,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "ok"},
    ]
    repaired = mended({"messages": chat})
    assert repaired.request["messages"][1]["content"][0]["input"] == {"INVALID_JSON": text}
    assert repaired.request["messages"][2]["content"][0]["content"] == "ok"


RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}


@pytest.mark.parametrize(
    "value",
    [
        {"messages": [{"role": "user", "content": "a\0b"}]},
        {"messages": [USER, {"role": "assistant", "content": "a\0b"}, USER]},
        {"messages": [USER], "system": "a\0b"},
        {"messages": [USER], "system": [{"type": "text", "text": "a\0b"}]},
        {
            "messages": [USER],
            "tools": [{"name": "f", "description": "\0", "input_schema": {"type": "object"}}],
        },
        {"messages": [USER], "metadata": {"user_id": "\0"}},
        {"messages": [USER, {"role": "assistant", "content": [{**CALL, "input": {"\0": 1}}]}, USER]},
        {"messages": [USER, {"role": "assistant", "content": [{**CALL, "name": "\0"}]}, USER]},
        {"messages": [USER, {"role": "assistant", "content": [{**CALL, "id": "\0"}]}, USER]},
        {
            "messages": [
                USER,
                {"role": "assistant", "content": [CALL]},
                {"role": "user", "content": [{**RESULT, "content": "\0"}]},
                {"role": "assistant", "content": "x"},
            ]
        },
        {
            "messages": [
                USER,
                {"role": "user", "content": [{**RESULT, "tool_use_id": "\0"}]},
                {"role": "assistant", "content": "x"},
            ]
        },
    ],
)
def test_a_nul_is_replaced_and_found_in_parsed_values_as_in_text(value: Any) -> None:
    repaired = repair(value, format="anthropic", to="anthropic")
    assert "\\u0000" not in json.dumps(repaired.request)
    assert [f.kind for f in repaired.findings if f.kind == "bad_unicode"] == ["bad_unicode"]
    assert repaired.request == repair(json.dumps(value), format="anthropic", to="anthropic").request


def test_a_system_message_behind_a_reply_waits_and_is_told() -> None:
    system = {"role": "system", "content": "Be brief."}
    reply = {"role": "assistant", "content": "4 C."}
    model = "claude-opus-4-8"
    repaired = repair({"model": model, "messages": [USER, reply, system]})
    assert repaired.request["messages"] == [USER, reply]
    assert [json.loads(text or "") for text in said(repaired, "withheld_steering")] == [
        [{"type": "text", "text": "Be brief."}]
    ]
    sent = repair({"model": model, "messages": [USER, reply, system, USER]})
    assert sent.request["messages"] == [USER, reply, USER, system]
    assert not said(sent, "withheld_steering")


def test_a_toolset_asks_for_the_beta_of_its_servers() -> None:
    server = {"type": "url", "url": "https://x", "name": "tracker"}
    toolset = {"type": "mcp_toolset", "mcp_server_name": "tracker"}
    given = {"model": "claude-sonnet-4-5", "messages": [USER], "mcp_servers": [server], "tools": [toolset]}
    request = mended(given).request
    assert request["mcp_servers"] == [server]
    assert request["tools"] == [toolset]
    assert any(beta.startswith("mcp-client-") for beta in request["betas"])


@pytest.mark.parametrize("broken", [{"type": "tool_removal"}, {"type": "text"}, {"type": "image_url"}])
@pytest.mark.parametrize("late", [False, True])
def test_instructions_of_a_broken_or_foreign_block_are_told(broken: Any, late: bool) -> None:
    if late and broken["type"] == "tool_removal":
        pytest.skip("a change of the tools may stand in a message")
    system = {"role": "system", "content": [broken]}
    repaired = mended([USER, system] if late else [system, USER])
    assert repaired.request["messages"] == [USER]
    assert [json.loads(text or "") for text in said(repaired, "dropped_fragment")] == [broken]


def test_a_tool_of_the_client_does_not_offer_what_the_server_runs() -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    text = {"type": "text", "text": "x"}
    given = [USER, {"role": "assistant", "content": [text, search]}, {}]
    repaired = mended({"messages": given, "tools": [{"name": "web_search"}]})
    assert repaired.request["messages"][1]["content"] == [text]
    assert [json.loads(content or "") for content in said(repaired, "dropped_server_tool")] == [search]


def test_the_file_id_of_another_provider_is_not_sent_as_our_own() -> None:
    file = {"type": "file", "file": {"file_id": "file-abc"}}
    repaired = mended([{"role": "user", "content": [{"type": "text", "text": "x"}, file]}])
    assert repaired.request["messages"][0]["content"] == [{"type": "text", "text": "x"}]
    assert [json.loads(content or "") for content in said(repaired, "media_moved")] == [file]


def toolset_call(toolset: Any) -> dict[str, Any]:
    return {**CALL, "toolset_name": toolset}


TAB = {"tab_id": "t1", "title": "T", "url": "https://x", "active": True}
STATE: dict[str, Any] = {"type": "browser_state", "tabs": [TAB]}
BROWSER = {"type": "browser_toolset_20260801"}


def results_of(call: Any, result: Any, tools: Any = ()) -> list[Any]:
    given = [USER, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    repaired = mended({"model": "claude-opus-4-8", "messages": given, "tools": [*tools]})
    request = repaired.request
    assert repair(request, to="anthropic").request == request
    return [request["messages"][1]["content"][0], *request["messages"][2]["content"]]


def answered(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "toolu_1", "content": content, **more}


def test_the_state_of_a_browser_stands_in_a_browsers_result() -> None:
    call, result = toolset_call("browser"), answered([STATE], toolset_name="browser")
    assert results_of(call, result, [BROWSER]) == [call, result]


@pytest.mark.parametrize(
    "state",
    [
        {"type": "browser_state", "tabs": [{"tab_id": "t1"}]},
        {"type": "browser_state", "tabs": [{**TAB, "active": 1}]},
        {"type": "browser_state", "tabs": [5]},
        {"type": "browser_state", "tabs": 5},
        {"type": "browser_state", "tabs": [TAB], "state_changes": []},
    ],
)
def test_a_state_that_is_none_is_left_out(state: Any) -> None:
    call, result = toolset_call("browser"), answered([state], toolset_name="browser")
    assert results_of(call, result, [BROWSER]) == [call, answered("", toolset_name="browser")]


def test_another_toolset_and_a_tool_without_one_show_no_browser() -> None:
    other = toolset_call("computer")
    given = answered([STATE], toolset_name="computer")
    assert results_of(other, given) == [other, answered("", toolset_name="computer")]
    assert results_of(CALL, answered([STATE])) == [CALL, answered("")]


@pytest.mark.parametrize("odd", [True, 5, {}, [], ""])
def test_a_toolset_that_is_no_name_is_left_out_of_call_and_result(odd: Any) -> None:
    assert results_of(toolset_call(odd), answered("ok", toolset_name=odd)) == [CALL, answered("ok")]
    assert results_of(toolset_call(odd), answered("ok")) == [CALL, answered("ok")]


def test_a_plain_result_is_sent_under_its_calls_toolset() -> None:
    call = toolset_call("browser")
    assert results_of(call, answered("ok")) == [call, answered("ok", toolset_name="browser")]


@pytest.mark.parametrize("odd", [["x"], {"a": 1}, 7])
def test_a_text_in_a_result_that_is_no_text_is_sent_as_its_json(odd: Any) -> None:
    block = {"type": "text", "text": odd}
    _, sent = results_of(CALL, answered([block]))
    assert json.loads(sent["content"][0]["text"]) == block
    _, sent, *_ = results_of(CALL, answered([block, {"type": "text", "text": "no"}], is_error=True))
    assert [json.loads(sent["content"][0]["text"]), sent["content"][1]["text"]] == [block, "no"]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "source": -1},
        {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": ["x"]}]}},
        {"type": "document", "source": {"type": "url"}},
        {"type": "document", "source": {"type": "odd"}},
        {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": ["x"]}]},
        {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "image", "text": "x"}]},
    ],
)
@pytest.mark.parametrize("failed", [False, True])
def test_a_broken_picture_or_document_is_left_out_and_told(block: Any, failed: bool) -> None:
    result = answered([{"type": "text", "text": "no"}, block], is_error=failed)
    given = [USER, {"role": "assistant", "content": [CALL]}, {"role": "user", "content": [result]}]
    repaired = mended({"model": "claude-opus-4-8", "messages": given})
    assert [json.loads(content or "") for content in said(repaired, "media_moved")] == [block]
    assert repaired.request["messages"][2]["content"] == [
        answered([{"type": "text", "text": "no"}], is_error=failed)
    ]


@pytest.mark.parametrize(
    "source",
    [
        {"type": "content", "content": "words"},
        {"type": "content", "content": [{"type": "text", "text": "words"}]},
        {"type": "url", "url": "https://x"},
        {"type": "file", "file_id": "file_1"},
    ],
)
def test_a_whole_document_stays(source: Any) -> None:
    result = answered([{"type": "document", "source": source}])
    assert results_of(CALL, result) == [CALL, result]


@pytest.mark.parametrize("words", ["half \ud800", "nul \0"])
@pytest.mark.parametrize("target", ["anthropic", "openai_chat", "openai_responses"])
def test_the_hosts_own_words_are_made_readable(words: str, target: str) -> None:
    given = [USER, {"role": "assistant", "content": [CALL]}]
    repaired = repair(given, format="anthropic", to=target, notices=lambda _: words)
    text = json.dumps(repaired.request)
    assert words[:-1] + "\\ufffd" in text
    assert "\\ud800" not in text
    assert "\\u0000" not in text
    assert repair(repaired.request, format=target, to=target).request == repaired.request


def answers(call: dict[str, Any], *blocks: dict[str, Any]) -> list[dict[str, Any]]:
    used = {"type": "tool_use", "id": "toolu_1", "name": "run", "input": {}, **call}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": list(blocks)}
    if "toolset_name" in call:
        result["toolset_name"] = call["toolset_name"]
    return [USER, {"role": "assistant", "content": [used]}, {"role": "user", "content": [result]}]


@pytest.mark.parametrize(
    ("call", "tools", "kept"),
    [
        ({}, [], False),
        ({"toolset_name": "computer"}, [], False),
        ({"toolset_name": "browser"}, [], True),
        ({}, [{"type": "browser_toolset_20260801", "name": "browser"}], True),
    ],
)
def test_browser_state_stands_in_the_result_of_a_browser_only(
    call: dict[str, Any], tools: list[dict[str, Any]], kept: bool
) -> None:
    repaired = mended({"messages": answers(call, {"type": "text", "text": "ok"}, STATE), "tools": tools})
    result = repaired.request["messages"][-1]["content"][0]
    assert (STATE in result["content"]) == kept
    assert [json.loads(text or "") for text in said(repaired, "media_moved")] == ([] if kept else [STATE])


def test_a_toolset_that_the_call_does_not_name_is_told() -> None:
    messages = answers({"toolset_name": "browser"}, {"type": "text", "text": "ok"})
    del messages[1]["content"][0]["toolset_name"]
    repaired = mended({"messages": messages})
    assert "toolset_name" not in repaired.request["messages"][-1]["content"][0]
    assert said(repaired, "trimmed") == ["browser"]


GIF = "R0lGODlhAQABAAAAACw="


@pytest.mark.parametrize(("data", "sent"), [(GIF, "image/gif"), ("AAAA", None)])
@pytest.mark.parametrize("in_result", [True, False])
def test_a_picture_in_a_document_is_what_its_bytes_say(data: str, sent: str | None, in_result: bool) -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    held = {"type": "content", "content": [{"type": "text", "text": "Fig. 1"}, picture]}
    document = {"type": "document", "source": held}
    messages = (
        answers({}, {"type": "text", "text": "ok"}, document)
        if in_result
        else [{"role": "user", "content": [{"type": "text", "text": "Look"}, document]}]
    )
    repaired = mended({"messages": messages})
    content = repaired.request["messages"][-1]["content"]
    shown = [
        block for block in (content[0]["content"] if in_result else content) if block["type"] == "document"
    ]
    assert [block["source"]["content"][1]["source"]["media_type"] for block in shown] == (
        [sent] if sent else []
    )
    told = said(repaired, "trimmed" if sent else "media_moved")
    assert told == (["image/png"] if sent else [json.dumps(document, separators=(",", ":"))])


def test_a_file_name_of_another_api_becomes_the_title() -> None:
    sent = {
        "type": "file",
        "file": {"filename": "plan.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
    }
    repaired = mended({"messages": [{"role": "user", "content": [{"type": "text", "text": "Look"}, sent]}]})
    assert repaired.request["messages"][0]["content"][1]["title"] == "plan.pdf"
    assert not said(repaired, "trimmed")


def test_a_switch_of_another_api_in_instructions_is_left_out() -> None:
    words = {"type": "text", "text": "Be brief", "prompt_cache_breakpoint": {"id": "b1"}}
    repaired = mended({"messages": [{"role": "system", "content": [words]}, USER], "tools": [chat_tool({})]})
    assert repaired.request["system"] == [{"type": "text", "text": "Be brief"}]


HIT = {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "x"}]}
PICTURE = {"type": "image", "source": {"type": "url", "url": "https://x"}}
WORDS = {"type": "text", "text": "2 hits"}


@pytest.mark.parametrize(
    ("given", "kept", "moved"),
    [
        (answered([HIT, WORDS]), answered([HIT]), WORDS),
        (answered([WORDS, PICTURE], is_error=True), answered([WORDS], is_error=True), PICTURE),
    ],
)
def test_what_moves_out_of_a_result_does_not_make_a_beginning(given: Any, kept: Any, moved: Any) -> None:
    reply = {"role": "assistant", "content": [CALL]}
    repaired = mended([reply, {"role": "user", "content": [given]}])
    assert repaired.request["messages"] == [reply, {"role": "user", "content": [kept, moved]}]
    assert mended(repaired.request).request == repaired.request


def test_a_history_is_cut_at_words_that_no_result_stands_beside() -> None:
    reply = {"role": "assistant", "content": [CALL]}
    beside = [reply, {"role": "user", "content": [answered("ok"), WORDS]}]
    assert mended(beside).request["messages"] == beside
    later = [{"role": "assistant", "content": "x"}, USER]
    repaired = mended([*beside, *later])
    assert repaired.request["messages"] == [{"role": "user", "content": [WORDS]}, *later]
    assert mended(repaired.request).request == repaired.request


def test_what_was_told_of_a_call_is_no_beginning() -> None:
    fallback = {"type": "fallback", "from": {"model": "claude-a"}, "to": {"model": "claude-b"}}
    reply = {"role": "assistant", "content": [CALL, fallback, {**CALL, "id": "toolu_2"}]}
    results = [answered("one"), {**answered("two"), "tool_use_id": "toolu_2"}]
    repaired = mended([reply, {"role": "user", "content": results}])
    assert [m["role"] for m in repaired.request["messages"]] == ["assistant", "user"]
    assert mended(repaired.request).request == repaired.request


def test_instructions_lose_the_keys_that_the_api_does_not_know() -> None:
    block = {"type": "text", "text": "Be brief."}
    given = {"model": "claude-opus-4-8", "system": [{**block, "odd": 1}], "messages": [USER]}
    repaired = mended(given)
    assert repaired.request["system"] == [block]
    assert said(repaired, "trimmed") == ['{"odd":1}']
    late = {
        "model": "claude-opus-4-8",
        "messages": [USER, {"role": "developer", "content": [{**block, "odd": 1}]}, USER],
    }
    repaired = mended(late)
    assert "odd" not in json.dumps(repaired.request)
    assert '{"odd":1}' in said(repaired, "trimmed")


def test_an_open_server_call_gives_way_to_a_system_message_that_nothing_could_stand_before() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    open_call = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "w"}}
    reply = ModelReplied(fact_id="reply", seq=4, turn_id="t", api="anthropic", model="claude-opus-4-8",
                         stop_reason="tool_use", parts=(
                             ToolCall("toolu_1", "run", Json("{}")),
                             ServerToolCall("srvtoolu_1", "web_search", Json('{"query":"w"}'), Json.of(open_call),
                                            "server_tool_use")))  # fmt: skip
    before = ModelReplied(fact_id="empty", seq=2, turn_id="t", api="anthropic", parts=())
    told: list[Fact] = [
        InstructionsSet(fact_id="head", seq=0, turn_id="t", parts=()),
        ToolsDeclared(fact_id="none", seq=1, turn_id="t", api="anthropic", tools=()),
        before,
        ToolsDeclared(fact_id="tools", seq=3, turn_id="t", api="anthropic",
                      tools=(Tool("web_search", raw=Json.of(search), server=True),)),
        reply,
        CallCompleted(fact_id="done", seq=5, turn_id="t", call_id="toolu_1", content="ok"),
    ]  # fmt: skip
    projection = project(fold(told), "anthropic")
    assert [note.kind for note in projection.adjustments if note.call_id == "srvtoolu_1"] == [
        "dropped_server_tool"
    ]
    assert projection.request["messages"][-1]["role"] == "system"
    assert_accepts(projection.request, "anthropic", context={"history": True})


@pytest.mark.parametrize("broken", [{}, {"content": []}, {"content": [{"type": "text", "text": 5}]}])
def test_a_broken_hit_that_another_api_carried_is_left_out(broken: Any) -> None:
    hit = {"type": "search_result", "source": "s", "title": "t", **broken}
    given = [{"role": "user", "content": [hit, {"type": "input_text", "text": "?"}]}]
    repaired = repair({"input": given}, format="openai_responses", to="anthropic")
    assert repaired.request["messages"] == [{"role": "user", "content": [{"type": "text", "text": "?"}]}]
    assert json.loads(said(repaired, "dropped_fragment")[0] or "") == hit


def test_a_system_message_goes_without_the_blocks_that_it_may_not_hold() -> None:
    """What is reported as left out is left out, also of a message that has keys of its own."""
    use = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
    words = {"type": "text", "text": "Be brief."}
    late = {
        "role": "system",
        "content": [words, use, {"type": "text", "text": " "}],
        "clear_at": "end_of_turn",
    }
    repaired = mended({"model": "claude-opus-5-5", "messages": [USER, late], "tools": [chat_tool({})]})
    assert repaired.request["messages"][-1] == {
        "role": "system",
        "content": [words],
        "clear_at": "end_of_turn",
    }
    told = {"name": "f", "id": "toolu_1", "arguments": "{}"}
    assert [json.loads(text or "") for text in said(repaired, "dropped_fragment")] == [told]
    assert said(repaired, "dropped_empty") == [" "]


@pytest.mark.parametrize("blank", [" ", [{"type": "text", "text": " "}]])
def test_blank_instructions_are_told(blank: Any) -> None:
    repaired = mended({"model": "claude-opus-4-8", "system": blank, "messages": [USER]})
    assert "system" not in repaired.request
    assert said(repaired, "dropped_empty") == [" "]


@pytest.mark.parametrize(
    ("client", "speaks", "kept"), [(True, False, False), (False, False, True), (False, True, False)]
)
def test_an_open_server_call_waits_past_another_pause_but_not_past_a_reply_to_results_or_words(
    client: bool, speaks: bool, kept: bool
) -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    open_call = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "w"}}
    content = [CALL, open_call] if client else [open_call]
    told = [
        *read({"messages": [USER], "tools": [search]}, format="anthropic").facts,
        *facts_of(content, "tool_use" if client else "pause_turn", 10),
        *([CallCompleted(fact_id="done", seq=20, call_id="toolu_1", content="ok")] if client else []),
        *facts_of(
            [{"type": "text", "text": "I look."}] if speaks else [{**open_call, "id": "srvtoolu_2"}],
            "pause_turn",
            30,
        ),
    ]
    projection = project(fold(told), "anthropic", open_calls="unknown")
    sent = [
        b.get("id") for m in projection.request["messages"] if m["role"] == "assistant" for b in m["content"]
    ]
    assert ("srvtoolu_1" in sent) == kept
    assert [note.kind for note in projection.adjustments if note.call_id == "srvtoolu_1"] == (
        [] if kept else ["dropped_server_tool"]
    )
    assert_accepts(projection.request, "anthropic", context={"history": True})


def facts_of(content: list[Any], stop_reason: str, seq: int) -> list[Fact]:
    """A reply as it was received."""
    response = {"type": "message", "role": "assistant", "model": "claude-opus-4-8", "content": content,
                "stop_reason": stop_reason}  # fmt: skip
    reading = read(response, format="anthropic")
    (reply,) = (fact for fact in reading.facts if fact.kind == "model_replied")
    return [replace(reply, fact_id=f"reply/{seq}", seq=seq)]


def open_search(*behind: Fact, tools: bool = True) -> list[Fact]:
    """A reply with a call of the client's and an open one of the server's, and what stands behind it."""
    search = {"type": "web_search_20250305", "name": "web_search"}
    open_call = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "w"}}
    return [
        *read({"messages": [USER], "tools": [search] if tools else []}, format="anthropic").facts,
        *facts_of([CALL, open_call], "tool_use", 10),
        CallCompleted(fact_id="done", seq=20, call_id="toolu_1", content="ok"),
        *behind,
    ]


def test_a_blank_message_is_nothing_that_an_open_server_call_gives_way_to() -> None:
    blank = UserSaid(fact_id="blank", seq=30, parts=(Text(" "),))
    asked = UserSaid(fact_id="asked", seq=31, parts=(Text("And?"),))
    for behind, kept in (((), True), ((blank,), True), ((blank, asked), False)):
        projection = project(fold(open_search(*behind)), "anthropic")
        assert ("srvtoolu_1" in json.dumps(projection.request)) == kept


def test_why_a_server_call_is_left_out_does_not_depend_on_what_comes_later() -> None:
    empty = ModelReplied(fact_id="empty", seq=30, api="anthropic", parts=(), stop_reason="end_turn")
    asked = UserSaid(fact_id="asked", seq=31, parts=(Text("And?"),))
    before = fold(open_search(empty, tools=False))
    first = project(before, "anthropic")
    later = fold([asked], onto=before)
    going_on = project(later, "anthropic", previous=first)
    assert going_on.adjustments == project(later, "anthropic").adjustments
    assert [note.because for note in going_on.adjustments if note.call_id == "srvtoolu_1"] == ["ANT-SRV-002"]


def test_words_stay_beside_the_results_of_the_reply_before_them_alone() -> None:
    messages = [
        {"role": "assistant", "content": [CALL]},
        {"role": "assistant", "content": "I wait."},
        {"role": "user", "content": [answered("ok"), {"type": "text", "text": "And?"}]},
    ]
    first = mended({"messages": messages})
    assert first.request["messages"] == [{"role": "user", "content": [{"type": "text", "text": "And?"}]}]
    assert mended(first.request).request == first.request


@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_system_message_in_front_goes_to_the_top_and_is_told(role: str) -> None:
    messages = [{"role": role, "content": "Be brief."}, USER]
    repaired = repair({"model": "claude-opus-4-8", "messages": messages}, format="anthropic")
    assert (repaired.request["system"], repaired.request["messages"]) == ("Be brief.", [USER])
    assert [(note.kind, note.because) for note in repaired.adjustments] == [("moved", "ANT-SYS-004")]


def test_what_a_system_message_says_beside_its_text_is_sent_or_reported() -> None:
    later = {"role": "system", "content": "Be brief.", "clear_at": {"type": "turns", "value": 2}, "odd": 1}
    payload = {"model": "claude-opus-5-5", "messages": [USER, later]}
    own = repair(payload, format="anthropic")
    assert own.request["messages"][1] == {key: value for key, value in later.items() if key != "odd"}
    assert [json.loads(text or "") for text in said(own, "trimmed")] == [{"odd": 1}]
    foreign = repair({"messages": [USER, later]}, format="anthropic", to="openai_responses")
    assert {"role": "developer", "content": "Be brief."} in foreign.request["input"]
    assert {"clear_at": later["clear_at"], "odd": 1} in [
        json.loads(text or "") for text in said(foreign, "trimmed")
    ]
