"""Chat Completions streams -> facts, against recorded chunk sequences and what must be made of them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionChunk

import normalizer
from normalizer.facts import FACTS, ModelReplied, ReplyCut, dump_lines, load_lines
from normalizer.providers.openai_chat.stream import Assembler

if TYPE_CHECKING:
    from collections.abc import Iterable

    from normalizer.findings import Fragment, Reading

FIXTURE = Path(__file__).parent.parent / "fixtures" / "rules" / "openai_streams.jsonl"
STREAMS: list[dict[str, Any]] = [
    line for line in map(json.loads, FIXTURE.read_text("utf-8").splitlines()) if line["api"] == "chat"
]
BY_ID = {line["id"]: line for line in STREAMS}
each_stream = pytest.mark.parametrize("line", STREAMS, ids=list(BY_ID))


def assembled(events: Iterable[Any], **about: Any) -> Reading:
    """The reading of a whole sequence."""
    assembler = Assembler(**about)
    for event in copy.deepcopy(list(events)):
        assembler.feed(event)
    return assembler.reading()


def reply_of(reading: Reading) -> ModelReplied | ReplyCut:
    (fact,) = reading.facts
    assert isinstance(fact, ModelReplied | ReplyCut)
    return fact


def told(part: Any) -> dict[str, Any]:
    """A part in the words of the fixtures."""
    match part.kind:
        case "text" | "reasoning":
            return {"kind": part.kind, "text": part.text}
        case "opaque":
            return {"kind": "refusal", "text": part.raw.value["refusal"]}
        case "media":
            return {"kind": "audio", **part.raw.value}
    if part.form == "custom":
        return {
            "kind": "custom_tool_call", "id": part.id, "name": part.name, "input": part.raw.value["custom"]["input"]
        }  # fmt: skip
    named = {"name": part.name, "arguments": part.arguments.text}
    if part.form == "function_call":
        return {"kind": "function_call", **named}
    return {"kind": "tool_call", "id": part.id, **named}


def half(fragment: Fragment) -> dict[str, Any]:
    """A fragment in the words of the fixtures."""
    about: dict[str, Any] = {
        "kind": fragment.type,
        "choice": int((fragment.pointer or "/0").rsplit("/", 1)[1]),
    }
    if fragment.type == "audio":
        about |= json.loads(fragment.text)
    elif fragment.type == "tool_call":
        about |= {
            "index": fragment.index, "id": fragment.call_id, "name": fragment.name, "arguments": fragment.text
        }  # fmt: skip
    else:
        about["text"] = fragment.text
    return {**about, "why": fragment.reason}


def plain(entries: list[dict[str, Any]], *choices: int) -> list[dict[str, Any]]:
    """What the fixtures say of these choices, less what the facts say elsewhere."""
    aside = ("choice", "index", "arguments_valid", "truncated")
    return [
        {key: value for key, value in entry.items() if key not in aside}
        for entry in entries
        if entry["choice"] in choices
    ]


def finish(line: dict[str, Any], choice: int = 0) -> str | None:
    stated = line["finish"]
    found: str | None = stated[str(choice)] if isinstance(stated, dict) else stated
    return found


@each_stream
def test_a_stream_becomes_what_it_proves(line: dict[str, Any]) -> None:
    reading = assembled(line["events"])
    fact = reply_of(reading)
    assert [told(part) for part in fact.parts] == plain(line["complete"], 0)
    stated = [{k: v for k, v in entry.items() if k != "expires_at" or v} for entry in line["fragments"]]
    assert [half(fragment) for fragment in reading.fragments] == stated
    assert reading.stop_reason == finish(line)
    assert reading.turn == ("ended" if finish(line) else "cut")
    assert isinstance(fact, ModelReplied if finish(line) else ReplyCut)
    assert len(reading.findings) == len(reading.fragments)


@each_stream
def test_the_choice_that_is_used_is_the_reply_and_the_others_are_kept_aside(line: dict[str, Any]) -> None:
    for choice in {entry["choice"] for entry in (*line["complete"], *line["fragments"])}:
        reading = assembled(line["events"], choice=choice)
        assert [told(part) for part in reply_of(reading).parts] == plain(line["complete"], choice)
        assert reading.stop_reason == finish(line, choice)
        others = {entry["choice"] for entry in line["complete"]} - {choice}
        assert len([o for o in reading.leftovers if o.reason.startswith("another choice")]) == len(others)


@each_stream
def test_only_whole_calls_of_a_whole_reply_are_to_be_run(line: dict[str, Any]) -> None:
    reading = assembled(line["events"])
    whole = [
        entry for entry in plain(line["complete"], 0) if entry["kind"] in ("tool_call", "custom_tool_call")
    ]
    runnable = [e["id"] for e in whole if "input" in e or not e["arguments"] or _parses(e["arguments"])]
    assert list(reading.calls_to_run) == (runnable if finish(line) in ("stop", "tool_calls") else [])


def _parses(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@each_stream
def test_chunk_objects_of_the_sdk_say_the_same(line: dict[str, Any]) -> None:
    chunks = [ChatCompletionChunk.model_construct(**event) for event in line["events"]]
    if line["sdk_shape"] == "ok":
        chunks = [ChatCompletionChunk.model_validate(event) for event in line["events"]]
    objects, events = assembled(chunks), assembled(line["events"])
    assert reply_of(objects).parts == reply_of(events).parts
    assert objects.fragments == events.fragments


@each_stream
def test_the_text_of_a_stream_says_the_same_wherever_it_is_cut(line: dict[str, Any]) -> None:
    text = "".join(f"data: {json.dumps(event)}\n\n" for event in line["events"]) + "data: [DONE]\n\n"
    for size in (1, 7, len(text)):
        pieces = [text[at : at + size].encode() for at in range(0, len(text), size)]
        assert assembled(pieces) == assembled(line["events"])


@each_stream
def test_a_stream_may_break_anywhere(line: dict[str, Any]) -> None:
    whole = assembled(line["events"])
    for end in range(len(line["events"])):
        reading = assembled(line["events"][:end])
        fact = reply_of(reading)
        if reading.stop_reason is None:
            assert fact.kind == "reply_cut"
            assert [part.kind for part in fact.parts] in ([], ["media"])
        else:
            assert fact.parts == reply_of(whole).parts


@each_stream
def test_facts_of_a_stream_are_stored_and_projected(line: dict[str, Any]) -> None:
    reading = normalizer.read_stream(line["events"], "openai_chat")
    assert list(load_lines(dump_lines(reading.facts))) == list(reading.facts)
    asked = {"fact_id": "q", "kind": "user_said", "parts": [{"kind": "text", "text": "Hi"}], "string": True}
    facts = (*FACTS.validate_python((asked,)), *reading.facts)
    projection = normalizer.project(normalizer.fold(facts), "openai_chat", open_calls="unknown")
    assert not normalizer.check(projection.request, "openai_chat", context={"history": True}) or (
        "OAC-STRUCT-012" in {v.rule for v in normalizer.check(projection.request, "openai_chat")}
    )
    held = json.dumps(projection.request)
    for fragment in reading.fragments:
        if fragment.call_id:
            assert fragment.call_id not in held


def chunk(delta: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": None, **more}]}


def test_an_error_ends_a_stream() -> None:
    error = {"error": {"type": "server_error", "message": "The server is overloaded"}}
    reading = assembled([chunk({"content": "Hel"}), error, chunk({"content": "lo"}, finish_reason="stop")])
    fact = reply_of(reading)
    assert isinstance(fact, ReplyCut)
    assert (fact.error, fact.refused, reading.turn) == (
        "server_error: The server is overloaded",
        False,
        "cut",
    )
    assert [fragment.text for fragment in reading.fragments] == ["Hel"]
    assert [leftover.reason for leftover in reading.leftovers] == ["error event", "unexpected event"]


def test_an_error_before_the_reply_refuses_the_request() -> None:
    reading = assembled([{"error": {"type": "invalid_request_error", "message": "no"}}])
    fact = reply_of(reading)
    assert isinstance(fact, ReplyCut)
    assert (fact.refused, fact.parts, reading.turn) == (True, (), "refused")


def test_what_had_ended_before_an_error_is_whole() -> None:
    ended = chunk({}, finish_reason="stop")
    reading = assembled([chunk({"content": "Hello."}), ended, {"error": "connection reset"}])
    assert reading.turn == "ended"
    assert reply_of(reading).parts[0].text == "Hello."  # type: ignore[union-attr]


def test_nothing_that_came_is_lost() -> None:
    odd = [
        chunk({"content": {"not": "text"}}),
        chunk({"mood": "good"}),
        chunk({}, finish_reason="stop"),
        chunk({"content": "late"}),
        {"choices": "none"},
        {"choices": [7]},
        "data: nonsense\n\n",
    ]
    reading = assembled(odd)
    kept = json.dumps([leftover.text for leftover in reading.leftovers])
    for word in ("not", "mood", "late", "none", "7", "nonsense"):
        assert word in kept


def test_usage_and_model_stand_beside_the_reply() -> None:
    fact = reply_of(assembled(BY_ID["chat-text-stop-usage"]["events"]))
    assert fact.model == "gpt-5.4"
    assert fact.raw is not None
    assert fact.raw.value["usage"]["total_tokens"] == 14


def test_reasoning_of_a_server_keeps_its_key() -> None:
    details = [{"type": "reasoning.text", "id": "r", "text": "Two."}]
    events = [
        chunk({"reasoning_details": details}),
        chunk({"reasoning": "Two."}),
        chunk({}, finish_reason="stop"),
    ]
    (part,) = reply_of(assembled(events)).parts
    assert part.kind == "reasoning"
    assert part.raw is not None
    assert part.text == "Two."
    assert part.raw.value == {"reasoning": "Two.", "reasoning_details": details}


@given(st.data())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_how_texts_are_cut_into_deltas_changes_nothing(data: st.DataObject) -> None:
    text, arguments = "Let me look, then.", '{"path": "a b", "n": [1, 2]}'

    def cut(whole: str) -> list[str]:
        places = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=4)))
        return [whole[a:b] for a, b in zip([0, *places], [*places, len(whole)], strict=True)]

    first = {"index": 1, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": ""}}
    events = [
        *(chunk({"content": piece}) for piece in cut(text)),
        chunk({"tool_calls": [first]}),
        *(chunk({"tool_calls": [{"index": 1, "function": {"arguments": a}}]}) for a in cut(arguments)),
        chunk({}, finish_reason="tool_calls"),
    ]
    reading = assembled(events)
    assert [told(part) for part in reply_of(reading).parts] == [
        {"kind": "text", "text": text},
        {"kind": "tool_call", "id": "call_1", "name": "f", "arguments": arguments},
    ]
    assert reading.calls_to_run == ("call_1",)
