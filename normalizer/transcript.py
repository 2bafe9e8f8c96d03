"""The fold of the facts: turns, entries in order, calls with their outcomes. Plain frozen values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from normalizer.facts import PLACEHOLDER
from normalizer.parts import Text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from normalizer.facts import CallFact, Fact, RequestSent
    from normalizer.findings import Finding
    from normalizer.outcomes import Conflict, Outcome
    from normalizer.parts import Part, ResultPart, ServerToolCall, ServerToolResult, ToolCall

EntryKind: TypeAlias = Literal["instructions", "tools", "user", "reply", "steering", "summary", "news"]
TurnStatus: TypeAlias = Literal["running", "cancelling", "cancelled", "completed", "failed"]

EVERYTHING: Final = "*"
"""In the log of what was touched: the entries were rearranged."""


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """How far a conversation was folded: the list of its facts, how many there were, and how often something had been
    said about a call.

    Transcripts that were folded one onto the other share the list, each with what it began with at its beginning.
    """

    facts: list[Fact]
    size: int
    touches: int


@dataclass(frozen=True, slots=True)
class Turn:
    """One round of work. `lost`: its process is gone. `marks` are what counts of it in the outcome table."""

    turn_id: str
    status: TurnStatus = "running"
    gated: bool = False
    lost: bool = False
    run_ids: tuple[str, ...] = ()
    cancelled_by: str | None = None
    marks: frozenset[str] = frozenset()

    @property
    def over(self) -> bool:
        """Whether nothing of it can start any more."""
        return self.lost or self.status in ("cancelled", "completed", "failed")


@dataclass(frozen=True, slots=True)
class Entry:
    """One item of the conversation, made from one fact.

    `calls` are the keys of the calls in `parts`, client and server calls alike, in their order; None stands for a call
    that repeats one before it. News is the notice of an attested outcome that stood as a late update in what was read.
    """

    kind: EntryKind
    fact: Any  # a ConversationFact or OutcomeAttested; which, `kind` says
    parts: tuple[Part, ...] = ()
    calls: tuple[str | None, ...] = ()

    @property
    def text(self) -> str:
        """The readable text of this entry."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the model that we execute, with everything known about it.

    `key` names it in facts: the model's id, or `id#2` for the second call with that id. `facts` are in order of `seq`.
    """

    key: str
    part: ToolCall
    reply: str
    turn_id: str | None
    facts: tuple[CallFact, ...]
    outcome: Outcome

    @property
    def id(self) -> str | None:
        """The id that the model's provider gave."""
        return self.part.id

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.part.name

    @property
    def arguments(self) -> Any:
        """The parsed arguments; the raw text where they do not parse. No arguments are `{}`."""
        text = self.part.arguments
        if not text.valid:
            return text.text if text.text.strip() else {}
        return {} if text.value is None else text.value

    @property
    def result(self) -> CallFact | None:
        """The fact whose recorded content is the call's result, if there is one."""
        for fact in self.facts:
            if fact.kind == "call_completed" or (
                fact.kind == "outcome_attested" and fact.outcome == "completed" and fact.content is not None
            ):
                return fact if fact.content is not None else None
        return None

    @property
    def further_results(self) -> tuple[tuple[str, str], ...]:
        """Recorded results that differ from the one that counts: the `fact_id` of each, and its text or JSON."""
        first = self.result
        others = (
            [f for f in self.facts if f.kind == "call_completed" and f is not first]
            if first is not None
            else []
        )
        return tuple(
            (
                f.fact_id,
                f.content
                if isinstance(f.content, str)
                else f.raw.text
                if f.raw is not None
                else words(f.content),
            )
            for f in others
            if f.content is not None and f.content != first.content  # type: ignore[union-attr]
        )

    @property
    def output(self) -> str:
        """Known output of a call that did not complete, joined in order."""
        pieces = []
        for fact in self.facts:
            if fact.kind == "output_observed":
                pieces.append(fact.text)
            elif (
                fact.kind == "outcome_attested"
                and fact.content is not None
                and fact.outcome != "completed"
                and not (fact.evidence or "").startswith(PLACEHOLDER)
            ):
                pieces.append(words(fact.content))
        return "".join(pieces)

    @property
    def output_truncated(self) -> bool:
        """Whether more output was there than was kept."""
        return any(getattr(fact, "truncated", False) for fact in self.facts)

    @property
    def cancel_requested(self) -> bool:
        """Whether somebody asked this call to stop."""
        return any(fact.kind == "call_cancel_requested" for fact in self.facts)

    @property
    def remote_cancel_state(self) -> str | None:
        """The newest state of a cancel sent to a remote tool."""
        states = [fact.state for fact in self.facts if fact.kind == "remote_cancel_updated"]
        return states[-1] if states else None

    @property
    def effects(self) -> Literal["none", "to_verify", "verified"]:
        """What is known of its effects: none possible or found, still to be looked at, or looked at and found."""
        looked = [fact for fact in self.facts if fact.kind == "effects_verified"]
        if looked:
            return "none" if looked[-1].effects == "none" else "verified"
        if self.outcome.kind in ("denied", "never_run") and not self._attested_by_notice:
            return "none"
        permits = [fact for fact in self.facts if fact.kind == "start_permitted"]
        if permits and not any(fact.may_have_effects for fact in permits):
            return "none"
        return "none" if self.outcome.kind == "completed" else "to_verify"

    @property
    def _attested_by_notice(self) -> bool:
        return any(fact.kind == "outcome_attested" and fact.notice is not None for fact in self.facts)

    @property
    def operation_id(self) -> str | None:
        """The id of the business operation at a remote, from the permit."""
        return next((f.operation_id for f in self.facts if f.kind == "start_permitted"), None)

    @property
    def run_id(self) -> str | None:
        """The run that was permitted to start it."""
        return next((f.run_id for f in self.facts if f.kind == "start_permitted"), None)

    @property
    def last_observation(self) -> CallFact | None:
        """The newest fact about it: when, by whom, truncated or not."""
        return self.facts[-1] if self.facts else None

    @property
    def recovery_action(self) -> str | None:
        """What has to happen before its operation may be repeated; None where nothing has to."""
        if self.outcome.kind != "unknown" or self.effects != "to_verify":
            return None
        declared = [fact.recovery for fact in self.facts if fact.kind == "start_permitted" and fact.recovery]
        return declared[-1] if declared else "ask"

    @property
    def conflicting(self) -> bool:
        """Whether more than one fact speaks about its end."""
        return len(self.facts) > 1


@dataclass(frozen=True, slots=True)
class ServerCall:
    """A call that the provider executes. `result` is what it returned, in whatever later reply that stood."""

    key: str
    part: ServerToolCall
    reply: str
    outcome: Outcome
    result: ServerToolResult | None = None
    result_reply: str | None = None

    @property
    def id(self) -> str | None:
        """The provider's id."""
        return self.part.id

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.part.name


@dataclass(frozen=True, slots=True, eq=False)
class Transcript:
    """What the facts add up to.

    `entries` are what the conversation is now: what a summary or a rewind put away is no entry, but stays in `facts`.
    `heads` are those entries that hold instructions or tools. `calls` and `server_calls` are by key.
    `requests` are what was sent, in order; `steering` is queued and not applied. `pending` are the keys of
    calls that have no outcome yet, `refusals` the requests that the API refused, with its error.
    """

    turns: Mapping[str, Turn] = field(default_factory=dict)
    entries: tuple[Entry, ...] = ()
    heads: tuple[Entry, ...] = ()
    pending: tuple[str, ...] = ()
    calls: Mapping[str, Call] = field(default_factory=dict)
    server_calls: Mapping[str, ServerCall] = field(default_factory=dict)
    conflicts: tuple[Conflict, ...] = ()
    findings: tuple[Finding, ...] = ()
    requests: tuple[RequestSent, ...] = ()
    refusals: Mapping[str, str | None] = field(default_factory=dict)
    steering: tuple[str, ...] = ()
    _kept: Any = field(default=None, repr=False)

    @property
    def point(self) -> Point | None:
        """How far this conversation was folded."""
        kept = self._kept
        return Point(kept.facts, kept.size, kept.touched_to) if kept is not None else None

    def grew_from(self, earlier: Point | None) -> bool:
        """Whether this is the transcript that was folded up to there, or was folded onto it: work on it serves here.

        Not so for an older transcript, nor for one that was folded onto the same one beside it.
        """
        kept = self._kept
        return (
            earlier is not None
            and kept is not None
            and earlier.facts is kept.facts
            and earlier.size <= kept.size
        )

    @property
    def touches(self) -> int:
        """How often something was said about a call, up to here."""
        return self._kept.touched_to if self._kept is not None else 0

    def touched(self, since: int) -> list[str] | None:
        """The keys of the calls about which something was said behind the first `since` times, in that order.

        None where the entries were rearranged meanwhile: it may have been about any.
        """
        keys: list[str] = self._kept.touched[since : self._kept.touched_to] if self._kept is not None else []
        return None if EVERYTHING in keys else keys

    @property
    def cuts(self) -> int:
        """How many summaries and rewinds there are."""
        return len(self._kept.cut) if self._kept is not None else 0

    @property
    def through(self) -> int:
        """The highest `seq` of the facts; 0 where there are none."""
        return self._kept.last if self._kept is not None else 0

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All facts, each once, in the order in which they were folded."""
        return tuple(self._kept.facts[: self._kept.size]) if self._kept is not None else ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Transcript) and all(
            getattr(self, name) == getattr(other, name)
            for name in (
                "turns",
                "entries",
                "calls",
                "server_calls",
                "conflicts",
                "findings",
                "requests",
                "steering",
            )
        )

    __hash__ = None  # type: ignore[assignment]


def words(content: str | tuple[ResultPart, ...]) -> str:
    """The readable text of a result's content."""
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content if isinstance(part, Text))
