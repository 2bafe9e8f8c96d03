"""Anthropic stream events -> the facts of one reply.

A block is part of the reply once its `content_block_stop` has come; whatever else began is a fragment, and so
is a closed call whose input the reply's end cut off. What no step takes is a leftover, so that everything
that came is somewhere. https://platform.claude.com/docs/en/build-with-claude/streaming
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from normalizer.facts import ModelReplied, ReplyCut
from normalizer.findings import Leftover, Reading
from normalizer.parts import Json
from normalizer.providers.anthropic import wire
from normalizer.providers.anthropic.deltas import CALLS, Block
from normalizer.reading.diagnostics import dump_any
from normalizer.reading.stream_assembler import Collector
from normalizer.reading.truncation import CUT_SHORT, begins_json
from normalizer.util.text import excerpt

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


Event: TypeAlias = Mapping[str, Any]
TurnWord: TypeAlias = Literal["ended", "paused", "cut", "refused"]

SILENT: Final = frozenset({"ping", "text", "input_json", "citation", "thinking", "signature", "compaction"})
"""Keep-alives, and what the SDK's MessageStream fires beside raw events. SDK: lib/streaming/_beta_types.py"""

# Events to which the same helper adds a snapshot of what was assembled so far.
_SNAPSHOTS: Final = {"content_block_stop": {"content_block"}, "message_stop": {"message"}}

# Stop reasons after which the turn is something else than ended.
TURNS: Final[dict[str, TurnWord]] = {"pause_turn": "paused", "compaction": "paused", "refusal": "refused"}

# Errors by which the API refuses the request itself; before the reply begins nothing of it was read.
# https://platform.claude.com/docs/en/api/errors
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
_LONGEST_ERROR: Final = 200

# The keys with which blocks begin on the wire. The SDK's objects have an order of their own.
_FIRST_KEYS: Final = ("type", "id", "tool_use_id", "name", "input", "text", "thinking", "signature")


class State(Enum):
    """How far the stream is."""

    NEW = "new"
    OPEN = "open"
    OVER = "over"
    FAILED = "failed"


class Assembler(Collector):
    """Collects the events of one reply.

    `feed` takes a parsed `data` object, an event object of the SDK, or pieces of the SSE text, cut anywhere.
    The arguments are for the fact that `reading` makes of them.
    """

    def __init__(
        self,
        *,
        fact_id: str = "reply",
        seq: int = 1,
        turn_id: str | None = None,
        answers: str | None = None,
        source: str = "anthropic",
    ) -> None:
        super().__init__()
        self._about: Final[dict[str, Any]] = {
            "fact_id": fact_id,
            "seq": seq,
            "turn_id": turn_id,
            "answers": answers,
            "source": source,
            "provider": wire.PROVIDER,
            "api": wire.API,
        }
        self._state = State.NEW
        self._blocks: list[Block] = []
        self._open: dict[int | None, Block] = {}
        self._beside: dict[str, Any] = {}
        self._stop_reason: str | None = None
        self._error: str | None = None
        self._refused = False

    def _object(self, event: Any) -> None:
        if not hasattr(event, "model_dump"):
            self._leave("unknown event", event)
        elif getattr(event, "type", None) not in SILENT:
            self._take(_plain(event))

    def _take(self, event: Event) -> None:
        """Let the table decide what the event means here."""
        kind = event.get("type")
        if isinstance(kind, str) and kind in SILENT:
            return
        taken = self._cleaned(event)
        if taken is None:
            return
        event = taken
        if not isinstance(kind, str) or kind not in EVENTS:
            self._leave("unknown event", event)
            return
        step, state = STEPS.get((self._state, kind), (None, self._state))
        if step is None or not step(self, event):
            self._leave("unexpected event", event)
            return
        self._state = state

    # ------------------------------------------------------------ steps: False where the event makes no sense

    def _message_start(self, event: Event) -> bool:
        message = event.get("message")
        if not isinstance(message, dict):
            return False
        self._beside = {key: value for key, value in message.items() if key not in ("role", "content")}
        if message.get("content"):
            self._leave("content before the first block", message["content"])
        return True

    def _block_start(self, event: Event) -> bool:
        start = event.get("content_block")
        if not isinstance(start, dict):
            return False
        block = Block(_index(event), dict(start))
        self._blocks.append(block)
        self._open[block.index] = block
        return True

    def _block_delta(self, event: Event) -> bool:
        block, delta = self._open.get(_index(event)), event.get("delta")
        if block is None or not isinstance(delta, dict):
            return False
        if not block.change(delta):
            self._leave("unknown delta", event)
        return True

    def _block_stop(self, event: Event) -> bool:
        block = self._open.pop(_index(event), None)
        if block is None:
            return False
        block.closed = True
        return True

    def _message_delta(self, event: Event) -> bool:
        delta = event.get("delta")
        if not isinstance(delta, dict):
            return False
        _merge(self._beside, delta)
        _merge(self._beside, {key: value for key, value in event.items() if key not in ("type", "delta")})
        if isinstance(delta.get("stop_reason"), str):
            self._stop_reason = delta["stop_reason"]
        return True

    def _message_stop(self, _event: Event) -> bool:
        return True

    def _fail(self, event: Event) -> bool:
        error = event.get("error")
        found = error if isinstance(error, dict) else {}
        kind = str(found.get("type") or "error")
        words = excerpt(str(found.get("message") or ""), _LONGEST_ERROR)
        self._error = f"{kind}: {words}" if words else kind
        self._refused = self._state is State.NEW and kind in _REFUSING
        self._leave("error event", event)
        return True

    # ------------------------------------------------------------ what has come so far

    def reading(self) -> Reading:
        """The facts of what has come so far, as if the stream ended here."""
        kept = [block for block in self._blocks if block.closed and not self._cut_inside(block)]
        broken = [block for block in self._blocks if not block.closed or self._cut_inside(block)]
        live = _behind_fallback(kept)
        fact = self._fact(kept)
        return Reading(
            format=wire.API,
            facts=(fact,),
            findings=(*self._findings, *(block.finding(fact.fact_id) for block in broken)),
            leftovers=(*self._leftovers, *_rests(broken), *self._unfinished()),
            fragments=tuple(block.fragment() for block in broken),
            home=wire.API,
            turn=TURNS.get(self._stop_reason or "", "ended") if self._ended else "cut",
            stop_reason=self._stop_reason,
            open_server_calls=_open_server_calls(live, kept),
            calls_to_run=_runnable(live) if self._ended and self._stop_reason == "tool_use" else (),
        )

    @property
    def _ended(self) -> bool:
        """Whether it is known how the reply ended. An error after the stop reason is a cut all the same."""
        return self._stop_reason is not None and self._state is not State.FAILED

    def _cut_inside(self, block: Block) -> bool:
        """Whether the reply's end cut off the input of a closed call. Only the last block can be hit.

        A limit or a refusal closes the call that it cuts, and then even an empty input is not whole. Where
        no stop reason came, that may be on its way: the beginning of a JSON text is not taken for all of it.
        """
        if not block.closed or block.type not in CALLS or block is not self._blocks[-1]:
            return False
        if self._stop_reason in CUT_SHORT:
            return not block.has_input
        return not self._ended and not block.has_input and begins_json(block.input_text)

    def _fact(self, kept: Sequence[Block]) -> ModelReplied | ReplyCut:
        container = self._beside.get("container")
        container_id = container.get("id") if isinstance(container, dict) else None
        about = self._about | {
            "parts": tuple(block.part() for block in kept),
            "model": self._model(kept),
            "container": container_id if isinstance(container_id, str) else None,
            "raw": Json.of(dict(self._beside)) if self._beside else None,
        }
        if self._ended:
            return ModelReplied(stop_reason=self._stop_reason, **about)
        return ReplyCut(error=self._error, refused=self._refused, **about)

    def _model(self, kept: Sequence[Block]) -> str | None:
        """Who wrote the end of the reply: a fallback block names the model that took over.

        SDK: lib/streaming/_beta_messages.py relabels its snapshot in the same way.
        """
        named = [block.start.get("to") for block in kept if block.type == "fallback"]
        models = [to.get("model") for to in named if isinstance(to, dict)]
        model = models[-1] if models else self._beside.get("model")
        return model if isinstance(model, str) else None


Step: TypeAlias = Callable[[Assembler, Event], bool]

# What an event does in each state, and the state behind it. An absent pair makes the event a leftover.
# Logs may begin in mid-stream, so blocks are taken before `message_start` too; an error ends everything.
_BODY: Final[dict[str, tuple[Step, State]]] = {
    "content_block_start": (Assembler._block_start, State.OPEN),  # noqa: SLF001 - the table of this class
    "content_block_delta": (Assembler._block_delta, State.OPEN),  # noqa: SLF001
    "content_block_stop": (Assembler._block_stop, State.OPEN),  # noqa: SLF001
    "message_delta": (Assembler._message_delta, State.OPEN),  # noqa: SLF001
    "message_stop": (Assembler._message_stop, State.OVER),  # noqa: SLF001
    "error": (Assembler._fail, State.FAILED),  # noqa: SLF001
}
STEPS: Final[dict[tuple[State, str], tuple[Step, State]]] = {
    (State.NEW, "message_start"): (Assembler._message_start, State.OPEN),  # noqa: SLF001
    **{(state, kind): step for state in (State.NEW, State.OPEN) for kind, step in _BODY.items()},
}
EVENTS: Final = frozenset(kind for _, kind in STEPS)


# ---------------------------------------------------------------- what is to do


def _behind_fallback(blocks: Sequence[Block]) -> Sequence[Block]:
    """What stands behind the last fallback block: calls before it are void.

    https://platform.claude.com/docs/en/build-with-claude/refusals-and-fallback
    """
    borders = [number for number, block in enumerate(blocks) if block.type == "fallback"]
    return blocks[borders[-1] + 1 :] if borders else blocks


def _open_server_calls(live: Sequence[Block], kept: Sequence[Block]) -> tuple[str, ...]:
    """Ids of the server's calls without a result."""
    answered = {part.call_id for block in kept if (part := block.part()).kind == "server_tool_result"}
    called = [part.id for block in live if (part := block.part()).kind == "server_tool_call"]
    return tuple(dict.fromkeys(wire_id for wire_id in called if wire_id and wire_id not in answered))


def _runnable(live: Sequence[Block]) -> tuple[str, ...]:
    """Ids of our calls whose arguments parse."""
    called = [part for block in live if (part := block.part()).kind == "tool_call"]
    return tuple(dict.fromkeys(part.id for part in called if part.id and part.arguments.valid))


# ---------------------------------------------------------------- events


def _rests(broken: Sequence[Block]) -> Iterator[Leftover]:
    """What began and says more than its fragment."""
    for block in broken:
        if block.says_more_than_fragment:
            value = {"index": block.index, "content_block": block.value()}
            yield Leftover("rest of a fragment", dump_any(value))


def _plain(event: Any) -> dict[str, Any]:
    """An event object of the SDK as it was on the wire: its own names and order of keys, and no snapshots."""
    kind = getattr(event, "type", None)
    plain: dict[str, Any] = event.model_dump(
        mode="json",
        by_alias=True,
        exclude_unset=True,
        warnings=False,
        exclude=_SNAPSHOTS.get(kind) if isinstance(kind, str) else None,
    )
    block = plain.get("content_block")
    if isinstance(block, dict):
        plain["content_block"] = {key: block[key] for key in _FIRST_KEYS if key in block} | block
    return plain


def _index(event: Event) -> int | None:
    index = event.get("index")
    return index if isinstance(index, int) else None


def _merge(into: dict[str, Any], more: Event) -> None:
    """Newer values replace older ones, null replaces none; counts of usage are replaced one by one."""
    for key, value in more.items():
        old = into.get(key)
        if value is None and old is not None:
            continue
        if key == "usage" and isinstance(value, dict) and isinstance(old, dict):
            fresh = {name: count for name, count in value.items() if count is not None or name not in old}
            into[key] = old | fresh
        else:
            into[key] = value
