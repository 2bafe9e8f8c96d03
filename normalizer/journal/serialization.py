"""Facts, fragments and runs as the journal's rows hold them. What is read back equals what was written."""

from __future__ import annotations

from dataclasses import MISSING, fields
from datetime import UTC, datetime
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from normalizer.errors import JournalError
from normalizer.facts import FACT, FACTS
from normalizer.findings import Fragment
from normalizer.journal.launch_gate import gate_of
from normalizer.journal.processes import ProcessId, Run
from normalizer.util.redaction import named
from normalizer.util.speed import twin_of

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


def rows(conversation: str, facts: Iterable[Any], recorded_at: str) -> list[tuple[Any, ...]]:
    """The rows of numbered facts, in the order of the table's columns, which is that of the statement.

    The body is JSON, without the number, and without what is absent (None, everywhere in a fact).
    """
    made: list[tuple[Any, ...]] = []
    cls: Any = None
    for fact in facts:
        if type(fact) is not cls:
            cls = type(fact)
            encode, plain = _encoder(cls)
            of_call = hasattr(cls, "call_id")
        try:
            body = (
                encode(fact, exclude=_NUMBER, exclude_none=True) if plain(fact) else _looked_at(fact, encode)
            )
        except PydanticSerializationError:
            body = _odd_body(fact, encode)
        made.append(
            (
                conversation, fact.seq, fact.fact_id, fact.kind, fact.turn_id, fact.run_id,
                fact.call_id if of_call else None, gate_of(fact), recorded_at, body.decode(),
            )
        )  # fmt: skip
    return made


def _looked_at(fact: Any, encode: Callable[..., bytes]) -> bytes:
    """The body of a fact that holds more than plain values, all of which are looked at."""
    body = encode(fact, exclude=_NUMBER, exclude_none=True, warnings="error")
    return _odd_body(fact, encode) if _lacks(fact) else body


def _lacks(fact: Any) -> bool:
    """Whether something that has to be there is None, in the fact or in what it holds."""
    cls: Any = type(fact)
    required, holders = _needs(cls)
    if None in required(fact):
        return True
    for name in holders:
        held = getattr(fact, name)
        if type(held) is tuple and any(map(_lacks, held)):
            return True
    return False


def _odd_body(fact: Any, encode: Callable[..., bytes]) -> bytes:
    """The body of a fact with values that its fields do not announce: a list is as good as a tuple, but what cannot be
    read back is not stored, since no fact of its conversation could be read again.
    """
    try:
        body = encode(fact, exclude=_NUMBER, exclude_none=True, warnings="none")
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
    cls: Any = None
    for seq, fact in enumerate(facts, start=first):
        if type(fact) is not cls:
            cls = type(fact)
            copy = _copier(cls)
        made.append(copy(fact, seq))
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
    """A copy of a fact of this kind with another number, field by field, as dataclasses write their `__init__`."""
    names = [field.name for field in fields(cls) if field.name != "seq"]
    lines = [
        "def copy(fact, seq):",
        "    made = new(twin)",
        "    made.seq = seq",
        *(f"    made.{name} = fact.{name}" for name in names),
        "    made.__class__ = cls",
        "    return made",
    ]
    known: dict[str, Any] = {"new": object.__new__, "twin": twin_of(cls), "cls": cls}
    exec("\n".join(lines), known)  # noqa: S102 - made of the names of our own fields
    made: Callable[[Fact, int], Fact] = known["copy"]
    return made


@cache
def _encoder(cls: Any) -> tuple[Callable[..., bytes], Callable[[Any], bool]]:
    """How facts of this kind become JSON, and whether one holds plain values of the right types alone.

    Of such a fact nothing else has to be looked at, which saves a third of the time.
    """
    # of the one kind: the adapter of all kinds finds out at every fact which it is
    encode: Callable[..., bytes] = TypeAdapter(cls).serializer.to_json
    hints = get_type_hints(cls, include_extras=False)
    known: dict[str, Any] = {}
    looks: list[str] = []
    for field in fields(cls):
        types, words = _plain(hints[field.name])
        known |= {f"types_{field.name}": types, f"words_{field.name}": words}
        looks.append(f"type(fact.{field.name}) in types_{field.name}")
        if words:
            looks.append(f"fact.{field.name} in words_{field.name}")
    plain: Callable[[Any], bool] = eval(f"lambda fact: {' and '.join(looks)}", known)  # noqa: S307 - our own fields
    return encode, plain


def _plain(hint: Any) -> tuple[frozenset[Any], frozenset[Any]]:
    """Those types of a field that hold nothing further, and its words where there are only so many."""
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    words = {word for member in members if get_origin(member) is Literal for word in get_args(member)}
    types = {*members, *map(type, words)} & {str, int, bool, NoneType}
    return frozenset(types), frozenset(words and words | ({None} if NoneType in types else set()))


@cache
def _needs(cls: Any) -> tuple[Callable[[Any], tuple[Any, ...]], tuple[str, ...]]:
    """What a fact or part of this kind has to have, for one look at it all, and which fields hold further parts."""
    names = [field.name for field in fields(cls)]
    required = [f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING]
    # the first one twice: of a single name `attrgetter` gives the value and no tuple
    look = attrgetter(required[0], *required) if required else lambda _: ()
    return look, tuple(name for name in _HOLDERS if name in names)
