"""What a reader hands over: facts, what was wrong with the input, and everything that became no fact.

Nothing of an input is lost: each piece is in `facts`, or whole in `leftovers` or `fragments` with a reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from normalizer.facts import Fact

FindingKind: TypeAlias = Literal[
    "orphan_result",
    "duplicate_result",
    "duplicate_call",
    "duplicate_id",
    "displaced_result",
    "missing_result",
    "contradiction",
    "bad_line",
    "bad_unicode",
    "parent_missing",
    "fragment",
    "unknown_block",
    "unknown_call",
]
"""What can be wrong with an input. The list only grows."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with an input. `line` counts from 1, `pointer` is a JSON pointer in it (or in the line)."""

    kind: FindingKind
    message: str
    line: int | None = None
    pointer: str | None = None
    call_id: str | None = None
    facts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Leftover:
    """A piece of the input that is no fact, whole (`text`: JSON or the raw line), and why it is none."""

    reason: str
    text: str
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True, slots=True)
class Fragment:
    """What a cut stream or file left of a part, as far as it came. Never executed, never sent.

    `reason` is `not_closed`, `input_incomplete`, or the word of the format; `type` and `index` are the provider's.
    """

    call_id: str | None
    text: str
    reason: str
    type: str | None = None
    index: int | None = None
    name: str | None = None
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """The facts of one input.

    `request` is the input where it is a request, with the messages that the caller gave.
    `settings` are the input's other request settings (`max_tokens`, ...); `home` is the target it came from,
    `stored` whether the provider holds part of the history (False: nothing at all). The fields from `turn` on
    belong to a stream: `turn` is ended, paused, cut or refused, `open_server_calls` and `calls_to_run` hold call ids.
    """

    format: str
    facts: tuple[Fact, ...] = ()
    findings: tuple[Finding, ...] = ()
    leftovers: tuple[Leftover, ...] = ()
    fragments: tuple[Fragment, ...] = ()
    home: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    request: dict[str, Any] | None = None
    stored: bool | None = None
    turn: Literal["ended", "paused", "cut", "refused"] | None = None
    stop_reason: str | None = None
    open_server_calls: tuple[str, ...] = ()
    calls_to_run: tuple[str, ...] = ()
