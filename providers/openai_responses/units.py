"""What goes or stays as one: reasoning and what it led to, a server's call and its result, a program and its calls.

An item id stands once in a history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from normalizer.providers.openai_responses import calls, decoding, reasoning, schema_keys, wire
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from normalizer.projecting.draft import Draft, Piece, Value
    from normalizer.providers.openai_responses.context import ItemsContext
    from normalizer.transcript import ServerCall

_PAIR: Final = frozenset({"server_tool_call", "server_tool_result"})


def settle(items: ItemsContext, draft: Draft) -> None:
    """Leave out what cannot stay without what was left out, until nothing more goes."""
    _reasoning(items, draft)
    while _pairs(items, draft) or _inner_calls(items, draft):
        _reasoning(items, draft)


def as_text(items: ItemsContext, piece: Piece, draft: Draft, why: str, cause: str | None = None) -> None:
    """Leave a call out; what is known of it is rendered as text behind the reply."""
    call = items.calls[piece.key or ""]
    calls.note_rest(call.key, call.part, draft)
    items.results.leave_as_text(piece, draft, why, cause)


def unique(items: ItemsContext, piece: Piece, draft: Draft) -> None:
    """An item whose id stands in the history already goes without it, or not at all."""
    value = piece.value
    item_id = value.get("id") if value is not None else None
    if value is None or not isinstance(item_id, str):
        return
    if items.owns(item_id, draft.entry.fact.fact_id, piece.number):
        return
    kind, message = decoding.kind(value), f"the id {named(item_id)} stands in the history already"
    if kind not in wire.NEEDS_ID and kind not in ("item_reference", "reasoning"):
        draft.note("trimmed", message, "OAR-ID-006", item_id, piece.key)
        piece.value = schema_keys.without_id(value)
    elif piece.part.kind == "tool_call":
        as_text(items, piece, draft, "its id is used twice", "OAR-ID-006")
    else:
        draft.drop(piece, "merged", message, "OAR-ID-006")


def _reasoning(items: ItemsContext, draft: Draft) -> None:
    """Reasoning and what it led to go together; where reasoning is left out, what follows it loses its ids."""
    reasoning.led_to_nothing(draft)
    bare = False
    for piece in draft.pieces:
        if piece.part.kind == "reasoning":
            bare = piece.value is None
        elif bare and piece.value is not None and isinstance(piece.value.get("id"), str):
            _without_reasoning(items, piece, piece.value, draft)


def _without_reasoning(items: ItemsContext, piece: Piece, value: Value, draft: Draft) -> None:
    """An item whose reasoning is left out: the server would ask for it by the item's id."""
    kind = decoding.kind(value)
    message = "its reasoning is left out, and it needs its id"
    if piece.part.kind == "tool_call" and kind in wire.NEEDS_ID:
        as_text(items, piece, draft, message, "OAR-REASON-002")
    elif kind in wire.NEEDS_ID or kind == "item_reference":
        draft.drop(piece, "dropped_server_tool", message, "OAR-REASON-004")
    else:
        piece.value = schema_keys.without_id(value)
        message = f"the id {named(value['id'])} goes with its reasoning"
        draft.note("trimmed", message, "OAR-REASON-002", value["id"], piece.key)


def _pairs(items: ItemsContext, draft: Draft) -> bool:
    """A server's call and the item of its result stay together, whatever took one of them. Whether one had to go."""
    own = [p for p in draft.pieces if p.part.kind in _PAIR and _apart(items.server_calls.get(p.key or ""))]
    gone = False
    for piece in own:
        other = next((p for p in own if p.key == piece.key and p is not piece), None)
        lost = piece.key in draft.gone if other is None else other.value is None
        if piece.value is not None and lost:
            draft.drop(piece, "dropped_server_tool", "its other half is left out", "OAR-PROG-003")
            gone = True
    return gone


def _apart(call: ServerCall | None) -> bool:
    """Whether a call's result is an item of its own."""
    return call is not None and call.part.form not in wire.HOSTED


def _inner_calls(items: ItemsContext, draft: Draft) -> bool:
    """Calls that a program made go where the program goes. Whether any had to."""
    kept = {p.part.id for p in draft.pieces if p.value is not None and p.part.kind == "server_tool_call"}
    kept |= {items.server_calls[key].part.id for key in draft.held if key in items.server_calls}
    gone = False
    for piece in draft.pieces:
        program = calls.program_of(piece.part)
        if piece.value is None or program is None or program in kept:
            continue
        if items.options.stored is True and program not in items.server_calls:
            continue  # the server holds the program
        as_text(items, piece, draft, "the program that made it is left out", "OAR-PROG-002")
        gone = True
    return gone
