"""Refused turns, and what a fallback leaves of them (ANT-REF).

What was refused does not show in a request: the context says so with `stop_reason`, `refused_turn` (the index
that the refused reply would have) and `recorded_blocks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from normalizer.providers.anthropic import wire
from normalizer.providers.anthropic.rules import recorded, view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Iterator

_REFUSALS: Final = "https://platform.claude.com/docs/en/build-with-claude/refusals-and-fallback"
_GONE: Final = wire.THINKING | {"connector_text", "tool_use"}
_BORDER: Final = frozenset({"fallback"})


def refused(context: Context) -> bool:
    """Whether the latest reply was refused."""
    return context.get("stop_reason") == "refusal"


def refused_turn_kept(request: Request, context: Context) -> Iterator[Violation]:
    """A turn that ended in a refusal is no history.

    The API answers with 200 and a part of a reply: leave all of it out and say so. Whether the user's message
    that led to it goes as well is the caller's decision; kept as it is, it tends to be refused again.
    """
    at = context.get("refused_turn")
    if not refused(context) or not isinstance(at, int):
        return
    for index, message in view.messages(request):
        if index == at and message.get("role") == "assistant":
            yield Violation(f"/messages/{index}", "this reply was refused")


def empty_refused_turn(request: Request, context: Context) -> Iterator[Violation]:
    """A refusal before the first word leaves no message behind.

    There is nothing to append; an empty message is rejected.
    """
    if refused(context):
        for index, message in view.messages(request):
            if message.get("role") == "assistant" and not message.get("content"):
                yield Violation(f"/messages/{index}", "the message of a refused reply is empty")


def calls_of_refused_turn(request: Request, context: Context) -> Iterator[Violation]:
    """The client calls of a refused turn are neither run nor kept, whole ones neither.

    Leave the turn out. What a call did that was started before the refusal came is told as text in the next
    user turn.
    """
    if not refused(context):
        return
    void = recorded.keys(block for block in recorded.blocks(context) if view.kind(block) == "tool_use")
    results = {
        view.text(block.get("tool_use_id")) for _, block in view.of_type(request, frozenset({"tool_result"}))
    }
    for pointer, block in view.of_type(request, frozenset({"tool_use"}), "assistant"):
        if recorded.key(block) in void or view.text(block.get("id")) not in results:
            yield Violation(pointer, f"the call {named(block.get('id'))} stands in a refused turn")


def moved_fallback(request: Request, context: Context) -> Iterator[Violation]:
    """A fallback block is sent back where it stood.

    It is the border between the thinking of two models. The `trigger` inside it does not matter.
    """
    received = recorded.kept(recorded.blocks(context))
    borders = [at for at, block in enumerate(received) if block.get("type") == "fallback"]
    turn = recorded.reply(request, received) if borders else None
    if turn is None:
        return
    places = _places(received)
    behind = -1
    border = ""
    for pointer, block in turn.items:
        if block.get("type") == "fallback":
            border = pointer
            at = borders.pop(0) if borders else behind
        else:
            at = places.get(_identity(block), behind)
        if at < behind and border:
            yield Violation(border, "the fallback block does not stand where it was received")
            return
        behind = max(at, behind)


def _identity(block: view.Block) -> str:
    """What a block is known by: its key, else what it says."""
    return repr(recorded.key(block) or sorted(recorded.substance(block).items()))


def _places(received: list[view.Block]) -> dict[str, int]:
    """Where each block stood, for those that stood there once."""
    found: dict[str, int] = {}
    twice: set[str] = set()
    for at, block in enumerate(received):
        own = _identity(block)
        twice |= {own} if own in found else set()
        found[own] = at
    return {own: at for own, at in found.items() if own not in twice}


def leftovers_before_fallback(request: Request, _context: Context) -> Iterator[Violation]:
    """Before the last fallback of a reply stand no thinking, no client call and no open server call.

    The text of the first model stays, and server calls that have their result. What a call before the border
    was is void: it gets no result. Behind the border everything stays.
    """
    occurs = view.of_type(request, _BORDER, "assistant")
    for _, speaker, content in view.spoken(request) if occurs else ():
        borders = [at for at, (_, block) in enumerate(content) if block.get("type") == "fallback"]
        last = max(borders, default=0)
        if speaker != "assistant" or not last:
            continue
        answered = {view.text(block.get("tool_use_id")) for _, block in content}
        for pointer, block in content[:last]:
            kind = view.kind(block)
            if kind in _GONE or (kind in wire.SERVER_CALLS and view.text(block.get("id")) not in answered):
                yield Violation(pointer, f"a {kind!r} block stands before the fallback")


def fallback_without_beta(request: Request, _context: Context) -> Iterator[Violation]:
    """Fallback blocks come with the beta for fallbacks of the server.

    Ask for it as long as such a block is part of the history.
    """
    start, release = wire.BETAS["fallback"]
    if not view.has_beta(request, start):
        for pointer, _ in view.of_type(request, _BORDER):
            yield Violation(pointer, f"a fallback block needs beta {release!r}")


RULES: Rulebook = (
    Rule(
        id="ANT-REF-001",
        name="refused-turn-kept",
        severity="policy",
        source=f"{_REFUSALS}; SDK:lib/threads/_thread_state.py",
        error=None,
        check=refused_turn_kept,
        static=False,
    ),
    Rule(
        id="ANT-REF-002",
        name="empty-refused-turn",
        severity="reject",
        source=_REFUSALS,
        error="all messages must have non-empty content",
        check=empty_refused_turn,
        static=False,
    ),
    Rule(
        id="ANT-REF-003",
        name="calls-of-refused-turn",
        severity="reject",
        source=f"{_REFUSALS}; SDK:lib/tools/_beta_runner.py",
        error="`tool_use` ids were found without `tool_result` blocks immediately after",
        check=calls_of_refused_turn,
        static=False,
    ),
    Rule(
        id="ANT-REF-004",
        name="moved-fallback",
        severity="reject",
        source=f"{_REFUSALS}; SDK:types/beta/beta_fallback_block_param.py",
        error="`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified",
        check=moved_fallback,
        static=False,
        applies="fallback by the server (beta)",
    ),
    Rule(
        id="ANT-REF-005",
        name="leftovers-before-fallback",
        severity="reject",
        source=f"{_REFUSALS}; reports in github.com/can1357/oh-my-pi",
        error="`tool_use` ids were found without `tool_result` blocks immediately after",
        check=leftovers_before_fallback,
        applies="fallback by the server (beta)",
    ),
    Rule(
        id="ANT-REF-006",
        name="fallback-without-beta",
        severity="reject",
        source=f"{_REFUSALS}; SDK:types/beta/beta_content_block_param.py",
        error="does not match any of the expected tags",
        check=fallback_without_beta,
    ),
)
