"""Thinking blocks in the history (ANT-THK).

How thinking is asked for is judged in `thinking_settings`, what a signature binds in `thinking_binding`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from normalizer.providers.anthropic import wire
from normalizer.providers.anthropic.rules import thinking_binding, thinking_settings, view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

_THINKING: Final = "https://platform.claude.com/docs/en/build-with-claude/thinking"
_CLAUDE_CODE: Final = "reports in github.com/anthropics/claude-code"
_READABLE: Final = frozenset({"thinking"})
# What may stand before the thinking with which an open tool turn starts.
_BEFORE_THINKING: Final = wire.SERVER_RESULTS | {"compaction"}


def _thinks(request: Request) -> bool:
    """Whether thinking stands in a reply of the history."""
    return bool(view.of_type(request, wire.THINKING, "assistant"))


def unsigned_thinking(request: Request, _context: Context) -> Iterator[Violation]:
    """A thinking block is signed.

    Only the API can sign it. Thinking of another provider, or cut before its signature came, is left out, and
    not told as text either. Signatures do not expire.
    """
    for pointer, block in view.of_type(request, _READABLE):
        if not view.text(block.get("signature")):
            yield Violation(f"{pointer}/signature", "the thinking block has no signature")


def open_turn_without_thinking(request: Request, _context: Context) -> Iterator[Violation]:
    """With manual thinking the reply whose results end the history starts with thinking.

    Thinking cannot be made up: ask without manual thinking until the tool loop is over. Replies before the
    last user text are free, and adaptive thinking does not ask for this.
    """
    if view.thinking(request) != "enabled":
        return
    turns = [turn for turn in view.turns(request) if turn.role != "system"]
    if len(turns) <= 1 or turns[-1].role != "user" or turns[-2].role != "assistant":
        return
    if not turns[-1].items or any(view.kind(block) != "tool_result" for _, block in turns[-1].items):
        return
    for pointer, block in turns[-2].items:
        if view.kind(block) in wire.THINKING:
            return
        if view.kind(block) not in _BEFORE_THINKING:
            yield Violation(pointer, f"the open turn starts with a {block.get('type')!r} block")
            return


def thinking_in_prefill(request: Request, context: Context) -> Iterator[Violation]:
    """With thinking off the beginning of a reply, given as last message, holds no thinking.

    Leave the thinking out of that message.
    """
    if (
        context.get("history")
        or view.thinking(request) not in ("", "disabled")
        or not view.model(request).prefill
    ):
        return
    last = view.last_turn(request)
    if last is not None and last.role == "assistant":
        for pointer, _ in last.of_type(*wire.THINKING):
            yield Violation(pointer, "thinking is off, and the last message holds thinking")


def trailing_thinking(request: Request, _context: Context) -> Iterator[Violation]:
    """A reply does not end in thinking.

    A cut stream leaves such a reply, or a repair that took away what followed. Drop the thinking at the end,
    and the message if nothing else is in it.
    """
    for turn in view.turns(request) if _thinks(request) else ():
        if turn.role == "assistant" and turn.items and view.kind(turn.items[-1][1]) in wire.THINKING:
            yield Violation(turn.items[-1][0], "the last block of the turn is thinking")


def cache_mark_on_thinking(request: Request, _context: Context) -> Iterator[Violation]:
    """Thinking blocks carry no cache mark.

    Mark the nearest block before or behind.
    """
    for pointer, block in view.of_type(request, wire.THINKING):
        if block.get("cache_control") is not None:
            yield Violation(f"{pointer}/cache_control", "a thinking block cannot be marked")


def empty_unsigned_thinking(request: Request, _context: Context) -> Iterator[Violation]:
    """A thinking block without text is real only if it is signed.

    Models that do not show their thinking send an empty text, and the signature carries everything: keep
    thinking by its signature, never by its text.
    """
    for pointer, block in view.of_type(request, _READABLE):
        if not view.text(block.get("thinking")) and not view.text(block.get("signature")):
            yield Violation(pointer, "the thinking block has neither text nor signature")


def redacted_thinking_without_data(request: Request, _context: Context) -> Iterator[Violation]:
    """Redacted thinking keeps its data.

    Leave the block out if the data is not what the API sent.
    """
    for pointer, block in view.of_type(request, frozenset({"redacted_thinking"})):
        if not view.text(block.get("data")):
            yield Violation(f"{pointer}/data", "the block has no data")


def thinking_behind_other_blocks(request: Request, _context: Context) -> Iterator[Violation]:
    """For some weeks a reply with thinking in it had to start with it.

    Replies of today mix text and thinking: send them back as they came, and never move thinking to the front.
    """
    for turn in view.turns(request) if _thinks(request) else ():
        if turn.role != "assistant" or not turn.items or view.kind(turn.items[0][1]) in wire.THINKING:
            continue
        found = next(turn.of_type(*wire.THINKING), None)
        if found is not None:
            yield Violation(found[0], "the reply has thinking and does not start with it")


_BLOCK_RULES: Final[Rulebook] = (
    Rule(
        id="ANT-THK-002",
        name="unsigned-thinking",
        severity="reject",
        source=f"{_CLAUDE_CODE}, github.com/anthropics/anthropic-sdk-python and langchain-ai/langchain",
        error="Invalid `signature` in `thinking` block",
        check=unsigned_thinking,
    ),
    Rule(
        id="ANT-THK-005",
        name="open-turn-without-thinking",
        severity="reject",
        source=f"{_THINKING}; reports in github.com/deepset-ai/haystack-core-integrations",
        error="Expected `thinking` or `redacted_thinking`, but found `tool_use`",
        check=open_turn_without_thinking,
        applies="manual thinking",
    ),
    Rule(
        id="ANT-THK-006",
        name="thinking-in-prefill",
        severity="reject",
        source="reports in github.com/antinomyhq/forgecode",
        error="an `assistant` message in the final position cannot contain `thinking`",
        check=thinking_in_prefill,
        applies="models that take a prefill",
    ),
    Rule(
        id="ANT-THK-007",
        name="trailing-thinking",
        severity="reject",
        source="reports in github.com/antinomyhq/forgecode; SDK:lib/middleware/_fallbacks.py",
        error="The final block in an assistant message cannot be `thinking`",
        check=trailing_thinking,
    ),
    Rule(
        id="ANT-THK-008",
        name="cache-mark-on-thinking",
        severity="reject",
        source="https://platform.claude.com/docs/en/build-with-claude/prompt-caching",
        error="Extra inputs are not permitted",
        check=cache_mark_on_thinking,
    ),
    Rule(
        id="ANT-THK-009",
        name="empty-unsigned-thinking",
        severity="reject",
        source=f"{_THINKING}; reports of copilot-api",
        error="each thinking block must contain thinking",
        check=empty_unsigned_thinking,
        applies="models that omit the text of thinking",
    ),
    Rule(
        id="ANT-THK-010",
        name="redacted-thinking-without-data",
        severity="reject",
        source="tests of ag2 (measured); SDK:types/redacted_thinking_block_param.py",
        error="Invalid `data` in `redacted_thinking` block",
        check=redacted_thinking_without_data,
    ),
    Rule(
        id="ANT-THK-018",
        name="thinking-behind-other-blocks",
        severity="contested",
        source=_CLAUDE_CODE,
        error="If an assistant message contains any thinking blocks, the first block must be `thinking`",
        check=thinking_behind_other_blocks,
        applies="seen in January 2026, also on routes over Vertex",
    ),
)

RULES: Rulebook = tuple(
    sorted((*_BLOCK_RULES, *thinking_binding.RULES, *thinking_settings.RULES), key=lambda rule: rule.id)
)
