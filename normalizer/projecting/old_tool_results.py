"""What every projection says of the results of calls: which one, in what order, and how it is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from normalizer import notices
from normalizer.projection import Adjustment
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from normalizer.facts import CallFact, Told
    from normalizer.projecting.sent_history import Chain
    from normalizer.transcript import Call


class Answer(NamedTuple):
    """What is told of a call: the call as it was when it was told, and its result, or words that were sent before."""

    call: Call
    kind: str
    fact: CallFact | None
    text: str | None


def answer(call: Call, chain: Chain, *, running: bool) -> Answer:
    """What was sent of a call, for good; else what was read before late news of it; else what is known."""
    told = chain.told.get(call.key)
    if told is not None:
        fact = next((f for f in call.facts if f.fact_id == told.result), None) if told.text is None else None
        return Answer(call, told.outcome, fact, told.text)
    late = next((f.seq for f in call.facts if f.kind == "outcome_attested" and f.late), None)
    if late is not None:
        return Answer(*notices.told_before(call, late), None)
    kind = notices.told_kind(call, running=running)
    return Answer(call, kind, call.result if kind == "completed" else None, None)


def shown_at(call: Call) -> int | None:
    """Where what was read of a call stood, if it came in a message."""
    return call.facts[0].seq if call.facts and call.facts[0].group is not None else None


def in_order(
    calls: list[Call], told: Mapping[str, Told], place: Callable[[Call], int | None] = shown_at
) -> list[Call]:
    """As they were sent; else as they were recorded, if all were; else in the order of the calls."""
    if len(calls) < 2:
        return calls
    if all(call.key in told for call in calls):
        order = {key: n for n, key in enumerate(told)}
        return sorted(calls, key=lambda call: order[call.key])
    places = {call.key: at for call in calls if (at := place(call)) is not None}
    return sorted(calls, key=lambda call: places[call.key]) if len(places) == len(calls) else calls


def noticed(call: Call, kind: str) -> Adjustment:
    """The report that an outcome is told in a result's place."""
    return Adjustment(
        "notice", f"call {named(call.key)} has no recorded result: its outcome ({kind}) is told instead", kind,
        call.key, tuple(f.fact_id for f in call.facts), notices.stood_for(call),
    )  # fmt: skip


def further(call: Call, because: str) -> Iterator[Adjustment]:
    """The report of results beside the one that counts, where they differ from it."""
    for fact_id, content in call.further_results if call.conflicting else ():
        message = f"a further result of call {named(call.key)} is not sent"
        yield Adjustment("merged", message, because, call.key, (fact_id,), content)
