"""A model's reply as the blocks of an assistant message.

What was received from this API is replayed as received. What may not go back (thinking of another model or
over another prefix, an unanswered server call, a refused turn) is left out whole and reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.parts import Json
from normalizer.projection import Adjustment
from normalizer.providers.anthropic import encoding, reasoning, server_tools, wire
from normalizer.reading import sanitizing
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from normalizer.parts import ToolCall
    from normalizer.projecting.incremental import Rendering, Step
    from normalizer.providers.anthropic.render import Flow, Out, Renderer
    from normalizer.transcript import Entry

WRAPPED: Final = "INVALID_JSON"
"""The key under which arguments that are no JSON object are sent."""


def render(renderer: Renderer, step: Step, flow: Flow, before: Rendering[Any], out: Out) -> None:
    """Fill `out` with the reply's blocks and the calls that want a result."""
    entry = step.reply
    assert entry is not None  # noqa: S101 - the caller has looked
    fact = entry.fact
    out.string = getattr(fact, "string", False)
    if getattr(fact, "stop_reason", None) == "refusal":
        _left_out_whole(renderer, step, flow, out, "the reply ended in a refusal", "ANT-REF-001")
        return
    if fact.kind == "reply_cut" and flow.held and not server_tools.brings(entry, flow.held):
        _left_out_whole(
            renderer, step, flow, out, "it was cut before the result that it was to bring", "ANT-STR-007"
        )
        return
    if fact.kind == "reply_cut" and not entry.parts:
        return
    encoding.note_message(out, entry)
    pieces: list[Piece] = []
    simple = True
    keys_of = iter(entry.calls)
    part: Any
    for part in entry.parts:
        kind = part.kind
        if kind == "text":
            text = part.text
            if not text or text.isspace():
                encoding.left_out(
                    entry, out, "dropped_empty", "a blank text is left out", "ANT-BLK-002", part
                )
                # what models write between blocks and the API does not take back is no change of its own
                out.changed = True
                continue
            pieces.append(Piece(part, None, encoding.spoken(part, out, entry)))
        elif kind == "tool_call":
            key = next(keys_of)
            if key is None:
                _repeated(entry, part, out)
                continue
            pieces.append(Piece(part, key, _call_block(renderer, entry, key, part, out)))
            if simple and part.raw is not None and server_tools.caller(part) is not None:
                simple = False
        else:
            simple = False
            key = next(keys_of) if kind in ("server_tool_call", "server_tool_result") else None
            pieces.append(Piece(part, key, None))
    if not simple:
        _choose(renderer, step, flow, before, entry, pieces, out)
    if fact.kind == "reply_cut":
        _trim_end(entry, pieces, out)
    calls = renderer.calls
    for piece in pieces:
        if piece.block is not None:
            out.blocks.append(piece.block)
            if piece.part.kind == "tool_call":
                out.calls.append(calls[piece.key])  # type: ignore[index]


class Piece:
    """One part of a reply on its way: its key if it is a call or a server's result, its block unless left out."""

    __slots__ = ("block", "changed", "key", "part")

    def __init__(self, part: Any, key: str | None, block: dict[str, Any] | None) -> None:
        self.part = part
        self.key = key
        self.block = block
        self.changed = False


def _call_block(renderer: Renderer, entry: Entry, key: str, part: ToolCall, out: Out) -> dict[str, Any]:
    """A client call: as received, with the id and name that it has on the wire and arguments as an object."""
    wire_id = renderer.ids[key]
    name = part.name
    if renderer.head.names:
        name = renderer.head.names.get(name, name)
    if wire_id != part.id:
        out.notes.append(
            Adjustment("renamed_id", f"the id {named(part.id)} of call {named(key)} is sent as {named(wire_id)}",
                       "ANT-PAIR-005" if part.id and wire.CALL_ID.fullmatch(part.id) else "ANT-ID-001", key,
                       (entry.fact.fact_id,))
        )  # fmt: skip
        out.changed = True
    arguments = part.arguments
    given = _input(arguments)
    own: Any = part.raw.value if part.raw is not None else None
    native = isinstance(own, dict) and own.get("type") == "tool_use"
    if WRAPPED in given or (native and type(own.get("input")) is not dict):
        out.notes.append(
            Adjustment("trimmed",
                       f"the arguments of call {named(key)} are not the object that the API wants; they are sent "
                       f"{'wrapped, as they are' if WRAPPED in given else 'as one'}", "ANT-ID-004", key,
                       (entry.fact.fact_id,), arguments.text)
        )  # fmt: skip
        out.changed = True
    elif arguments._text is not None and arguments.valid and sanitizing.repeats(arguments._text, given):  # noqa: SLF001
        out.notes.append(
            Adjustment("trimmed", f"the arguments of call {named(key)} give a key twice; the last value is sent",
                       "ANT-ID-004", key, (entry.fact.fact_id,), arguments.text)
        )  # fmt: skip
        out.changed = True
    if native:
        block = encoding.replay(own, out, entry)
        if (toolset := block.get("toolset_name")) is not None and not wire.word(block, "toolset_name"):
            out.notes.append(
                Adjustment("trimmed", f"the toolset of call {named(key)} is no name", "ANT-PAIR-010", key,
                           (entry.fact.fact_id,), Json.of(toolset).text)
            )  # fmt: skip
            out.changed = True
            block = {k: v for k, v in block.items() if k != "toolset_name"}
        if block.get("id") == wire_id and block.get("name") == name and type(block.get("input")) is dict:
            return block
        return {**block, "id": wire_id, "name": name, "input": given}
    encoding.note_rest(
        out, entry, part.raw, part.id, part.name, arguments.text, given, call_id=key, what="call"
    )
    return {"type": "tool_use", "id": wire_id, "name": name, "input": given}


def _input(arguments: Json) -> dict[str, Any]:
    """Arguments as the object that the API wants; a text that is no object is wrapped, never completed.

    https://platform.claude.com/docs/en/agents-and-tools/tool-use/fine-grained-tool-streaming
    """
    value = arguments._value  # noqa: SLF001 - the usual case without a property call
    if type(value) is dict:
        return value
    if not arguments.text.strip() or arguments.text.strip() == "null":
        return {}
    if arguments.valid and isinstance(arguments.value, dict):
        return arguments.value
    return {WRAPPED: arguments.text}


def _repeated(entry: Entry, part: ToolCall, out: Out) -> None:
    out.notes.append(
        Adjustment("merged", f"call {named(part.id)} stands twice in one reply and is sent once",
                   "ANT-PAIR-005", part.id,
                   (entry.fact.fact_id,))
    )  # fmt: skip
    out.changed = True


def _left_out_whole(renderer: Renderer, step: Step, flow: Flow, out: Out, why: str, because: str) -> None:
    """A refused turn, or the cut continuation of an open server call, is no history.

    What its calls did is told in words.

    The server can still go on with a call that was open before it.
    """
    entry = step.reply
    assert entry is not None  # noqa: S101 - the caller has looked
    out.changed = True
    out.container = flow.container
    out.open_tail = bool(flow.held) and server_tools.waits(step)
    out.notes.append(
        Adjustment(
            "dropped_turn",
            f"{why}: it is left out whole",
            because,
            facts=(entry.fact.fact_id,),
            content=Json.of([_content(p) for p in entry.parts]).text if entry.parts else None,
        )
    )
    for key in entry.calls:
        call = renderer.calls.get(key or "")
        if call is not None:
            out.told_aside.append(call)


def _content(part: Any) -> Any:
    raw = getattr(part, "raw", None)
    return raw.value if raw is not None else getattr(part, "text", None) or getattr(part, "name", "")


def _trim_end(entry: Entry, pieces: list[Piece], out: Out) -> None:
    """The last text of a cut reply loses the white space at its end, wherever it stands."""
    last = next((p for p in reversed(pieces) if p.block is not None), None)
    if last is None or last.part.kind != "text" or last.block is None:
        return
    text = last.block["text"]
    if text != text.rstrip():
        last.block = {**last.block, "text": text.rstrip()}
        out.changed = True
        out.notes.append(
            Adjustment("trimmed", "white space at the end of a cut text", "ANT-MSG-006",
                       facts=(entry.fact.fact_id,), content=text)
        )  # fmt: skip


# ---------------------------------------------------------------- replies with more than text and calls


def _choose(
    renderer: Renderer,
    step: Step,
    flow: Flow,
    before: Rendering[Any],
    entry: Entry,
    pieces: list[Piece],
    out: Out,
) -> None:
    """Decide about reasoning, server calls, uploads and blocks of other kinds."""
    own = entry.fact.api in (None, wire.API)
    border = _last_fallback(pieces)
    for at, piece in enumerate(pieces):
        part = piece.part
        if part.kind == "opaque":
            _opaque(entry, piece, out, own=own, before_fallback=at < border)
        elif part.kind == "media":
            drop(entry, piece, out, "dropped_server_tool", "a file that the reply holds may not go back in it",
                 "ANT-ROLE-009")  # fmt: skip
        elif part.kind == "tool_call" and at < border:
            drop(entry, piece, out, "dropped_turn", "a call before a fallback block is void", "ANT-REF-005")
            call = renderer.calls.get(piece.key or "")
            if call is not None:
                out.told_aside.append(call)
    server_tools.choose(renderer, step, flow, entry, pieces, out, own=own, border=border)
    reasoning.choose(renderer, step, flow, before, entry, pieces, out, border=border)
    while (last := next((p for p in reversed(pieces) if p.block is not None), None)) is not None:
        if last.part.kind != "reasoning":
            break
        drop(entry, last, out, "dropped_reasoning", "reasoning may not be the last block", "ANT-THK-007")


def _last_fallback(pieces: list[Piece]) -> int:
    """Where the last fallback block stands; -1 if there is none."""
    return max(
        (n for n, p in enumerate(pieces) if p.part.kind == "opaque" and p.part.type == "fallback"), default=-1
    )


def _opaque(entry: Entry, piece: Piece, out: Out, *, own: bool, before_fallback: bool) -> None:
    part = piece.part
    block = part.raw.value
    if before_fallback and part.type == "connector_text":
        drop(
            entry,
            piece,
            out,
            "dropped_fragment",
            "a connector's text before a fallback block goes",
            "ANT-REF-005",
        )
    elif not own or part.type in encoding.FOREIGN or not part.type or part.type in wire.USER_BLOCKS:
        drop(
            entry,
            piece,
            out,
            "dropped_fragment",
            f"a block of type {part.type!r} is none of this API",
            "ANT-MSG-003",
        )
    elif part.type == "compaction" and block.get("content") == "":
        drop(entry, piece, out, "dropped_empty", "an empty compaction", "ANT-CTX-005")
    elif part.type in wire.SERVER_CALLS or part.type in wire.THINKING:
        drop(entry, piece, out, "dropped_fragment", f"a {part.type} block is broken", "ANT-MSG-003")
    else:
        piece.block = encoding.replay(block, out, entry)
        if part.type in wire.BETAS:
            out.betas.add(part.type)


def drop(entry: Entry, piece: Piece, out: Out, kind: Any, message: str, because: str) -> None:
    """Leave a piece out, and say so."""
    part = piece.part
    raw = getattr(part, "raw", None)
    piece.block = None
    piece.changed = True
    out.changed = True
    out.notes.append(
        Adjustment(
            kind, message, because, piece.key or getattr(part, "call_id", None), (entry.fact.fact_id,),
            raw.text if raw is not None else getattr(part, "text", None) or _call_text(part),
        )
    )  # fmt: skip


def _call_text(part: Any) -> str | None:
    return f"{part.name} {part.arguments.text}" if part.kind == "tool_call" else None


def text_of(blocks: list[dict[str, Any]]) -> str:
    """Blocks as one JSON text, for a report."""
    return Json.of(blocks).text


__all__ = ["Piece", "drop", "render", "text_of"]
