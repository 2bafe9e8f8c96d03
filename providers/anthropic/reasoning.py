"""Which reasoning goes back: verbatim or not at all, and only to a model that can read it.

Sources: https://platform.claude.com/docs/en/build-with-claude/thinking and .../preserved-thinking. On
prefix-bound models a signature covers everything before its block, so reasoning stays only as long as all of
that is on record and unchanged; from the first difference on it is left out, for good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.projecting.draft import REASONING, Refusal
from normalizer.providers.anthropic import encoding, wire
from normalizer.providers.anthropic.context import handed

if TYPE_CHECKING:
    from normalizer.projecting.draft import Draft, Flow, Piece
    from normalizer.projecting.incremental import Rendering, Step
    from normalizer.providers.anthropic.context import ClaudeContext
    from normalizer.transcript import Entry

_BEFORE_FALLBACK: Final = "before-fallback"
_WITH_KEY: Final = frozenset({"tool_call", "server_tool_call", "server_tool_result"})
_SEALS: Final = {"thinking": "signature", "redacted_thinking": "data"}


def settle(
    claude: ClaudeContext, flow: Flow, before: Rendering[Any], pieces: list[Piece], draft: Draft
) -> None:
    """Give the reasoning of a reply its block, or leave it out."""
    thoughts = [p for p in pieces if p.part.kind == "reasoning"]
    if not thoughts:
        return
    barrier = _barrier(claude, flow, before, draft)
    bound = claude.row.prefix_bound
    changed = False
    from_here = False
    for piece in pieces:
        if piece.part.kind != "reasoning":
            changed = changed or _differs(piece)
            continue
        why = barrier or _unsealed(piece)
        if piece.number < draft.cutoff:
            why = Refusal("dropped_reasoning", "reasoning before a fallback block goes", _BEFORE_FALLBACK)
        elif bound and changed:
            why = why or _left_out("what stands before it in its reply has changed", "ANT-THK-004")
        if why is not None:
            draft.refuse(piece, why)
            changed = True
            from_here = from_here or why.cause != _BEFORE_FALLBACK
        else:
            piece.value = encoding.replay(piece.part.raw.value, draft, draft.entry)
            if "cache_control" in piece.value:
                piece.value = {k: v for k, v in piece.value.items() if k != "cache_control"}
                draft.changed = True
    if not bound and (_disturbed(pieces, draft.cutoff) or _renamed_beside(claude, draft.step)):
        for piece in thoughts:
            if piece.value is not None:
                from_here = True
                draft.refuse(piece, _left_out("a block of its reply has changed", "ANT-THK-001"))
    if from_here and barrier is not None:
        draft.choices.append((REASONING, draft.step.after or "", None))


def _left_out(message: str, rule: str) -> Refusal:
    return Refusal("dropped_reasoning", message, rule)


def _barrier(claude: ClaudeContext, flow: Flow, before: Rendering[Any], draft: Draft) -> Refusal | None:
    """Why none of this reply's reasoning goes back; None if it may."""
    fact: Any = draft.entry.fact
    row = claude.row
    if not draft.own or (fact.model is not None and "claude" not in fact.model):
        message = "reasoning of another maker's model cannot be read by this one"
        return Refusal("foreign_signature", message, "ANT-THK-002")
    if fact.model is not None and wire.family(fact.model) != claude.family:
        return _left_out(f"reasoning of {fact.model!r} is not for {claude.model!r}", "ANT-THK-003")
    if claude.options.account == "other" and row.account_bound:
        message = "reasoning is bound to the account that it was written in"
        return Refusal("foreign_signature", message, "ANT-THK-003")
    if row.prefix_bound and not _prefix_holds(claude, flow, before, draft.step, fact):
        return _left_out("what stands before it is not what its signature was made over", "ANT-THK-004")
    if fact.seq <= claude.history.reasoning_cutoff or claude.history.chosen(REASONING, fact.fact_id):
        return _left_out("a request left it out, or was refused with it; it stays out", "ANT-THK-004")
    return None


def _prefix_holds(claude: ClaudeContext, flow: Flow, before: Rendering[Any], step: Step, fact: Any) -> bool:
    """Whether everything before the reply is on record and unchanged.

    A reply that names no request of this history was read: it is taken as it stands, and goes on so once it was sent.
    """
    history, head = claude.history, claude.head
    sent = history.requests.get(fact.answers or "")
    if sent is None:
        went = history.base is not None and fact.seq <= history.base.through
        fresh = not history.requests or (went and not history.chosen(REASONING, fact.fact_id))
        return handed(flow).intact and head.recorded and not head.adjustments and fresh
    digest = sent.digest
    return bool(
        digest.instructions == head.instructions_digest
        and digest.tools == head.tools_digest
        and before.digest(step.index) == (digest.count, digest.blocks)
    )


def _unsealed(piece: Piece) -> Refusal | None:
    """Why this block cannot go back by itself: no seal, or a text that is not as it was signed."""
    raw = piece.part.raw
    block = raw.value if raw is not None else None
    seal = _SEALS.get(str(block.get("type"))) if isinstance(block, dict) else None
    if block is None or seal is None or not isinstance(block.get(seal), str) or not block[seal]:
        return _left_out("reasoning without its seal cannot go back", "ANT-THK-002")
    if "\ufffd" in piece.part.text or not isinstance(block.get("thinking", ""), str):
        return _left_out("the text of the reasoning is damaged", "ANT-THK-002")
    return None


def _differs(piece: Piece) -> bool:
    """Whether a block is left out or not sent as it was received."""
    if piece.value is None:
        return True
    part = piece.part
    if part.kind == "tool_call":
        return bool(part.id != piece.value["id"] or part.name != piece.value["name"])
    return False


def _renamed_beside(claude: ClaudeContext, step: Step) -> bool:
    """Whether a call is renamed in another reply of the same turn: one that was paused, or that goes on with it.

    Results of the client's stand between two turns.
    """
    entries, ids = claude.entries, claude.ids
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


def _disturbed(pieces: list[Piece], cutoff: int) -> bool:
    """Whether a change makes the reasoning beside it no longer what was received: a renamed call, or two runs
    of reasoning that now touch.
    """
    kept = [p for p in pieces if p.value is not None]
    if any(p.part.kind == "tool_call" and _differs(p) for p in kept):
        return True
    gap = False
    last_reasoning = False
    for piece in pieces:
        if piece.value is None:
            gap = gap or (last_reasoning and piece.number > cutoff and piece.part.kind != "reasoning")
            continue
        if piece.part.kind == "reasoning":
            if gap:
                return True
            last_reasoning = True
        else:
            last_reasoning, gap = False, False
    return False
