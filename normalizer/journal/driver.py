"""One transaction of the driver's own connection, past SQLAlchemy: its execution of a small statement costs more than
the database's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy.exc import DBAPIError

if TYPE_CHECKING:
    from sqlalchemy import Engine, PoolProxiedConnection

BEGIN: Final = {
    # a writer takes its lock before it reads: one that asked for it later could be refused for what it had read
    "sqlite": {False: "BEGIN", True: "BEGIN IMMEDIATE"},
    # after the wait for a conversation's lock, every statement has to see what the one before it recorded
    "postgresql": dict.fromkeys((False, True), "BEGIN ISOLATION LEVEL READ COMMITTED"),
}
"""How a transaction begins, by whether it writes."""


class Driven:
    """A transaction, with as much of the interface of SQLAlchemy's connection as a short one needs.

    Its errors are SQLAlchemy's. What is not committed is taken back by whoever holds the connection.
    """

    def __init__(self, engine: Engine, held: PoolProxiedConnection) -> None:
        raw: Any = held.dbapi_connection
        self.dialect = engine.dialect
        self._raw = raw
        self._cursor = raw.cursor()

    def begin(self) -> None:
        """Begin a transaction, for more than one statement: a single one is its own."""
        self.exec_driver_sql(BEGIN[self.dialect.name][True], ())

    def exec_driver_sql(self, sql: str, values: tuple[Any, ...] | list[tuple[Any, ...]]) -> Any:
        """Execute a statement with one row of values, or with each of a list; its cursor."""
        try:
            if isinstance(values, list):
                self._cursor.executemany(sql, values)
            else:
                self._cursor.execute(sql, values)
        except self.dialect.loaded_dbapi.Error as error:
            raise self._told(error) from error
        return self._cursor

    def commit(self) -> None:
        """Make it durable."""
        try:
            self._raw.commit()
        except self.dialect.loaded_dbapi.Error as error:
            raise self._told(error) from error

    def close(self) -> None:
        """Let go of the statement, which an error that somebody keeps would hold open, and its connection with it."""
        self._cursor.close()

    def _told(self, error: Any) -> Exception:
        """An error of the driver as SQLAlchemy's."""
        base = self.dialect.loaded_dbapi.Error
        lost = self.dialect.is_disconnect(error, self._raw, None)
        said: Exception = DBAPIError.instance(
            "", None, error, base, connection_invalidated=lost, dialect=self.dialect
        )
        return said
