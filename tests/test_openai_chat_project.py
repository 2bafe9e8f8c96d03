"""Facts -> Chat Completions requests: what is replayed, told, moved, renamed, and what stays as it was sent."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionMessageParam
from pydantic import TypeAdapter
from test_openai_chat_rules import ALL, CASES, expanded, found

import normalizer
from normalizer.facts import FACTS
from normalizer.projecting import canonical
from normalizer.projecting.sent_record import request_sent
from normalizer.providers.openai_chat import PROVIDER, wire
from normalizer.testing import histories

if TYPE_CHECKING:
    from collections.abc import Iterator

    from normalizer.facts import Fact

MESSAGE: TypeAdapter[Any] = TypeAdapter(ChatCompletionMessageParam)
USER = {"role": "user", "content": "Hi"}
PIXEL = "iVBORw0KGgo="


def repaired(*messages: dict[str, Any], to: str = "openai_chat", **more: Any) -> normalizer.Repair:
    """The repair of a chat history; keys of `settings` stand in its request."""
    request = {"messages": list(messages), **more.pop("settings", {})}
    return normalizer.repair(request, format="openai_chat", to=to, **more)


def sent(repair: normalizer.Repair) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = repair.request["messages"]
    return messages


def kinds(repair: Any) -> set[str]:
    """What was done to the history; the settings that do not go to another API are told beside it."""
    return {one.kind for one in repair.adjustments if not one.message.startswith("the setting ")}


def call(*ids: str, name: str = "f", arguments: Any = "{}", **more: Any) -> dict[str, Any]:
    calls = [{"id": i, "type": "function", "function": {"name": name, "arguments": arguments}} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls, **more}


def answer(wire_id: str, content: Any = "1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": wire_id, "content": content}


# ---------------------------------------------------------------- replayed as received


HEALTHY = [case for case in CASES if not found(case)[1] and case["rule"] != "OAC-STREAM-007"]


@pytest.mark.parametrize("case", HEALTHY, ids=[case["id"] for case in HEALTHY])
def test_a_healthy_history_comes_out_as_it_came_in(case: dict[str, Any]) -> None:
    request = expanded(case["request"])
    repair = normalizer.repair(request, format="openai_chat")
    assert json.dumps(repair.request) == json.dumps(request)
    assert repair.adjustments == ()


def test_keys_of_messages_stay_in_their_order() -> None:
    history = [
        {"content": "Be brief.", "role": "system"},
        {"role": "user", "name": "Ada", "content": [{"type": "text", "text": "Hi"}]},
        {"content": "", "role": "assistant", "refusal": None, "tool_calls": call("a")["tool_calls"]},
        {"tool_call_id": "a", "role": "tool", "content": [{"type": "text", "text": "1"}]},
        {"role": "assistant", "audio": {"id": "audio_1"}},
        {"role": "user", "content": ""},
    ]
    repair = repaired(*history)
    assert json.dumps(sent(repair)[1:]) == json.dumps(history[1:])
    assert sent(repair)[0] == history[0]
    assert repair.adjustments == ()


@pytest.mark.parametrize("profile", [None, *wire.PROFILES])
def test_every_case_is_mended_once_and_for_all(profile: str | None) -> None:
    for case in ALL:
        request = expanded(case["request"])
        if len(str(request)) > 100_000 and profile not in (None, "qwen"):
            continue
        try:
            repair = normalizer.repair(request, format="openai_chat", profile=profile)
        except (normalizer.UnreadableInput, normalizer.CannotProject) as error:
            if error.reason not in ("no_messages", "too_many_tools"):
                raise
            continue
        again = normalizer.repair(copy.deepcopy(repair.request), format="openai_chat", profile=profile)
        assert again.request == repair.request


def test_a_response_of_the_sdk_is_read_and_goes_back_without_its_own_keys() -> None:
    message = {"role": "assistant", "content": None, "refusal": None, "annotations": [], **call("call_1")}
    response = ChatCompletion.model_validate(
        {
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-5.4",
            "choices": [{"index": 0, "finish_reason": "tool_calls", "logprobs": None, "message": message}],
        }
    )  # fmt: skip
    reading = normalizer.read(response)
    assert (reading.format, reading.stop_reason) == ("openai_chat", "tool_calls")
    history = [USER, response.choices[0].message, answer("call_1")]
    repair = normalizer.repair(history)
    assert sent(repair)[1] == {"role": "assistant", "content": None, "refusal": None, **call("call_1")}
    assert kinds(repair) == {"trimmed"}


def test_a_response_that_a_limit_cut_has_no_last_call() -> None:
    choice = {"index": 0, "finish_reason": "length", "message": call("a", "b")}
    reading = normalizer.read(
        {"object": "chat.completion", "model": "m", "choices": [choice, {"message": {}}]}
    )
    assert [fragment.call_id for fragment in reading.fragments] == ["b"]
    assert [leftover.reason for leftover in reading.leftovers] == ["another choice than the one that is used"]
    filtered = {**choice, "finish_reason": "content_filter"}
    assert len(normalizer.read({"choices": [filtered], "object": "chat.completion"}).fragments) == 2


# ---------------------------------------------------------------- results and notices


def test_results_stand_behind_their_call_and_words_behind_them() -> None:
    note = {"role": "system", "content": "Be quick."}
    repair = repaired(
        USER, call("a", "b"), {"role": "user", "content": "hurry"}, answer("b"), note, answer("a", "")
    )
    assert [m.get("tool_call_id") or m["content"] for m in sent(repair)[2:]] == [
        "b",
        "a",
        "hurry",
        "Be quick.",
    ]
    assert sent(repair)[3]["content"] == ""
    assert [(a.kind, a.call_id) for a in repair.adjustments] == [("moved", "b"), ("moved", "a")]


def test_a_call_without_result_is_told_and_stays_told() -> None:
    repair = repaired(USER, call("a", "b"), answer("a"), USER)
    notice = sent(repair)[3]
    assert notice["content"].startswith("[tool outcome: unknown]\n")
    assert kinds(repair) == {"notice"}
    assert sent(repaired(*sent(repair))) == sent(repair)


def test_outcomes_that_the_host_knows_are_told_by_their_words() -> None:
    said = [
        {"kind": "approval_denied", "call_id": "a", "by": "user", "reason": "not today"},
        {"kind": "call_skipped", "call_id": "b"},
        {"kind": "start_permitted", "call_id": "c"},
        {"kind": "call_terminated", "call_id": "c", "exit_code": 130},
    ]
    repair = repaired(USER, call("a", "b", "c"), facts=said)
    told = [m["content"].partition("\n")[0] for m in sent(repair)[2:]]
    assert told == [f"[tool outcome: {kind}]" for kind in ("denied", "never_run", "cancelled_while_running")]
    assert "not today" in sent(repair)[2]["content"]
    assert sent(repaired(*sent(repair))) == sent(repair)


def test_a_half_streamed_call_is_gone_with_its_answer() -> None:
    half = call("a", arguments='{"path": "no')
    repair = repaired(USER, half, answer("a"), USER)
    assert sent(repair) == [USER, USER]
    assert [fragment.call_id for fragment in repair.fragments] == ["a"]
    with_words = repaired(USER, {**half, "content": "Writing."}, USER)
    assert sent(with_words)[1] == {"role": "assistant", "content": "Writing."}


def test_arguments_that_are_no_json_go_back_raw_or_wrapped_where_they_are_parsed_again() -> None:
    bad = [USER, call("a", arguments='{"a": 1,}'), answer("a")]
    assert sent(repaired(*bad)) == bad
    wrapped = sent(repaired(*bad, profile="vllm"))[1]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(wrapped) == {"INVALID_JSON": '{"a": 1,}'}
    empty = [USER, call("a", arguments=""), answer("a")]
    assert sent(repaired(*empty)) == empty
    assert sent(repaired(*empty, profile="ollama"))[1]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_more_calls_than_a_message_may_hold_are_split() -> None:
    ids = [f"c{n}" for n in range(130)]
    repair = repaired(USER, call(*ids, content="Go."), *(answer(i, i) for i in ids))
    roles = [message["role"] for message in sent(repair)]
    assert roles == ["user", "assistant", *["tool"] * 128, "assistant", "tool", "tool"]
    assert kinds(repair) == {"split"}


def test_a_legacy_call_is_answered_in_its_own_form() -> None:
    asked = {"role": "assistant", "content": None, "function_call": {"name": "g", "arguments": "{}"}}
    done = {"role": "function", "name": "g", "content": "2"}
    functions = [{"name": "g", "parameters": {"type": "object"}}]
    whole = repaired(USER, asked, done, settings={"functions": functions})
    assert sent(whole) == [USER, asked, done]
    assert whole.request["functions"] == functions
    lost = repaired(USER, asked, USER)
    assert sent(lost)[2]["role"] == "function"
    assert sent(lost)[2]["content"].startswith("[tool outcome: unknown]")
    assert sent(repaired(*sent(lost))) == sent(lost)
    elsewhere = repaired(USER, asked, done, to="anthropic").request["messages"]
    assert elsewhere[1]["content"][0]["id"] == elsewhere[2]["content"][0]["tool_use_id"]


def test_calls_without_ids_get_some_and_are_answered_in_order() -> None:
    repair = repaired(USER, call("", "", ""), answer("", "1"), answer("", "2"), answer("", "3"))
    ids = [one["id"] for one in sent(repair)[1]["tool_calls"]]
    assert len(set(ids)) == 3
    assert [(m["tool_call_id"], m["content"]) for m in sent(repair)[2:]] == list(zip(ids, "123", strict=True))


# ---------------------------------------------------------------- ids, names, roles, refusals


def test_ids_and_names_are_mapped_on_both_sides_and_back() -> None:
    long = "toolu_" + "x" * 60
    repair = repaired(
        USER, call(long, "call_0", name="fs.read"), answer(long), USER, call("call_0"), answer("call_0")
    )
    first = sent(repair)[1]["tool_calls"][0]
    assert len(repair.ids[long]) <= 40
    assert first["id"] == repair.ids[long] == sent(repair)[2]["tool_call_id"]
    assert wire.TOOL_NAME.fullmatch(first["function"]["name"])
    assert repair.ids["call_0#2"] == "call_0_2"
    assert len(set(repair.ids.values())) == len(repair.ids)
    assert kinds(repair) >= {"renamed_id", "renamed_tool"}


def test_functions_of_the_form_before_tools_have_the_names_of_their_calls() -> None:
    legacy = {"role": "assistant", "content": None, "function_call": {"name": "fs.read", "arguments": "{}"}}
    result = {"role": "function", "name": "fs.read", "content": "done"}
    functions = [{"name": "fs.read", "parameters": {"type": "object"}}]
    request = repaired(USER, legacy, result, settings={"functions": functions}).request
    (declared,) = request["functions"]
    assert declared["name"].startswith("fs_read_")
    assert request["messages"][1]["function_call"]["name"] == declared["name"]
    assert request["messages"][2]["name"] == declared["name"]


@pytest.mark.parametrize(
    ("model", "profile", "role"),
    [(None, None, "system"), ("gpt-5.4", None, "developer"), ("gpt-4.1", None, "system"), ("o3", None, "developer"),
     ("o1-mini", None, "user"), ("gpt-5.4", "deepseek", "system")],
)  # fmt: skip
def test_instructions_of_others_get_the_role_that_the_model_prefers(
    model: str | None, profile: str | None, role: str
) -> None:
    payload = {"system": "Be brief.", "messages": [USER], "max_tokens": 9}
    repair = normalizer.repair(payload, format="anthropic", to="openai_chat", model=model, profile=profile)
    assert sent(repair) == [{"role": role, "content": "Be brief."}, USER]


def test_instructions_are_sent_in_one_role() -> None:
    mixed = [{"role": "system", "content": "a"}, {"role": "developer", "content": "b"}, USER]
    assert [m["role"] for m in sent(repaired(*mixed))] == ["system", "system", "user"]
    assert [m["role"] for m in sent(repaired(*mixed[1:], profile="qwen"))] == ["system", "user"]


def test_a_refusal_stays_one() -> None:
    refused = {"role": "assistant", "content": None, "refusal": "No."}
    part = [{"type": "refusal", "refusal": "No."}]
    assert sent(repaired(USER, refused, USER))[1] == {"role": "assistant", "content": part}
    both = {"role": "assistant", "content": [{"type": "text", "text": "Well."}, *part]}
    assert [m["content"] for m in sent(repaired(USER, both, USER))[1:3]] == [
        [{"type": "text", "text": "Well."}],
        part,
    ]
    key = sent(repaired(USER, refused, USER, profile="ollama"))[1]
    assert key == {"role": "assistant", "content": "", "refusal": "No."}


def test_a_speakers_name_that_the_api_refuses_goes_without_the_message() -> None:
    repair = repaired({"role": "user", "name": "Ada Lovelace", "content": "Hi"})
    assert sent(repair) == [USER]
    assert [a.because for a in repair.adjustments] == ["OAC-ROLE-003"]


def test_a_text_that_is_too_long_is_cut_where_all_can_see_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "OPENAI", replace(wire.OPENAI, max_string=100))
    monkeypatch.setattr(wire, "MAX_STRING", 100)
    result = sent(repaired(USER, call("a"), answer("a", "x" * 101)))[2]["content"]
    assert len(result) == 100
    assert result.endswith(wire.CUT_MARK)
    assert sent(repaired(USER, call("a"), answer("a", "x" * 100)))[2]["content"] == "x" * 100


def test_too_many_tools_are_refused_by_number() -> None:
    tools = [{"type": "function", "function": {"name": f"t{n}"}} for n in range(129)]
    with pytest.raises(normalizer.CannotProject, match="129 tools") as error:
        repaired(USER, settings={"tools": tools})
    assert error.value.reason == "too_many_tools"


def test_a_profile_that_nobody_knows_is_named() -> None:
    with pytest.raises(normalizer.CannotProject, match="deepseek, kimi, qwen") as error:
        repaired(USER, profile="deepsea")
    assert error.value.reason == "unknown_profile"


# ---------------------------------------------------------------- what each server wants


THOUGHT = {"reasoning_content": "Look it up."}


def test_reasoning_goes_back_to_the_server_that_wants_it_and_nowhere_else() -> None:
    history = [
        USER,
        call("a", **THOUGHT),
        answer("a"),
        {"role": "assistant", "content": "4", **THOUGHT},
        USER,
    ]
    assert sent(repaired(*history, profile="deepseek")) == history
    plain = repaired(*history)
    assert "Look it up." not in json.dumps(sent(plain))
    assert kinds(plain) == {"dropped_reasoning"}
    moved = sent(repaired(*history, profile="ollama"))[1]
    assert moved["reasoning"] == "Look it up."
    assert "reasoning_content" not in moved
    assert "reasoning" not in sent(repaired(*history, profile="groq"))[1]
    refused = repaired(*history, profile="deepseek", model="deepseek-r1")
    assert "Look it up." not in json.dumps(sent(refused))


@pytest.mark.parametrize("profile", ["deepseek", "kimi"])
def test_a_missing_thought_is_an_empty_key_and_never_a_thought(profile: str) -> None:
    repair = repaired(USER, call("a"), answer("a"), profile=profile)
    assert sent(repair)[1]["reasoning_content"] == ""
    assert kinds(repair) == {"dropped_reasoning"}
    quiet = {"deepseek": "deepseek-chat", "kimi": "moonshot-v1-8k"}[profile]
    assert (
        "reasoning_content"
        not in sent(repaired(USER, call("a"), answer("a"), profile=profile, model=quiet))[1]
    )


def test_reasoning_of_another_makers_model_is_not_taken_for_the_servers_own() -> None:
    response = {
        "model": "kimi-k2.5",
        "object": "chat.completion",
        "choices": [{"message": call("a", **THOUGHT)}],
    }
    facts = normalizer.read(response).facts
    for profile, kept in (("kimi", "Look it up."), ("deepseek", "")):
        projection = normalizer.project(
            normalizer.fold(facts), "openai_chat", profile=profile, open_calls="unknown"
        )
        assert projection.request["messages"][0]["reasoning_content"] == kept


def test_details_of_reasoning_go_back_unchanged_and_once() -> None:
    details = [{"type": "reasoning.encrypted", "id": "rs_1", "data": "zz"}]
    first = {"role": "assistant", "content": "a", "reasoning_details": details}
    repair = repaired(USER, first, USER, {**first, "content": "b"}, USER, profile="openrouter")
    assert sent(repair)[1] == first
    assert sent(repair)[3] == {"role": "assistant", "content": "b", "reasoning_details": []}


def test_reasoning_of_an_old_turn_leaves_unless_it_was_sent() -> None:
    history = [USER, call("a", **THOUGHT), answer("a")]
    assert sent(repaired(*history, profile="qwen")) == history
    assert THOUGHT.keys().isdisjoint(sent(repaired(*history, USER, profile="qwen"))[1])
    facts = list(normalizer.read({"messages": history}, format="openai_chat").facts)
    facts = [replace(fact, seq=fact.seq * 10) for fact in facts]
    options: dict[str, Any] = {"profile": "qwen", "open_calls": "unknown"}
    projection = normalizer.project(normalizer.fold(facts), "openai_chat", **options)
    facts.append(request_sent(projection, fact_id="s", seq=facts[-1].seq + 1))
    facts.append(said(facts[-1].seq + 1, "and?"))
    later = normalizer.project(normalizer.fold(facts), "openai_chat", **options, previous=projection)
    assert later.request["messages"][:3] == projection.request["messages"]


def test_a_template_gets_alternating_roles_and_all_instructions_in_front() -> None:
    history = [
        USER,
        USER,
        {"role": "assistant", "content": "a"},
        {"role": "system", "content": "Be brief."},
        USER,
    ]
    repair = repaired(*history, profile="vllm")
    assert [message["role"] for message in sent(repair)] == ["system", "user", "assistant", "user"]
    assert sent(repair)[1]["content"] == [{"type": "text", "text": "Hi"}, {"type": "text", "text": "Hi"}]
    assert kinds(repair) == {"merged"}


@pytest.mark.parametrize(
    ("profile", "content"), [("kimi", None), ("qwen", ""), ("xai", ""), ("ollama", ""), (None, "")]
)
def test_a_content_without_words_is_what_the_server_takes(profile: str | None, content: Any) -> None:
    message = call("a", **THOUGHT)
    message["content"] = ""
    assert sent(repaired(USER, message, answer("a"), profile=profile))[1]["content"] == content


def test_media_that_a_server_cannot_take_are_named_in_words() -> None:
    url = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    data = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    file = {"type": "file", "file": {"file_id": "file_1"}}
    message = {"role": "user", "content": [url, data, file]}
    assert sent(repaired(message)) == [message]
    note = {"type": "text", "text": "[left out here: image]"}
    assert sent(repaired(message, profile="ollama"))[0]["content"][:2] == [note, data]
    assert sent(repaired(message, profile="azure"))[0]["content"][2]["text"] == "[left out here: file]"
    blind = repaired(message, profile="qwen", model="qwen-max")
    assert sent(blind)[0]["content"][:2] == [note, note]
    assert "media_moved" in kinds(blind)
    assert sent(repaired(message, profile="qwen", model="qwen-vl-max")) == [message]


def test_settings_that_a_server_refuses_are_left_out() -> None:
    settings_ = {"store": True, "reasoning_effort": "low", "max_tokens": 9}
    assert repaired(USER, profile="qwen", settings=settings_).request == {"messages": [USER], "max_tokens": 9}
    assert repaired(USER, settings={"tool_choice": "auto"}).request == {"messages": [USER]}


# ---------------------------------------------------------------- from other APIs, and back


def anthropic(*messages: Any, **more: Any) -> normalizer.Repair:
    turns = [{"role": role, "content": content} for role, content in zip("ua" * 9, messages, strict=False)]
    for turn in turns:
        turn["role"] = {"u": "user", "a": "assistant"}[turn["role"]]
    return normalizer.repair(
        {"max_tokens": 9, "messages": turns}, format="anthropic", to="openai_chat", **more
    )


def use(wire_id: str = "toolu_1", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": wire_id, "name": "look", "input": given}


def result(wire_id: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": wire_id, "content": content, **more}


def test_a_reply_of_another_api_is_one_message_with_its_calls() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "x"}
    cited = {"type": "text", "text": "See.", "citations": [{"cited_text": "a page"}]}
    repair = anthropic(
        "Hi", [thought, cited, use(b=1, a=2)], [result("toolu_1", [{"type": "text", "text": "2"}])]
    )
    assert sent(repair)[1:] == [
        {
            "role": "assistant", "content": "See.",
            "tool_calls": [
                {"id": "toolu_1", "type": "function", "function": {"name": "look", "arguments": '{"b":1,"a":2}'}}
            ],
        },
        answer("toolu_1", "2"),
    ]  # fmt: skip
    assert kinds(repair) == {"dropped_reasoning", "trimmed"}
    assert any("a page" in (a.content or "") for a in repair.adjustments)


def test_a_picture_in_a_result_follows_the_whole_batch() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    shot = result("toolu_1", [{"type": "text", "text": "shot"}, picture])
    repair = anthropic(
        "Hi", [use(), use("toolu_2")], [shot, result("toolu_2", "2"), {"type": "text", "text": "so?"}]
    )
    assert sent(repair)[2:] == [
        answer("toolu_1", "shot"),
        answer("toolu_2", "2"),
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "[from the result of call toolu_1]"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
            ],
        },
        {"role": "user", "content": [{"type": "text", "text": "so?"}]},
    ]
    assert kinds(repair) == {"media_moved"}


def test_documents_are_sent_as_files_or_in_their_words() -> None:
    pdf = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
    words = {"type": "text", "media_type": "text/plain", "data": "All is well."}
    repair = anthropic(
        [
            {"type": "document", "source": pdf, "title": "a.pdf"},
            {"type": "document", "source": words, "title": "b"},
        ]
    )
    file = {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}
    assert sent(repair)[0]["content"] == [
        {"type": "file", "file": file},
        {"type": "text", "text": "[b]\nAll is well."},
    ]


def test_an_error_without_words_does_not_look_like_success() -> None:
    repair = anthropic("Hi", [use()], [result("toolu_1", "", is_error=True)])
    assert sent(repair)[2]["content"].startswith("[tool outcome: completed]\n")
    assert "error" in sent(repair)[2]["content"]
    loud = anthropic("Hi", [use()], [result("toolu_1", "no such file", is_error=True)])
    assert sent(loud)[2]["content"] == "no such file"
    assert kinds(loud) == {"trimmed"}


def test_what_a_server_ran_is_left_out_or_quoted() -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "oslo"}}
    page = {
        "type": "web_search_result",
        "url": "http://example.test/",
        "title": "Oslo",
        "encrypted_content": "zz",
    }
    back = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [page]}
    history = ("Hi", [search, back, {"type": "text", "text": "Rain."}], "and?")
    dropped = anthropic(*history)
    assert [m["content"] for m in sent(dropped)] == ["Hi", "Rain.", "and?"]
    assert kinds(dropped) == {"dropped_server_tool"}
    quoted = [m["content"] for m in sent(anthropic(*history, server_tools="quote"))]
    assert quoted[2].startswith("[run by the provider's server: web_search]")
    assert "http://example.test/" in quoted[2]
    assert quoted[3] == "and?"
    assert "zz" not in "".join(quoted)


def test_a_refused_turn_is_left_out_and_a_started_call_of_it_is_told() -> None:
    reply = {"fact_id": "r", "seq": 2, "kind": "model_replied", "api": "anthropic", "stop_reason": "refusal",
             "turn_id": "t", "parts": [{"kind": "tool_call", "id": "a", "name": "f", "arguments": "{}"}]}  # fmt: skip
    done = {"fact_id": "c", "seq": 3, "kind": "call_completed", "call_id": "a", "content": "sold"}
    facts = FACTS.validate_python((dump(said(1, "Sell.")), reply, done))
    projection = normalizer.project(normalizer.fold(facts), "openai_chat")
    roles = [message["role"] for message in projection.request["messages"]]
    assert roles == ["user", "user"]
    assert projection.request["messages"][1]["content"].startswith("[tool outcome: completed] [told, call a]")
    assert {a.kind for a in projection.adjustments} == {"dropped_turn", "told_as_text"}


def test_there_and_back_says_the_same() -> None:
    history = [
        {"role": "system", "content": "Be brief."},
        USER,
        call("call_1", "call_2", arguments='{"a":1}', content="Both."),
        answer("call_1", "one"),
        answer("call_2", "two"),
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "Thanks"},
    ]
    there = normalizer.repair({"messages": history}, format="openai_chat", to="anthropic")
    back = normalizer.repair(there.request, format="anthropic", to="openai_chat")
    assert sent(back) == history


# ---------------------------------------------------------------- which API a list is


def test_what_fits_two_apis_is_read_as_that_of_the_target() -> None:
    plain = [USER, {"role": "assistant", "content": "Hello."}, USER]
    assert normalizer.repair(plain).format == "openai_chat"
    assert normalizer.repair(plain, to="anthropic").format == "anthropic"
    assert normalizer.repair(plain, to="openai_chat").format == "openai_chat"


@pytest.mark.parametrize(
    ("value", "lowest", "highest"),
    [
        ([USER], 1, 40),
        ([USER, call("a"), answer("a")], 80, 100),
        ({"messages": [USER], "model": "gpt-5.4"}, 41, 79),
        ({"object": "chat.completion", "choices": []}, 90, 100),
        ({"role": "assistant", "content": None, "tool_calls": []}, 60, 100),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]}], 60, 100),
        ([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}], 0, 0),
        ([{"role": "user", "parts": []}], 0, 0),
        ([{"type": "message", "role": "user", "content": "Hi"}], 0, 0),
        ({"messages": [USER], "system": "Be brief."}, 0, 0),
        ([1], 0, 0),
        ("text", 0, 0),
    ],
)
def test_how_well_a_value_fits(value: Any, lowest: int, highest: int) -> None:
    assert lowest <= PROVIDER.sniff(value) <= highest


# ---------------------------------------------------------------- what was sent


def said(seq: int, text: str, **more: Any) -> Any:
    fact = {"fact_id": f"u{seq}", "seq": seq, "kind": "user_said", "string": True, "turn_id": "t",
            "parts": [{"kind": "text", "text": text}], **more}  # fmt: skip
    return FACTS.validate_python((fact,))[0]


def dump(fact: Any) -> Any:
    return json.loads(normalizer.facts.dump(fact))


class Talk:
    """Facts that grow, and a projection that goes on from the last one."""

    def __init__(self, **options: Any) -> None:
        self.options = {"open_calls": "say_running", "model": "m", **options}
        self.facts: list[Fact] = []
        self.transcript = normalizer.fold(())
        self.previous: normalizer.Projection | None = None
        self.seq = 0

    def add(self, kind: str, **about: Any) -> None:
        self.seq += 1
        about = {"fact_id": f"f{self.seq}", "seq": self.seq, "turn_id": "t", "kind": kind, **about}
        self._take(FACTS.validate_python((about,))[0])

    def _take(self, fact: Fact) -> None:
        self.facts.append(fact)
        self.transcript = normalizer.fold([fact], onto=self.transcript)

    def project(self) -> normalizer.Projection:
        warm = normalizer.project(self.transcript, "openai_chat", previous=self.previous, **self.options)
        cold = normalizer.project(normalizer.fold(self.facts), "openai_chat", **self.options)
        assert json.dumps(warm.request) == json.dumps(cold.request)
        assert warm.adjustments == cold.adjustments
        self.previous = warm
        return warm

    def send(self) -> normalizer.Projection:
        projection = self.project()
        self.seq += 1
        self._take(request_sent(projection, fact_id=f"s{self.seq}", seq=self.seq))
        return projection


def working(**options: Any) -> Talk:
    """A turn with one call that runs, told as running."""
    talk = Talk(**options)
    talk.add("user_said", parts=[{"kind": "text", "text": "Publish."}], string=True)
    parts = [{"kind": "tool_call", "id": "call_1", "name": "publish", "arguments": "{}"}]
    talk.add("model_replied", parts=parts, api="openai_chat")
    talk.add("start_permitted", call_id="call_1")
    return talk


def test_late_news_stands_at_the_end_and_the_notice_stays() -> None:
    talk = working()
    before = talk.send().request["messages"]
    assert before[2]["content"].startswith("[tool outcome: running]")
    talk.add("call_completed", call_id="call_1", content="revision 18")
    talk.add("user_said", parts=[{"kind": "text", "text": "And?"}], string=True)
    after = talk.project()
    messages = after.request["messages"]
    assert messages[:3] == before
    assert messages[3]["role"] == "user"
    assert messages[3]["content"].startswith("[tool outcome: completed] [late, call call_1]\nrevision 18\n")
    assert messages[4]["content"] == "And?"
    assert after.late_news == (messages[3]["content"],)
    assert "late_news" in kinds(after)
    assert "prefix_changed" not in kinds(after)
    talk.send()
    talk.add("model_replied", parts=[{"kind": "text", "text": "Done."}], api="openai_chat")
    assert talk.project().request["messages"][:5] == messages
    again = normalizer.repair({"messages": messages}, format="openai_chat").request["messages"]
    assert again[3:] == messages[3:]


def test_a_result_whose_notice_was_never_sent_takes_its_place() -> None:
    talk = working()
    talk.project()
    talk.add("call_completed", call_id="call_1", content="revision 18")
    assert talk.project().request["messages"][2:] == [answer("call_1", "revision 18")]


def test_later_instructions_are_appended_and_the_old_ones_stay() -> None:
    talk = Talk()
    talk.add("instructions_set", parts=[{"kind": "text", "text": "Be brief."}], string=True)
    talk.add("user_said", parts=[{"kind": "text", "text": "Hi"}], string=True)
    before = talk.send().request["messages"]
    talk.add("instructions_set", parts=[{"kind": "text", "text": "In French."}], string=True)
    after = talk.project()
    assert after.request["messages"] == [*before, {"role": "system", "content": "In French."}]
    assert kinds(after) == set()


def test_instructions_that_were_replaced_before_anything_was_said_are_not_sent() -> None:
    talk = Talk()
    talk.add("instructions_set", parts=[{"kind": "text", "text": "Be brief."}], string=True)
    talk.add("instructions_set", parts=[{"kind": "text", "text": "Be long."}], string=True)
    talk.add("user_said", parts=[{"kind": "text", "text": "Hi"}], string=True)
    assert [m["content"] for m in talk.send().request["messages"]] == ["Be long.", "Hi"]
    assert [m["content"] for m in talk.project().request["messages"]] == ["Be long.", "Hi"]


def test_other_tools_change_the_prefix_and_it_is_said() -> None:
    talk = working()
    talk.send()
    talk.add("tools_declared", tools=[{"name": "publish"}])
    assert "prefix_changed" in kinds(talk.project())


def test_a_refused_request_begins_the_prefix_anew() -> None:
    talk = working()
    talk.send()
    talk.add("reply_cut", refused=True, error="400", answers=f"s{talk.seq}", api="openai_chat")
    talk.add("call_completed", call_id="call_1", content="revision 18")
    assert talk.project().request["messages"][2] == answer("call_1", "revision 18")


def test_news_of_a_call_that_a_summary_put_away_keep_their_place() -> None:
    talk = working()
    talk.send()
    talk.add("summarised", parts=[{"kind": "text", "text": "So far so good."}], through=3, string=True)
    talk.add("call_completed", call_id="call_1", content="revision 18")
    before = talk.send().request["messages"]
    assert [message["content"][:16] for message in before] == ["So far so good.", "[tool outcome: c"]
    talk.add("user_said", parts=[{"kind": "text", "text": "And?"}], string=True)
    assert talk.project().request["messages"] == [*before, {"role": "user", "content": "And?"}]


def test_a_void_call_is_told_by_the_last_step_and_stays_told() -> None:
    talk = Talk()
    talk.add("user_said", parts=[{"kind": "text", "text": "Sell."}], string=True)
    before = talk.send().request["messages"]
    parts = [{"kind": "tool_call", "id": "a", "name": "sell", "arguments": "{}"}]
    talk.add("model_replied", parts=parts, api="anthropic", stop_reason="refusal")
    talk.add("call_completed", call_id="a", content="sold")
    talk.add("model_replied", parts=[{"kind": "text", "text": "Hm."}], api="openai_chat", string=True)
    after = talk.send().request["messages"]
    assert after[: len(before) + 1] == [*before, {"role": "assistant", "content": "Hm."}]
    assert after[-1]["content"].startswith("[tool outcome: completed] [told, call a]\nsell {}\nsold\n")
    talk.add("user_said", parts=[{"kind": "text", "text": "So?"}], string=True)
    assert talk.project().request["messages"][:-1] == after


def test_open_calls_are_refused_by_default_and_a_finished_reply_asks_nothing() -> None:
    with pytest.raises(normalizer.OpenCalls):
        working(open_calls="refuse").project()
    talk = Talk()
    talk.add("user_said", parts=[{"kind": "text", "text": "Hi"}], string=True)
    assert talk.project().ready
    talk.add(
        "model_replied", parts=[{"kind": "text", "text": "Hello."}], stop_reason="stop", api="openai_chat"
    )
    assert not talk.project().ready


# ---------------------------------------------------------------- laws, over random facts


LAW = settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
PROFILES = st.sampled_from([None, None, *wire.PROFILES])


def shapes(value: Any) -> Iterator[Any]:
    """Everything in a validated value: pydantic checks an iterable only as it is read."""
    for item in value.values() if isinstance(value, dict) else value:
        yield item
        if not isinstance(item, str | bytes | int | float | None):
            yield from shapes(item)


@given(histories(), PROFILES, st.sampled_from(["drop", "quote"]))
@LAW
def test_any_facts_become_a_request_that_breaks_no_rule(
    told: list[Fact], profile: str | None, quote: str
) -> None:
    options: dict[str, Any] = {"open_calls": "unknown", "profile": profile, "server_tools": quote}
    try:
        projection = normalizer.project(normalizer.fold(told), "openai_chat", **options)
    except normalizer.CannotProject as error:
        if error.reason != "no_messages":
            raise
        return
    request = projection.request
    known = {"history": True, "received_types": ("novelty",)}
    broken = normalizer.check(request, "openai_chat", profile=profile, context=known)
    assert [v for v in broken if v.severity in ("reject", "policy")] == []
    for message in request["messages"]:
        if "novelty" not in str(message):
            assert list(shapes(MESSAGE.validate_python(copy.deepcopy(message))))
    again = normalizer.repair(copy.deepcopy(request), format="openai_chat", profile=profile)
    assert json.dumps(again.request) == json.dumps(request)


def spread(fact: Fact) -> Fact:
    """The fact with room for others behind it."""
    places = {"summarised": "through", "rewound": "to", "request_sent": "through"}
    more: dict[str, Any] = {"seq": fact.seq * 10}
    if fact.kind in places:
        more[places[fact.kind]] = getattr(fact, places[fact.kind]) * 10
    return replace(fact, **more)


CAUSES = {"summarised", "rewound", "tools_declared", "reply_cut"}


@given(histories(), PROFILES, st.data())
@LAW
def test_what_was_sent_stays_the_beginning(
    told: list[Fact], profile: str | None, data: st.DataObject
) -> None:
    talk = Talk(profile=profile)
    before: bytes | None = None
    since: set[str] = set()
    for fact in map(spread, told):
        talk._take(fact)
        since.add("reply_cut" if getattr(fact, "answers", None) else fact.kind)
        try:
            projection = talk.project()
        except normalizer.CannotProject as error:
            if error.reason != "no_messages":
                raise
            continue
        now = canonical.encode(projection.request)
        if before is not None and not now.startswith(before):
            assert "prefix_changed" in kinds(projection)
            assert since & (CAUSES | ({"instructions_set"} if profile == "vllm" else set()))
        if data.draw(st.booleans()):
            talk.seq = fact.seq
            talk.send()
            before, since = now, set()


@given(histories())
@LAW
def test_calls_keep_their_outcomes_arguments_and_results_on_the_way(told: list[Fact]) -> None:
    transcript = normalizer.fold(told)
    try:
        projection = normalizer.project(transcript, "openai_chat", open_calls="unknown")
    except normalizer.CannotProject:
        return
    read = normalizer.fold(normalizer.read(projection.request, format="openai_chat").facts)
    held = {call["id"] for m in projection.request["messages"] for call in m.get("tool_calls", ())}
    assert {found.id for found in read.calls.values()} == held
    for key, before in transcript.calls.items():
        if projection.ids[key] not in held:
            continue
        after = read.calls[projection.ids[key]]
        wrapped = {"INVALID_JSON": before.part.arguments.text}
        assert after.arguments in (before.arguments, wrapped)
        assert after.name == before.name or not wire.TOOL_NAME.fullmatch(before.name)
        if any(fact.kind == "outcome_attested" and fact.late for fact in before.facts):
            continue
        pending = before.outcome.kind == "pending"
        assert after.outcome.kind == ("unknown" if pending else before.outcome.kind)


def test_settings_that_do_not_go_along_are_told() -> None:
    found = anthropic("Hi")
    told = [one for one in found.adjustments if one.message.startswith("the setting 'max_tokens'")]
    assert [one.kind for one in told] == ["trimmed"]
    assert told[0].content == "9"
