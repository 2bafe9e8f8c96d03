"""A model's reply as the blocks of one assistant message.

What was received from this API is replayed as received. What may not go back (thinking of another model or over another
prefix, an unanswered server call) is left out whole and reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from normalizer.parts import Json
from normalizer.projecting.draft import Spoken
from normalizer.providers.anthropic import calls, encoding, reasoning, server_tools, system_messages, wire
from normalizer.providers.anthropic.context import handed, notes_of
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from normalizer.projecting.draft import Draft, Flow, Piece, Value
    from normalizer.projecting.incremental import Rendering
    from normalizer.providers.anthropic.context import ClaudeContext
    from normalizer.transcript import Call


def encode(claude: ClaudeContext, piece: Piece, draft: Draft) -> None:
    """A text, call, medium or unknown part: its block, or the report that it is left out."""
    part = piece.part
    match part.kind:
        case "text":
            if not part.text or part.text.isspace():
                draft.drop(piece, "dropped_empty", "a blank text is left out", "empty")
            else:
                piece.value = encoding.text_block(part, draft, draft.entry)
        case "tool_call":
            piece.value = calls.block(claude, piece.key or "", part, draft)
        case "media":
            message = "a file that the reply holds may not go back in it"
            draft.drop(piece, "dropped_server_tool", message, "ANT-ROLE-009")
        case _:
            _opaque(piece, part, draft)


def _opaque(piece: Piece, part: Any, draft: Draft) -> None:
    """A block without a part of its own: replayed, if it is one of this API."""
    block = part.raw.value
    if piece.number < draft.cutoff and part.type == "connector_text":
        message = "a connector's text before a fallback block goes"
        draft.drop(piece, "dropped_fragment", message, "before-fallback")
    elif not draft.own or part.type in encoding.FOREIGN or not part.type or part.type in wire.USER_BLOCKS:
        message = f"a block of type {part.type!r} is none of this API"
        draft.drop(piece, "dropped_fragment", message, "foreign-block")
    elif part.type == "compaction" and block.get("content") == "":
        draft.drop(piece, "dropped_empty", "an empty compaction", "ANT-CTX-005")
    elif part.type in wire.SERVER_CALLS or part.type in wire.THINKING:
        draft.drop(piece, "dropped_fragment", f"a {part.type} block is broken", "foreign-block")
    else:
        piece.value = encoding.replay(block, draft, draft.entry)
        if part.type in wire.BETAS:
            notes_of(draft).betas.add(part.type)


def settle(claude: ClaudeContext, flow: Flow, before: Rendering[Any], draft: Draft) -> None:
    """Which of the server's calls stay, then which reasoning does.

    Blank texts are no blocks: what models write between blocks, and the API does not take back, parts nothing.
    """
    pieces = [piece for piece in draft.pieces if piece.part.kind != "text" or piece.value is not None]
    server_tools.settle(claude, flow, pieces, draft)
    reasoning.settle(claude, flow, before, pieces, draft)
    while (last := next((p for p in reversed(pieces) if p.value is not None), None)) is not None:
        if last.part.kind != "reasoning":
            break
        draft.drop(last, "dropped_reasoning", "reasoning may not be the last block", "ANT-THK-007")


def spoken(claude: ClaudeContext, flow: Flow, draft: Draft) -> list[Spoken]:
    """The reply as one message, with system messages that were to stand before it."""
    blocks: list[Value] = []
    asked: list[Call] = []
    for piece in draft.pieces:
        if piece.value is not None:
            blocks.append(piece.value)
            if piece.part.kind == "tool_call":
                asked.append(claude.calls[piece.key or ""])
    if not blocks:
        return []
    before, found = handed(flow), []
    if not before.started and not _begins(claude, blocks, asked, draft):
        return []
    if before.system and (before.after_user or before.after_result):
        found = system_messages.made(claude, before.system, draft)
        notes_of(draft).told = True
    content: Any = blocks
    if len(blocks) == 1 and len(blocks[0]) == 2 and getattr(draft.entry.fact, "string", False):
        content = blocks[0]["text"]
    return [Spoken([*found, {"role": "assistant", "content": content}], asked)]


def _begins(claude: ClaudeContext, blocks: list[Value], asked: list[Call], draft: Draft) -> bool:
    """Whether a reply may begin the request: once sent so for good, after a compaction, or where nobody else may."""
    after = draft.step.after or ""
    if (
        claude.history.chosen("first", after)
        or blocks[0].get("type") == "compaction"
        or claude.beginning.leads
    ):
        draft.choices.append(("first", after, None))
        return True
    message = "the beginning of the history is cut off: a reply that no message stands before is left out"
    draft.note("dropped_turn", message, "ANT-ROLE-010", Json.of(blocks).text)
    for call in asked:
        draft.reports.add(
            "dropped_orphan", f"call {named(call.key)} goes with it", "ANT-ROLE-010", call_id=call.key,
            facts=tuple(f.fact_id for f in call.facts), content=_recorded(call),
        )  # fmt: skip
    draft.held.clear()
    draft.open_tail = False
    return False


def _recorded(call: Call) -> str | None:
    """The recorded content of a call's result as text, for a report."""
    contents = (getattr(fact, "content", None) for fact in call.facts)
    content = next((found for found in contents if found is not None), None)
    if content is None or isinstance(content, str):
        return content
    return Json.of([encoding.block_of(part) for part in content]).text
