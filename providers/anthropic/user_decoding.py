"""What stands on the user's side of a history -> facts: words, results of calls, and what only a model writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.notices import MARK
from normalizer.parts import Json, Text
from normalizer.providers.anthropic.decoding import RESULT_KEYS, kept, part
from normalizer.reading import sanitizing
from normalizer.reading.result_content import result_content

if TYPE_CHECKING:
    from normalizer.parts import Part
    from normalizer.reading.fact_builder import Recorder

_OF_ASSISTANT: Final = frozenset({"tool_call", "server_tool_call", "server_tool_result", "reasoning"})


def record(recorder: Recorder, place: str, content: Any, number: int) -> None:
    """A user message: words and results, in the order of its blocks."""
    if type(content) is str:
        recorder.open_turn()
        _said(recorder, place, (Text(content),), number, string=True)
        return
    if not isinstance(content, list):
        recorder.no_content(place, content)
        return
    run: list[Part] = []
    start = 0
    opened = False
    for at, block in enumerate(content):
        if type(block) is dict and block.get("type") == "tool_result":
            if run:
                _said(recorder, f"{place}/content/{start}", tuple(run), number)
                run = []
            opened = True  # a message that answers calls goes on with their turn
            record_result(recorder, f"{place}/content/{at}", block, number)
        else:
            if not opened:
                opened = True
                if not any(type(b) is dict and b.get("type") == "tool_result" for b in content):
                    recorder.open_turn()
            start = start if run else at
            run.append(part(block))
    if run:
        _said(recorder, f"{place}/content/{start}" if start else place, tuple(run), number)
    elif not content:
        recorder.open_turn()
        _said(recorder, place, (), number)


def _said(
    recorder: Recorder, place: str, parts: tuple[Part, ...], number: int, *, string: bool = False
) -> None:
    """Words of the user's side, unless there is something among them that only a model writes."""
    if any(p.kind in _OF_ASSISTANT for p in parts) and not any(
        p.kind == "text" and p.text.startswith(MARK) for p in parts
    ):
        _misplaced(recorder, place, parts)
    else:
        recorder.said(place, parts, string=string, group=number)


def _misplaced(recorder: Recorder, place: str, parts: tuple[Part, ...]) -> None:
    """A user message that holds calls or reasoning: what only a model writes is not the user's.

    A call becomes a reply of its own, since nobody else can have made it; reasoning and a server's blocks are
    kept aside.
    """
    run: list[Part] = []
    for at, piece in enumerate(parts):
        if piece.kind == "tool_call":
            if run:
                recorder.user(f"{place}:{at}", tuple(run), group=None)
                run = []
            recorder.finding(
                "unknown_block", "a call stands in a user message", f"{place}:call{at}", piece.id
            )
            recorder.reply(f"{place}:call{at}", (piece,))
        elif piece.kind in _OF_ASSISTANT:
            recorder.finding("unknown_block", f"a {piece.kind} block stands in a user message", place)
            raw = getattr(piece, "raw", None)
            recorder.leftover(place, f"{piece.kind} in a user message", raw or getattr(piece, "text", ""))
        else:
            run.append(piece)
    if run:
        recorder.user(place, tuple(run), group=None)


def record_foreign_result(recorder: Recorder, place: str, message: dict[str, Any], number: int) -> None:
    """A result in a message of its own, as other APIs write it."""
    recorder.foreign_result(place, message)
    wire_id = next(
        (message[k] for k in ("tool_use_id", "tool_call_id") if isinstance(message.get(k), str)), None
    )
    rest = {k: v for k, v in message.items() if k not in ("role", "content") and v is not wire_id}
    if rest:
        recorder.leftover(place, "keys of a message that the API does not know", rest)
    block = {"type": "tool_result", "tool_use_id": wire_id, "content": message.get("content")}
    record_result(recorder, place, block, number, plain=False)


def record_result(
    recorder: Recorder, place: str, block: dict[str, Any], number: int | None, *, plain: bool = True
) -> None:
    """A client tool's result block."""
    content = block.get("content")
    flag = block.get("is_error")
    wire_id = block.get("tool_use_id")
    raw: Json | None = None
    if type(content) is not str:
        recorder.bare_texts(f"{place}/content", content)
        content, raw = result_content(content, part), kept(block)
    elif "\0" in content:
        raise sanitizing.Unclean
    if plain:
        keys = list(block)
        if keys not in RESULT_KEYS or (len(keys) == 4 and flag is not True):
            raw = kept(block)
    else:
        raw = None
    if type(wire_id) is not str:
        wire_id = None if wire_id is None else str(wire_id)
    if wire_id and wire_id in recorder.server_ids:
        recorder.servers_result(place, wire_id, block)
        return
    recorder.result(place, wire_id, content, is_error=flag is True, raw=raw, group=number)
