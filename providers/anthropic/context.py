"""What a Messages projection goes by, what its steps hand on, and what is noted of one step beside its draft."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.anthropic import beginning, wire

if TYPE_CHECKING:
    from collections.abc import Mapping

    from normalizer.facts import CallFact
    from normalizer.projecting.context import Context
    from normalizer.projecting.draft import Draft, Flow, Value
    from normalizer.projecting.user_turn import UserTurn
    from normalizer.projection import AdjustmentKind
    from normalizer.providers.anthropic.preamble import Top
    from normalizer.transcript import Call, Entry


class ClaudeContext:
    """One projection; `head` is set by who makes it. `beginning` says who may stand first."""

    head: Top

    def __init__(self, context: Context) -> None:
        self.options = context.options
        self.model = context.model or wire.COMMONEST
        self.row = wire.capability(self.model)
        self.family = wire.family(self.model)
        self.history = context.history
        self.calls = context.transcript.calls
        self.server_calls = context.transcript.server_calls
        self.entries = context.transcript.entries
        self.ids: Mapping[str, str] = context.ids.by_key.lookup
        self.beginning = beginning.beginning(context.transcript)


@dataclass(frozen=True, slots=True)
class Handed:
    """What a step hands to the next (`Flow.own`).

    `started`: a message stands before it. `intact`: nothing before it differs from what was read. `after_user`: the
    last message is the user's side's; `after_result`: it ends in a server's result. `betas` are block types that need a
    beta, `marks` counts cache marks, `container` is that of waiting code, `system` what system messages say yet.
    """

    started: bool = False
    intact: bool = True
    after_user: bool = False
    after_result: bool = False
    betas: frozenset[str] = frozenset()
    marks: int = 0
    container: str | None = None
    system: tuple[Entry, ...] = ()


_FIRST: Final = Handed()


def handed(flow: Flow) -> Handed:
    """What the steps before hand on."""
    found: Handed = flow.own or _FIRST
    return found


@dataclass(slots=True)
class Displaced:
    """A block that may not stand in the result of a call, and how that is reported."""

    block: Value
    kind: AdjustmentKind
    message: str
    because: str
    call: Call
    fact: CallFact


@dataclass(slots=True)
class Notes:
    """What is noted of one step (`Draft.wire`).

    `begun`: its reply was not left out whole. `results` are the blocks of results with what was recorded; `displaced`
    what comes behind them. `system` are entries for system messages, each with how much the user's side had said then.
    `told`: system messages from before stand in front of the reply.
    """

    begun: bool = False
    betas: set[str] = field(default_factory=set)
    results: list[tuple[Value, Any]] = field(default_factory=list)
    displaced: list[Displaced] = field(default_factory=list)
    system: list[tuple[Entry, int]] = field(default_factory=list)
    turn: UserTurn | None = None
    told: bool = False


def notes_of(draft: Draft) -> Notes:
    """The notes of a step, made when they are first asked for."""
    found: Notes | None = draft.wire
    if found is None:
        found = draft.wire = Notes()
    return found
