"""The journal: an append-only store of facts, many conversations in one database, and the launch gate.

SQLite is the embedded default (`open_journal("agent.db")`), PostgreSQL serves many hosts. This module loads
neither's packages: they are loaded when a journal is opened. `Journal` is in journal.py.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from normalizer.errors import JournalError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from normalizer.journal.journal import Journal
    from normalizer.journal.journal_async import AsyncJournal


def _now() -> datetime:
    return datetime.now(UTC)


def _new_id() -> str:
    from uuid import uuid4  # noqa: PLC0415 - this module is loaded with the library, which has no use for it

    return uuid4().hex


def open_journal(
    where: str | os.PathLike[str],
    *,
    read_only: bool = False,
    patience: float = 30.0,
    now: Callable[[], datetime] = _now,
    new_id: Callable[[], str] = _new_id,
) -> Journal:
    """The journal in a file (SQLite) or at `postgresql://…`; created, or migrated from an older release, if need be.

    `read_only` creates and migrates nothing, and leaves nothing beside a file. `patience`: how many seconds to wait for
    the lock of another writer.
    """
    try:
        sync = import_module("normalizer.journal.journal")
        journal: Journal = sync.opened(where, read_only=read_only, patience=patience, now=now, new_id=new_id)
    except ImportError as missing:
        raise _missing(missing) from missing
    return journal


async def open_async_journal(where: str | os.PathLike[str], **options: Any) -> AsyncJournal:
    """As `open_journal`, for asyncio and Trio: the same methods, none of which blocks the event loop."""
    try:
        twin = import_module("normalizer.journal.journal_async")
        opened: AsyncJournal = await twin.open_in_thread(partial(open_journal, where, **options))
    except ImportError as missing:
        raise _missing(missing) from missing
    return opened


def _missing(missing: ImportError) -> JournalError:
    extra = "postgresql" if "psycopg" in f"{missing.name} {missing}" else "journal"
    return JournalError(
        f"a journal needs a package that cannot be imported: {missing};"
        f" install it with: pip install 'transcript-normalizer[{extra}]'",
        reason="missing_package",
    )
