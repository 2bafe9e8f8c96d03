"""What an error of a database means: our word for it, and what to do about it."""

from __future__ import annotations

from typing import Final

from sqlalchemy.exc import DataError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

# The beginning of an error's name (SQLite) or code (PostgreSQL) -> our word, and what to do.
_ERRORS: Final = (
    ("SQLITE_FULL", "full", "the disk or the database is full; free space and append again"),
    (
        "SQLITE_READONLY",
        "read_only",
        "it was opened for reading only, or this user may not write it or its folder",
    ),
    ("SQLITE_BUSY", "busy", "another process kept the database locked; try again"),
    ("SQLITE_LOCKED", "busy", "another process kept the database locked; try again"),
    ("SQLITE_NOTADB", "not_a_database", "the file is no SQLite database"),
    ("SQLITE_CORRUPT", "damaged", "the file is damaged; restore it from a copy"),
    (
        "SQLITE_CANTOPEN",
        "cannot_open",
        "the file cannot be opened; see that its folder exists and that this user may use it",
    ),
    ("53", "full", "the server ran out of disk, memory or connections"),
    ("25006", "read_only", "the server, or this connection to it, is read-only"),
    ("42501", "read_only", "this user may not write the journal's tables"),
    ("55P03", "busy", "another process kept the conversation locked; try again"),
    ("57014", "busy", "the server gave up waiting; try again"),
    ("28", "cannot_open", "the server refused this user"),
    ("3D000", "cannot_open", "the server has no database of this name"),
    ("08", "unreachable", "the connection to the server broke"),
    ("57P", "unreachable", "the server is going down or starting"),
)


def code(error: object) -> str:
    """The name (SQLite) or code (PostgreSQL) of an error of the driver."""
    return str(getattr(error, "sqlite_errorname", None) or getattr(error, "sqlstate", None) or "")


def meaning(error: Exception) -> tuple[str, str]:
    """Our word for an error of the database, and what to do about it."""
    if isinstance(error, PoolTimeout):
        return "busy", "all connections of this process were in use; try again"
    found = code(getattr(error, "orig", error))
    for start, reason, advice in _ERRORS:
        if found.startswith(start):
            return reason, advice
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return "unreachable", "the connection to the server broke"
    if isinstance(error, DataError):
        return "unstorable", "the database takes no such text; give it another id"
    if "connection" in str(getattr(error, "orig", error)):
        return "cannot_open", "the server cannot be reached; see that it runs and that the address is right"
    return "journal", "see the cause"
