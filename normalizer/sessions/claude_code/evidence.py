"""What the result lines of a Claude Code session prove about their calls: a table, read from the top.

Fields decide before texts, since the client tells the model "rejected" also of a call that was running. Where
two causes share one text and no field tells them apart, the outcome is unknown. Texts are compared at their
beginning only, and only in results that the client flags as errors: tools print such words too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from normalizer.sessions.claude_code.nodes import REJECTED

if TYPE_CHECKING:
    from collections.abc import Callable

Proof: TypeAlias = Literal["completed", "stopped", "denied", "skipped", "unanswered", "unknown"]

INTERRUPTED_TOOL: Final = "[Request interrupted by user for tool use]"
INTERRUPTED: Final = "[Request interrupted by user]"
MARKERS: Final = frozenset({INTERRUPTED, INTERRUPTED_TOOL})
WORDS: Final = "To tell you how to proceed, the user said:\n"
# from this version on the client writes `toolDenialBeforeRun` where a call was refused before it ran
_TELLS_BEFORE_RUN: Final = (2, 1, 326)
_FULL_TEXT: Final = "stopped while running, not refused"
_EXIT: Final = re.compile(r"Exit code (\d{1,9})(?:\n|$)")
_NOT_STARTED: Final = re.compile(r"<tool_use_error>(.*)</tool_use_error>\s*", re.DOTALL)
_POLICY: Final = re.compile(
    r"Claude requested permissions to .{0,300}, but you haven't granted it yet"
    r"|.{0,2000}? was blocked\. For security, Claude Code may only "
    r"|This command requires approval"
    r"|Permission to use .{0,300} has been denied",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Told:
    """One result as it stands in the file: its text, the keys beside it, and what other lines say of the call.

    `started`: a line shows that the call ran. `hit`: the stop of the user surely hit this call.
    """

    text: str
    is_error: bool
    line: dict[str, Any]
    started: bool = False
    hit: bool = False

    @property
    def denial(self) -> str:
        """The client's word for why there is no result."""
        found = self.line.get("toolDenialKind")
        return found if isinstance(found, str) else ""

    @property
    def rejected(self) -> bool:
        """Whether the client calls it rejected by the user."""
        return self.denial == "user-rejected" or self.text.startswith(REJECTED)

    @property
    def by_person(self) -> bool:
        """Whether a person's words stand in a denial."""
        decision = self.line.get("permissionDecision")
        source = decision.get("source") if isinstance(decision, dict) else None
        return self.line.get("holdsPersonsWords") is True or source == "user_reject"

    @property
    def version(self) -> tuple[int, ...]:
        """The client's version, empty where it is not told."""
        found = self.line.get("version")
        numbers = found.split(".") if isinstance(found, str) else []
        return tuple(int(n) for n in numbers) if all(n.isdecimal() and len(n) < 9 for n in numbers) else ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a result proves. `output` is the tool's own, where it was stopped; `reason` the words that were given."""

    proof: Proof
    evidence: str
    by: str | None = None
    reason: str | None = None
    output: str = ""
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One row: it fits where `fits` says so; `found` makes its verdict."""

    evidence: str
    proof: Proof
    fits: Callable[[Told], bool]
    by: str | None = None
    reason: Callable[[Told], str | None] | None = None
    output: Callable[[Told], str] | None = None

    def found(self, told: Told) -> Verdict:
        """The verdict of this row."""
        code = _EXIT.match(told.text) if told.is_error else None
        return Verdict(
            self.proof,
            self.evidence,
            "user" if self.proof == "denied" and told.by_person else self.by,
            self.reason(told) if self.reason else None,
            self.output(told) if self.output else "",
            int(code[1]) if code else None,
        )


def _interrupted(told: Told) -> bool:
    detail = told.line.get("toolUseResult")
    return isinstance(detail, dict) and detail.get("interrupted") is True


def _streams(told: Told) -> str:
    """The output so far: the result's text, or what the client noted of the streams."""
    detail = told.line.get("toolUseResult")
    if told.text.strip() or not isinstance(detail, dict):
        return told.text
    return "\n".join(s for key in ("stdout", "stderr") if isinstance(s := detail.get(key), str) and s.strip())


def _before_marker(told: Told) -> str:
    """What stands between the line with the exit code and the marker."""
    text = told.text.rstrip()[: -len(INTERRUPTED_TOOL)]
    return _EXIT.sub("", text, count=1).strip("\n")


def _whole_text(told: Told) -> str:
    return told.text


def _inner_error(told: Told) -> str | None:
    found = _NOT_STARTED.fullmatch(told.text)
    return found[1] if found else told.text


ROWS: Final[tuple[Row, ...]] = (
    Row("toolUseResult.interrupted", "stopped", _interrupted, output=_streams),
    Row(
        "toolDenialUnanswered",
        "unanswered",
        lambda t: (
            bool(t.line.get("toolDenialUnanswered"))
            or (
                t.is_error
                and t.text.startswith("Tool permission request failed")
                and "Stream closed" in t.text
            )
        ),
    ),
    Row("toolDenialKind interrupted", "unknown", lambda t: t.denial == "interrupted"),
    Row("no error", "completed", lambda t: not t.is_error and not t.denial),
    Row(
        "exit code and interrupt marker",
        "stopped",
        lambda t: bool(_EXIT.match(t.text)) and t.text.rstrip().endswith(INTERRUPTED_TOOL),
        by="user",
        output=_before_marker,
    ),
    Row(
        "interrupt marker as result",
        "stopped",
        lambda t: t.text.strip() == INTERRUPTED_TOOL and (t.version[:2] == (2, 0) or t.started),
        by="user",
    ),
    Row("interrupt marker as result", "unknown", lambda t: t.text.strip() in MARKERS),
    Row("tool_use_error", "skipped", lambda t: bool(_NOT_STARTED.fullmatch(t.text)), reason=_inner_error),
    Row(
        "words of the user in a denial",
        "denied",
        lambda t: t.text.startswith(REJECTED) and WORDS in t.text,
        by="user",
        reason=lambda t: t.text.partition(WORDS)[2],
    ),
    Row(
        "toolDenialKind automode",
        "skipped",
        lambda t: (
            t.denial.startswith("automode") or t.text.startswith("Auto mode could not evaluate this action")
        ),
        reason=_whole_text,
    ),
    Row(
        "toolDenialKind permission-rule",
        "denied",
        lambda t: t.denial == "permission-rule",
        by="policy",
        reason=_whole_text,
    ),
    Row(
        "toolDenialBeforeRun",
        "skipped",
        lambda t: t.rejected and t.line.get("toolDenialBeforeRun") is True,
        by="user",
    ),
    Row(
        "rejected, but not before it ran",
        "stopped",
        lambda t: (
            t.rejected
            and (
                t.hit
                or _FULL_TEXT in t.text
                or (t.denial == "user-rejected" and t.version >= _TELLS_BEFORE_RUN)
            )
        ),
        by="user",
    ),
    # what the client says against the signs of a start: both are recorded, the signs count
    Row("rejected, by the client's word", "denied", lambda t: t.rejected and t.started, by="user"),
    Row("rejected: before it ran or while it ran", "unknown", lambda t: t.rejected),
    Row("permission text", "denied", lambda t: bool(_POLICY.match(t.text)), by="policy", reason=_whole_text),
    Row("error of the tool", "completed", lambda _: True),
)


def prove(told: Told) -> Verdict:
    """What this result proves."""
    return next(row for row in ROWS if row.fits(told)).found(told)
