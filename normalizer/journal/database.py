"""One database, SQLite or PostgreSQL: connections, transactions, and what its errors mean.

A transaction that returned is on disk; everything else raises `JournalError`. Work handed to `write` may run
twice, when the connection broke under it: it has to find its own earlier facts by their `fact_id`.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote, unquote

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from normalizer.errors import JournalError
from normalizer.journal import schema
from normalizer.journal.database_errors import code, meaning
from normalizer.journal.driver import BEGIN, Driven
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import PoolProxiedConnection

T = TypeVar("T")

_DRIVERS: Final = {
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}
_WRITES: Final = "normalizer_writes"
_MIGRATION_LOCK: Final = 0x6E6F726D  # any fixed number: the key of an advisory lock


class _Opened:
    """What one process has open of a database. Made whole before it is put in place: the threads of a forked child may
    all be the first to ask for it, and each has to find an engine with its own lock and its own kept connection.
    """

    __slots__ = ("engine", "kept", "one_writer", "pid")

    def __init__(self, engine: Engine, one_writer: threading.RLock | _NoLock) -> None:
        self.engine = engine
        self.one_writer = one_writer
        self.pid = os.getpid()
        # SQLite's one writer keeps its connection: to fetch and return it is a good part of a short append
        self.kept: PoolProxiedConnection | None = None


_inherited: list[_Opened] = []
"""Connections that a forked child must neither use nor close, since they are its parent's. Kept, so that nothing
collects them."""


class Database:
    """Connections to one database. Safe to share among threads, and after a fork."""

    def __init__(self, url: URL, *, read_only: bool = False, patience: float = 30.0) -> None:
        self.url = url
        self.read_only = read_only
        self.sqlite = url.get_backend_name() == "sqlite"
        self._patience = patience
        self._closed = False
        self._address = _read_only(url) if self.sqlite and read_only else url
        self._opened = self._connect()
        try:
            with self.told("open the journal"):
                self._prepare()
        except BaseException:
            self._opened.engine.dispose()
            raise

    @property
    def name(self) -> str:
        """What people know the database by; no password."""
        return str(self.url.database) if self.sqlite else self.url.render_as_string(hide_password=True)

    def close(self) -> None:
        """Close every connection."""
        self._closed = True
        opened = self._opened
        if opened.pid != os.getpid():
            _inherited.append(opened)
            return
        with opened.one_writer:
            if opened.kept is not None:
                opened.kept.close()
                opened.kept = None
        opened.engine.dispose()

    def read(self, work: Callable[[Connection], T]) -> T:
        """What `work` finds."""
        return _twice(self._read, work)

    def write(self, work: Callable[[Connection], T]) -> T:
        """What `work` gives, once all it wrote is durable."""
        return _twice(self._write, work)

    def drive(self, work: Callable[[Driven], T]) -> T:
        """As `write`, by the driver alone and without a second try: for what is written often, and in few statements.

        After `unreachable` nobody knows whether it was written.
        """
        opened = self._ours()
        with self.told("write"), opened.one_writer:
            held, opened.kept = opened.kept or opened.engine.raw_connection(), None
            driven = Driven(opened.engine, held)
            try:
                done = work(driven)
                driven.commit()
                if self.sqlite and not self._closed:
                    opened.kept = held
            except DBAPIError as error:
                if error.connection_invalidated:
                    held.invalidate(error)
                raise
            finally:
                driven.close()
                if opened.kept is not held:
                    held.close()  # which takes back what was not committed
            return done

    def _read(self, work: Callable[[Connection], T]) -> T:
        with self.told("read"), self._ours().engine.connect() as connection, connection.begin():
            return work(connection)

    def _write(self, work: Callable[[Connection], T]) -> T:
        opened = self._ours()
        # the queue before the connection: whoever waits in it holds none that a reader could use
        with self.told("write"), opened.one_writer, opened.engine.connect() as connection:
            connection.execution_options(**{_WRITES: True})
            with connection.begin():
                return work(connection)

    @contextmanager
    def told(self, doing: str) -> Iterator[None]:
        """Say an error of the database as `JournalError`."""
        try:
            yield
        except (SQLAlchemyError, self._opened.engine.dialect.loaded_dbapi.Error) as error:
            reason, advice = meaning(error)
            cause = str(getattr(error, "orig", None) or error).strip().split("\n", 1)[0]
            unsure = ". What was asked for is not known to be saved" if doing == "write" else ""
            raise JournalError(
                f"could not {doing} {self.name!r}: {cause}; {advice}{unsure}", reason=reason
            ) from error
        except UnicodeEncodeError as error:
            raise JournalError(
                f"could not {doing} {self.name!r}: {named(error.object)} holds half a surrogate pair, which no database"
                " takes; give it another id",
                reason="unstorable",
            ) from None

    # ------------------------------------------------------------ connections

    def _ours(self) -> _Opened:
        """What this process has open."""
        if self._closed:
            raise JournalError(f"the journal {self.name!r} is closed; open it again", reason="closed")
        opened = self._opened
        if opened.pid != os.getpid():
            _inherited.append(opened)
            self._opened = opened = self._connect()
        return opened

    def _connect(self) -> _Opened:
        engine = create_engine(
            self._address,
            pool_timeout=self._patience,
            connect_args={"timeout": self._patience} if self.sqlite else {},
        )
        event.listen(engine, "connect", self._on_connect)
        event.listen(engine, "begin", _begin)
        # SQLite has one writer at a time: threads queue here, in order, instead of polling for the file's lock
        return _Opened(engine, threading.RLock() if self.sqlite else _NoLock())

    def _on_connect(self, connection: Any, _record: object) -> None:
        # with both drivers transactions begin where we say so, see BEGIN
        if self.sqlite:
            connection.isolation_level = None
            for setting in (
                "synchronous=FULL",
                "fullfsync=ON",
                "checkpoint_fullfsync=ON",
                f"query_only={int(self.read_only)}",
            ):
                connection.execute(f"PRAGMA {setting}")
            return
        connection.autocommit = True
        # the isolation of a statement that is its own transaction
        connection.execute("SELECT set_config('default_transaction_isolation', 'read committed', false)")
        connection.execute("SELECT set_config('synchronous_commit', 'on', false) WHERE"
                           " current_setting('synchronous_commit') = 'off'")  # fmt: skip
        if self.read_only:
            connection.execute("SET default_transaction_read_only = on")

    def _prepare(self) -> None:
        """Make the database one of this release."""
        if self.sqlite:
            if _looks_foreign(self.url):  # before anything is opened that changes the file or its folder
                raise self._foreign()
            if not self.read_only:
                self._write_ahead()
        with self._opened.engine.connect() as connection, connection.begin():
            version = schema.stored(connection)
            foreign = self.sqlite and not version and _foreign(_raw(connection))
        if version == schema.current():
            return
        if foreign:
            raise self._foreign()
        if self.read_only:
            raise JournalError(
                f"{self.name!r} is no journal of this release (schema version {version}, not"
                f" {schema.current()}); open it once for writing, which creates or migrates it",
                reason="older_schema" if version else "not_a_journal",
            )
        self._write(self._bring_up_to_date)

    def _bring_up_to_date(self, connection: Connection) -> None:
        if not self.sqlite:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")
        if schema.stored(connection) != schema.current():
            if self.sqlite and _foreign(_raw(connection)):  # somebody else was quicker
                raise self._foreign()
            schema.bring_up_to_date(connection)

    def _foreign(self) -> JournalError:
        return JournalError(
            f"{self.name!r} is the database of another program, and was left as it is; give the journal a file of its"
            " own",
            reason="foreign_database",
        )

    def _write_ahead(self) -> None:
        """Turn write-ahead logging on. Changing to it does not wait for other openers by itself."""
        give_up = time.monotonic() + self._patience
        while True:
            try:
                with self._opened.engine.connect() as connection:
                    (mode,) = _raw(connection).execute("PRAGMA journal_mode=WAL").fetchone()
            except sqlite3.OperationalError as error:
                if code(error).startswith("SQLITE_BUSY") and time.monotonic() < give_up:
                    time.sleep(0.01)
                    continue
                raise
            if mode != "wal":
                raise JournalError(
                    f"{self.name!r} cannot use write-ahead logging (mode {mode!r}); keep the journal in a file on a"
                    " local disk",
                    reason="not_durable",
                )
            return


class _NoLock:
    """PostgreSQL has a lock for each conversation; none is needed here."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def _twice(run: Callable[[Callable[[Connection], T]], T], work: Callable[[Connection], T]) -> T:
    """Run work, and once more on another connection where the one at hand turned out to be broken."""
    try:
        return run(work)
    except JournalError as broken:
        if broken.reason != "unreachable":
            raise
        return run(work)


def _raw(connection: Connection) -> Any:
    """The driver's own connection."""
    return connection.connection.dbapi_connection


def _begin(connection: Connection) -> None:
    writes = bool(connection.get_execution_options().get(_WRITES))
    connection.exec_driver_sql(BEGIN[connection.dialect.name][writes])


def _read_only(url: URL) -> URL:
    """The address for a reader.

    Every reader of a file with write-ahead logging makes files beside it, and only one that may write takes them away
    when it is the last to leave. So it may, although it never does (`query_only`), unless there is something to take
    over into the file first: a reader does not touch what a killed writer left.
    """
    name = str(url.database)
    # `immutable`: the caller vouches that nobody writes while he reads, see command/journals.py
    promised = {"immutable": "1"} if url.query.get("immutable") == "1" else {}
    mode = "ro" if promised or _unfinished(name) else "rw"
    return url.set(database="file:" + quote(name), query={"mode": mode, "uri": "true", **promised})


def _unfinished(name: str) -> bool:
    """Whether writes that are not in the file yet lie beside it: somebody has it open, or did not end well."""
    path = Path(name).resolve()
    beside = [path.with_name(path.name + end) for end in ("-wal", "-journal")]
    return any(one.exists() and one.stat().st_size for one in beside)


def _looks_foreign(url: URL) -> bool:
    """Whether a file is a database of somebody else, found out without a trace in it or beside it.

    What cannot be looked at so is for the ordinary opening to find out.
    """
    name = str(url.database)
    if name.startswith("file:"):
        name = unquote(name[len("file:") :].split("?", 1)[0])
    try:
        path = Path(name).resolve()
        if path.stat().st_size == 0:
            return False
        # a reader of a database with write-ahead logging makes files beside it, unless it takes the file as it stands
        immutable = "" if path.with_name(path.name + "-wal").exists() else "&immutable=1"
        look = sqlite3.connect(f"file:{quote(str(path))}?mode=ro{immutable}", uri=True, timeout=0)
    except (OSError, sqlite3.Error):
        return False
    try:
        return _foreign(look)
    except sqlite3.Error:
        return False
    finally:
        look.close()


def _foreign(connection: Any) -> bool:
    """Whether a SQLite database holds things, and our tables are not among them."""
    held = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    return bool(held) and schema.SCHEMA.name not in held


def located(where: str | os.PathLike[str]) -> URL:
    """The address of a journal: a path is a SQLite file, else a URL of SQLite or PostgreSQL."""
    if not isinstance(where, (str, os.PathLike)):
        raise _unknown(type(where).__name__)
    text = os.fspath(where)
    if "://" not in text:
        url = URL.create("sqlite", database=text)
    else:
        try:
            url = make_url(text)
        except (ArgumentError, NoSuchModuleError, ValueError):
            raise _unknown(text.split("://", 1)[0]) from None
        if url.drivername not in _DRIVERS:
            raise _unknown(url.drivername)
        url = url.set(drivername=_DRIVERS[url.drivername])
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise JournalError("a journal in memory keeps nothing; give it a file", reason="not_durable")
    return url


def _unknown(scheme: str) -> JournalError:
    return JournalError(
        f"there is no journal in {scheme!r}; use a path, sqlite:///path or postgresql://host/database",
        reason="unknown_database",
    )
