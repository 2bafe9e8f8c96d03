"""Facts, fragments and runs as the journal's rows hold them. What is read back equals what was written."""

from __future__ import annotations

from dataclasses import MISSING, fields
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
from normalizer.redaction import named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from normalizer.facts import Fact

FRAGMENT: Final = TypeAdapter(Fragment)
_NUMBER: Final = {"seq"}
_HOLDERS: Final = ("parts", "content", "tools")
"""The fields of facts that hold parts or tools."""


def stamp(moment: datetime) -> str:
    """A moment as it is stored: UTC, ISO 8601."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def row(conversation: str, fact: Any, recorded_at: str) -> tuple[Any, ...]:
    """The row of a numbered fact, in the order of the table's columns, which is that of the statement.

    The body is JSON, without the number, and without what is absent (None, everywhere in a fact).
    """
    cls: Any = type(fact)
    try:
        body = _encoder(cls)(fact, exclude=_NUMBER, exclude_none=True, warnings="error")
    except PydanticSerializationError:
        body = _odd_body(fact)
    if _lacks(fact):
        body = _odd_body(fact)
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
        body.decode(),
    )


def _lacks(fact: Any) -> bool:
    """Whether something that has to be there is None, in the fact or in what it holds."""
    pieces = [fact]
    for name in _HOLDERS:
        held = getattr(fact, name, None)
        if type(held) is tuple:
            pieces.extend(held)
    for piece in pieces:
        cls: Any = type(piece)
        if any(getattr(piece, name) is None for name in _required(cls)):
            return True
    return False


def _odd_body(fact: Any) -> bytes:
    """The body of a fact with values that its fields do not announce: a list is as good as a tuple, but what cannot be
    read back is not stored, since no fact of its conversation could be read again.
    """
    cls: Any = type(fact)
    try:
        body = _encoder(cls)(fact, exclude=_NUMBER, exclude_none=True, warnings="none")
        FACT.validate_json(body)
    except PydanticSerializationError as error:
        cause = str(error).split("\n", 1)[0]
        raise JournalError(
            f"{named(fact.fact_id)} cannot be stored as JSON: {cause}", reason="unstorable"
        ) from error
    except ValidationError as error:
        place = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = "".join(f"/{step}" for step in place["loc"][1:])
        raise JournalError(
            f"fact {named(fact.fact_id)} cannot be stored: {place['msg']} at {where}", reason="unstorable"
        ) from None
    return body


def numbered(facts: Iterable[Fact], first: int) -> tuple[Fact, ...]:
    """The same facts with the numbers from `first` on. As `dataclasses.replace`, at a fraction of its cost."""
    made: list[Fact] = []
    for seq, fact in enumerate(facts, start=first):
        cls: Any = type(fact)
        made.append(_copier(cls)(fact, seq))
    return tuple(made)


def fragment_body(fragment: Fragment) -> str:
    """A fragment as JSON."""
    try:
        return FRAGMENT.dump_json(fragment).decode()
    except PydanticSerializationError as error:
        raise JournalError(f"a fragment cannot be stored as JSON: {error}", reason="unstorable") from error


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
def _copier(cls: Any) -> Callable[[Fact, int], Fact]:
    """A copy of a fact of this kind with another number, written out field by field.

    So dataclasses write `__init__`; a loop over the fields takes more than twice as long.
    """
    names = [field.name for field in fields(cls)]
    values = {name: f"fact.{name}" for name in names} | {"seq": "seq"}
    lines = [
        "def copy(fact, seq):",
        " made = new(cls)",
        *(f" set_{name}(made, {value})" for name, value in values.items()),
        " return made",
    ]
    known: dict[str, Any] = {"new": object.__new__, "cls": cls}
    known |= {f"set_{name}": getattr(cls, name).__set__ for name in names}  # past what makes it frozen
    exec("\n".join(lines), known)  # noqa: S102 - made of the names of our own fields
    made: Callable[[Fact, int], Fact] = known["copy"]
    return made


@cache
def _encoder(cls: Any) -> Callable[..., bytes]:
    # of the one kind: the adapter of all kinds finds out at every fact which it is
    return TypeAdapter(cls).serializer.to_json


@cache
def _required(cls: Any) -> tuple[str, ...]:
    """The fields that a fact or part of this kind has to have."""
    return tuple(
        field.name for field in fields(cls) if field.default is MISSING and field.default_factory is MISSING
    )
