"""Findings, adjustments, leftovers, fragments and violations as JSON and as lines for people.

The JSON is whole and unredacted: a report is the record that nothing was lost, so it is written for its owner
alone. The lines are short and redacted: they go to terminals and logs.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, cast

from normalizer.parts import Json
from normalizer.util.redaction import named
from normalizer.util.text import excerpt, jsonable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from normalizer.findings import Finding, Fragment, Leftover
    from normalizer.outcomes import Outcome
    from normalizer.projection import Adjustment
    from normalizer.reporting.types import (
        AdjustmentDict,
        CallDict,
        CallOutcomeDict,
        EntryDict,
        FindingDict,
        FragmentDict,
        LeftoverDict,
        OutcomeDict,
        ServerCallDict,
        TranscriptDict,
        ViolationDict,
    )
    from normalizer.rules import Violation
    from normalizer.transcript import Call, Entry, ServerCall, Transcript

LINE_LIMIT = 300
"""Characters of a message in a line."""


# ---------------------------------------------------------------- JSON


def request_dict(request: Mapping[str, Any]) -> dict[str, Any]:
    """A request, with what JSON cannot hold made visible in its place."""
    return {jsonable(key): _piecewise(value) for key, value in request.items()}


def ids_dict(ids: Mapping[str, str]) -> dict[str, str]:
    """The ids of calls in a request, by their keys: `{"call_0#2": "call_0_2"}`."""
    return {jsonable(key): jsonable(wire) for key, wire in ids.items()}


def outcomes(transcript: Transcript) -> dict[str, CallOutcomeDict]:
    """The outcome of every call by its key, client and server calls alike."""
    found: dict[str, CallOutcomeDict] = {}
    for key, call in transcript.calls.items():
        found[jsonable(key)] = {
            **outcome_dict(call.outcome),
            "name": jsonable(call.name),
            "server": False,
            "effects": call.effects,
            "recovery_action": jsonable(call.recovery_action),
        }
    for key, server_call in transcript.server_calls.items():
        found[jsonable(key)] = {
            **outcome_dict(server_call.outcome),
            "name": jsonable(server_call.name),
            "server": True,
            "effects": None,
            "recovery_action": None,
        }
    return found


def transcript_dict(transcript: Transcript) -> TranscriptDict:
    """A transcript as JSON."""
    return {
        "turns": [cast("Any", _dict(turn, without=("marks",))) for turn in transcript.turns.values()],
        "entries": [_entry_dict(entry) for entry in transcript.entries],
        "calls": {jsonable(key): _call_dict(call) for key, call in transcript.calls.items()},
        "server_calls": {
            jsonable(key): _server_call_dict(call) for key, call in transcript.server_calls.items()
        },
        "conflicts": [cast("Any", _dict(conflict)) for conflict in transcript.conflicts],
        "findings": [finding_dict(found) for found in transcript.findings],
        "requests": [jsonable(sent.fact_id) for sent in transcript.requests],
        "steering": jsonable(list(transcript.steering)),
    }


def finding_dict(finding: Finding) -> FindingDict:
    """A finding as JSON."""
    return cast("FindingDict", _dict(finding))


def adjustment_dict(adjustment: Adjustment) -> AdjustmentDict:
    """An adjustment as JSON."""
    return cast("AdjustmentDict", _dict(adjustment))


def leftover_dict(leftover: Leftover) -> LeftoverDict:
    """A leftover as JSON, whole."""
    return cast("LeftoverDict", _dict(leftover))


def fragment_dict(fragment: Fragment) -> FragmentDict:
    """A fragment as JSON, whole."""
    return cast("FragmentDict", _dict(fragment))


def violation_dict(violation: Violation) -> ViolationDict:
    """A violation as JSON."""
    return cast("ViolationDict", _dict(violation))


def outcome_dict(outcome: Outcome) -> OutcomeDict:
    """An outcome as JSON."""
    return cast("OutcomeDict", _dict(outcome))


def _entry_dict(entry: Entry) -> EntryDict:
    fact = entry.fact
    return {
        "kind": entry.kind,
        "fact_id": jsonable(fact.fact_id),
        "seq": fact.seq,
        "at": jsonable(fact.at),
        "turn_id": jsonable(fact.turn_id),
        "parts": [cast("Any", _dict(part)) for part in entry.parts],
        "calls": jsonable(list(entry.calls)),
    }


def _call_dict(call: Call) -> CallDict:
    return {
        "id": jsonable(call.id),
        "name": jsonable(call.name),
        "arguments": jsonable(call.part.arguments.text),
        "turn_id": jsonable(call.turn_id),
        "outcome": outcome_dict(call.outcome),
        "effects": call.effects,
        "output": jsonable(call.output),
        "output_truncated": call.output_truncated,
        "cancel_requested": call.cancel_requested,
        "remote_cancel_state": jsonable(call.remote_cancel_state),
        "operation_id": jsonable(call.operation_id),
        "run_id": jsonable(call.run_id),
        "recovery_action": jsonable(call.recovery_action),
        "facts": [jsonable(fact.fact_id) for fact in call.facts],
    }


def _server_call_dict(call: ServerCall) -> ServerCallDict:
    return {
        "id": jsonable(call.id),
        "name": jsonable(call.name),
        "arguments": jsonable(call.part.arguments.text),
        "outcome": outcome_dict(call.outcome),
        "answered": call.result is not None,
    }


def _dict(record: Any, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """A frozen record of ours as JSON, field by field."""
    return {f.name: _field(getattr(record, f.name)) for f in fields(record) if f.name not in without}


def _field(value: Any) -> Any:
    if isinstance(value, Json):
        value = value.text
    return jsonable(list(value) if isinstance(value, tuple) else value)


def _piecewise(value: Any) -> Any:
    """A long list item by item, so that a request of hundreds of megabytes is never held as one text."""
    return [jsonable(item) for item in value] if isinstance(value, list) else jsonable(value)


# ---------------------------------------------------------------- lines


def place(line: int | None, pointer: str | None) -> str:
    """`line 7, /message/content/0`: where something stands, as far as that is known."""
    return ", ".join([*([f"line {line}"] if line else []), *([excerpt(pointer, 200)] if pointer else [])])


def finding_line(finding: Finding) -> str:
    """A finding as one line."""
    return _line(place(finding.line, finding.pointer), finding.kind, finding.message)


def adjustment_line(adjustment: Adjustment) -> str:
    """An adjustment as one line, with what asked for it."""
    because = excerpt(adjustment.because or "")
    because = f" ({because})" if because and because not in adjustment.message else ""
    return _line("", adjustment.kind, adjustment.message) + because


def violation_line(violation: Violation) -> str:
    """A violation as one line; `/` is the request as a whole."""
    return _line(
        place(None, violation.pointer or "/"), f"{violation.rule} ({violation.severity})", violation.message
    )


def leftover_line(leftover: Leftover) -> str:
    """A leftover as one line: why it is none of the facts, and how it begins."""
    return _line(
        place(leftover.line, leftover.pointer), "kept aside", f"{leftover.reason}: {excerpt(leftover.text)}"
    )


def leftover_lines(leftovers: Iterable[Leftover]) -> list[str]:
    """Leftovers as lines, one a reason: a long session has one of the same kind on every line."""
    reasons: dict[str, list[Leftover]] = {}
    for leftover in leftovers:
        reasons.setdefault(leftover.reason, []).append(leftover)
    return [_several(reason, found) for reason, found in reasons.items()]


def _several(reason: str, leftovers: list[Leftover]) -> str:
    if len(leftovers) == 1:
        return leftover_line(leftovers[0])
    first = place(leftovers[0].line, leftovers[0].pointer)
    where = f", the first at {first}" if first else ""
    return _line("", "kept aside", f"{reason}: {len(leftovers)} pieces{where}")


def fragment_line(fragment: Fragment) -> str:
    """A fragment as one line: of which call, why, and how it begins."""
    of = f"call {named(fragment.call_id)}" if fragment.call_id else fragment.type or "a part"
    said = f"{of} ({fragment.reason}): {excerpt(fragment.text)}"
    return _line(place(fragment.line, fragment.pointer), "fragment", said)


def tally(kinds: Iterable[str]) -> str:
    """`2 completed, 1 unknown`: how often each word occurs, in order of first appearance."""
    counts: dict[str, int] = {}
    for kind in kinds:
        counts[kind] = counts.get(kind, 0) + 1
    return ", ".join(f"{count} {kind}" for kind, count in counts.items())


def _line(where: str, kind: str, message: str) -> str:
    return f"{where + ': ' if where else ''}{kind}: {excerpt(message, LINE_LIMIT)}"
