"""What a stream delivered, block by block: just enough to judge a request by it.

It shares nothing with the reader of streams. Nothing here raises, whatever the events are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.anthropic import wire
from normalizer.providers.anthropic.rules import view

if TYPE_CHECKING:
    from collections.abc import Iterator

    from normalizer.rules import Context

TRUNCATING: Final = frozenset({"max_tokens", "model_context_window_exceeded"})
# Each kind of delta: the key of what it adds.
_DELTAS: Final = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}


@dataclass(slots=True)
class Streamed:
    """One block: as it started, the text that its deltas added up to, and whether it was closed."""

    start: view.Block
    pieces: list[str] = field(default_factory=list)
    closed: bool = False

    @property
    def kind(self) -> str:
        """The type of the block."""
        return view.kind(self.start)

    @property
    def id(self) -> str:
        """The id of a call."""
        return view.text(self.start.get("id"))

    @property
    def text(self) -> str:
        """What the start and the deltas add up to: text, thinking or the JSON text of an input."""
        return view.text(self.start.get(self.kind)) + "".join(self.pieces)

    @property
    def parses(self) -> bool:
        """Whether the text is whole JSON."""
        try:
            json.loads(self.text)
        except (ValueError, RecursionError):
            return False
        return True


@dataclass(slots=True)
class Stream:
    """A stream so far; `broken`: an error event came."""

    blocks: dict[Any, Streamed] = field(default_factory=dict)
    stop_reason: str | None = None
    container: str | None = None
    broken: bool = False

    @property
    def cut(self) -> bool:
        """Whether the reply did not come to its end: no stop reason came, or an error."""
        return self.stop_reason is None or self.broken

    def of_type(self, *kinds: str) -> Iterator[Streamed]:
        """The blocks of these types, in order of their arrival."""
        return (block for block in self.blocks.values() if block.kind in kinds)

    def take(self, event: view.Block) -> None:
        """Take one event; what is not known changes nothing."""
        index = event.get("index")
        block = self.blocks.get(index) if isinstance(index, int) else None
        delta = event.get("delta")
        match event.get("type"):
            case "message_start":
                self._note_container(view.member(event, "message", "container"))
            case "content_block_start" if isinstance(index, int) and isinstance(
                event.get("content_block"), dict
            ):
                self.blocks[index] = Streamed(event["content_block"])
            case "content_block_delta" if block is not None:
                key = _DELTAS.get(view.text(view.member(delta, "type")))
                block.pieces.append(view.text(view.member(delta, key)) if key else "")
            case "content_block_stop" if block is not None:
                block.closed = True
            case "message_delta":
                self.stop_reason = view.text(view.member(delta, "stop_reason")) or self.stop_reason
                self._note_container(view.member(delta, "container"))
            case "error":
                self.broken = True

    def _note_container(self, container: Any) -> None:
        self.container = view.text(view.member(container, "id")) or self.container


def stream(context: Context) -> Stream | None:
    """The stream of the context, None if there is none."""
    events = context.get("stream")
    if not isinstance(events, list):
        return None
    found = Stream()
    for event in events:
        if isinstance(event, dict) and not found.broken:
            found.take(event)
    return found


def unfinished_calls(found: Stream) -> dict[str, Streamed]:
    """The client calls that never came whole, by id: not closed, or closed by a limit or a refusal."""
    calls = {block.id: block for block in found.of_type("tool_use") if not block.closed}
    last = truncated_call(found)
    return calls if last is None else {**calls, last.id: last}


def truncated_call(found: Stream) -> Streamed | None:
    """The closed call in whose input a limit or a refusal cut the reply."""
    last = next(reversed(found.blocks.values()), None)
    if last is None or last.kind != "tool_use" or not last.closed or last.parses:
        return None
    return last if found.stop_reason in TRUNCATING | {"refusal"} else None


def answered_server_calls(found: Stream) -> frozenset[str]:
    """The ids of the server calls whose result came whole."""
    results = (block for block in found.of_type(*wire.SERVER_RESULTS) if block.closed)
    return frozenset(view.text(block.start.get("tool_use_id")) for block in results)
