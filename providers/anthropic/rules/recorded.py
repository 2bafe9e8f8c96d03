"""A reply as it was recorded, beside the same reply in a request.

Rules that need the record find it in the context as `recorded_blocks`: the blocks of one reply as they were
received.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.anthropic import wire
from normalizer.providers.anthropic.rules import view

if TYPE_CHECKING:
    from collections.abc import Iterable

    from normalizer.rules import Context, Request

# What tells a block from all others of its kind.
_SEALS: Final = {"thinking": "signature", "redacted_thinking": "data"}


def blocks(context: Context) -> list[view.Block]:
    """The recorded blocks, empty if there is no record."""
    return [block for _, block in view.objects(context.get("recorded_blocks"), "")]


def substance(block: view.Block) -> view.Block:
    """The block without cache mark and nulls: two blocks are the same if their substance is."""
    return {key: value for key, value in block.items() if value is not None and key != "cache_control"}


def key(block: view.Block) -> tuple[str, str] | None:
    """Type and seal or id of a block, None if it has neither."""
    kind = view.kind(block)
    own = view.text(block.get(_SEALS.get(kind, "id")))
    return (kind, own) if own else None


def keys(some: Iterable[view.Block]) -> frozenset[tuple[str, str]]:
    """The keys of these blocks."""
    return frozenset(found for block in some if (found := key(block)) is not None)


def is_thinking(block: view.Block) -> bool:
    """Whether the block is thinking, readable or not."""
    return view.kind(block) in wire.THINKING


def is_blank(block: view.Block) -> bool:
    """Whether the block is text without a word, which cannot be sent back."""
    return block.get("type") == "text" and not view.text(block.get("text")).strip()


def kept(received: list[view.Block]) -> list[view.Block]:
    """What of a reply may be sent back: before its last fallback no thinking and no client call."""
    last = max((at for at, block in enumerate(received) if block.get("type") == "fallback"), default=-1)
    gone = wire.THINKING | {"tool_use", "connector_text"}
    return [block for at, block in enumerate(received) if at >= last or view.kind(block) not in gone]


def reply(request: Request, received: list[view.Block]) -> view.Turn | None:
    """The turn of the request that holds the recorded reply; of one in several messages only its part."""
    known = keys(received)
    for turn in reversed(view.turns(request)):
        if turn.role != "assistant":
            continue
        hits = [at for at, (_, block) in enumerate(turn.items) if key(block) in known]
        if hits and turn.first == turn.last:
            return turn
        if hits:
            return view.Turn(turn.role, turn.first, turn.last, turn.items[hits[0] : hits[-1] + 1])
    return None


def is_latest(request: Request, turn: view.Turn) -> bool:
    """Whether no later turn of the model stands in the request."""
    return not any(
        message.get("role") == "assistant" for index, message in view.messages(request) if index > turn.last
    )


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal but for cache marks."""
    if isinstance(one, dict) and isinstance(other, dict):
        return substance(one) == substance(other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)
