"""Which reasoning goes back: verbatim or not at all, only to who can read it, and never without what it led to.

Sources: https://developers.openai.com/api/docs/guides/reasoning, .../preserved-reasoning, and the threads that the
rules OAR-REASON name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from normalizer.projecting.draft import REASONING, Refusal
from normalizer.providers.openai_responses import decoding, schema_keys, wire

if TYPE_CHECKING:
    from normalizer.projecting.draft import Draft, Piece, Value
    from normalizer.providers.openai_responses.context import ItemsContext
    from normalizer.transcript import Entry


def choose(items: ItemsContext, piece: Piece, draft: Draft) -> None:
    """Give a piece of reasoning its item, or leave it out."""
    raw = piece.part.raw.value if piece.part.raw is not None else None
    why = _barrier(items, draft) or _unreadable(items, draft.entry, raw)
    if why is None and piece.part.alone:
        why = Refusal("dropped_reasoning", "what it led to did not arrive whole", "OAR-REASON-009")
    if why is None and items.history.chosen(REASONING, _subject(piece, draft)):
        why = Refusal("dropped_reasoning", "a request left it out; it stays out", "OAR-REASON-012")
    if why is not None:
        _leave_out(piece, draft, why)
        return
    made: Value = schema_keys.replay(raw, draft.reports, draft.entry.fact.fact_id)  # type: ignore[arg-type]
    summary = made.get("summary")
    given = summary if isinstance(summary, list) else []
    kept = [part for part in given if isinstance(part, dict) and part.get("type") == "summary_text"]
    piece.value = made if kept == summary else {**made, "summary": kept}


def _subject(piece: Piece, draft: Draft) -> str:
    return f"{draft.entry.fact.fact_id}:{piece.number}"


def _leave_out(piece: Piece, draft: Draft, why: Refusal) -> None:
    """Leave reasoning out, for good once it was sent so."""
    draft.refuse(piece, why)
    draft.choices.append((REASONING, _subject(piece, draft), None))


def _barrier(items: ItemsContext, draft: Draft) -> Refusal | None:
    """Why none of this reply's reasoning goes back; None if it may."""
    fact: Any = draft.entry.fact
    if not draft.own:
        message = "reasoning of another provider's model cannot be read by this one"
        return Refusal("dropped_reasoning", message, "OAR-REASON-006")
    if fact.model is not None and not wire.is_own(fact.model) and fact.model != items.model:
        message = f"reasoning of {fact.model!r} cannot be read by another model"
        return Refusal("foreign_signature", message, "OAR-REASON-006")
    if items.options.account == "other":
        message = "reasoning is bound to the account that it was written in"
        return Refusal("foreign_signature", message, "OAR-REASON-006")
    if fact.seq <= items.history.reasoning_cutoff:
        return Refusal("dropped_reasoning", "a request with it was refused", "OAR-REASON-006")
    return None


def _unreadable(items: ItemsContext, entry: Entry, raw: Any) -> Refusal | None:
    """Why this item cannot go back by itself: nothing in it that the server can read, or not as it was received."""
    if not isinstance(raw, dict) or raw.get("type") != "reasoning":
        return Refusal("dropped_reasoning", "reasoning of another wire has no form here", "OAR-REASON-016")
    sealed, named = raw.get("encrypted_content"), raw.get("id")
    if sealed:
        damaged = not isinstance(sealed, str) or "\ufffd" in sealed or "\ufffd" in decoding.text_of(raw)
        return Refusal("dropped_reasoning", "the item is damaged", "OAR-REASON-006") if damaged else None
    if not isinstance(named, str) or not schema_keys.fits("reasoning", named):
        return Refusal("dropped_reasoning", "it has neither id nor ciphertext", "OAR-REASON-016")
    beside = entry.fact.raw.value if entry.fact.raw is not None else None
    if items.options.stored is False or (isinstance(beside, dict) and beside.get("store") is False):
        message = "nothing is stored, and it has no ciphertext"
        return Refusal("dropped_reasoning", message, "OAR-REASON-005")
    return None


def led_to_nothing(draft: Draft) -> None:
    """Leave out reasoning whose follower is left out, or is not known any more as what it led to."""
    pieces = draft.pieces
    for at in range(len(pieces) - 1, -1, -1):
        piece = pieces[at]
        if piece.part.kind != "reasoning" or piece.value is None:
            continue
        follower = pieces[at + 1] if at + 1 < len(pieces) else None
        if follower is None:
            _leave_out(
                piece, draft, Refusal("dropped_reasoning", "nothing stands behind it", "OAR-REASON-001")
            )
        elif follower.value is None:
            message = "the item that it led to is left out"
            _leave_out(piece, draft, Refusal("dropped_reasoning", message, "OAR-REASON-001"))
        elif (
            not piece.value.get("encrypted_content")
            and "id" not in follower.value
            and _may_have_id(follower.value)
        ):
            message = "it is known by its id only, and what it led to has lost its own"
            _leave_out(piece, draft, Refusal("dropped_reasoning", message, "OAR-REASON-017"))


def _may_have_id(value: Value) -> bool:
    known = wire.ITEMS.get(decoding.kind(value))
    return known is not None and "id" in known.keys
