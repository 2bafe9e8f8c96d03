"""Facts, fragments and runs as the journal's rows hold them. What is read back equals what was written."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from normalizer.errors import JournalError
from normalizer.facts import FACT, FACTS
from normalizer.journal_gate import gate_of
from normalizer.journal_runs import ProcessId, Run
from normalizer.reading import Fragment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from normalizer.facts import Fact

FRAGMENT: Final = TypeAdapter(Fragment)
_new, _set = object.__new__, object.__setattr__


def stamp(moment: datetime) -> str:
    """A moment as it is stored: UTC, ISO 8601."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def row(conversation: str, fact: Any, recorded_at: str) -> tuple[Any, ...]:
    """The row of a numbered fact, in the order of the table's columns, which is that of the statement."""
    return (
        conversation,
        fact.seq,
        fact.fact_id,
        fact.kind,
        fact.turn_id,
        fact.run_id,
        getattr(fact, "call_id", None),
        gate_of(fact),
        recorded_at,
        encoded(FACT, fact),
    )


def numbered(fact: Fact, seq: int) -> Fact:
    """The same fact at its place. As `dataclasses.replace`, at a fraction of its cost."""
    if fact.seq == seq:
        return fact
    cls: Any = type(fact)
    made: Fact = _new(cls)
    for name in _names(cls):
        _set(made, name, getattr(fact, name))
    _set(made, "seq", seq)
    return made


def encoded(adapter: TypeAdapter[Any], value: Any) -> str:
    """JSON without the number, and without what is absent (None) by default."""
    cls: Any = type(value)
    left_out = {name for name in _absent_by_default(cls) if getattr(value, name) is None}
    left_out.add("seq")
    try:
        return adapter.dump_json(value, exclude=left_out).decode()
    except PydanticSerializationError as error:
        name = getattr(value, "fact_id", None) or type(value).__name__
        raise JournalError(f"{name!r} cannot be stored as JSON: {error}", reason="unstorable") from error


def decoded(conversation: str, rows: Iterable[Any]) -> tuple[Fact, ...]:
    """Facts from rows of number and body. The body does not hold the number, which is the row's."""
    texts = [(seq, f'{{"seq":{seq},{body[1:]}') for seq, body in rows]
    try:
        return FACTS.validate_json(f"[{','.join(text for _, text in texts)}]")
    except ValidationError as error:
        place = error.errors(include_url=False, include_input=False, include_context=False)[0]
        seq = texts[int(place["loc"][0])][0] if place["loc"] else 0
        raise JournalError(
            f"fact {seq} of conversation {conversation!r} cannot be read: {place['msg']};"
            " it may come from a newer release of transcript-normalizer: update it",
            reason="unreadable_fact",
        ) from None


def run_of_row(row: Any) -> Run:
    """A run from its row."""
    until = datetime.fromisoformat(row.lease_until) if row.lease_until else None
    process = ProcessId(row.host, row.pid, row.started)
    return Run(row.conversation, row.run_id, row.turn_id, row.opened, process, until, row.state)


@cache
def _names(cls: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(cls))


@cache
def _absent_by_default(cls: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(cls) if field.default is None)
