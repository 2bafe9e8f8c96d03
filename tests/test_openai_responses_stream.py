"""The Responses assembler against recorded streams: what is a fact, what is a fragment, what may be sent again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

import normalizer
from normalizer.facts import FACTS, UserSaid
from normalizer.parts import Text
from normalizer.providers.openai_responses import decoding
from normalizer.providers.openai_responses.stream import STEPS, Assembler

FIXTURES = Path(__file__).parent.parent / "fixtures" / "rules"
LINES = [json.loads(line) for line in (FIXTURES / "openai_streams.jsonl").read_text("utf-8").splitlines()]
STREAMS = [line for line in LINES if line["api"] == "responses"]
KINDS = {
    "text": "message", "refusal": "message", "tool_call": "function_call", "approval_request": "mcp_approval_request",
}  # fmt: skip
SAME = ("id", "call_id", "name", "phase", "encrypted_content", "async")
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def assembled(events: list[Any]) -> normalizer.Reading:
    assembler = Assembler()
    for event in events:
        assembler.feed(event)
    return assembler.reading()


def whole(reading: normalizer.Reading) -> list[dict[str, Any]]:
    """The items of all replies, put together again."""
    found = []
    for fact in reading.facts:
        results = {p.call_id: p for p in getattr(fact, "parts", ()) if p.kind == "server_tool_result"}
        behind = 0
        for part in fact.parts if fact.kind in ("model_replied", "reply_cut") else ():
            if part.kind == "server_tool_result":
                continue
            if behind:
                behind -= 1
                continue
            behind = decoding.pieces_behind(part)
            found.append(
                decoding.whole(part, results.get(part.id)) if part.kind == "server_tool_call" else _item(part)
            )
    return found


def _item(part: Any) -> dict[str, Any]:
    if part.raw is None:
        return {
            "type": "function_call",
            "call_id": part.id,
            "name": part.name,
            "arguments": part.arguments.text,
        }
    item: dict[str, Any] = part.raw.value
    return item


def says(item: dict[str, Any], stated: dict[str, Any]) -> bool:
    """Whether an item is the one that a stream's truth states."""
    kind = item.get("type")
    wanted = stated.get("type") or KINDS.get(stated["kind"], stated["kind"])
    text = decoding.text_of(item) if stated["kind"] in ("text", "refusal") else None
    return (
        kind == wanted
        and all(item.get(key) == stated[key] for key in SAME if key in stated)
        and ("text" not in stated or text == stated["text"])
        and ("arguments" not in stated or item.get("arguments") == stated["arguments"])
        and ("status" not in stated or item.get("status") == stated["status"])
    )  # fmt: skip


@pytest.mark.parametrize("line", STREAMS, ids=[line["id"] for line in STREAMS])
def test_the_truth_of_a_stream(line: dict[str, Any]) -> None:
    reading = assembled(line["events"])
    found = whole(reading)
    assert len(found) == len(line["complete"])
    for item, stated in zip(found, line["complete"], strict=True):
        assert says(item, stated), (item, stated)
    cut = [stated for stated in line["fragments"] if stated["kind"] != "steering"]
    assert [fragment.reason for fragment in reading.fragments] == [stated["why"] for stated in cut]
    for fragment, stated in zip(reading.fragments, cut, strict=True):
        assert fragment.type == (stated.get("type") or KINDS.get(stated["kind"], stated["kind"]))
        assert fragment.call_id == stated.get("call_id")
        for key in ("text", "arguments", "input", "code"):
            assert key not in stated or fragment.text == stated[key]
        if "commands" in stated:
            assert fragment.text.split("\n") == stated["commands"]
    ended = line["finish"]["status"] in ("completed", "incomplete") and "responses" not in line
    assert (reading.turn == "ended") == ended
    FACTS.validate_json(FACTS.dump_json(reading.facts))


@pytest.mark.parametrize("line", STREAMS, ids=[line["id"] for line in STREAMS])
def test_what_may_be_sent_again(line: dict[str, Any]) -> None:
    reading = assembled(line["events"])
    said = UserSaid(fact_id="said", seq=0, parts=(Text("Hi"),))
    projection = normalizer.project(
        normalizer.fold((said, *reading.facts)), "openai_responses", open_calls="unknown"
    )
    sent = [
        item for item in projection.request["input"]
        if item.get("role") != "user" and not str(item.get("type")).endswith("_output")
    ]  # fmt: skip
    told = {note.call_id for note in projection.adjustments if note.kind == "told_as_text"}
    known = {item.get("id"): item for item in whole(reading)}
    wanted = [known[item_id] for item_id in line["replayable"] if known[item_id].get("call_id") not in told]
    if told:  # a call without a truthful output takes its reasoning along
        wanted = [item for item in wanted if item["type"] != "reasoning"]
    assert len(sent) == len(wanted)
    for item, native in zip(sent, wanted, strict=True):
        assert item in (native, {k: v for k, v in native.items() if k != "id"})
    assert normalizer.check(projection.request, "openai_responses", context={"history": True}) == ()


@pytest.mark.parametrize("line", STREAMS, ids=[line["id"] for line in STREAMS])
def test_objects_of_the_sdk_say_the_same(line: dict[str, Any]) -> None:
    if line["sdk_shape"] != "ok" or any("stream_id" in e or ".steer." in e["type"] for e in line["events"]):
        pytest.skip("not of the SDK's types for HTTP")
    objects = [EVENT.validate_python(event) for event in line["events"]]
    assert whole(assembled(objects)) == whole(assembled(line["events"]))


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_the_text_of_the_stream_says_the_same_wherever_it_is_cut(size: int) -> None:
    for line in STREAMS:
        text = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in line["events"])
        assert assembled([text[n : n + size] for n in range(0, len(text), size)]) == assembled(line["events"])


def _response(response_id: str, status: str, output: list[Any], **more: Any) -> dict[str, Any]:
    return {
        "id": response_id,
        "object": "response",
        "model": "gpt-6-astra",
        "status": status,
        "output": output,
        **more,
    }


def _message(item_id: str, text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": item_id, "status": "completed", "role": "assistant", "content": content}


def test_steering_that_was_applied_stands_between_the_two_responses() -> None:
    first, second = _message("msg_1", "One."), _message("msg_2", "Deux.")
    events = [
        {"type": "response.created", "sequence_number": 0, "response": _response("resp_1", "in_progress", [])},
        {"type": "response.output_item.done", "sequence_number": 1, "output_index": 0, "item": first},
        {"type": "response.steer.accepted", "sequence_number": 2,
         "steer": {"id": "steer_1", "previous_response_id": "resp_1", "input": "In French, please."}},
        {"type": "response.incomplete", "sequence_number": 3,
         "response": _response("resp_1", "incomplete", [first], incomplete_details={"reason": "steered"})},
        {"type": "response.created", "sequence_number": 0,
         "response": _response("resp_2", "in_progress", [], previous_response_id="resp_1")},
        {"type": "response.output_item.done", "sequence_number": 1, "output_index": 0, "item": second},
        {"type": "response.completed", "sequence_number": 2, "response": _response("resp_2", "completed", [second])},
    ]  # fmt: skip
    reading = assembled(events)
    assert [fact.kind for fact in reading.facts] == [
        "model_replied",
        "steering_queued",
        "steering_applied",
        "model_replied",
    ]
    assert reading.facts[2].by_provider  # type: ignore[union-attr]
    request = normalizer.project(normalizer.fold(reading.facts), "openai_responses").request
    assert [item.get("id") or item["content"] for item in request["input"]] == [
        "msg_1", [{"type": "input_text", "text": "In French, please."}], "msg_2",
    ]  # fmt: skip
    newer = normalizer.project(normalizer.fold(reading.facts), "openai_responses", stored=True).request
    assert (newer["input"], newer["previous_response_id"]) == ([], "resp_2")


def test_a_refused_request_is_no_reply() -> None:
    reading = assembled(
        [{"type": "error", "code": "invalid_encrypted_content", "message": "could not be verified"}]
    )
    assert reading.turn == "refused"
    assert reading.facts[0].refused  # type: ignore[union-attr]


def test_what_no_step_takes_is_kept() -> None:
    reading = assembled([{"type": "response.novelty", "x": 1}, "not an event\n\n", {"no": "type"}, 3])
    assert [left.reason for left in reading.leftovers] == ["unknown event"] * 4
    assert STEPS.keys() >= {"response.created", "response.completed", "response.output_item.done"}
