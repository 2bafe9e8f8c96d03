"""Anthropic stream events -> the facts of one reply.

A block is part of the reply once its `content_block_stop` has come; whatever else began is a fragment, and so
is a closed call whose input the reply's end cut off.
https://platform.claude.com/docs/en/build-with-claude/streaming
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.anthropic import wire
from normalizer.providers.anthropic.deltas import ContentBlock
from normalizer.reading.stream_assembler import State, StreamAssembler, Table, in_states
from normalizer.reading.stream_blocks import Blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Unpack

    from normalizer.parts import Part
    from normalizer.reading.stream_assembler import About, Event, Step

SILENT: Final = frozenset({"ping", "text", "input_json", "citation", "thinking", "signature", "compaction"})
"""Keep-alives, and what the SDK's MessageStream fires beside raw events. SDK: lib/streaming/_beta_types.py"""

# Events to which the same helper adds a snapshot of what was assembled so far.
_SNAPSHOTS: Final = {"content_block_stop": {"content_block"}, "message_stop": {"message"}}

# Errors by which the API refuses the request itself. https://platform.claude.com/docs/en/api/errors
_REFUSING: Final = frozenset(
    {
        "invalid_request_error",
        "authentication_error",
        "billing_error",
        "permission_error",
        "not_found_error",
        "request_too_large",
    }
)

# The keys with which blocks begin on the wire. The SDK's objects have an order of their own.
_FIRST_KEYS: Final = ("type", "id", "tool_use_id", "name", "input", "text", "thinking", "signature")


class Assembler(StreamAssembler):
    """Collects the events of one reply."""

    def __init__(self, **about: Unpack[About]) -> None:
        super().__init__(TABLE, **about)
        self.reply = Message()

    def story(self) -> Sequence[Message]:
        """The reply alone."""
        return (self.reply,)

    def dumped(self, event: Any) -> dict[str, Any]:
        """An event object of the SDK as it was on the wire: its own names and order of keys, and no snapshots."""
        kind = getattr(event, "type", None)
        plain: dict[str, Any] = event.model_dump(
            mode="json", by_alias=True, exclude_unset=True, warnings=False,
            exclude=_SNAPSHOTS.get(kind) if isinstance(kind, str) else None,
        )  # fmt: skip
        block = plain.get("content_block")
        if isinstance(block, dict):
            plain["content_block"] = {key: block[key] for key in _FIRST_KEYS if key in block} | block
        return plain


class Message(Blocks[ContentBlock]):
    """The reply, as far as it came."""

    @property
    def model(self) -> str | None:
        """Who wrote the end of the reply: a fallback block names the model that took over.

        SDK: lib/streaming/_beta_messages.py relabels its snapshot in the same way.
        """
        named = [block.start.get("to") for block in self.whole() if block.type == "fallback"]
        models = [to.get("model") for to in named if isinstance(to, dict)]
        model = models[-1] if models else self.beside.get("model")
        return model if isinstance(model, str) else None

    def fields(self, parts: tuple[Part, ...]) -> dict[str, Any]:  # noqa: ARG002 - as the frame asks
        """The sandbox that the reply left open."""
        container = self.beside.get("container")
        found = container.get("id") if isinstance(container, dict) else None
        return {"container": found if isinstance(found, str) else None}

    def live(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """What stands behind the last fallback block: calls before it are void.

        https://platform.claude.com/docs/en/build-with-claude/refusals-and-fallback
        """
        cutoffs = [n for n, part in enumerate(parts) if part.kind == "opaque" and part.type == "fallback"]
        return parts[cutoffs[-1] + 1 :] if cutoffs else parts

    def learn(self, more: Event) -> None:
        """What an event says beside the content. Newer values replace older ones, null replaces none; counts of usage
        are replaced one by one.
        """
        into = self.beside
        for key, value in more.items():
            old = into.get(key)
            if value is None and old is not None:
                continue
            if key == "usage" and isinstance(value, dict) and isinstance(old, dict):
                fresh = {name: count for name, count in value.items() if count is not None or name not in old}
                into[key] = old | fresh
            else:
                into[key] = value


# ---------------------------------------------------------------- steps: False where the event makes no sense


def _message_start(assembler: Assembler, event: Event) -> bool:
    message = event.get("message")
    if not isinstance(message, dict):
        return False
    assembler.reply.learn({key: value for key, value in message.items() if key not in ("role", "content")})
    if message.get("content"):
        assembler.leave("content before the first block", message["content"])
    return True


def _block_start(assembler: Assembler, event: Event) -> bool:
    start = event.get("content_block")
    if not isinstance(start, dict):
        return False
    assembler.reply.begin(ContentBlock(_index(event), dict(start)))
    return True


def _block_delta(assembler: Assembler, event: Event) -> bool:
    block, delta = assembler.reply.at(_index(event)), event.get("delta")
    if block is None or not isinstance(delta, dict):
        return False
    if not block.change(delta):
        assembler.leave("unknown delta", event)
    return True


def _block_stop(assembler: Assembler, event: Event) -> bool:
    return assembler.reply.close(_index(event))


def _message_delta(assembler: Assembler, event: Event) -> bool:
    delta = event.get("delta")
    if not isinstance(delta, dict):
        return False
    assembler.reply.learn(delta)
    assembler.reply.learn({key: value for key, value in event.items() if key not in ("type", "delta")})
    if isinstance(delta.get("stop_reason"), str):
        assembler.reply.stop_reason = delta["stop_reason"]
    return True


def _message_stop(_assembler: Assembler, _event: Event) -> bool:
    return True


def _error(assembler: Assembler, event: Event) -> bool:
    began = assembler.state is not State.NEW
    assembler.reply.failure = assembler.fail(event.get("error"), event, began=began)
    return True


def _index(event: Event) -> int | None:
    index = event.get("index")
    return index if isinstance(index, int) else None


# Logs may begin in mid-stream, so blocks are taken before `message_start` too; an error ends everything.
STEPS: Final[dict[tuple[State, str], tuple[Step, State]]] = {
    (State.NEW, "message_start"): (_message_start, State.OPEN),
    **in_states(
        (State.NEW, State.OPEN),
        {
            "content_block_start": (_block_start, State.OPEN),
            "content_block_delta": (_block_delta, State.OPEN),
            "content_block_stop": (_block_stop, State.OPEN),
            "message_delta": (_message_delta, State.OPEN),
            "message_stop": (_message_stop, State.OVER),
            "error": (_error, State.FAILED),
        },
    ),
}
TABLE: Final = Table(
    provider=wire.PROVIDER,
    api=wire.API,
    source="anthropic",
    steps=STEPS,
    silent=SILENT,
    refusing=_REFUSING,
    refused="cut",  # here a refused turn is one in which the model refused to answer
    turns={"pause_turn": "paused", "compaction": "paused", "refusal": "refused"},
    runs=frozenset({"tool_use"}),
)
