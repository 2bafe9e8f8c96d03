"""Texts that other programs put in a missing result's place, and what each of them proves.

A text stands here only if its program writes it in that case alone. None of them proves that a call completed.
Compared exactly, after trimming white space; a text with a variable part is matched as a whole by its pattern.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from normalizer.notices import MARK

if TYPE_CHECKING:
    from normalizer.facts import OutcomeKind

_LONGEST: Final = 400


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A made-up result: the program that writes it, and the outcome that it is evidence of."""

    program: str
    outcome: OutcomeKind


_TEXTS: Final[dict[str, Placeholder]] = {
    "No result provided": Placeholder("pi", "unknown"),
    "[Tool result missing due to internal error]": Placeholder("claude_code", "unknown"),
    "[no result was recorded for this call before the session was interrupted]": Placeholder(
        "session repair", "unknown"
    ),
    "[Tool execution was interrupted]": Placeholder("opencode", "unknown"),
    "Tool execution aborted": Placeholder("opencode", "unknown"),
    "Task was interrupted before this tool call could be completed.": Placeholder("cline", "unknown"),
    "Tool not executed - a final result was already processed.": Placeholder("pydantic_ai", "never_run"),
}
_PATTERNS: Final[tuple[tuple[re.Pattern[str], Placeholder], ...]] = (
    (
        re.compile(
            r"\[\w+\] missing tool result in session history; [\w ]*?(?:placeholder|synthetic)[\w ]*\.?"
        ),
        Placeholder("session repair", "unknown"),
    ),
    (
        re.compile(
            r"\[Tool call interrupted: the session ended before this call's result was recorded[^\n]*\]"
        ),
        Placeholder("claude_code", "unknown"),
    ),
    (
        re.compile(
            r"Tool call [\w.-]+ with id \S+ was cancelled - another message came in before it could be completed\."
        ),
        Placeholder("deepagents", "unknown"),
    ),
    (
        re.compile(
            r"\[System: Tool execution skipped/interrupted by user\. No result provided for tool '[^'\n]*'\.\]"
        ),
        Placeholder("litellm", "unknown"),
    ),
)


_ALL: Final = (*_TEXTS, *(pattern.pattern.removeprefix("\\") for pattern, _ in _PATTERNS))
FIRST: Final = frozenset(text[0] for text in _ALL) | {MARK[0], " ", "\n", "\t", "\r"}
"""What a placeholder or a notice can begin with; other texts need no closer look."""


def placeholder(text: str) -> Placeholder | None:
    """What a text is evidence of, if it is a known placeholder."""
    if len(text) > _LONGEST:
        return None
    trimmed = text.strip()
    if found := _TEXTS.get(trimmed):
        return found
    return next((meaning for pattern, meaning in _PATTERNS if pattern.fullmatch(trimmed)), None)
