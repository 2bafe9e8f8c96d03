"""Every field of every block, item and tool that the SDKs' types know ends up in the request or in the report.

Each field holds a mark of its own. A mark that is found nowhere after a projection is something that got lost without
an adjustment.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from anthropic.types.beta import BetaContentBlockParam, BetaToolUnionParam
from marking import Sample, members, samples
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolUnionParam
from openai.types.responses import ResponseInputItemParam, ToolParam

import normalizer
from normalizer import facts as f
from normalizer import registry
from normalizer.facts import dump_lines
from normalizer.parts import Json, Media, Text, ToolCall
from normalizer.testing.strategies import PNG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from normalizer.facts import Fact

TARGETS: Final = registry.targets()
HELLO: Final = {"role": "user", "content": "Hello"}
SERVER_CALLS: Final = {
    "web_search_tool_result": "web_search", "web_fetch_tool_result": "web_fetch", "advisor_tool_result": "advisor",
    "code_execution_tool_result": "code_execution", "bash_code_execution_tool_result": "bash_code_execution",
    "text_editor_code_execution_tool_result": "text_editor_code_execution",
    "tool_search_tool_result": "tool_search_tool_regex",
}  # fmt: skip
CALLS: Final[dict[str, dict[str, Any]]] = {
    "function_call_output": {"type": "function_call", "name": "run", "arguments": "{}"},
    "custom_tool_call_output": {"type": "custom_tool_call", "name": "run", "input": "x"},
    "computer_call_output": {
        "type": "computer_call", "id": "cu_1", "pending_safety_checks": [], "action": {"type": "screenshot"},
        "status": "completed",
    },
    "shell_call_output": {"type": "shell_call", "action": {"commands": ["ls"]}, "status": "completed"},
    "local_shell_call_output": {
        "type": "local_shell_call", "id": "lsh_1", "action": {"type": "exec", "command": ["ls"], "env": {}},
        "status": "completed",
    },
    "apply_patch_call_output": {
        "type": "apply_patch_call", "operation": {"type": "delete_file", "path": "a"}, "status": "completed",
    },
    "tool_search_output": {"type": "tool_search_call", "arguments": {}, "execution": "client"},
    "program_output": {"type": "program", "id": "prog_1", "code": "x", "fingerprint": "f"},
}  # fmt: skip


# ---------------------------------------------------------------- payloads around a sample


def of_anthropic(block: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """Histories with a block in every place that may hold it."""
    kind = block["type"]
    go_on = {"role": "user", "content": "Go on"}
    if kind in ("text", "image", "document", "search_result", "container_upload"):
        yield [{"role": "user", "content": [{"type": "text", "text": "Look"}, block]}]
    if kind in ("image", "document", "search_result"):
        call = {"type": "tool_use", "id": "toolu_1", "name": "run", "input": {}}
        result = {
            "type": "tool_result",
            "tool_use_id": "toolu_1",
            "content": [{"type": "text", "text": "a"}, block],
        }
        yield [HELLO, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
        if kind != "search_result":
            return
        yield [
            HELLO,
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [{**result, "content": [block]}]},
        ]
        return
    if kind == "container_upload":
        return
    if kind == "tool_result":
        call = {"type": "tool_use", "id": block["tool_use_id"], "name": "run", "input": {}}
        yield [HELLO, {"role": "assistant", "content": [call]}, {"role": "user", "content": [block]}]
        yield [
            HELLO,
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [{**block, "is_error": False}]},
        ]
        return
    if kind in ("tool_addition", "tool_removal"):
        said = {"role": "assistant", "content": [{"type": "text", "text": "Yes"}]}
        yield [HELLO, said, go_on, {"role": "system", "content": [block]}]
        return
    before: list[dict[str, Any]] = []
    if kind in SERVER_CALLS:
        before = [
            {"type": "server_tool_use", "id": block["tool_use_id"], "name": SERVER_CALLS[kind], "input": {}}
        ]
    elif kind == "mcp_tool_result":
        before = [
            {
                "type": "mcp_tool_use",
                "id": block["tool_use_id"],
                "name": "run",
                "server_name": "s",
                "input": {},
            }
        ]
    content = [*before, block, {"type": "text", "text": "Done"}]
    yield [HELLO, {"role": "assistant", "content": content}, go_on]
    if kind == "tool_use":
        answer = {"type": "tool_result", "tool_use_id": block["id"], "content": "ok"}
        yield [HELLO, {"role": "assistant", "content": [block]}, {"role": "user", "content": [answer]}]


def of_chat(message: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """Histories with a message in its place."""
    role = message["role"]
    if role == "tool":
        call = {
            "id": message["tool_call_id"],
            "type": "function",
            "function": {"name": "run", "arguments": "{}"},
        }
        yield [HELLO, {"role": "assistant", "content": None, "tool_calls": [call]}, message]
    elif role == "function":
        called = {"name": message["name"], "arguments": "{}"}
        yield [HELLO, {"role": "assistant", "content": None, "function_call": called}, message]
    elif role == "assistant":
        yield [HELLO, message, {"role": "user", "content": "Go on"}]
        yield [
            HELLO,
            {k: v for k, v in message.items() if k != "tool_calls"},
            {"role": "user", "content": "Go on"},
        ]
    else:
        yield [message, HELLO]
        yield [HELLO, {"role": "assistant", "content": "Yes"}, message]


def of_responses(item: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """Histories with an item in its place."""
    kind = item.get("type", "message")
    behind: list[dict[str, Any]] = [
        {"role": "assistant", "content": "Done"},
        {"role": "user", "content": "Go on"},
    ]
    if kind in CALLS:
        call = {**CALLS[kind], "call_id": item.get("call_id", item.get("id"))}
        if kind == "tool_search_output":
            call["execution"] = item["execution"]
        yield [HELLO, call, item, *behind]
    elif kind == "mcp_approval_response":
        asked = {
            "type": "mcp_approval_request", "id": item["approval_request_id"], "name": "run", "arguments": "{}",
            "server_label": "s",
        }  # fmt: skip
        yield [HELLO, asked, item, *behind]
    elif kind == "compaction_trigger":
        yield [HELLO, item]
    elif kind == "function_call":
        yield [
            HELLO,
            item,
            {"type": "function_call_output", "call_id": item["call_id"], "output": "ok"},
            *behind,
        ]
        yield [HELLO, item, *behind]
    else:
        yield [HELLO, item, *behind]


WRAPPED: Final[dict[str, tuple[str, Any, Callable[[dict[str, Any]], Iterator[list[dict[str, Any]]]]]]] = {
    "anthropic": ("messages", BetaContentBlockParam, of_anthropic),
    "openai_chat": ("messages", ChatCompletionMessageParam, of_chat),
    "openai_responses": ("input", ResponseInputItemParam, of_responses),
}
TOOLS: Final = {
    "anthropic": BetaToolUnionParam,
    "openai_chat": ChatCompletionToolUnionParam,
    "openai_responses": ToolParam,
}
MODELS: Final = {"anthropic": "claude-opus-4-8", "openai_chat": "gpt-5.2", "openai_responses": "gpt-5.2"}
UNSAID: Final[dict[tuple[str, tuple[str | int, ...]], str]] = {
    (
        "openai_responses",
        ("id",),
    ): "it names an item to the server that gave it; calls are known by `call_id`",
}
"""Fields that may be missing everywhere, by API and path, and why."""


def asked(hint: Any) -> list[Any]:
    """The types of a union that stand in requests."""
    return [one for one in members(hint) if one.__module__.endswith("_param") or "param" in one.__module__]


def payloads(api: str) -> Iterator[tuple[Sample, dict[str, Any]]]:
    """A sample of every block, item or message, each in every place that may hold it."""
    key, hint, wrap = WRAPPED[api]
    for member in asked(hint):
        for sample in samples(member, member.__name__):
            for history in wrap(sample.value):
                yield sample, {"model": MODELS[api], key: history}


def offers(api: str) -> Iterator[tuple[Sample, dict[str, Any]]]:
    """A sample of every declaration of a tool."""
    for member in asked(TOOLS[api]):
        for sample in samples(member, member.__name__):
            yield sample, {"model": MODELS[api], WRAPPED[api][0]: [HELLO], "tools": [sample.value]}


def account(payload: dict[str, Any], api: str, target: str, server_tools: Any) -> str:
    """All that a request and its report say."""
    reading = normalizer.read(copy.deepcopy(payload), format=api)
    transcript = normalizer.fold(reading.facts)
    projection = normalizer.project(transcript, target, open_calls="unknown", server_tools=server_tools)
    said = [
        projection.request,
        projection.ids,
        *projection.adjustments,
        *reading.findings,
        *transcript.findings,
        *reading.leftovers,
        *reading.fragments,
    ]
    # JSON that stands as text in JSON has its quotes escaped, once for each text around it
    return json.dumps(said, ensure_ascii=False, default=str).replace("\\", "")


def missing(
    api: str, target: str, found: Iterator[tuple[Sample, dict[str, Any]]], server_tools: str
) -> set[str]:
    """The fields whose marks are nowhere."""
    lost: set[str] = set()
    for sample, payload in found:
        told, given = account(payload, api, target, server_tools), json.dumps(payload)
        lost.update(
            f"{sample.name}: {'.'.join(map(str, path))}"
            for path, mark in sample.marks.items()
            if mark in given and mark not in told and (api, path) not in UNSAID
        )
    return lost


@pytest.mark.parametrize("api", WRAPPED)
def test_every_field_is_read(api: str) -> None:
    """Each mark is in a fact, a leftover or a fragment."""
    lost: set[str] = set()
    for sample, payload in (*payloads(api), *offers(api)):
        reading = normalizer.read(copy.deepcopy(payload), format=api)
        kept = [dump_lines(reading.facts).decode(), *reading.leftovers, *reading.fragments]
        held, given = json.dumps(kept, ensure_ascii=False, default=str).replace("\\", ""), json.dumps(payload)
        lost.update(
            f"{sample.name}: {'.'.join(map(str, path))}"
            for path, mark in sample.marks.items()
            if mark in given and mark not in held
        )
    assert lost == set()


def test_what_an_item_of_responses_says_more_in_a_chat_history_is_left_over() -> None:
    call = {
        "type": "function_call",
        "call_id": "call_1",
        "name": "run",
        "arguments": "{}",
        "namespace": "crm",
    }
    output = {"type": "function_call_output", "call_id": "call_1", "output": "ok", "max_output_length": 7}
    reading = normalizer.read({"messages": [HELLO, call, output]}, format="openai_chat")
    assert [left.text for left in reading.leftovers] == ['{"namespace":"crm"}', '{"max_output_length":7}']


def test_what_stands_beside_the_message_of_a_choice_is_read() -> None:
    choice = {"index": 0, "finish_reason": "stop", "logprobs": {"content": [{"token": "yo", "logprob": -0.5}]},
              "message": {"role": "assistant", "content": "yo", "annotations": [{"url": "u"}]}}  # fmt: skip
    response = {"id": "c1", "object": "chat.completion", "model": "gpt-5.2", "choices": [choice]}
    facts = normalizer.read(response, format="openai_chat").facts
    assert '"logprob":-0.5' in facts[0].raw.text  # type: ignore[union-attr]
    for target in TARGETS:
        found = normalizer.project(normalizer.fold(facts), target)
        assert [note.content for note in found.adjustments] == ['{"annotations":[{"url":"u"}]}']


@pytest.mark.parametrize("server_tools", ["drop", "quote"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("api", WRAPPED)
def test_every_field_of_a_history_is_sent_or_reported(api: str, target: str, server_tools: str) -> None:
    assert missing(api, target, payloads(api), server_tools) == set()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("api", WRAPPED)
def test_every_field_of_a_tool_is_sent_or_reported(api: str, target: str) -> None:
    assert missing(api, target, offers(api), "drop") == set()


def test_a_field_that_is_dropped_would_be_noticed() -> None:
    """The net has no hole: what no projection says is missing."""
    sample = next(samples(asked(ChatCompletionMessageParam)[2], "user"))
    payload = {"model": "gpt-5.2", "messages": [HELLO]}
    given = {**payload, "unread": sample.value}
    assert missing("openai_chat", "anthropic", iter([(sample, given)]), "drop") >= {"user: name"}


@pytest.mark.parametrize("api", WRAPPED)
def test_every_type_is_sampled(api: str) -> None:
    """Each type has samples, each with a mark of its own in every field of words."""
    for member in asked(WRAPPED[api][1]):
        found = list(samples(member, member.__name__))
        assert found, member
        for sample in found:
            assert len(set(sample.marks.values())) == len(sample.marks)


# ---------------------------------------------------------------- facts of a host, which no API's block stands behind


def reported(told: list[Fact], target: str) -> str:
    """What the adjustments of a projection hold."""
    found = normalizer.project(normalizer.fold(told), target, open_calls="unknown").adjustments
    return "".join(note.content or "" for note in found)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("media", ["image", "document", "file", "audio", "search_result"])
@pytest.mark.parametrize(
    "by", [{"data": PNG, "media_type": "image/png"}, {"url": "https://example.com/a.png"}]
)
def test_what_a_medium_of_a_host_holds_is_sent_or_reported(
    media: Any, by: dict[str, str], target: str
) -> None:
    held = Media(media, **by, file_id="file_7", name="plan.v2")
    shown = f.UserSaid(fact_id="u", seq=1, parts=(Text("Hello"), held))
    done = f.CallCompleted(fact_id="c", seq=3, call_id="call_1", content=(Text("ok"), held))
    for told in ([shown], [ASKED, CALLED, done]):
        found = normalizer.project(normalizer.fold(told), target)
        said = json.dumps([found.request, *found.adjustments], default=str)
        assert all(word in said for word in ("file_7", "plan.v2", by.get("data", by.get("url", ""))))


SOUND: Final = Media("audio", "audio/x-unheard", "UklGRg==", name="voice.xyz")
CALLED: Final = f.ModelReplied(fact_id="r", seq=2, parts=(ToolCall("call_1", "run", Json("{}")),))
ASKED: Final = f.UserSaid(fact_id="u", seq=1, parts=(Text("Hello"),))


@pytest.mark.parametrize("target", TARGETS)
def test_a_medium_by_value_that_has_no_form_is_in_the_report(target: str) -> None:
    shown = f.UserSaid(fact_id="u", seq=1, parts=(Text("Hello"), SOUND))
    done = f.CallCompleted(fact_id="c", seq=3, call_id="call_1", content=(Text("ok"), SOUND))
    for told in ([shown], [ASKED, CALLED, done]):
        found = reported(told, target)
        assert "UklGRg==" in found
        assert "voice.xyz" in found


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("api", ["anthropic", "openai_chat", "openai_responses"])
def test_the_words_of_a_placeholder_are_in_the_report(api: str, target: str) -> None:
    words = "[Tool execution was interrupted]"
    histories: dict[str, list[dict[str, Any]]] = {
        "anthropic": [
            HELLO,
            {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "run", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": words}]},
        ],
        "openai_chat": [
            HELLO,
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "run", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "call_1", "content": words},
        ],
        "openai_responses": [
            HELLO,
            {"type": "function_call", "call_id": "call_1", "name": "run", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1", "output": words},
        ],
    }  # fmt: skip
    payload = {"model": MODELS[api], WRAPPED[api][0]: histories[api]}
    found = normalizer.repair(payload, format=api, to=target)
    assert [note.content for note in found.adjustments if note.kind == "notice"] == [words]


PICTURE: Final = f"data:image/png;base64,{PNG}"
PLAIN: Final[dict[str, list[dict[str, Any]]]] = {
    "anthropic": [
        {"role": "user", "content": [{"type": "text", "text": "Look", "cache_control": {"type": "ephemeral"}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "run", "input": {"a": 1},
                                           "caller": {"type": "direct"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "is_error": False,
                                      "content": [{"type": "text", "text": "ok"}]}]},
    ],
    "openai_chat": [
        {"role": "developer", "content": "Be brief"},
        {"role": "user", "content": [{"type": "text", "text": "Look"},
                                     {"type": "image_url", "image_url": {"url": PICTURE, "detail": "auto"}}]},
        {"role": "assistant", "content": "I look", "refusal": None, "tool_calls": [
            {"id": "call_1", "type": "function", "index": None, "function": {"name": "run", "arguments": '{"a": 1}'}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "ok"}]},
    ],
    "openai_responses": [
        {"type": "message", "role": "user", "status": "completed", "content": [
            {"type": "input_text", "text": "Look"}, {"type": "input_image", "image_url": PICTURE, "detail": "auto"}]},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [
            {"type": "output_text", "text": "I", "annotations": [], "logprobs": []},
            {"type": "output_text", "text": "look", "annotations": []}]},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "run", "arguments": '{"a": 1}',
         "status": "completed"},
        {"type": "function_call_output", "id": None, "call_id": "call_1", "output": [
            {"type": "input_text", "text": "ok"}], "status": "completed"},
    ],
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("api", PLAIN)
def test_of_plain_blocks_nothing_is_reported(api: str, target: str) -> None:
    found = normalizer.repair({WRAPPED[api][0]: PLAIN[api]}, format=api, to=target)
    assert [note for note in found.adjustments if note.kind != "tools_not_declared"] == []
