"""The journal's tables, and how a journal of an older release becomes one of this.

Bodies of facts are JSON text, never a JSON type of the database: those sort keys, and models read the order.
`gate` is set on the facts that the launch gate decides by, and nowhere else, so its index stays small however
long the conversation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    insert,
    inspect,
    select,
    update,
)

from normalizer.errors import JournalError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

METADATA: Final = MetaData()

SCHEMA: Final = Table("normalizer_schema", METADATA, Column("version", Integer, nullable=False))

CONVERSATIONS: Final = Table(
    "normalizer_conversations",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("last_seq", BigInteger, nullable=False),
)
"""One row a conversation. Changing it takes the conversation's lock."""

FACTS: Final = Table(
    "normalizer_facts",
    METADATA,
    Column("conversation", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("fact_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("turn_id", Text),
    Column("run_id", Text),
    Column("call_id", Text),
    Column("gate", Text),
    Column("recorded_at", Text, nullable=False),
    Column("body", Text, nullable=False),
    UniqueConstraint("conversation", "fact_id", name="normalizer_facts_once"),
)
Index(
    "normalizer_facts_gate",
    FACTS.c.conversation,
    FACTS.c.gate,
    sqlite_where=FACTS.c.gate.is_not(None),
    postgresql_where=FACTS.c.gate.is_not(None),
)

FRAGMENTS: Final = Table(
    "normalizer_fragments",
    METADATA,
    Column("conversation", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("about", Text, nullable=False),
    Column("place", Integer, nullable=False),
    Column("recorded_at", Text, nullable=False),
    Column("body", Text, nullable=False),
    UniqueConstraint("conversation", "about", "place", name="normalizer_fragments_once"),
)
"""`about` is the `fact_id` of the reply that was cut, `place` the fragment's place in it."""

RUNS: Final = Table(
    "normalizer_runs",
    METADATA,
    Column("conversation", Text, primary_key=True),
    Column("run_id", Text, primary_key=True),
    Column("turn_id", Text, nullable=False),
    Column("opened", BigInteger, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("started", Float(53), nullable=False),
    Column("lease_until", Text),
    Column("state", Text, nullable=False),
)
Index("normalizer_runs_state", RUNS.c.conversation, RUNS.c.state)

# Step n turns a journal of version n + 1 into one of version n + 2. Tables above always have the newest shape.
STEPS: tuple[Callable[[Connection], None], ...] = ()


def current() -> int:
    """The version of the schema that this release writes."""
    return len(STEPS) + 1


def stored(connection: Connection) -> int:
    """The version of this database's journal, 0 where there is none. Refuses one that is newer than this release."""
    if not inspect(connection).has_table(SCHEMA.name):
        return 0
    version = connection.execute(select(SCHEMA.c.version)).scalar() or 0
    if version > current():
        raise JournalError(
            f"this journal has schema version {version}, this release of transcript-normalizer knows up to {current()};"
            " it was written by a newer release: update transcript-normalizer to open it",
            reason="newer_schema",
        )
    return version


def bring_up_to_date(connection: Connection) -> None:
    """Create the tables, or migrate them step by step. The caller holds a lock against others doing the same."""
    version = stored(connection)
    if version == 0:
        METADATA.create_all(connection)
        connection.execute(insert(SCHEMA).values(version=current()))
        return
    for step in STEPS[version - 1 :]:
        step(connection)
    connection.execute(update(SCHEMA).values(version=current()))
