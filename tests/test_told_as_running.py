"""A call that a request told as running is still running where that request is read again, until something ends it."""

from __future__ import annotations

import json
from typing import Any

import pytest

import normalizer
from normalizer import facts as f
from normalizer.parts import Json, Text, ToolCall

TARGETS = ["anthropic", "openai_chat", "openai_responses"]
CALLS = (ToolCall("call_1", "run", Json("{}")), ToolCall("call_2", "run", Json("{}")))
SAID: list[tuple[Any, dict[str, Any]]] = [
    (f.TurnOpened, {}),
    (f.UserSaid, {"parts": (Text("Go"),)}),
    (f.ModelReplied, {"parts": CALLS}),
]
STARTED = (f.StartPermitted, {"call_id": "call_1"})
QUEUED = (f.CallQueued, {"call_id": "call_2"})
FASTER = (f.UserSaid, {"parts": (Text("faster"),)})
ANSWER = (f.ModelReplied, {"parts": (Text("I wait."),)})
SITUATIONS = {
    "both": [STARTED, QUEUED],
    "one is done": [(f.CallCompleted, {"call_id": "call_1", "content": "done"}), QUEUED],
    "words behind": [STARTED, QUEUED, FASTER],
    "a reply behind": [STARTED, QUEUED, FASTER, ANSWER, FASTER],
}


def request(target: str, more: list[Any], **options: Any) -> dict[str, Any]:
    told = [
        kind(fact_id=f"f{seq}", seq=seq, turn_id="t", **values)
        for seq, (kind, values) in enumerate([*SAID, *more], start=1)
    ]
    return normalizer.project(normalizer.fold(told), target, open_calls="say_running", **options).request


def again(
    given: Any, target: str, to: str | None = None, open_calls: str = "say_running"
) -> normalizer.Repair:
    return normalizer.repair(given, format=target, to=to or target, open_calls=open_calls)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("words", [None, "Es dauert noch."])
def test_it_runs_on_where_it_is_read(target: str, situation: str, words: str | None) -> None:
    sent = request(target, SITUATIONS[situation], notices=lambda _: words)
    read = again(sent, target)
    assert read.request == sent
    assert read.transcript.pending == (("call_2",) if situation == "one is done" else ("call_1", "call_2"))
    with pytest.raises(normalizer.OpenCalls):
        normalizer.project(read.transcript, target)
    for other in TARGETS:
        handed = again(sent, target, other).request
        assert again(handed, other).request == handed


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("words", [None, "Es dauert noch."])
def test_given_up_it_is_told_as_unknown_in_words_of_that(target: str, words: str | None) -> None:
    sent = request(target, SITUATIONS["both"], notices=lambda _: words)
    given_up = again(sent, target, open_calls="unknown").request
    text = json.dumps(given_up)
    assert text.count("[tool outcome: unknown]") == 2
    assert "It had started; how it ended is not recorded." in text or words
    assert "still running" not in text
    assert "waiting to be started" not in text
    assert "Es dauert noch." not in text
    assert again(given_up, target, open_calls="unknown").request == given_up


@pytest.mark.parametrize("target", TARGETS)
def test_late_news_ends_it_and_what_was_told_before_stays(target: str) -> None:
    sent = request(target, SITUATIONS["a reply behind"])
    news = [
        normalizer.notices.sealed(f"[tool outcome: {kind}] [late, call {call}]\n{text}", call)
        for call, kind, text in (("call_1", "completed", "done"), ("call_2", "running", "Nearly there."))
    ]
    key = "input" if target == "openai_responses" else "messages"
    told = {**sent, key: [*sent[key], *({"role": "user", "content": text} for text in news)]}
    read = again(told, target)
    assert read.transcript.pending == ("call_2",)
    assert read.transcript.calls["call_1"].outcome.kind == "completed"
    shown = json.dumps(read.request)
    for text in (*news, "It is still running; there is no result yet."):
        assert json.dumps(text)[1:-1] in shown
    assert again(read.request, target).request == read.request


@pytest.mark.parametrize("target", TARGETS)
def test_a_later_result_ends_it_and_its_turn(target: str) -> None:
    sent = request(target, SITUATIONS["both"])
    result: dict[str, Any] = {
        "anthropic": {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "done"}],
        },
        "openai_chat": {"role": "tool", "tool_call_id": "call_1", "content": "done"},
        "openai_responses": {"type": "function_call_output", "call_id": "call_1", "output": "done"},
    }
    key = "input" if target == "openai_responses" else "messages"
    read = again({**sent, key: [*sent[key], result[target]]}, target)
    assert read.transcript.pending == ("call_2",)
    assert read.transcript.calls["call_1"].outcome.kind == "completed"
