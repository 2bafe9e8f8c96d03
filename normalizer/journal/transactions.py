"""Reading and writing rows, each conversation under its own lock.

The lock is the conversation's row: whoever changes it holds it until the end of the transaction, and takes the
next `seq` with the same statement. So a number is never seen before a lower one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from sqlalchemy import bindparam, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from normalizer.errors import JournalError
from normalizer.journal.schema import CONVERSATIONS, FRAGMENTS, RUNS
from normalizer.journal.schema import FACTS as ROWS
from normalizer.journal.serialization import (
    FRAGMENT,
    decoded,
    fragment_body,
    numbered,
    rows,
    run_of_row,
    stamp,
)
from normalizer.journal.statements import ADD_ONE, CLOSE_RUN, COLUMNS, INSERT, LAST, RAISE, TAKE
from normalizer.util.collector import collector_paused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from normalizer.facts import Fact
    from normalizer.findings import Fragment
    from normalizer.journal.driver import Driven
    from normalizer.journal.processes import Run
    from normalizer.journal.statements import Driver

_CHUNK: Final = 500  # how many values one statement compares with; databases bound it
_NO_LIMIT: Final = 2**62
_CLOSES: Final = {"turn_ended": "ended", "run_lost": "lost"}
_BODIES: Final = (
    select(ROWS.c.seq, ROWS.c.body)
    .where(ROWS.c.conversation == bindparam("conversation"), ROWS.c.seq > bindparam("after"))
    .order_by(ROWS.c.seq)
    .limit(bindparam("limit"))
)
_GATE: Final = select(ROWS.c.seq, ROWS.c.body).where(
    ROWS.c.conversation == bindparam("conversation"), ROWS.c.gate.in_(bindparam("gates", expanding=True))
)


class Known(JournalError):
    """Facts with some of these ids are recorded already: perhaps the same ones, which `add_unknown` finds out."""

    def __init__(self, facts: Sequence[Fact]) -> None:
        names = ", ".join(repr(fact.fact_id) for fact in facts)
        super().__init__(
            f"a fact of this conversation has an id among {names}; give every fact an id of its own",
            reason="fact_id_reused",
        )


@dataclass(slots=True)
class Numbered:
    """A conversation inside a transaction that holds its lock. `last` is the highest `seq` taken."""

    connection: Driver
    conversation: str
    last: int
    recorded_at: str

    @collector_paused
    def add(self, facts: Sequence[Fact], first: int) -> tuple[Fact, ...]:
        """Record facts under the numbers from `first` on, which were taken before."""
        added = numbered(facts, first)
        try:
            INSERT.rows(self.connection, rows(self.conversation, added, self.recorded_at))
        except IntegrityError as error:
            raise Known(facts) from error
        for fact in added:
            if fact.kind in _CLOSES and fact.turn_id is not None:
                CLOSE_RUN.on(
                    self.connection,
                    of=self.conversation, turn=fact.turn_id, was="open", becomes=_CLOSES[fact.kind],
                )  # fmt: skip
        return added


@dataclass(slots=True)
class Locked(Numbered):
    """As `Numbered`, and everything else that is read and written under the lock."""

    connection: Connection

    def gate(self, *keys: str) -> tuple[Fact, ...]:
        """The facts that the launch gate knows of these turns and calls, in order."""
        rows = self.connection.execute(_GATE, {"conversation": self.conversation, "gates": keys})
        # sorted here: SQLite, if asked to, goes through the whole conversation in order instead of using the index
        return decoded(self.conversation, sorted(rows, key=itemgetter(0)))

    def known(self, fact_ids: Iterable[str]) -> dict[str, Fact]:
        """Those of these facts that are recorded."""
        found: dict[str, Fact] = {}
        for some in _chunks(fact_ids):
            rows = self.connection.execute(
                select(ROWS.c.seq, ROWS.c.body).where(
                    ROWS.c.conversation == self.conversation, ROWS.c.fact_id.in_(some)
                )
            )
            found.update((fact.fact_id, fact) for fact in decoded(self.conversation, rows))
        return found

    def take(self, count: int) -> int:
        """Take further numbers; the first of them."""
        self.last += count
        self.connection.execute(
            update(CONVERSATIONS).where(CONVERSATIONS.c.id == self.conversation).values(last_seq=self.last)
        )
        return self.last - count + 1

    def open_run(self) -> Run | None:
        """The run of this conversation that is neither over nor lost."""
        found = self.connection.execute(
            select(RUNS).where(RUNS.c.conversation == self.conversation, RUNS.c.state == "open").limit(1)
        ).first()
        return run_of_row(found) if found else None

    def run(self, run_id: str) -> Run | None:
        """A run by its id."""
        found = self.connection.execute(
            select(RUNS).where(RUNS.c.conversation == self.conversation, RUNS.c.run_id == run_id)
        ).first()
        return run_of_row(found) if found else None

    def add_run(self, run: Run) -> None:
        """Remember who runs a turn."""
        self.connection.execute(
            insert(RUNS).values(
                conversation=run.conversation,
                run_id=run.run_id,
                turn_id=run.turn_id,
                opened=run.opened,
                host=run.process.host,
                pid=run.process.pid,
                started=run.process.started,
                lease_until=run.lease_until and stamp(run.lease_until),
                state=run.state,
            )
        )

    def add_fragments(self, about: str, fragments: Sequence[Fragment]) -> None:
        """Keep what a cut reply left, once."""
        where = FRAGMENTS.c.conversation == self.conversation, FRAGMENTS.c.about == about
        there = set(self.connection.execute(select(FRAGMENTS.c.place).where(*where)).scalars())
        top = select(func.max(FRAGMENTS.c.number)).where(FRAGMENTS.c.conversation == self.conversation)
        number = self.connection.execute(top).scalar() or 0
        rows = [
            {
                "conversation": self.conversation,
                "number": number + place,
                "about": about,
                "place": place,
                "recorded_at": self.recorded_at,
                "body": fragment_body(fragment),
            }
            for place, fragment in enumerate(fragments, start=1)
            if place not in there
        ]
        if rows:
            self.connection.execute(insert(FRAGMENTS), rows)


def lock(connection: Connection, conversation: str, now: datetime, count: int = 0) -> Locked:
    """Lock a conversation, and take `count` numbers at once."""
    return Locked(connection, conversation, _taken(connection, conversation, count), stamp(now))


def append(driver: Driven, conversation: str, facts: Sequence[Fact], now: datetime) -> tuple[Fact, ...]:
    """Record facts that are not there yet; raises Known where one is."""
    first = facts[0]
    if ADD_ONE.fits(driver) and len(facts) == 1 and first.kind not in _CLOSES:
        return (_add_one(driver, conversation, first, stamp(now)),)
    driver.begin()
    if RAISE.fits(driver):
        RAISE.on(driver, conversation=conversation, count=len(facts))
        last = LAST.on(driver, conversation=conversation).fetchone()[0]
    else:
        last = _taken(driver, conversation, len(facts))
    return Numbered(driver, conversation, last, stamp(now)).add(facts, last - len(facts) + 1)


def _add_one(driver: Driven, conversation: str, fact: Fact, recorded_at: str) -> Fact:
    """Take a number and record a fact under it, in one statement that is its own transaction."""
    (columns,) = rows(conversation, [fact], recorded_at)
    try:
        found = ADD_ONE.on(driver, count=1, **dict(zip(COLUMNS, columns, strict=True)))
    except IntegrityError as error:
        raise Known([fact]) from error
    return numbered([fact], found.fetchone()[0])[0]


def _taken(driver: Driver, conversation: str, count: int) -> int:
    last: int
    (last,) = TAKE.on(driver, conversation=conversation, count=count).fetchone()
    return last


def add_unknown(locked: Locked, facts: Sequence[Fact]) -> tuple[Fact, ...]:
    """Record those that are not there yet; every one as it is recorded."""
    known = locked.known(fact.fact_id for fact in facts)
    unknown: dict[str, Fact] = {}
    for fact in facts:
        same = known.get(fact.fact_id) or unknown.setdefault(fact.fact_id, fact)
        if replace(same, seq=fact.seq) != fact:
            raise JournalError(
                f"another fact of this conversation has the id {fact.fact_id!r} ({same.kind});"
                " give every fact an id of its own",
                reason="fact_id_reused",
            )
    if unknown:
        added = locked.add(tuple(unknown.values()), locked.take(len(unknown)))
        known.update((fact.fact_id, fact) for fact in added)
    return tuple(known[fact.fact_id] for fact in facts)


def check_known(locked: Locked, facts: Sequence[Fact]) -> None:
    """Refuse facts that only the gate writes, unless the gate wrote them."""
    known = locked.known(fact.fact_id for fact in facts)
    for fact in facts:
        if fact.fact_id not in known:
            asked = "permit_start" if fact.kind == "start_permitted" else "open_turn"
            raise JournalError(
                f"{fact.kind} {fact.fact_id!r} was not recorded: only the launch gate writes it; call {asked},"
                " or pass imported=True for facts that another journal recorded",
                reason="gate_only",
            )


# ---------------------------------------------------------------- reading


def facts(connection: Connection, conversation: str, after: int, limit: int | None) -> tuple[Fact, ...]:
    """The facts behind a number, in order."""
    asked = {"conversation": conversation, "after": after, "limit": _NO_LIMIT if limit is None else limit}
    return decoded(conversation, connection.execute(_BODIES, asked))


def conversations(connection: Connection) -> tuple[str, ...]:
    """The ids of all conversations, sorted."""
    return tuple(sorted(connection.execute(select(CONVERSATIONS.c.id)).scalars()))


def fragments(connection: Connection, conversation: str) -> tuple[Fragment, ...]:
    """What cut replies left, in the order in which it was kept."""
    found = connection.execute(
        select(FRAGMENTS.c.body).where(FRAGMENTS.c.conversation == conversation).order_by(FRAGMENTS.c.number)
    )
    return tuple(FRAGMENT.validate_json(body) for body in found.scalars())


def runs(connection: Connection, conversation: str | None) -> tuple[Run, ...]:
    """The runs of one conversation, or those of all that are open."""
    which = RUNS.c.state == "open" if conversation is None else RUNS.c.conversation == conversation
    found = connection.execute(select(RUNS).where(which).order_by(RUNS.c.conversation, RUNS.c.opened))
    return tuple(map(run_of_row, found))


def extend_lease(connection: Connection, conversation: str, run_id: str, until: datetime) -> bool:
    """Whether the run was still open, and has its lease."""
    changed = connection.execute(
        update(RUNS)
        .where(RUNS.c.conversation == conversation, RUNS.c.run_id == run_id, RUNS.c.state == "open")
        .values(lease_until=stamp(until))
    )
    return changed.rowcount == 1


def forget(connection: Connection, conversation: str) -> bool:
    """Delete a conversation whole; whether there was one."""
    for table in (ROWS, FRAGMENTS, RUNS):
        connection.execute(delete(table).where(table.c.conversation == conversation))
    return connection.execute(delete(CONVERSATIONS).where(CONVERSATIONS.c.id == conversation)).rowcount == 1


def _chunks(values: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(values)
    while some := list(islice(rest, _CHUNK)):
        yield some
