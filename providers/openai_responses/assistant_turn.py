"""A model's reply as items.

What was received from this API is replayed as received. Reasoning and the item that it led to are one unit: if the
item is left out, so is the reasoning, and what else the response brought after it goes without ids, or not at all
where its type needs one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from normalizer.parts import Json
from normalizer.projecting.draft import Spoken
from normalizer.projecting.unmapped_fields import remainder
from normalizer.providers.openai_responses import (
    calls,
    decoding,
    encoding,
    reasoning,
    schema_keys,
    units,
    wire,
)

if TYPE_CHECKING:
    from normalizer.projecting.draft import Draft, Piece, Value
    from normalizer.providers.openai_responses.context import ItemsContext, Reply


def encode(items: ItemsContext, piece: Piece, draft: Draft) -> None:
    """A text, call, medium or unknown part: its item, or the report that it is left out."""
    reply: Reply = draft.wire
    if piece.number <= reply.covered:  # the message before it holds it
        return
    if _is_message(piece.part):
        reply.covered = piece.number + decoding.pieces_behind(piece.part)
    match piece.part.kind:
        case "text":
            _text(piece, draft)
        case "tool_call":
            _call(items, piece, draft)
        case "media":
            message = "a file in a reply has no form here"
            draft.drop(piece, "dropped_server_tool", message, "OAR-CONTENT-001")
        case _:
            _opaque(items, piece, draft)
    units.unique(items, piece, draft)


def settle(items: ItemsContext, draft: Draft) -> None:
    """Which reasoning goes back, and what goes or stays as one."""
    for piece in draft.pieces:
        if piece.part.kind == "reasoning":
            reasoning.choose(items, piece, draft)
            units.unique(items, piece, draft)
    units.settle(items, draft)


def messages(items: ItemsContext, draft: Draft) -> list[Spoken]:
    """The items of the reply, with the calls in them."""
    if len(draft.as_text) > 1:
        order = draft.entry.calls
        draft.as_text.sort(key=lambda answered: order.index(answered.call.key))
    kept = [piece for piece in draft.pieces if piece.value is not None]
    draft.wire.items = len(kept)
    if not kept:
        return []
    made = [items.calls[piece.key or ""] for piece in kept if piece.part.kind == "tool_call"]
    return [Spoken([piece.value for piece in kept if piece.value is not None], made)]


# ---------------------------------------------------------------- messages and items of other kinds


def _is_message(part: Any) -> bool:
    raw = part.raw.value if getattr(part, "raw", None) is not None else None
    return isinstance(raw, dict) and decoding.kind(raw) == "message"


def _text(piece: Piece, draft: Draft) -> None:
    """Text of the model: the message as received, or the short form."""
    part = piece.part
    if _is_message(part):
        piece.value = _message(part.raw.value, draft)
    elif not draft.own and not part.text.strip():
        draft.drop(piece, "dropped_empty", "a blank text is left out", "OAR-STRUCT-004")
    else:
        piece.value = {"role": "assistant", "content": encoding.limited(part.text)}
        if (rest := remainder(part.raw, part.text)) is not None:
            message = "what stands beside a text does not go to this API"
            draft.note("trimmed", message, "OAR-STRUCT-005", rest)


def _replayed(raw: Value, draft: Draft) -> Value:
    return schema_keys.replay(raw, draft.reports, draft.entry.fact.fact_id)


def _message(raw: Value, draft: Draft) -> Value:
    """A message of the model's, which has the role of one."""
    replayed = _replayed(raw, draft)
    if replayed.get("role") == "assistant":
        return replayed
    message = "the message of a reply goes back in the role of the assistant"
    draft.note("trimmed", message, "OAR-STRUCT-002", Json.of(replayed.get("role")).text)
    return {**replayed, "role": "assistant"}


def _opaque(items: ItemsContext, piece: Piece, draft: Draft) -> None:
    """Items of other kinds."""
    part = piece.part
    raw: Any = part.raw.value
    if part.type == "refusal" and isinstance(raw, dict) and isinstance(raw.get("refusal"), str):
        refusal = {"type": "refusal", "refusal": raw["refusal"]}
        piece.value = {"type": "message", "role": "assistant", "content": [refusal]}
    elif not draft.own or part.type in wire.FOREIGN or not isinstance(raw, dict):
        message = f"a block of type {part.type!r} is no item of this API"
        draft.drop(piece, "dropped_fragment", message, "OAR-STRUCT-005")
    elif part.type == "item_reference" and items.options.stored is False:
        message = "nothing is stored that it could point to"
        draft.drop(piece, "dropped_fragment", message, "OAR-STATE-006")
    elif part.type == "compaction" and items.options.account == "other":
        message = "a compaction is bound to the account that it was made in"
        draft.drop(piece, "foreign_signature", message, "OAR-REASON-006")
    elif part.type == "message" and not isinstance(raw.get("content"), str | list):
        draft.drop(piece, "dropped_empty", "a message that says nothing is left out", "OAR-STRUCT-004")
    else:
        made = _message if part.type == "message" else _replayed
        piece.value = made(raw, draft)
        if part.type in wire.ITEMS and not schema_keys.complete(piece.value):
            message = f"a {part.type} item lacks what its type demands"
            draft.drop(piece, "dropped_fragment", message, "OAR-STRUCT-008")


# ---------------------------------------------------------------- calls


def _call(items: ItemsContext, piece: Piece, draft: Draft) -> None:
    """A call of ours and what is sent of it; one without a truthful output is rendered as text."""
    call = items.calls[piece.key or ""]
    answered = items.results.answer(call, draft)
    value = calls.item(items, call, piece.part, draft)
    draft.answers[call.key] = answered
    if (answered.value is None and not answered.open) or not schema_keys.complete(value):
        units.as_text(items, piece, draft, "its output has no place for what is known of it")
        return
    piece.value = value
