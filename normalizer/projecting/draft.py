"""One step on its way into a request: the pieces of its reply, what is known of its calls, what was decided."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from normalizer.projecting.unmapped_fields import whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from normalizer.facts import CallFact
    from normalizer.projecting.incremental import Step
    from normalizer.projecting.reports import Reports
    from normalizer.projection import Adjustment, AdjustmentKind
    from normalizer.transcript import Call, Entry

Value: TypeAlias = dict[str, Any]
"""A message, block or item of a wire, as JSON."""

REASONING: Final = "reasoning"
SERVER_CALL: Final = "server_call"
RENDERED_AS_TEXT: Final = "told"
"""The choices that a record of a request keeps, so that later requests make the same."""


class Refusal(NamedTuple):
    """Why a part does not go back to an API: the kind of the adjustment, what to say, and the cause."""

    kind: AdjustmentKind
    message: str
    cause: str


class Quote(NamedTuple):
    """What another provider's server did, as a text, and the `seq` of the reply that it stands behind."""

    seq: int
    text: str


@dataclass(frozen=True, slots=True)
class Flow:
    """What a step hands to the next.

    `asks`: the last message so far asks something of the model. `discarded` are keys of discarded calls that the last
    step renders as text; `held` those of the server's calls that were left open; `waiting` entries, late updates and
    quotes that found no place yet; `carry` outputs that stand further on, each with its `seq` and the key of its call.
    `own` is what the wire hands on for itself.
    """

    asks: bool = False
    discarded: tuple[str, ...] = ()
    held: frozenset[str] = frozenset()
    waiting: tuple[Any, ...] = ()
    carry: tuple[tuple[int, str], ...] = ()
    own: Any = None


@dataclass(slots=True)
class Piece:
    """One part of a reply: its key if it is a call or a server's result, and its `value` on the wire.

    No value: it is left out. A wire that makes one value of several parts gives it to the first of them.
    """

    number: int
    part: Any
    key: str | None
    value: Value | None = None


@dataclass(slots=True)
class Answered:
    """What a request says of a call: the call as it was when it was rendered, and its result, or own words (`text`).

    `value` is that on the wire. Without one the call stays open (`open`), or is rendered as text. `after` is the `seq`
    behind which a recorded result stands, on a wire where it may stand anywhere; None: directly behind its call.
    """

    call: Call
    kind: str
    fact: CallFact | None
    text: str | None
    value: Value | None = None
    after: int | None = None
    open: bool = False
    notes: list[Adjustment] = field(default_factory=list)


class Spoken(NamedTuple):
    """Messages of the model that stand together, and the calls in them that want a result."""

    messages: list[Value]
    calls: list[Call]


@dataclass(slots=True)
class Draft:
    """A step while it is being made.

    `own`: the reply was recorded from this API. `discarded` are keys of calls that are not shown as calls, `gone` those
    of the server's calls that are left out, `quotes` what another provider's server did. `changed`: something
    differs from what was received; `open_tail`: the server goes on from here; `wire` is the wire's own.
    """

    step: Step
    reports: Reports
    held: set[str]
    own: bool = True
    pieces: list[Piece] = field(default_factory=list)
    cutoff: int = -1
    answers: dict[str, Answered] = field(default_factory=dict)
    as_text: list[Answered] = field(default_factory=list)
    choices: list[tuple[str, str, str | None]] = field(default_factory=list)
    discarded: list[str] = field(default_factory=list)
    quotes: list[Quote] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    changed: bool = False
    dropped: bool = False
    open_tail: bool = False
    wire: Any = None

    @property
    def entry(self) -> Entry:
        """The reply of the step; only asked where there is one."""
        assert self.step.reply is not None  # noqa: S101 - the caller has looked
        return self.step.reply

    def note(
        self, kind: AdjustmentKind, message: str, cause: str | None, content: str | None = None,
        call_id: str | None = None,
    ) -> None:  # fmt: skip
        """Report a difference about the reply."""
        self.changed = True
        self.reports.entry(self.entry, kind, message, cause, content, call_id)

    def drop(self, piece: Piece, kind: AdjustmentKind, message: str, cause: str | None) -> None:
        """Leave a piece of the reply out, and say so. A server's call that was left out of a request stays out."""
        part = piece.part
        piece.value = None
        self.dropped = True
        if part.kind == "server_tool_call" and piece.key is not None:
            self.choices.append((SERVER_CALL, piece.key, None))
            self.gone.add(piece.key)
            self.held.discard(piece.key)
        self.note(kind, message, cause, whole(part), piece.key or getattr(part, "call_id", None))

    def refuse(self, piece: Piece, refusal: Refusal) -> None:
        """Leave a piece out for the reason that was found."""
        self.drop(piece, *refusal)


def named_as(names: Mapping[str, str], name: str) -> str:
    """The name of a tool on the wire."""
    return names.get(name, name) if names else name
