"""The frame of streams carries APIs of other shapes: events named by their key, chunks without ends, deltas as in Chat.

The three small tables here are no providers; they show what a further API has to write.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pytest

from normalizer.findings import Fragment
from normalizer.parts import Json, Reasoning, Text, ToolCall
from normalizer.reading.stream_assembler import (
    Reply,
    State,
    StreamAssembler,
    Table,
    beginning,
    in_states,
    nothing,
)
from normalizer.reading.stream_blocks import Block, Blocks
from normalizer.reading.stream_choices import STEPS, Choice, ChunkAssembler, grow, tool_calls, unchanged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from normalizer.findings import Reading
    from normalizer.parts import Part
    from normalizer.reading.stream_assembler import Broken, Event
    from normalizer.reading.stream_choices import CallPieces, Change

# ---------------------------------------------------------------- events named by their key, as Bedrock's


class KeyedBlock(Block):
    @property
    def is_call(self) -> bool:
        return "toolUseId" in self.start

    def part(self) -> Part:
        if self.is_call:
            return ToolCall(self.start["toolUseId"], self.start["name"], Json(self.input_text or "{}"))
        return Text(self.value().get("text", ""))

    def broken(self) -> Broken:
        text = self.input_text if self.is_call else self.value().get("text", "")
        fragment = Fragment(self.start.get("toolUseId"), text, "not_closed", index=self.index)
        return beginning(fragment, "a block")


class Keyed(StreamAssembler):
    """`{"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Hi"}}}`; a text begins with a delta."""

    def __init__(self, **about: Any) -> None:
        super().__init__(KEYED, **about)
        self.reply: Blocks[KeyedBlock] = Blocks()

    def story(self) -> Sequence[Reply]:
        return (self.reply,)

    def named(self, event: Event) -> tuple[str | None, Event]:
        word = next(iter(event), None)
        held = event.get(word or "")
        if word is not None and word.endswith("Exception"):
            return "error", {"type": word, **(held if isinstance(held, dict) else {})}
        return word, held if isinstance(held, dict) else {}


def _start(assembler: Keyed, event: Event) -> bool:
    assembler.reply.begin(KeyedBlock(event["contentBlockIndex"], dict(event["start"]["toolUse"])))
    return True


def _delta(assembler: Keyed, event: Event) -> bool:
    index, delta = event["contentBlockIndex"], event["delta"]
    if assembler.reply.at(index) is None:
        assembler.reply.begin(KeyedBlock(index, {}))
    block = assembler.reply.at(index)
    assert block is not None
    return (
        block.grow("input", delta["toolUse"].get("input"))
        if "toolUse" in delta
        else block.grow("text", delta["text"])
    )


def _stop(assembler: Keyed, event: Event) -> bool:
    return assembler.reply.close(event["contentBlockIndex"])


def _ended(assembler: Keyed, event: Event) -> bool:
    assembler.reply.stop_reason = event["stopReason"]
    return True


def _metadata(assembler: Keyed, event: Event) -> bool:
    assembler.reply.beside.update(event)
    return True


def _exception(assembler: Keyed, event: Event) -> bool:
    assembler.reply.failure = assembler.fail(event, event, began=assembler.state is not State.NEW)
    return True


KEYED: Final = Table(
    provider="aws",
    api="keyed",
    source="aws",
    steps={
        (State.NEW, "messageStart"): (nothing, State.OPEN),
        **in_states(
            (State.OPEN,),
            {
                "contentBlockStart": (_start, State.OPEN),
                "contentBlockDelta": (_delta, State.OPEN),
                "contentBlockStop": (_stop, State.OPEN),
                "messageStop": (_ended, State.OVER),
            },
        ),
        (State.OVER, "metadata"): (_metadata, State.OVER),  # usage comes behind the end
        **in_states((State.NEW, State.OPEN), {"error": (_exception, State.FAILED)}),
    },
    refusing=frozenset({"validationException"}),
    runs=frozenset({"tool_use"}),
)
KEYED_EVENTS: Final = [
    {"messageStart": {"role": "assistant"}},
    {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Hel"}}},
    {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "lo"}}},
    {"contentBlockStop": {"contentBlockIndex": 0}},
    {"contentBlockStart": {"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "t_1", "name": "f"}}}},
    {"contentBlockDelta": {"contentBlockIndex": 1, "delta": {"toolUse": {"input": '{"a":'}}}},
    {"contentBlockDelta": {"contentBlockIndex": 1, "delta": {"toolUse": {"input": "1}"}}}},
    {"contentBlockStop": {"contentBlockIndex": 1}},
    {"messageStop": {"stopReason": "tool_use"}},
    {"metadata": {"usage": {"outputTokens": 5}}},
]

# ---------------------------------------------------------------- chunks with whole parts and no ends, as Gemini's


class Candidate(Reply):
    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []
        self.about: dict[str, Any] = {}

    @property
    def beside(self) -> Mapping[str, Any]:
        return self.about

    def parts(self) -> tuple[Part, ...]:
        """A call that arrived is whole; neighbouring texts are one, and whole where the reply ended."""
        return tuple(self._part(piece) for piece in self.found if self.ended or "functionCall" in piece)

    def _part(self, piece: dict[str, Any]) -> Part:
        if "functionCall" in piece:
            call = piece["functionCall"]
            return ToolCall(call.get("id"), call["name"], Json.of(call.get("args", {})), Json.of(piece))
        return Reasoning(piece["text"], Json.of(piece)) if piece.get("thought") else Text(piece["text"])

    def broken(self) -> Iterator[Broken]:
        for piece in self.found:
            if not self.ended and "text" in piece:
                yield beginning(Fragment(None, piece["text"], "no_finish", type="text"), "a text")

    def add(self, piece: dict[str, Any]) -> None:
        last = self.found[-1] if self.found else {}
        if "text" in piece and "text" in last and last.get("thought") == piece.get("thought"):
            last["text"] += piece["text"]
        else:
            self.found.append(dict(piece))


class Endless(StreamAssembler):
    def __init__(self, **about: Any) -> None:
        super().__init__(ENDLESS, **about)
        self.reply = Candidate()

    def story(self) -> Sequence[Reply]:
        return (self.reply,)

    def named(self, event: Event) -> tuple[str | None, Event]:
        return "error" if "error" in event else "chunk" if "candidates" in event else None, event


def _chunk(assembler: Endless, event: Event) -> bool:
    reply = assembler.reply
    reply.about = {key: value for key, value in event.items() if key != "candidates"}
    for candidate in event["candidates"]:
        for piece in candidate.get("content", {}).get("parts", ()):
            reply.add(piece)
        reply.stop_reason = candidate.get("finishReason", reply.stop_reason)
    return True


def _error(assembler: Endless, event: Event) -> bool:
    assembler.reply.failure = assembler.fail(event["error"], event, began=bool(assembler.reply.found))
    return True


ENDLESS: Final = Table(
    provider="google",
    api="endless",
    source="google",
    steps=in_states(
        (State.NEW, State.OPEN), {"chunk": (_chunk, State.OPEN), "error": (_error, State.FAILED)}
    ),
    error_keys=("status",),
    refusing=frozenset({"INVALID_ARGUMENT"}),
    runs=frozenset({"STOP"}),
)
ENDLESS_EVENTS: Final = [
    {"candidates": [{"content": {"parts": [{"text": "Plan", "thought": True}]}}]},
    {"candidates": [{"content": {"parts": [{"text": "Hel"}]}}]},
    {"candidates": [{"content": {"parts": [{"text": "lo"}]}}]},
    {
        "candidates": [
            {"content": {"parts": [{"functionCall": {"id": "t_1", "name": "f", "args": {"a": 1}}}]}}
        ]
    },
    {"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"totalTokenCount": 5}},
]

# ---------------------------------------------------------------- deltas as in Chat, as Mistral's


class LikeChat(Choice):
    cuts_last: ClassVar[frozenset[str]] = frozenset({"length", "model_length"})

    @property
    def deltas(self) -> Mapping[str, Change]:
        return {"role": unchanged, "content": _content, "tool_calls": tool_calls}

    def said(self) -> Iterator[Part]:
        if self.ended:
            for kind, text in self.unsaid():
                yield Text(text) if kind == "text" else Reasoning(text)

    def unsaid(self) -> Iterator[tuple[str, str]]:
        for kind in ("thinking", "text"):
            if text := self.text(kind):
                yield kind, text

    def call(self, index: Any, pieces: CallPieces) -> Part | None:  # noqa: ARG002
        return ToolCall(pieces.id, pieces.name or "", Json("".join(pieces.text) or "{}"))

    def message(self) -> dict[str, Any]:
        return {"role": "assistant", "content": self.text("text")}


def _content(choice: LikeChat, value: Any) -> bool:
    """A text, or chunks: `{"type": "thinking", "thinking": [{"type": "text", "text": "…"}]}`."""
    if isinstance(value, str):
        return grow("text")(choice, value)
    return all(
        grow("thinking")(choice, inner.get("text")) for chunk in value for inner in chunk.get("thinking", ())
    )


LIKE_CHAT: Final = Table(
    provider="mistral",
    api="like_chat",
    source="mistral",
    steps=STEPS,
    end="[DONE]",
    runs=frozenset({"tool_calls"}),
)


class Chunks(ChunkAssembler):
    def __init__(self, **about: Any) -> None:
        super().__init__(LIKE_CHAT, LikeChat, **about)


def like_chat(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


FUNCTION: Final = {"index": 0, "id": "t_1", "function": {"name": "f", "arguments": '{"a":'}}
CHAT_EVENTS: Final = [
    like_chat(
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Plan"}]}],
        }
    ),
    like_chat({"content": "Hel"}),
    like_chat({"content": "lo"}),
    like_chat({"tool_calls": [FUNCTION]}),
    like_chat({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}, "tool_calls"),
]

# ---------------------------------------------------------------- what the frame makes of all of them

Maker = type[StreamAssembler]
APIS: Final = [
    pytest.param(Keyed, KEYED_EVENTS, {"throttlingException": {"message": "slow down"}}, id="keyed"),
    pytest.param(
        Endless, ENDLESS_EVENTS, {"error": {"status": "UNAVAILABLE", "message": "slow down"}}, id="endless"
    ),
    pytest.param(
        Chunks, CHAT_EVENTS, {"error": {"type": "server_error", "message": "slow down"}}, id="like_chat"
    ),
]
each_api = pytest.mark.parametrize(("make", "events", "error"), APIS)


def assembled(make: Any, events: Iterable[Any], **about: Any) -> Reading:
    assembler = make(**about)
    for event in events:
        assembler.feed(event)
    reading: Reading = assembler.reading()
    return reading


@each_api
def test_a_whole_stream_is_one_reply(make: Maker, events: list[Any], error: Any) -> None:  # noqa: ARG001
    reading = assembled(make, events, fact_id="r", seq=7, turn_id="t", answers="q")
    (fact,) = reading.facts
    assert fact.kind == "model_replied"
    assert (fact.fact_id, fact.seq, fact.turn_id, fact.answers) == ("r", 7, "t", "q")
    assert [part.text for part in fact.parts if isinstance(part, Text)] == ["Hello"]
    (call,) = [part for part in fact.parts if isinstance(part, ToolCall)]
    assert (call.id, call.name, call.arguments.value) == ("t_1", "f", {"a": 1})
    assert (reading.turn, reading.calls_to_run) == ("ended", ("t_1",))
    assert (reading.findings, reading.leftovers, reading.fragments) == ((), (), ())


@each_api
def test_the_text_of_the_stream_says_the_same(make: Maker, events: list[Any], error: Any) -> None:  # noqa: ARG001
    text = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    assert assembled(make, [text[n : n + 11] for n in range(0, len(text), 11)]) == assembled(make, events)


@each_api
def test_a_cut_stream_keeps_what_is_whole(make: Maker, events: list[Any], error: Any) -> None:  # noqa: ARG001
    for end in range(3):
        reading = assembled(make, events[:end])
        (fact,) = reading.facts
        assert (fact.kind, reading.turn, reading.calls_to_run) == ("reply_cut", "cut", ())
        assert len(reading.findings) == len(reading.fragments)


@each_api
def test_an_error_cuts_the_reply_and_is_kept(make: Maker, events: list[Any], error: Any) -> None:
    reading = assembled(make, [*events[:2], error, *events[2:]])
    (fact,) = reading.facts
    assert fact.kind == "reply_cut"
    assert fact.error is not None
    assert fact.error.endswith(": slow down")
    assert not fact.refused
    assert [left.reason for left in reading.leftovers] == ["error event"] + ["unexpected event"] * len(
        events[2:]
    )


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (Keyed, {"validationException": {"message": "no"}}),
        (Endless, {"error": {"status": "INVALID_ARGUMENT", "message": "no"}}),
    ],
)
def test_an_error_of_the_request_before_the_reply_refuses_it(make: Maker, error: Any) -> None:
    reading = assembled(make, [error])
    assert reading.turn == "refused"
    assert reading.facts[0].refused  # type: ignore[union-attr]


def test_a_pair_that_the_table_does_not_have_is_a_leftover() -> None:
    again = assembled(Keyed, [KEYED_EVENTS[0], KEYED_EVENTS[0], {"novelty": {}}, {}])
    assert [left.reason for left in again.leftovers] == ["unexpected event", "unknown event", "unknown event"]


def test_a_limit_cuts_the_last_call_of_a_choice() -> None:
    reading = assembled(Chunks, [*CHAT_EVENTS[:4], like_chat({}, "model_length")])
    assert [(fragment.call_id, fragment.reason) for fragment in reading.fragments] == [
        ("t_1", "model_length")
    ]
    assert reading.calls_to_run == ()
