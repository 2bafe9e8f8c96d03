"""Anthropic streams -> facts, against recorded event sequences and what must be made of them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from anthropic.lib.streaming import _messages
from anthropic.types import RawMessageStreamEvent
from anthropic.types.beta import BetaRawMessageStreamEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from normalizer.facts import (
    FACTS,
    CallCompleted,
    ModelReplied,
    ReplyCut,
    TurnEnded,
    UserSaid,
    dump_lines,
    load_lines,
)
from normalizer.folding.fold_run import fold
from normalizer.parts import Opaque, Reasoning, ServerToolCall, Text, ToolCall
from normalizer.projection import Options
from normalizer.providers.anthropic import project, stream
from normalizer.providers.anthropic.stream import Assembler

if TYPE_CHECKING:
    from collections.abc import Iterable

    from normalizer.facts import Fact
    from normalizer.findings import Fragment, Reading
    from normalizer.parts import Part

FIXTURE = Path(__file__).parent.parent / "fixtures" / "rules" / "anthropic_streams.jsonl"
STREAMS: list[dict[str, Any]] = [json.loads(line) for line in FIXTURE.read_text("utf-8").splitlines()]
BY_ID = {line["id"]: line for line in STREAMS}
each_stream = pytest.mark.parametrize("line", STREAMS, ids=list(BY_ID))

DELTA_TEXTS = ("text", "thinking", "partial_json", "signature", "content")


def assembled(events: Iterable[Any], **about: Any) -> Reading:
    """The reading of a whole sequence."""
    assembler = Assembler(**about)
    for event in copy.deepcopy(list(events)):
        assembler.feed(event)
    return assembler.reading()


def block_of(part: Part) -> dict[str, Any]:
    """The block that a part stands for; an input that does not parse is wrapped as the fixtures write it."""
    if isinstance(part, Text) and part.raw is None:
        return {"type": "text", "text": part.text}
    if isinstance(part, ToolCall) and part.raw is None:
        return {"type": "tool_use", "id": part.id, "name": part.name, "input": part.arguments.value}
    assert part.raw is not None
    block: dict[str, Any] = dict(part.raw.value)
    if isinstance(block.get("input"), str):
        block["input"] = {"INVALID_JSON": block["input"]}
    return block


def fragment_of(fragment: Fragment) -> dict[str, Any]:
    """A fragment as the fixtures write it."""
    id_key = "tool_use_id" if (fragment.type or "").endswith("_tool_result") else "id"
    told = {
        "index": fragment.index,
        "type": fragment.type,
        "reason": fragment.reason,
        id_key: fragment.call_id,
        "name": fragment.name,
        "partial": fragment.text,
    }
    return {key: value for key, value in told.items() if value is not None}


def reply_of(reading: Reading) -> ModelReplied | ReplyCut:
    (fact,) = reading.facts
    assert isinstance(fact, ModelReplied | ReplyCut)
    return fact


def meaning(reading: Reading) -> dict[str, Any]:
    """What a reading says, in the words of the fixtures. Key order counts, so blocks are compared as texts."""
    fact = reply_of(reading)
    parts = fact.parts
    return {
        "complete_blocks": [json.dumps(block_of(part)) for part in parts],
        "fragments": [fragment_of(fragment) for fragment in reading.fragments],
        "stop_reason": reading.stop_reason,
        "turn": reading.turn,
        "open_server_calls": list(reading.open_server_calls),
        "calls_to_run": list(reading.calls_to_run),
        "container": fact.container,
        "invalid_inputs": ids_that_do_not_parse(parts),
        "error": fact.error.partition(":")[0] if isinstance(fact, ReplyCut) and fact.error else None,
    }


def ids_that_do_not_parse(parts: Iterable[Part]) -> list[str | None]:
    calls = [part for part in parts if isinstance(part, ToolCall | ServerToolCall)]
    return [part.id for part in calls if not part.arguments.valid]


def truth(line: dict[str, Any]) -> dict[str, Any]:
    return {
        "complete_blocks": [json.dumps(block) for block in line["complete_blocks"]],
        **{
            key: line[key]
            for key in ("fragments", "stop_reason", "turn", "open_server_calls", "calls_to_run")
        },
        "container": line.get("container"),
        "invalid_inputs": line.get("invalid_inputs", []),
        "error": line.get("error"),
    }


def unordered(told: dict[str, Any]) -> dict[str, Any]:
    """The SDK's objects do not keep the order of keys inside a block's values."""
    return told | {"complete_blocks": [json.loads(text) for text in told["complete_blocks"]]}


def sse(events: Iterable[dict[str, Any]], end: str = "\n") -> bytes:
    """The events as the API writes them."""
    frames = [
        f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events
    ]
    return "".join(frames).replace("\n", end).encode()


# ---------------------------------------------------------------- the fixtures


@each_stream
def test_the_reading_is_the_truth(line: dict[str, Any]) -> None:
    reading = assembled(line["events"])
    assert meaning(reading) == truth(line)
    assert (reading.format, reading.home) == ("anthropic", "anthropic")
    fact = reply_of(reading)
    assert fact.kind == ("reply_cut" if line["turn"] == "cut" else "model_replied")
    assert (fact.provider, fact.api) == ("anthropic", "anthropic")
    assert len(reading.findings) == len(reading.fragments)


@each_stream
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_the_same_from_text_cut_anywhere(line: dict[str, Any], data: st.DataObject) -> None:
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    wire = sse(line["events"], end)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=15)))
    pieces: list[Any] = [wire[a:b] for a, b in zip([0, *cuts], [*cuts, len(wire)], strict=True)]
    if wire.isascii() and data.draw(st.booleans()):
        pieces = [piece.decode() for piece in pieces]
    assert assembled(pieces) == assembled(line["events"])


@each_stream
def test_the_same_from_json_texts(line: dict[str, Any]) -> None:
    assert assembled(map(json.dumps, line["events"])) == assembled(line["events"])


@pytest.mark.parametrize("union", [RawMessageStreamEvent, BetaRawMessageStreamEvent], ids=["sdk", "beta"])
def test_the_same_from_event_objects_of_the_sdk(union: Any) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(union)
    whole = 0
    for line in STREAMS:
        events = []
        for event in line["events"]:
            try:
                events.append(adapter.validate_python(event))
            except ValidationError:
                events.append(event)
        whole += not any(isinstance(event, dict) for event in events)
        assert unordered(meaning(assembled(events))) == unordered(truth(line)), line["id"]
    assert whole > len(STREAMS) // 3


@pytest.mark.parametrize(
    "name", ["text-simple", "tools-parallel", "thinking-then-tool", "web-search-with-citations"]
)
def test_the_same_from_the_message_stream_helper(name: str) -> None:
    """The helper fires `text`, `input_json` and others beside the raw events, and adds snapshots to the stops."""
    line = BY_ID[name]
    adapter: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    fired: list[Any] = []
    for event in (adapter.validate_python(event) for event in line["events"] if event["type"] != "ping"):
        snapshot = _messages.accumulate_event(event=event, current_snapshot=snapshot, json_bufs=buffers)
        fired += _messages.build_events(event=event, message_snapshot=snapshot)
    kinds = {event.type for event in fired}
    assert kinds & {"text", "input_json", "thinking", "citation"}
    reading = assembled(fired)
    assert unordered(meaning(reading)) == unordered(truth(line))
    assert reading.leftovers == ()


# ---------------------------------------------------------------- at any time


def everything(reading: Reading) -> str:
    """All texts that a reading holds, joined in a way in which pieces of one text stay together."""
    blocks = [part.raw.value if part.raw else block_of(part) for part in reply_of(reading).parts]
    parts = [json.dumps(block, ensure_ascii=False) for block in blocks]
    calls = [
        part.arguments.text for part in reply_of(reading).parts if isinstance(part, ToolCall | ServerToolCall)
    ]
    kept = [fragment.text for fragment in reading.fragments] + [left.text for left in reading.leftovers]
    return "\n".join([*parts, *calls, *kept])


def parsed(text: str) -> str:
    """A JSON text as a part holds it; another text as it is."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))
    except ValueError:
        return text


@each_stream
def test_every_prefix_reads_and_loses_no_text(line: dict[str, Any]) -> None:
    """What one index got of one kind is found again, joined: as it came, or parsed if it was an input."""
    assembler = Assembler()
    received: dict[tuple[int, str], str] = {}
    for event in line["events"]:
        assembler.feed(event)
        if event["type"] == "content_block_delta":
            for key in DELTA_TEXTS:
                if isinstance(event["delta"].get(key), str):
                    before = received.get((event["index"], key), "")
                    received[event["index"], key] = before + event["delta"][key]
        found = everything(assembler.reading())
        for text in received.values():
            assert (
                text in found or parsed(text) in found or json.dumps(text, ensure_ascii=False)[1:-1] in found
            )


@each_stream
def test_looking_in_mid_stream_changes_nothing(line: dict[str, Any]) -> None:
    assembler = Assembler()
    for event in line["events"]:
        assembler.feed(event)
        assembler.reading()
    assert assembler.reading() == assembled(line["events"])


@each_stream
def test_what_was_fed_is_not_changed(line: dict[str, Any]) -> None:
    before = json.dumps(line["events"])
    assembler = Assembler()
    for event in line["events"]:
        assembler.feed(event)
    assembler.reading()
    assert json.dumps(line["events"]) == before


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_events_in_any_order_never_raise_and_none_is_lost(data: st.DataObject) -> None:
    pool = [event for line in STREAMS for event in line["events"]]
    events = data.draw(st.lists(st.sampled_from(pool), max_size=12))
    assembler = Assembler()
    for number, event in enumerate(events):
        marked = copy.deepcopy(event)
        if "text" in (marked.get("delta") or {}):
            marked["delta"]["text"] = f"<{number}>"
        assembler.feed(marked)
        reading = assembler.reading()
        found = everything(reading)
        if "text" in (marked.get("delta") or {}):
            assert f"<{number}>" in found
        assert len(reading.facts) == 1


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
ODD_FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(sorted(stream.TABLE.words | stream.SILENT)) | JSON_VALUES,
        "index": st.integers(0, 1) | JSON_VALUES,
        "message": JSON_VALUES,
        "content_block": st.fixed_dictionaries(
            {"type": st.sampled_from(["text", "tool_use", "x"]), "input": JSON_VALUES}
        )
        | JSON_VALUES,
        "delta": st.fixed_dictionaries(
            {
                "type": st.sampled_from(sorted(stream.TABLE.words)) | st.text(),
                "partial_json": JSON_VALUES,
                "text": JSON_VALUES,
            }
        )
        | JSON_VALUES,
        "error": JSON_VALUES,
    },
)


@settings(max_examples=200, deadline=None)
@given(st.lists(ODD_FIELDS | JSON_VALUES | st.text() | st.binary(), max_size=8))
def test_nonsense_never_raises(events: list[Any]) -> None:
    reading = assembled(events)
    assert reading.format == "anthropic"
    FACTS.validate_json(b"[" + b",".join(dump_lines(reading.facts).splitlines()) + b"]")


# ---------------------------------------------------------------- facts


@each_stream
def test_the_facts_fold(line: dict[str, Any]) -> None:
    said = UserSaid(fact_id="u", seq=1, turn_id="t", parts=(Text("Go"),))
    reading = assembled(line["events"], fact_id="r", seq=2, turn_id="t")
    transcript = fold((said, *reading.facts))
    assert [entry.kind for entry in transcript.entries] == ["user", "reply"]
    calls = [part for part in reply_of(reading).parts if isinstance(part, ToolCall)]
    assert [call.part for call in transcript.calls.values()] == calls
    over = fold((said, *reading.facts, TurnEnded(fact_id="e", seq=3, turn_id="t")))
    invalid = set(line.get("invalid_inputs", ()))
    assert {key for key, call in over.calls.items() if call.outcome.kind == "never_run"} == invalid


@each_stream
def test_the_facts_survive_being_stored(line: dict[str, Any]) -> None:
    facts = assembled(line["events"]).facts
    assert tuple(load_lines(dump_lines(facts))) == facts


# Streams that go on with a reply before them, and that reply.
CONTINUES = {"deferred-result-first": "mixed-server-and-client"}


def step(events: Iterable[Any], number: int) -> list[Fact]:
    """A reply and a result for each of its calls that can be run."""
    facts: list[Fact] = list(assembled(events, fact_id=f"r{number}", seq=number * 100, turn_id="t").facts)
    calls = [part for part in facts[0].parts if isinstance(part, ToolCall) and part.arguments.valid]  # type: ignore[union-attr]
    for place, made in enumerate(calls, start=number * 100 + 1):
        facts.append(
            CallCompleted(fact_id=f"d{place}", seq=place, turn_id="t", call_id=made.id or "", content="done")
        )
    return facts


def replayable(events: Iterable[Any], before: Iterable[Any] | None = None) -> list[dict[str, Any]]:
    """The blocks of a stream that are sent again when its calls were answered and the user says something else."""
    facts: list[Fact] = [UserSaid(fact_id="u", seq=1, turn_id="t", parts=(Text("Go"),))]
    facts += step(before, 1) if before is not None else []
    facts += step(events, 2)
    facts += [TurnEnded(fact_id="e", seq=900, turn_id="t")]
    facts += [UserSaid(fact_id="v", seq=901, turn_id="v", parts=(Text("Next"),))]
    request = project.project(fold(facts), Options(model="claude-opus-4-8")).request
    replies = [message["content"] for message in request["messages"] if message["role"] == "assistant"]
    return [found for reply in replies[before is not None :] for found in reply]


@each_stream
def test_what_is_replayed_when_the_conversation_moves_on(line: dict[str, Any]) -> None:
    before = BY_ID[CONTINUES[line["id"]]]["events"] if line["id"] in CONTINUES else None
    kept = [line["complete_blocks"][number] for number in line["history_if_moved_on"]]
    assert replayable(line["events"], before) == kept


def test_the_fact_names_its_place_and_its_request() -> None:
    events = BY_ID["text-simple"]["events"]
    fact = reply_of(assembled(events, fact_id="r7", seq=7, turn_id="t2", answers="q6", source="host"))
    assert (fact.fact_id, fact.seq, fact.turn_id, fact.answers, fact.source) == ("r7", 7, "t2", "q6", "host")
    plain = reply_of(assembled(events))
    assert (plain.fact_id, plain.seq, plain.turn_id, plain.answers, plain.source) == (
        "reply", 1, None, None, "anthropic"
    )  # fmt: skip


def test_what_stood_beside_the_content_is_kept() -> None:
    fact = reply_of(assembled(BY_ID["bash-code-execution"]["events"]))
    assert fact.model == "claude-opus-4-8"
    assert fact.container == "container_1"
    assert fact.raw is not None
    assert fact.raw.value == {
        "id": "msg_01",
        "type": "message",
        "model": "claude-opus-4-8",
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 40, "output_tokens": 30},
        "container": {"id": "container_1", "expires_at": "2026-10-01T00:05:00Z"},
    }


def start(**more: Any) -> dict[str, Any]:
    return {"type": "message_start", "message": {"role": "assistant", "content": [], "model": "m"} | more}


def block(
    index: int, value: dict[str, Any], *deltas: dict[str, Any], closed: bool = True
) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [{"type": "content_block_start", "index": index, "content_block": value}]
    events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return events + [{"type": "content_block_stop", "index": index}] * closed


def call(index: int, wire_id: str, *pieces: str, closed: bool = True) -> list[dict[str, Any]]:
    value = {"type": "tool_use", "id": wire_id, "name": "run", "input": {}}
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block(index, value, *deltas, closed=closed)


def stop(reason: str | None = "end_turn", **more: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason} | more, "usage": {"output_tokens": 3}}


def test_a_container_of_the_start_survives_a_null_in_the_delta() -> None:
    reading = assembled([start(container={"id": "c1"}), stop(container=None)])
    assert reply_of(reading).container == "c1"


def test_usage_counts_are_replaced_one_by_one() -> None:
    later = {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 9, "input_tokens": None},
    }
    fact = reply_of(assembled([start(usage={"input_tokens": 5, "output_tokens": 1}), later]))
    assert fact.raw is not None
    assert fact.raw.value["usage"] == {"input_tokens": 5, "output_tokens": 9}


def test_after_a_fallback_the_model_is_the_one_that_took_over() -> None:
    fact = reply_of(assembled(BY_ID["fallback-mid-output"]["events"]))
    assert fact.model == "claude-opus-4-8"


def test_a_call_before_a_fallback_is_not_run() -> None:
    fallback = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}
    server = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    events = [
        start(),
        *call(0, "toolu_1", "{}"),
        *block(1, server),
        *block(2, fallback),
        *call(3, "toolu_2", "{}"),
    ]
    reading = assembled([*events, stop("tool_use")])
    assert reading.calls_to_run == ("toolu_2",)
    assert reading.open_server_calls == ()
    assert len(reply_of(reading).parts) == 4


# ---------------------------------------------------------------- how a reply ends


@pytest.mark.parametrize(
    ("reason", "turn"),
    [
        ("end_turn", "ended"),
        ("compaction", "paused"),
        ("pause_turn", "paused"),
        ("refusal", "refused"),
        ("new", "ended"),
    ],
)
def test_the_stop_reason_says_what_the_turn_is(reason: str, turn: str) -> None:
    assert assembled([start(), stop(reason)]).turn == turn


def test_a_message_delta_without_a_reason_is_no_ending() -> None:
    reading = assembled([start(), *call(0, "toolu_1", "{}"), stop(None), {"type": "message_stop"}])
    assert (reading.turn, reading.stop_reason, reading.calls_to_run) == ("cut", None, ())


def test_an_error_after_the_stop_reason_is_a_cut() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    reading = assembled([start(), *call(0, "toolu_1", "{}"), stop("tool_use"), error])
    assert (reading.turn, reading.calls_to_run) == ("cut", ())
    fact = reply_of(reading)
    assert isinstance(fact, ReplyCut)
    assert fact.error == "overloaded_error: Overloaded"
    assert not fact.refused


def test_an_error_is_told_short_and_without_secrets_and_kept_whole_beside() -> None:
    secret = "sk-ant-api03-abcdefgh12345678"  # noqa: S105 - made up
    error = {"type": "error", "error": {"type": "api_error", "message": f"key {secret}\n" + "x " * 500}}
    reading = assembled([start(), error])
    fact = reply_of(reading)
    assert isinstance(fact, ReplyCut)
    assert fact.error is not None
    assert secret not in fact.error
    assert "\n" not in fact.error
    assert len(fact.error) < 230
    (leftover,) = reading.leftovers
    assert (leftover.reason, json.loads(leftover.text)) == ("error event", error)


@pytest.mark.parametrize("body", [{}, {"error": None}, {"error": {"type": None}}, {"error": "boom"}])
def test_an_error_of_another_shape(body: dict[str, Any]) -> None:
    fact = reply_of(assembled([start(), {"type": "error"} | body]))
    assert isinstance(fact, ReplyCut)
    assert fact.error == "error"


def test_nothing_counts_after_an_error() -> None:
    error = {"type": "error", "error": {"type": "api_error", "message": ""}}
    late = block(0, {"type": "text", "text": "late"})
    reading = assembled([start(), error, *late, {"type": "ping"}])
    assert reply_of(reading).parts == ()
    assert [leftover.reason for leftover in reading.leftovers] == ["error event", *["unexpected event"] * 2]


def test_only_an_error_of_the_request_before_the_reply_is_a_refused_request() -> None:
    refused = {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}
    busy = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    answers = [reply_of(assembled(events)) for events in ([refused], [busy], [start(), refused])]
    assert [fact.refused for fact in answers if isinstance(fact, ReplyCut)] == [True, False, False]


@pytest.mark.parametrize("events", [[], [start()], [{"type": "ping"}]])
def test_a_stream_without_anything_is_a_cut_reply(events: list[Any]) -> None:
    reading = assembled(events)
    assert reading.turn == "cut"
    assert isinstance(reply_of(reading), ReplyCut)
    assert reading.leftovers == ()


# ---------------------------------------------------------------- inputs


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded", "refusal"])
@pytest.mark.parametrize("text", ["", " ", '{"a": ', '{"a": oops}'])
def test_a_limit_may_hit_the_last_call_only(reason: str, text: str) -> None:
    reading = assembled([start(), *call(0, "toolu_1", text), stop(reason)])
    assert [f.reason for f in reading.fragments] == ["input_incomplete"]
    assert reading.fragments[0].text == text
    behind = block(1, {"type": "text", "text": "more"})
    reading = assembled([start(), *call(0, "toolu_1", text), *behind, stop(reason)])
    assert reading.fragments == ()
    assert len(reply_of(reading).parts) == 2


@pytest.mark.parametrize("kind", ["server_tool_use", "mcp_tool_use"])
def test_a_limit_may_hit_a_server_call(kind: str) -> None:
    value = {"type": kind, "id": "srvtoolu_1", "name": "web_search", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": '{"q'}
    reading = assembled([start(), *block(0, value, delta), stop("max_tokens")])
    assert reading.fragments[0].call_id == "srvtoolu_1"
    assert reading.open_server_calls == ()


@pytest.mark.parametrize(
    ("text", "whole"), [('{"a": ', False), ('{"a": oops}', True), ("", True), ("{}", True)]
)
def test_without_a_stop_reason_the_beginning_of_a_json_text_is_no_input(text: str, whole: bool) -> None:
    """The limit's `message_delta` may be what was cut off."""
    reading = assembled([start(), *call(0, "toolu_1", text)])
    assert bool(reply_of(reading).parts) is whole
    assert bool(reading.fragments) is not whole


@pytest.mark.parametrize(
    ("text", "given", "runs"),
    [
        ("", {}, True),
        (" \n", {}, True),
        ("null", {}, True),
        ('{"b": 1, "a": 2}', {"b": 1, "a": 2}, True),
        ('{"a": ', '{"a": ', False),
        ("[" * 100_000, "[" * 100_000, False),
    ],
)
def test_what_an_input_is(text: str, given: Any, runs: bool) -> None:
    reading = assembled([start(), *call(0, "toolu_1", text), stop("tool_use")])
    (part,) = reply_of(reading).parts
    assert isinstance(part, ToolCall)
    assert (part.arguments.value if part.arguments.valid else part.arguments.text) == given
    assert reading.calls_to_run == (("toolu_1",) if runs else ())


@pytest.mark.parametrize("text", ["[1, 2]", '"words"', "3"])
def test_an_input_that_is_no_object_stays_as_it_came(text: str) -> None:
    (part,) = reply_of(assembled([start(), *call(0, "toolu_1", text), stop("tool_use")])).parts
    assert isinstance(part, ToolCall)
    assert part.arguments.text == text


def test_a_filled_input_in_the_start_event_is_no_placeholder() -> None:
    value = {"type": "tool_use", "id": "toolu_1", "name": "run", "input": {"a": 1}}
    (part,) = reply_of(assembled([start(), *block(0, value), stop("max_tokens")])).parts
    assert isinstance(part, ToolCall)
    assert part.arguments.value == {"a": 1}
    cut = assembled([start(), *block(0, value, closed=False)])
    assert cut.fragments[0].text == '{"a":1}'


# ---------------------------------------------------------------- what nobody knows


def test_unknown_events_and_deltas_are_leftovers() -> None:
    reading = assembled(BY_ID["unknown-event-and-delta"]["events"])
    assert [leftover.reason for leftover in reading.leftovers] == ["unknown event", "unknown delta"]
    assert json.loads(reading.leftovers[0].text) == {"type": "telemetry_hint", "data": {"x": 1}}
    assert json.loads(reading.leftovers[1].text)["delta"] == {"type": "shimmer_delta", "glow": 1}


def test_a_block_of_an_unknown_type_survives_with_its_deltas() -> None:
    value = {"type": "hologram", "id": "h1", "text": "a"}
    deltas: list[dict[str, Any]] = [
        {"type": "text_delta", "text": "b"},
        {"type": "input_json_delta", "partial_json": '{"x": 1}'},
        {"type": "signature_delta", "signature": "s"},
        {"type": "citations_delta", "citation": {"n": 1}},
    ]
    (part,) = reply_of(assembled([start(), *block(0, value, *deltas), stop()])).parts
    assert isinstance(part, Opaque)
    assert part.type == "hologram"
    assert part.raw.value == value | {
        "text": "ab",
        "signature": "s",
        "citations": [{"n": 1}],
        "input": {"x": 1},
    }


@pytest.mark.parametrize(
    "delta",
    [
        {"type": "text_delta", "text": "x"},
        {"type": "thinking_delta", "thinking": "x"},
        {"type": "input_json_delta", "partial_json": 3},
        {"type": "citations_delta", "citation": {"n": 1}},
        {"type": ["text_delta"]},
        {},
    ],
)
def test_a_delta_that_cannot_be_meant_for_its_block_is_a_leftover(delta: dict[str, Any]) -> None:
    value = {"type": "tool_use", "id": "toolu_1", "name": "run", "input": {}}
    reading = assembled([start(), *block(0, value, delta), stop("tool_use")])
    assert [leftover.reason for leftover in reading.leftovers] == ["unknown delta"]
    assert reading.calls_to_run == ("toolu_1",)


def test_a_citation_without_content_is_a_leftover() -> None:
    delta = {"type": "citations_delta", "citation": None}
    reading = assembled([start(), *block(0, {"type": "text", "text": "x"}, delta), stop()])
    assert [leftover.reason for leftover in reading.leftovers] == ["unknown delta"]


@pytest.mark.parametrize(
    "event",
    [
        start(),
        {"type": "message_start", "message": None},
        {"type": "content_block_start", "index": 0},
        {"type": "content_block_delta", "index": 5, "delta": {"type": "text_delta", "text": "x"}},
        {"type": "content_block_delta", "index": 0, "delta": None},
        {"type": "content_block_stop", "index": 5},
        {"type": "message_delta", "delta": None},
    ],
)
def test_an_event_out_of_place_is_a_leftover(event: dict[str, Any]) -> None:
    reading = assembled([start(), event])
    assert [leftover.reason for leftover in reading.leftovers] == ["unexpected event"]


@pytest.mark.parametrize(
    "event", [None, 3, {"type": None}, {"type": ["text"]}, {}, "data: [DONE]\n\n", "HTTP/1.1 502\n"]
)
def test_what_is_no_event_is_a_leftover(event: Any) -> None:
    reading = assembled([event])
    assert [leftover.reason for leftover in reading.leftovers] == ["unknown event"]


def test_a_second_block_with_the_same_index_does_not_replace_the_first() -> None:
    text = {"type": "text", "text": "a"}
    reading = assembled(
        [start(), *block(0, text, closed=False), *block(0, {"type": "text", "text": "b"}), stop()]
    )
    assert [fragment.text for fragment in reading.fragments] == ["a"]
    assert [block_of(part)["text"] for part in reply_of(reading).parts] == ["b"]


def test_content_of_the_start_event_is_a_leftover() -> None:
    reading = assembled([start(content=[{"type": "text", "text": "early"}]), stop()])
    assert "early" in reading.leftovers[0].text


def test_an_unfinished_frame_is_a_leftover_until_it_ends() -> None:
    assembler = Assembler()
    wire = sse([start(), *block(0, {"type": "text", "text": "whole"}), stop()])
    assembler.feed(wire[:-1])
    (leftover,) = assembler.reading().leftovers
    assert leftover.reason == "unfinished frame"
    assert assembler.reading().turn == "cut"
    assembler.feed(wire[-1:])
    assert assembler.reading().leftovers == ()
    assert assembler.reading().turn == "ended"


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ({"type": "thinking", "thinking": "a", "signature": "sig_A"}, True),
        ({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"title": "A"}]}, True),
        (
            {"type": "tool_use", "id": "toolu_1", "name": "run", "input": {}, "caller": {"type": "direct"}},
            True,
        ),
        ({"type": "tool_use", "id": "toolu_1", "name": "run", "input": {"a": 1}}, False),
        ({"type": "thinking", "thinking": "a", "signature": ""}, False),
        ({"type": "text", "text": "a", "citations": None}, False),
    ],
)
def test_what_a_fragment_cannot_say_is_a_leftover(value: dict[str, Any], kept: bool) -> None:
    leftovers = assembled([start(), *block(0, value, closed=False)]).leftovers
    assert bool(leftovers) is kept
    if kept:
        assert json.loads(leftovers[0].text) == {"index": 0, "content_block": value}


def test_blocks_are_taken_from_a_log_without_its_beginning() -> None:
    thinking = {"type": "thinking", "thinking": "", "signature": ""}
    deltas = [{"type": "thinking_delta", "thinking": "a"}, {"type": "signature_delta", "signature": "sig_A"}]
    reading = assembled([*block(0, thinking, *deltas), stop()])
    (part,) = reply_of(reading).parts
    assert isinstance(part, Reasoning)
    assert block_of(part) == {"type": "thinking", "thinking": "a", "signature": "sig_A"}
    assert reply_of(reading).model is None


def test_equal_calls_are_run_once() -> None:
    reading = assembled([start(), *call(0, "toolu_1", "{}"), *call(1, "toolu_1", "{}"), stop("tool_use")])
    assert reading.calls_to_run == ("toolu_1",)


def test_every_pair_of_the_table_is_reached_by_the_words_of_the_wire() -> None:
    assert {state for state, _ in stream.STEPS} == {stream.State.NEW, stream.State.OPEN}
    assert not stream.TABLE.words & stream.SILENT


def test_an_sdk_object_gives_the_same_parts_as_the_wire() -> None:
    """Keys stand as on the wire, so that text and plain calls need no raw block and prompt caches stay valid."""
    adapter: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
    for name in ("tool-after-text", "thinking-then-text", "tool-with-direct-caller", "tools-parallel"):
        events = BY_ID[name]["events"]
        typed = [adapter.validate_python(event) for event in events if event["type"] != "ping"]
        assert reply_of(assembled(typed)).parts == reply_of(assembled(events)).parts
