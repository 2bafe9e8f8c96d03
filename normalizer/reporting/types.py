"""The JSON of a report and of a transcript: what `Repair.report()` and `transcript-normalizer show --json` give.

`schemas/report.json` and `schemas/transcript.json` are generated from these types.
"""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import TypedDict

from normalizer.facts import OutcomeKind
from normalizer.findings import FindingKind  # noqa: TC001 - as above
from normalizer.outcomes import Basis  # noqa: TC001 - pydantic reads these annotations
from normalizer.parts import Part  # noqa: TC001 - as above
from normalizer.projection import AdjustmentKind  # noqa: TC001 - as above
from normalizer.rules import Severity  # noqa: TC001 - as above
from normalizer.transcript import EntryKind, TurnStatus  # noqa: TC001 - as above

State = OutcomeKind | Literal["pending"]


class FindingDict(TypedDict):
    """Something wrong with the input. `line` counts from 1, `pointer` is a JSON pointer in it or in the line."""

    kind: FindingKind
    message: str
    line: int | None
    pointer: str | None
    call_id: str | None
    facts: list[str]


class AdjustmentDict(TypedDict):
    """One difference between the facts and the request; `content` is what was left out, whole."""

    kind: AdjustmentKind
    message: str
    because: str | None
    call_id: str | None
    facts: list[str]
    content: str | None


class LeftoverDict(TypedDict):
    """A piece of the input that is no fact, whole."""

    reason: str
    text: str
    line: int | None
    pointer: str | None


class FragmentDict(TypedDict):
    """The beginning of a part that never arrived whole. Never executed, never sent."""

    call_id: str | None
    text: str
    reason: str
    type: str | None
    index: int | None
    name: str | None
    line: int | None
    pointer: str | None


class ViolationDict(TypedDict):
    """A rule that a request breaks, and where: a JSON pointer into the request."""

    rule: str
    severity: Severity
    pointer: str
    message: str


class OutcomeDict(TypedDict):
    """What is known about a call."""

    kind: State
    basis: Basis
    is_error: bool | None
    by: str | None
    reason: str | None


class CallOutcomeDict(OutcomeDict):
    """The outcome of one call. `server`: its provider executes it. `recovery_action`: before a repetition."""

    name: str
    server: bool
    effects: Literal["none", "to_verify", "verified"] | None
    recovery_action: str | None


class ReportDict(TypedDict):
    """All of a repair, nothing cut. `ids` maps a call's key to its id in the request."""

    format: str
    to: str
    ready: bool
    request: dict[str, Any]
    ids: dict[str, str]
    outcomes: dict[str, CallOutcomeDict]
    findings: list[FindingDict]
    adjustments: list[AdjustmentDict]
    leftovers: list[LeftoverDict]
    fragments: list[FragmentDict]
    violations_before: list[ViolationDict]
    violations_after: list[ViolationDict]


class TurnDict(TypedDict):
    """One round of work."""

    turn_id: str
    status: TurnStatus
    gated: bool
    lost: bool
    run_ids: list[str]
    cancelled_by: str | None


class EntryDict(TypedDict):
    """One item of the conversation. `calls` are the keys of the calls in `parts`; null repeats one before it."""

    kind: EntryKind
    fact_id: str
    seq: int
    at: str | None
    turn_id: str | None
    parts: list[Part]
    calls: list[str | None]


class CallDict(TypedDict):
    """A call that we execute, with everything known about it. `arguments` is its JSON text as it arrived."""

    id: str | None
    name: str
    arguments: str
    turn_id: str | None
    outcome: OutcomeDict
    effects: Literal["none", "to_verify", "verified"]
    output: str
    output_truncated: bool
    cancel_requested: bool
    remote_cancel_state: str | None
    operation_id: str | None
    run_id: str | None
    recovery_action: str | None
    facts: list[str]


class ServerCallDict(TypedDict):
    """A call that its provider executes. `answered`: its result is on record."""

    id: str | None
    name: str
    arguments: str
    outcome: OutcomeDict
    answered: bool


class ConflictDict(TypedDict):
    """Facts about one call that cannot all be true."""

    call_id: str
    message: str
    facts: list[str]


class TranscriptDict(TypedDict):
    """The fold of the facts."""

    turns: list[TurnDict]
    entries: list[EntryDict]
    calls: dict[str, CallDict]
    server_calls: dict[str, ServerCallDict]
    conflicts: list[ConflictDict]
    findings: list[FindingDict]
    requests: list[str]
    steering: list[str]
