"""The statements of an append, compiled once for each database and handed to the driver as they are.

SQLAlchemy's own way to execute so small a statement costs more than the database's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sqlalchemy import bindparam, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from normalizer.journal.schema import CONVERSATIONS, RUNS
from normalizer.journal.schema import FACTS as ROWS

if TYPE_CHECKING:
    from sqlalchemy import Connection, Dialect

    from normalizer.journal.driver import Driven

    Driver: TypeAlias = Connection | Driven

COLUMNS: Final = tuple(column.name for column in ROWS.c)
"""Of a fact's row, in their order."""

_SQLITE: Final = sqlite.dialect(paramstyle="qmark")
_POSTGRESQL: Final = PGDialect_psycopg(paramstyle="format")  # type: ignore[no-untyped-call]


class Compiled:
    """One statement, by the name of the database that it is for."""

    def __init__(self, *statements: tuple[Dialect, Any]) -> None:
        self._made: dict[str, tuple[str, tuple[str, ...]]] = {}
        for dialect, statement in statements:
            compiled: Any = statement.compile(dialect=dialect)
            self._made[dialect.name] = compiled.string, tuple(compiled.positiontup)

    def fits(self, driver: Driver) -> bool:
        """Whether this database has the statement."""
        return driver.dialect.name in self._made

    def on(self, driver: Driver, **values: Any) -> Any:
        """Execute it with these values."""
        sql, order = self._made[driver.dialect.name]
        return driver.exec_driver_sql(sql, tuple([values[name] for name in order]))

    def rows(self, driver: Driver, rows: list[tuple[Any, ...]]) -> None:
        """Execute it with each of these rows, whose columns are in its order."""
        sql, _ = self._made[driver.dialect.name]
        driver.exec_driver_sql(sql, rows if len(rows) > 1 else rows[0])


def _raising(new: Any) -> Any:
    row = new(CONVERSATIONS).values(id=bindparam("conversation"), last_seq=bindparam("count"))
    raised = {"last_seq": CONVERSATIONS.c.last_seq + row.excluded.last_seq}
    return row.on_conflict_do_update(index_elements=[CONVERSATIONS.c.id], set_=raised)


def _taking(new: Any) -> Any:
    return _raising(new).returning(CONVERSATIONS.c.last_seq)


def _adding_one() -> Any:
    taken = _taking(postgresql.insert).cte("taken")
    row = [
        taken.c.last_seq if column is ROWS.c.seq else bindparam(column.name, type_=column.type)
        for column in ROWS.c
    ]
    return insert(ROWS).from_select(COLUMNS, select(*row)).returning(ROWS.c.seq)


_CLOSING: Final = (
    update(RUNS)
    .where(
        RUNS.c.conversation == bindparam("of"),
        RUNS.c.turn_id == bindparam("turn"),
        RUNS.c.state == bindparam("was"),
    )
    .values(state=bindparam("becomes"))
)

TAKE: Final = Compiled((_SQLITE, _taking(sqlite.insert)), (_POSTGRESQL, _taking(postgresql.insert)))
"""Take numbers: create the conversation's row or raise its last number, and lock it either way."""

RAISE: Final = Compiled((_SQLITE, _raising(sqlite.insert)))
LAST: Final = Compiled(
    (_SQLITE, select(CONVERSATIONS.c.last_seq).where(CONVERSATIONS.c.id == bindparam("conversation")))
)
"""As `TAKE`, in two statements: in SQLite, where a statement is cheap and `RETURNING` is not."""

INSERT: Final = Compiled((_SQLITE, insert(ROWS)), (_POSTGRESQL, insert(ROWS)))
"""Record facts under numbers that were taken."""

ADD_ONE: Final = Compiled((_POSTGRESQL, _adding_one()))
"""Take a number and record a fact under it at once, which saves the ways to a server and back. SQLite cannot."""

CLOSE_RUN: Final = Compiled((_SQLITE, _CLOSING), (_POSTGRESQL, _CLOSING))
"""A turn's run is over."""
