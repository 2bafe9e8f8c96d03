"""Which reasoning goes back: verbatim or not at all, and only to a model that can read it.

Sources: https://platform.claude.com/docs/en/build-with-claude/thinking and .../preserved-thinking. On
prefix-bound models a signature covers everything before its block, so reasoning stays only as long as all of
that is on record and unchanged; from the first difference on it is left out, for good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.anthropic import assistant_turn, encoding, wire

if TYPE_CHECKING:
    from normalizer.projecting.incremental import Rendering, Step
    from normalizer.providers.anthropic.assistant_turn import Piece
    from normalizer.providers.anthropic.render import Flow, Out, Renderer
    from normalizer.transcript import Entry

CHOICE: Final = "reasoning"
_WITH_KEY: Final = frozenset({"tool_call", "server_tool_call", "server_tool_result"})
_SEALS: Final = {"thinking": "signature", "redacted_thinking": "data"}


def choose(
    renderer: Renderer, step: Step, flow: Flow, before: Rendering[Any], entry: Entry, pieces: list[Piece], out: Out,
    *, border: int,
) -> None:  # fmt: skip
    """Give the reasoning of a reply its block, or leave it out."""
    thoughts = [p for p in pieces if p.part.kind == "reasoning"]
    if not thoughts:
        return
    barrier = _barrier(renderer, step, flow, before, entry)
    bound = renderer.row.prefix_bound
    changed = False
    from_here = False
    for at, piece in enumerate(pieces):
        if piece.part.kind != "reasoning":
            changed = changed or _differs(piece)
            continue
        why = barrier or _unsealed(piece)
        if at < border:
            why = ("dropped_reasoning", "reasoning before a fallback block goes", "ANT-REF-005")
        elif bound and changed:
            why = why or (
                "dropped_reasoning",
                "what stands before it in its reply has changed",
                "ANT-THK-004",
            )
        if why is not None:
            assistant_turn.drop(entry, piece, out, *why)
            changed = True
            from_here = from_here or why[2] != "ANT-REF-005"
        else:
            piece.block = encoding.replay(piece.part.raw.value, out, entry)
            if "cache_control" in piece.block:
                piece.block = {k: v for k, v in piece.block.items() if k != "cache_control"}
                out.changed = True
    if not bound and (_disturbed(pieces, border) or _renamed_beside(renderer, step)):
        for piece in thoughts:
            if piece.block is not None:
                from_here = True
                assistant_turn.drop(
                    entry, piece, out, "dropped_reasoning", "a block of its reply has changed", "ANT-THK-001"
                )
    if from_here and barrier is not None:
        out.choices.append((CHOICE, step.after or "", None))


def _barrier(
    renderer: Renderer, step: Step, flow: Flow, before: Rendering[Any], entry: Entry
) -> tuple[Any, str, str] | None:
    """Why none of this reply's reasoning goes back; None if it may."""
    fact: Any = entry.fact
    row = renderer.row
    if fact.api not in (None, wire.API) or (fact.model is not None and "claude" not in fact.model):
        return (
            "foreign_signature",
            "reasoning of another maker's model cannot be read by this one",
            "ANT-THK-002",
        )
    if fact.model is not None and wire.family(fact.model) != renderer.family:
        return (
            "dropped_reasoning",
            f"reasoning of {fact.model!r} is not for {renderer.model!r}",
            "ANT-THK-003",
        )
    if renderer.options.account == "other" and row.account_bound:
        return "foreign_signature", "reasoning is bound to the account that it was written in", "ANT-THK-003"
    if row.prefix_bound and not _prefix_holds(renderer, step, flow, before, fact):
        return (
            "dropped_reasoning",
            "what stands before it is not what its signature was made over",
            "ANT-THK-004",
        )
    if fact.seq <= renderer.chain.barred or renderer.chain.chosen(CHOICE, fact.fact_id):
        return (
            "dropped_reasoning",
            "a request left it out, or was refused with it; it stays out",
            "ANT-THK-004",
        )
    return None


def _prefix_holds(renderer: Renderer, step: Step, flow: Flow, before: Rendering[Any], fact: Any) -> bool:
    """Whether everything before the reply is on record and unchanged.

    A reply that names no request of this chain was read: it is taken as it stands, and goes on so once it was sent.
    """
    chain, head = renderer.chain, renderer.head
    sent = chain.sent.get(fact.answers or "")
    if sent is None:
        went = chain.base is not None and fact.seq <= chain.base.through
        fresh = not chain.sent or (went and not chain.chosen(CHOICE, fact.fact_id))
        return flow.intact and head.recorded and not head.adjustments and fresh
    digest = sent.digest
    return bool(
        digest.instructions == head.instructions_digest
        and digest.tools == head.tools_digest
        and before.digest(step.index) == (digest.count, digest.blocks)
    )


def _unsealed(piece: Piece) -> tuple[Any, str, str] | None:
    """Why this block cannot go back by itself: no seal, or a text that is not as it was signed."""
    raw = piece.part.raw
    block = raw.value if raw is not None else None
    seal = _SEALS.get(str(block.get("type"))) if isinstance(block, dict) else None
    if block is None or seal is None or not isinstance(block.get(seal), str) or not block[seal]:
        return "dropped_reasoning", "reasoning without its seal cannot go back", "ANT-THK-002"
    if "\ufffd" in piece.part.text or not isinstance(block.get("thinking", ""), str):
        return "dropped_reasoning", "the text of the reasoning is damaged", "ANT-THK-002"
    return None


def _differs(piece: Piece) -> bool:
    """Whether a block is left out or not sent as it was received."""
    if piece.block is None:
        return True
    part = piece.part
    if part.kind == "tool_call":
        return bool(part.id != piece.block["id"] or part.name != piece.block["name"])
    return False


def _renamed_beside(renderer: Renderer, step: Step) -> bool:
    """Whether a call is renamed in another reply of the same turn: one that was paused, or that goes on with it.

    Results of the client's stand between two turns.
    """
    entries, ids = renderer.entries, renderer.ids
    here = step.end - len(step.behind) - 1
    beside = []
    at = here
    while at + 1 < len(entries) and entries[at + 1].kind == "reply" and _paused(entries[at]):
        at += 1
        beside.append(entries[at])
    at = here
    while at > 0 and entries[at - 1].kind == "reply" and _paused(entries[at - 1]):
        at -= 1
        beside.append(entries[at])
    return any(
        ids.get(key or "", part.id) != part.id
        for entry in beside
        for key, part in zip(entry.calls, (p for p in entry.parts if p.kind in _WITH_KEY), strict=True)
        if part.kind == "tool_call"
    )


def _paused(entry: Entry) -> bool:
    answered = any(part.kind == "tool_call" for part in entry.parts)
    return getattr(entry.fact, "stop_reason", None) == "pause_turn" and not answered


def _disturbed(pieces: list[Piece], border: int) -> bool:
    """Whether a change makes the reasoning beside it no longer what was received: a renamed call, or two runs
    of reasoning that now touch.
    """
    kept = [p for p in pieces if p.block is not None]
    if any(p.part.kind == "tool_call" and _differs(p) for p in kept):
        return True
    gap = False
    last_reasoning = False
    for at, piece in enumerate(pieces):
        if piece.block is None:
            gap = gap or (last_reasoning and at > border and piece.part.kind != "reasoning")
            continue
        if piece.part.kind == "reasoning":
            if gap:
                return True
            last_reasoning = True
        else:
            last_reasoning, gap = False, False
    return False
