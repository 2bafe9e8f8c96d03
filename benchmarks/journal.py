"""How fast facts become durable, next to bare INSERTs of the same rows with the same durability, in the same run.

    python benchmarks/journal.py [--singles 400] [--batches 150] [--size 100]

The bare loop is what a program would write first: the database's own driver, a table with the journal's columns and
indexes, a transaction an append, and in it one INSERT a row. Its rows are made beforehand. The journal makes its rows,
takes the conversation's lock, numbers the facts and gives them back; it may hand the rows to the driver at once, and
save ways to the server. The two take turns, append after append; figures are medians, and the overhead is the ratio of
the medians. Beside it stands the median of the ratios of neighbours: where a disk changes its pace in the middle of a
run, it changes it for both of a pair.
"""

from __future__ import annotations

import argparse
import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from normalizer.facts import FACT, CallCompleted, UserSaid
from normalizer.journal import open_journal
from normalizer.parts import Text

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import postgres

if TYPE_CHECKING:
    from collections.abc import Callable

    from normalizer.facts import Fact

LIMIT = 1.5
COLUMNS = (
    "conversation",
    "seq",
    "fact_id",
    "kind",
    "turn_id",
    "run_id",
    "call_id",
    "gate",
    "recorded_at",
    "body",
)
TABLE = (
    "CREATE TABLE bare (conversation TEXT NOT NULL, seq BIGINT NOT NULL, fact_id TEXT NOT NULL, kind TEXT NOT NULL,"
    " turn_id TEXT, run_id TEXT, call_id TEXT, gate TEXT, recorded_at TEXT NOT NULL, body TEXT NOT NULL,"
    " PRIMARY KEY (conversation, seq), UNIQUE (conversation, fact_id))"
)
INDEX = "CREATE INDEX bare_gate ON bare (conversation, gate) WHERE gate IS NOT NULL"


def facts(start: int, count: int) -> list[Fact]:
    """Results of calls with forty lines of output, and now and then words of a person."""
    output = "".join(f"{line:03} worker started, queue has items\n" for line in range(40))
    return [
        UserSaid(fact_id=f"said/{n}", turn_id="t", parts=(Text("Go on with the next one."),))
        if n % 20 == 0
        else CallCompleted(
            fact_id=f"done/{n}", turn_id="t", run_id="r", call_id=f"toolu_{n}", content=output, is_error=False
        )
        for n in range(start, start + count)
    ]


def rows(made: list[Fact]) -> list[tuple[Any, ...]]:
    """The rows of these facts, as the journal writes them."""
    return [
        ("c", int(fact.fact_id.split("/")[1]) + 1, fact.fact_id, fact.kind, fact.turn_id, fact.run_id,
         getattr(fact, "call_id", None), f"call:{fact.call_id}" if fact.kind == "call_completed" else None,
         "2026-01-01T00:00:00.000000Z", FACT.dump_json(fact, exclude={"seq"}, exclude_none=True).decode())
        for fact in made
    ]  # fmt: skip


def bare_sqlite(folder: str) -> Callable[[list[tuple[Any, ...]]], None]:
    """Insert rows, one after the other, in one transaction."""
    connection = sqlite3.connect(Path(folder) / "bare.db", isolation_level=None)
    for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", TABLE, INDEX):
        connection.execute(statement)
    insert = f"INSERT INTO bare ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608

    def add(new: list[tuple[Any, ...]]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        for row in new:
            connection.execute(insert, row)
        connection.execute("COMMIT")

    return add


def bare_postgres(url: str) -> Callable[[list[tuple[Any, ...]]], None]:
    """As `bare_sqlite`."""
    connection = psycopg.connect(url, autocommit=True)
    connection.execute(TABLE)
    connection.execute(INDEX)
    insert = f"INSERT INTO bare ({', '.join(COLUMNS)}) VALUES ({', '.join(['%s'] * len(COLUMNS))})"  # noqa: S608

    def add(new: list[tuple[Any, ...]]) -> None:
        with connection.transaction():
            for row in new:
                connection.execute(insert.encode(), row)

    return add


def timed(work: Callable[[Any], object], batch: list[Any]) -> float:
    """Seconds until a batch is durable."""
    start = time.perf_counter()
    work(batch)
    return time.perf_counter() - start


def compare(
    name: str, add: Callable[[Any], object], bare: Callable[[Any], object], options: argparse.Namespace
) -> None:
    """Time both in turn, append after append, and print a line for single facts and one for batches."""
    at = 0
    for label, size, count in (
        ("one by one", 1, options.singles),
        ("batches", options.size, options.batches),
    ):
        ours, theirs = [], []
        for _ in range(count):
            made = facts(at, size)
            at += size
            theirs.append(timed(bare, rows(made)))
            ours.append(timed(add, made))
        middle, bare_middle = statistics.median(ours), statistics.median(theirs)
        pairs = statistics.median(our / their for our, their in zip(ours, theirs, strict=True))
        worst = statistics.quantiles(ours, n=20)[-1]
        print(
            f"  {name:<11} {label:<11} of {size:>3}: {size / middle:7.0f} facts/s ({middle * 1e3:.2f} ms an append,"
            f" one in 20 over {worst * 1e3:.2f}), bare INSERT {size / bare_middle:7.0f} rows/s,"
            f" overhead {middle / bare_middle:.2f} x (pair by pair {pairs:.2f} x)"
        )


def main() -> None:
    """Print four lines and the limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--singles", type=int, default=400)
    parser.add_argument("--batches", type=int, default=150)
    parser.add_argument("--size", type=int, default=100)
    options = parser.parse_args()
    print("durable appends")
    with tempfile.TemporaryDirectory() as folder, open_journal(Path(folder) / "journal.db") as journal:
        compare("SQLite", lambda new: journal.append("c", new), bare_sqlite(folder), options)
    url = postgres.database(durable=True)
    with open_journal(url) as journal:
        compare("PostgreSQL", lambda new: journal.append("c", new), bare_postgres(url), options)
    print(f"limit: {LIMIT} x")


if __name__ == "__main__":
    main()
