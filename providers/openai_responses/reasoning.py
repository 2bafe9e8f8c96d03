"""Which reasoning goes back: verbatim or not at all, only to who can read it, and never without what it led to.

Sources: https://developers.openai.com/api/docs/guides/reasoning, .../preserved-reasoning, and the threads that the
rules OAR-REASON name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.openai_responses import assistant_turn, decoding, schema_keys, wire
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from normalizer.providers.openai_responses.assistant_turn import Piece
    from normalizer.providers.openai_responses.decoding import Item
    from normalizer.providers.openai_responses.render import Out, Renderer
    from normalizer.transcript import Entry

CHOICE: Final = "reasoning"


def choose(renderer: Renderer, entry: Entry, piece: Piece, out: Out, *, own: bool) -> None:
    """Give a piece of reasoning its item, or leave it out."""
    raw = piece.part.raw.value if piece.part.raw is not None else None
    why = _barrier(renderer, entry, own=own) or _unreadable(renderer, entry, raw)
    subject = f"{entry.fact.fact_id}:{piece.number}"
    if why is None and piece.part.alone:
        why = "dropped_reasoning", "what it led to did not arrive whole", "OAR-REASON-009"
    if why is None and renderer.chain.chosen(CHOICE, subject):
        why = "dropped_reasoning", "a request left it out; it stays out", "OAR-REASON-012"
    if why is not None:
        assistant_turn.drop(entry, piece, out, *why)
        out.choices.append((CHOICE, subject, None))
        return
    item: Item = schema_keys.replay(raw, out.notes, entry.fact.fact_id)  # type: ignore[arg-type]
    summary = item.get("summary")
    given = summary if isinstance(summary, list) else []
    kept = [part for part in given if isinstance(part, dict) and part.get("type") == "summary_text"]
    piece.item = item if kept == summary else {**item, "summary": kept}


def _barrier(renderer: Renderer, entry: Entry, *, own: bool) -> tuple[Any, str, str] | None:
    """Why none of this reply's reasoning goes back; None if it may."""
    fact: Any = entry.fact
    if not own:
        return (
            "dropped_reasoning",
            "reasoning of another provider's model cannot be read by this one",
            "OAR-REASON-006",
        )
    if fact.model is not None and not wire.is_own(fact.model) and fact.model != renderer.model:
        return (
            "foreign_signature",
            f"reasoning of {fact.model!r} cannot be read by another model",
            "OAR-REASON-006",
        )
    if renderer.options.account == "other":
        return (
            "foreign_signature",
            "reasoning is bound to the account that it was written in",
            "OAR-REASON-006",
        )
    if fact.seq <= renderer.chain.barred:
        return "dropped_reasoning", "a request with it was refused", "OAR-REASON-006"
    return None


def _unreadable(renderer: Renderer, entry: Entry, raw: Any) -> tuple[Any, str, str] | None:
    """Why this item cannot go back by itself: nothing in it that the server can read, or not as it was received."""
    if not isinstance(raw, dict) or raw.get("type") != "reasoning":
        return "dropped_reasoning", "reasoning of another wire has no form here", "OAR-REASON-016"
    sealed, named = raw.get("encrypted_content"), raw.get("id")
    if sealed:
        damaged = not isinstance(sealed, str) or "\ufffd" in sealed or "\ufffd" in decoding.text_of(raw)
        return ("dropped_reasoning", "the item is damaged", "OAR-REASON-006") if damaged else None
    if not isinstance(named, str) or not schema_keys.fits("reasoning", named):
        return "dropped_reasoning", "it has neither id nor ciphertext", "OAR-REASON-016"
    beside = entry.fact.raw.value if entry.fact.raw is not None else None
    if renderer.options.stored is False or (isinstance(beside, dict) and beside.get("store") is False):
        return "dropped_reasoning", "nothing is stored, and it has no ciphertext", "OAR-REASON-005"
    return None


def units(renderer: Renderer, entry: Entry, pieces: list[Piece], out: Out) -> None:
    """Reasoning and what it led to go together; where reasoning is left out, what follows it loses its ids."""
    for at in range(len(pieces) - 1, -1, -1):
        piece = pieces[at]
        if piece.part.kind != "reasoning" or piece.item is None:
            continue
        follower = pieces[at + 1] if at + 1 < len(pieces) else None
        if follower is None or follower.item is None:
            message = (
                "nothing stands behind it" if follower is None else "the item that it led to is left out"
            )
            assistant_turn.drop(entry, piece, out, "dropped_reasoning", message, "OAR-REASON-001")
            out.choices.append((CHOICE, f"{entry.fact.fact_id}:{piece.number}", None))
        elif (
            not piece.item.get("encrypted_content")
            and "id" not in follower.item
            and _may_have_id(follower.item)
        ):
            message = "it is known by its id only, and what it led to has lost its own"
            assistant_turn.drop(entry, piece, out, "dropped_reasoning", message, "OAR-REASON-017")
            out.choices.append((CHOICE, f"{entry.fact.fact_id}:{piece.number}", None))
    bare = False
    for piece in pieces:
        if piece.part.kind == "reasoning":
            bare = piece.item is None
        elif bare and piece.item is not None and isinstance(piece.item.get("id"), str):
            _without_reasoning(renderer, entry, piece, out)


def _may_have_id(item: Item) -> bool:
    known = wire.ITEMS.get(decoding.kind(item))
    return known is not None and "id" in known.keys


def _without_reasoning(renderer: Renderer, entry: Entry, piece: Piece, out: Out) -> None:
    """An item whose reasoning is left out: the server would ask for it by the item's id."""
    item = piece.item
    assert item is not None  # noqa: S101 - the caller has looked
    kind = decoding.kind(item)
    if piece.part.kind == "tool_call" and kind in wire.NEEDS_ID:
        call = renderer.calls[piece.key or ""]
        message = "its reasoning is left out, and it needs its id"
        assistant_turn.tell(renderer, entry, piece, out, out.answers[call.key], message, "OAR-REASON-002")
    elif kind in wire.NEEDS_ID or kind == "item_reference":
        assistant_turn.drop(entry, piece, out, "dropped_server_tool", "its reasoning is left out, and it needs its id",
                     "OAR-REASON-004")  # fmt: skip
    else:
        piece.item = schema_keys.without_id(item)
        assistant_turn.note(entry, out, "trimmed", f"the id {named(item['id'])} goes with its reasoning",
                     "OAR-REASON-002",
                     piece.key, item["id"])  # fmt: skip
