"""Odd values in streams and in a host's facts: read as a file's are, told, and never an exception of the language's."""

from __future__ import annotations

import json
from typing import Any

import pytest

import normalizer
from normalizer.facts import UserSaid
from normalizer.parts import Text
from normalizer.reading.sanitizing import LARGEST

START = {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "content": [],
                                               "model": "claude-opus-4-8"}}  # fmt: skip
END = [
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
    {"type": "message_stop"},
]


def anthropic(text: str) -> list[Any]:
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    return [START, block, delta, *END]


def chat(text: str) -> list[Any]:
    return [
        {
            "id": "c",
            "model": "gpt-5.4",
            "choices": [{"index": 0, "delta": {"role": "assistant", "content": text}}],
        },
        {"id": "c", "model": "gpt-5.4", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]


def responses(text: str, **message: Any) -> list[Any]:
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", **message,
            "content": [{"type": "output_text", "text": text, "annotations": []}]}  # fmt: skip
    about = {"id": "resp_1", "object": "response", "model": "gpt-5.4", "output": []}
    return [
        {"type": "response.created", "response": {**about, "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {**about, "status": "completed", "output": [item]}},
    ]


STREAMS: dict[str, Any] = {"anthropic": anthropic, "openai_chat": chat, "openai_responses": responses}


def projected(reading: normalizer.Reading, target: str) -> str:
    asked, going_on = (
        UserSaid(fact_id=f"u{seq}", seq=seq, parts=(Text(text),), string=True)
        for seq, text in ((0, "hi"), (99, "and?"))
    )
    transcript = normalizer.fold((asked, *reading.facts, going_on))
    request = normalizer.project(transcript, target, open_calls="unknown").request
    assert not [
        f for f in normalizer.check(request, target, context={"history": True}) if f.severity == "reject"
    ]
    return json.dumps(request, ensure_ascii=False)


@pytest.mark.parametrize("target", STREAMS)
@pytest.mark.parametrize("odd", ["a\0b", "a\ud800b"])
def test_what_is_no_text_is_read_as_in_a_file(target: str, odd: str) -> None:
    events = STREAMS[target](odd)
    for given in (events, [f"data: {json.dumps(event)}\n\n" for event in events]):
        reading = normalizer.read_stream(given, target)
        assert {f.kind for f in reading.findings} == {"bad_unicode"}
        assert json.dumps(odd) in [left.text for left in reading.leftovers]
        assert "a\ufffdb" in projected(reading, target)


@pytest.mark.parametrize("target", STREAMS)
def test_an_event_that_cannot_be_read_is_left_over(target: str) -> None:
    events = STREAMS[target]("ok")
    for odd in ({**events[1], "x": LARGEST}, {**events[1], ("a",): 1}, LARGEST, {LARGEST}, [LARGEST]):
        reading = normalizer.read_stream([*events[:1], odd, *events[1:]], target)
        assert "ok" in projected(reading, target)
        assert len(reading.leftovers) == 1


@pytest.mark.parametrize("odd", [[], {}, None, 5])
def test_an_index_that_is_none_is_no_place(odd: Any) -> None:
    events = responses("ok")
    delta = {"type": "response.output_text.delta", "output_index": 0, "content_index": odd, "delta": "o"}
    assert "ok" in projected(
        normalizer.read_stream([*events[:2], delta, *events[2:]], "openai_responses"), "openai_chat"
    )


@pytest.mark.parametrize("odd", [{}, [], 5])
def test_sound_that_is_no_text_is_left_over(odd: Any) -> None:
    pieces = [
        {"id": "audio_1", "transcript": "o", "data": "Rg=="},
        {"data": odd},
        {"transcript": "k", "data": "Rg=="},
    ]
    chunks = [{"id": "c", "choices": [{"index": 0, "delta": {"audio": piece}}]} for piece in pieces]
    reading = normalizer.read_stream([*chunks, *chat("x")[1:]], "openai_chat")
    assert [json.loads(left.text)["audio"] for left in reading.leftovers] == [{"data": odd}]
    (part,) = reading.facts[0].parts  # type: ignore[union-attr]
    assert part.raw.value["transcript"] == "ok"


@pytest.mark.parametrize("odd", ["narrator", "user", None, []])
def test_a_message_of_a_reply_goes_back_in_the_role_of_the_assistant(odd: Any) -> None:
    reading = normalizer.read_stream(responses("ok", role=odd), "openai_responses")
    request = json.loads(projected(reading, "openai_responses"))
    assert [item["role"] for item in request["input"]] == ["user", "assistant", "user"]


def test_signed_reasoning_goes_back_without_keys_that_the_api_does_not_know() -> None:
    thought = {"type": "thinking", "thinking": "t", "signature": "s"}
    reply = {"role": "assistant", "content": [{**thought, "odd": 1}, {"type": "text", "text": "x"}]}
    user = {"role": "user", "content": "hi"}
    repaired = normalizer.repair({"model": "claude-opus-4-8", "messages": [user, reply, user]})
    assert repaired.request["messages"][1]["content"][0] == thought
    assert [note.content for note in repaired.adjustments if note.kind == "trimmed"] == ['{"odd":1}']


@pytest.mark.parametrize("odd", ["no\0", "no\ud800"])
@pytest.mark.parametrize("target", STREAMS)
def test_a_hosts_words_are_read_as_a_files_are(odd: str, target: str) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
    history = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": [call]}]
    denied = {"kind": "approval_denied", "call_id": "toolu_1", "reason": odd}
    repaired = normalizer.repair(history, format="anthropic", to=target, facts=[denied])
    assert "no\ufffd" in json.dumps(repaired.request, ensure_ascii=False)
    found = next(f for f in repaired.findings if f.kind == "bad_unicode")
    assert (found.line, found.pointer, found.facts) == (1, "/reason", ("host/1",))
    assert json.dumps(odd) in [left.text for left in repaired.leftovers]


@pytest.mark.parametrize(
    "request_",
    [
        {"type": "response.steer", None: 1, "a": 1},
        {"input": [{"type": "configuration_update", None: 1, "a": 1}]},
        {"input": [{"type": "configuration_update", "text": {None: 1, "a": 1}}]},
    ],
)
def test_a_key_that_is_no_text_is_judged(request_: Any) -> None:
    assert normalizer.check(request_, "openai_responses")
