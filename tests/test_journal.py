"""The journal as a store: idempotent, in order, durable or an error, both databases alike."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import anyio
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from journaling import Child, done, ids, said
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from normalizer.errors import JournalError
from normalizer.facts import ModelReplied, ReplyCut, StartPermitted, TurnOpened, UserSaid, dump
from normalizer.findings import Fragment
from normalizer.journal import database, open_async_journal, open_journal, schema
from normalizer.journal.database_errors import meaning
from normalizer.journal.driver import Driven
from normalizer.parts import Json, Text, ToolCall
from normalizer.testing import facts as any_fact

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from normalizer.journal.journal import Journal


pytest_plugins = ("journal_fixtures",)
END_OTHERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE pid <> pg_backend_pid() AND datname = current_database()"
)


def rows(journal: Journal, sql: str) -> list[tuple[Any, ...]]:
    return journal._database.read(lambda connection: [tuple(row) for row in connection.execute(text(sql))])


def reason(work: Callable[[], object]) -> str:
    with pytest.raises(JournalError) as caught:
        work()
    return caught.value.reason


# ---------------------------------------------------------------- append and read


def test_facts_come_back_as_they_were_with_rising_numbers(journal: Journal) -> None:
    call = ToolCall("toolu_1", "run", Json('{"b":1,"a":2.50,"ü":"東京 🚀"}'))
    new = [
        said("a", "Grüße\n\0"),
        ReplyCut(fact_id="b", parts=(call,), group=3),
        done("c", "toolu_1", at="2026-01-01T00:00:00Z"),
    ]
    recorded = journal.append("c-1", new)
    assert recorded == tuple(replace(fact, seq=n) for n, fact in enumerate(new, start=1))
    assert journal.facts("c-1") == recorded
    assert list(map(dump, journal.facts("c-1"))) == list(map(dump, recorded))
    assert journal.facts("c-1", after=1) == recorded[1:]
    assert journal.facts("c-1", after=1, limit=1) == recorded[1:2]
    assert journal.facts("c-1", after=3) == journal.facts("other") == ()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(any_fact(), max_size=5, unique_by=lambda fact: fact.fact_id))
def test_any_fact_is_stored_as_it_is(journal: Journal, new: list[Any]) -> None:
    journal.delete("any")
    new = [
        replace(fact, turn_id=clean(fact.turn_id), run_id=clean(fact.run_id), fact_id=clean(fact.fact_id))
        for fact in new
    ]
    new = [replace(fact, call_id=clean(fact.call_id)) if hasattr(fact, "call_id") else fact for fact in new]
    new = list({fact.fact_id: fact for fact in new}.values())
    recorded = journal.append("any", new, imported=True)
    assert recorded == tuple(replace(fact, seq=n) for n, fact in enumerate(new, start=1))
    assert journal.facts("any") == recorded


def clean(word: str | None) -> str | None:
    """Ids are no place for NUL: readers take it out, and PostgreSQL has no form for it."""
    return None if word is None else word.replace("\0", "")


def test_the_same_fact_twice_is_the_same_as_once(journal: Journal) -> None:
    first = journal.append("c", [said("a"), said("b")])
    assert journal.append("c", [said("a"), said("b")]) == first
    mixed = journal.append("c", [said("x"), said("b"), said("x"), said("y")])
    assert [(fact.fact_id, fact.seq) for fact in mixed] == [("x", 3), ("b", 2), ("x", 3), ("y", 4)]
    assert ids(journal.facts("c")) == ["a", "b", "x", "y"]
    assert journal.append("c", list(first)) == first  # with the numbers that the journal gave
    assert journal.append("c", []) == ()
    assert journal.append("d", first) == first  # where they are as new as their numbers say


def test_a_single_fact_twice_is_the_same_as_once(journal: Journal) -> None:
    first = journal.append("c", [said("a")])
    assert [fact.seq for fact in first] == [1]
    assert journal.append("c", [said("a")]) == first
    assert reason(lambda: journal.append("c", [said("a", "else")])) == "fact_id_reused"
    assert [fact.seq for fact in journal.append("c", [said("b")])] == [2]
    assert ids(journal.facts("c")) == ["a", "b"]


def test_the_same_id_in_another_conversation_is_another_fact(journal: Journal) -> None:
    journal.append("one", [said("a", "1")])
    journal.append("two", [said("a", "2")])
    assert [journal.facts(c)[0].parts[0].text for c in ("one", "two")] == ["1", "2"]  # type: ignore[union-attr]
    assert journal.conversations() == ("one", "two")


def test_an_id_of_another_fact_is_refused_and_nothing_of_the_batch_is_kept(journal: Journal) -> None:
    journal.append("c", [said("a")])
    assert reason(lambda: journal.append("c", [said("b"), said("a", "else")])) == "fact_id_reused"
    assert reason(lambda: journal.append("c", [said("d"), said("d", "else")])) == "fact_id_reused"
    assert ids(journal.facts("c")) == ["a"]
    assert journal.append("c", [said("e")])[0].seq == 2


def test_what_cannot_be_json_is_refused_whole(journal: Journal) -> None:
    assert reason(lambda: journal.append("c", [said("a"), said("b", "\ud800")])) == "unstorable"
    assert reason(lambda: journal.append("c", [said("b", "\ud800")])) == "unstorable"
    broken = [Fragment(None, "\ud800", "not_closed")]
    cut = ReplyCut(fact_id="cut")
    assert reason(lambda: journal.append("c", [cut], fragments=broken)) == "unstorable"
    assert journal.fragments("c") == ()
    assert journal.facts("c") == ()


@pytest.mark.parametrize(
    ("odd", "where"),
    [
        (UserSaid(fact_id=5, parts=()), "/fact_id"),  # type: ignore[arg-type]
        (UserSaid(fact_id=None, parts=()), "/fact_id"),  # type: ignore[arg-type]
        (done(None, "toolu_1"), "/fact_id"),  # type: ignore[arg-type]
        (done("odd", None), "/call_id"),  # type: ignore[arg-type]
        (UserSaid(fact_id="odd", parts=(Text(None),)), "/parts/0"),  # type: ignore[arg-type]
        (UserSaid(fact_id="odd", parts="words"), "/parts"),  # type: ignore[arg-type]
        (UserSaid(fact_id="odd", parts=({"kind": "text"},)), "/parts/0"),  # type: ignore[arg-type]
    ],
)
def test_a_fact_that_could_not_be_read_again_is_not_stored(journal: Journal, odd: Any, where: str) -> None:
    journal.append("c", [said("a")])
    for new in ([odd], [said("b"), odd]):
        with pytest.raises(JournalError, match=f"cannot be stored: .* at {where}") as caught:
            journal.append("c", new)
        assert caught.value.reason == "unstorable"
    assert ids(journal.facts("c")) == ["a"]


def test_a_list_is_stored_where_a_tuple_is_meant(journal: Journal) -> None:
    journal.append("c", [UserSaid(fact_id="a", parts=[Text("words")])])  # type: ignore[arg-type]
    assert journal.facts("c") == (UserSaid(fact_id="a", seq=1, parts=(Text("words"),)),)


@pytest.mark.parametrize("given", [[{"kind": "user_said"}], "words", {"kind": "user_said"}, [None]])
def test_what_is_no_fact_is_refused(journal: Journal, given: Any) -> None:
    assert reason(lambda: journal.append("c", given)) == "unstorable"


def test_a_fact_by_itself_is_taken_for_a_list_of_one(journal: Journal) -> None:
    alone: Any = said("a")
    assert ids(journal.append("c", alone)) == ["a"]


def test_an_id_that_no_database_takes_is_refused(journal: Journal) -> None:
    for work in (
        lambda: journal.append("\ud800", [said("a")]),
        lambda: journal.facts("\ud800"),
        lambda: journal.cancel_turn("c", "\ud800"),
    ):
        with pytest.raises(JournalError, match="holds half a surrogate pair") as caught:
            work()
        assert caught.value.reason == "unstorable"
    if not journal._database.sqlite:
        assert reason(lambda: journal.append("a\0b", [said("a")])) == "unstorable"


def test_only_a_write_leaves_open_whether_it_was_saved(tmp_path: Path) -> None:
    with pytest.raises(JournalError) as caught:
        open_journal(tmp_path / "none" / "journal.db")
    assert "saved" not in str(caught.value)


def test_only_the_gate_writes_permits_and_gated_turns(journal: Journal) -> None:
    permit = StartPermitted(fact_id="p", call_id="toolu_1", turn_id="t")
    opened = TurnOpened(fact_id="o", turn_id="t", gated=True)
    assert reason(lambda: journal.append("c", [permit])) == "gate_only"
    assert reason(lambda: journal.append("c", [said("a"), opened])) == "gate_only"
    assert journal.conversations() == ()
    journal.append("c", [TurnOpened(fact_id="ungated", turn_id="t")])
    written = journal.append("c", [opened, permit], imported=True)
    assert journal.append("c", written) == written  # as it is recorded already


def test_a_conversation_is_deleted_whole_and_begins_again(journal: Journal) -> None:
    journal.append("keep", [said("a")])
    turn = journal.open_turn("c")
    journal.append("c", [ReplyCut(fact_id="cut")], fragments=[Fragment(None, "{", "not_closed")])
    assert journal.delete("c")
    assert not journal.delete("c")
    assert journal.conversations() == ("keep",)
    assert (journal.facts("c"), journal.fragments("c"), journal.runs("c")) == ((), (), ())
    assert journal.append("c", [said("a")])[0].seq == 1
    assert journal.open_turn("c", turn_id=turn.turn_id).seq == 2


def test_fragments_stay_whole_beside_the_facts(journal: Journal) -> None:
    cut = [
        Fragment("toolu_1", '{"path":"a\ud7ff', "not_closed", type="tool_use", index=2, name="run"),
        Fragment(None, "Gr", "not_closed"),
    ]
    more = [Fragment("toolu_2", "", "input_incomplete", line=3, pointer="/x")]
    for _ in range(2):  # a second time changes nothing
        journal.append("c", [said("a"), ReplyCut(fact_id="cut")], fragments=cut)
        journal.add_fragments("c", more, about="cut-2")
    assert journal.fragments("c") == (*cut, *more)
    assert journal.fragments("other") == ()
    journal.append("d", [ModelReplied(fact_id="ended", parts=())], fragments=cut)
    journal.add_fragments("d", [*cut, *more], about="ended")  # one that is there, and one that is not
    assert journal.fragments("d") == (*cut, *more)
    assert reason(lambda: journal.append("c", [said("b")], fragments=cut)) == "no_reply_cut"
    assert ids(journal.facts("c")) == ["a", "cut"]


# ---------------------------------------------------------------- many writers


def test_threads_lose_nothing_and_see_no_gap(journal: Journal) -> None:
    errors: list[str] = []
    over = threading.Event()

    def read() -> None:
        seen = 0
        while not over.is_set():
            new = [fact.seq for fact in journal.facts("c", seen)]
            if new != list(range(seen + 1, seen + 1 + len(new))):
                errors.append(f"after {seen} came {new}")
            seen += len(new)

    def write(name: str) -> None:
        for n in range(12):
            journal.append("c", [said(f"{name}/{n}/{k}") for k in range(1 + n % 3)])
            journal.append("c", [said(f"{name}/{n}/0"), said(f"shared/{n}")])  # one is there, one may be

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(f"w{k}",)) for k in range(5)]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    over.set()
    reader.join()
    assert not errors
    facts = journal.facts("c")
    assert [fact.seq for fact in facts] == list(range(1, 5 * 24 + 12 + 1))
    assert len(set(ids(facts))) == len(facts)
    for k in range(5):
        own = [fact.fact_id for fact in facts if fact.fact_id.startswith(f"w{k}/")]
        assert own == sorted(own, key=lambda name: [int(part) for part in name.split("/")[1:]])


def test_processes_lose_nothing_and_see_no_gap(where: str) -> None:
    def write(k: int, send: Callable[[Any], None]) -> None:
        with open_journal(where) as journal:  # together, so that they also race for its creation
            for n in range(8):
                send(
                    [
                        (f.fact_id, f.seq)
                        for f in journal.append("c", [said(f"{k}/{n}/{i}") for i in range(1 + n % 2)])
                    ]
                )

    children = [Child(lambda send, k=k: write(k, send)) for k in range(6)]  # type: ignore[misc]
    told = [pair for child in children for batch in child.sent() for pair in batch]
    with open_journal(where) as journal:
        assert sorted(told, key=lambda pair: pair[1]) == [(f.fact_id, f.seq) for f in journal.facts("c")]
    assert sorted(seq for _, seq in told) == list(range(1, 6 * (4 + 8) + 1))


def test_a_journal_that_is_open_goes_on_in_a_forked_child(journal: Journal) -> None:
    journal.append("c", [said("parent")])
    child = Child(lambda send: send(journal.append("c", [said("child")])[0].seq))
    assert child.sent() == [2]
    assert journal.append("c", [said("parent again")])[0].seq == 3
    assert ids(journal.facts("c")) == ["parent", "child", "parent again"]


def test_threads_of_a_forked_child_use_nothing_of_their_parent(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.append("c", [said("parent")])
    parents: Any = journal._database._opened.engine

    def both(send: Callable[[Any], None]) -> None:
        connecting, quicker = threading.Event(), threading.Event()
        make = database.create_engine

        def slowly(*address: Any, **options: Any) -> Any:
            if threading.current_thread() is first:
                connecting.set()
                quicker.wait(5)
            return make(*address, **options)

        monkeypatch.setattr(database, "create_engine", slowly)
        monkeypatch.setattr(parents, "raw_connection", None)
        first = threading.Thread(target=journal.append, args=("c", [said("first")]))
        first.start()
        connecting.wait(5)
        journal.append("c", [said("second")])
        quicker.set()
        first.join()
        send(ids(journal.facts("c")))

    assert Child(both).sent() == [["parent", "second", "first"]]


def test_a_forked_child_closes_nothing_of_its_parent(journal: Journal) -> None:
    journal.append("c", [said("a")])
    sessions = "SELECT pg_backend_pid()" if not journal._database.sqlite else "SELECT 0"
    before = rows(journal, sessions)

    def close(send: Callable[[Any], None]) -> None:
        journal.close()
        send(reason(lambda: journal.facts("c")))

    with journal._database._opened.one_writer:  # as when another thread of the parent is at it
        assert Child(close).sent() == ["closed"]
    assert journal.append("c", [said("b")])[0].seq == 2
    assert rows(journal, sessions) == before


# ---------------------------------------------------------------- following


def test_followers_get_facts_as_they_come(journal: Journal) -> None:
    journal.append("c", [said("a"), said("b")])
    stop, seen = threading.Event(), []

    def follow() -> None:
        for fact in journal.follow("c", after=1, stop=stop):
            seen.append(fact.fact_id)
            if fact.fact_id == "d":
                stop.set()

    thread = threading.Thread(target=follow)
    thread.start()
    for name in "cd":
        journal.append("c", [said(name)])
    thread.join(10)
    assert seen == ["b", "c", "d"]


def test_a_follower_gives_up_after_the_silence_it_was_told(journal: Journal) -> None:
    assert ids(tuple(journal.follow("c", timeout=0))) == []
    journal.append("c", [said("a")])
    assert ids(tuple(journal.follow("c", timeout=0.05))) == ["a"]
    stop = threading.Event()
    stop.set()
    assert list(journal.follow("c", stop=stop)) == []


# ---------------------------------------------------------------- errors


def test_a_closed_journal_says_so(journal: Journal) -> None:
    journal.close()
    for use in (lambda: journal.append("c", [said("a")]), lambda: journal.facts("c"), journal.conversations):
        assert reason(use) == "closed"


def test_a_full_disk_saves_nothing_and_says_so(tmp_path: Path) -> None:
    with open_journal(tmp_path / "journal.db") as journal:
        journal.append("c", [said("a")])
        pages = rows(journal, "PRAGMA page_count")[0][0]
        limit = f"PRAGMA max_page_count={pages + 3}"  # holds for one connection: that which appends
        journal._database.drive(lambda driven: driven.exec_driver_sql(limit, ()).fetchall())
        kept = ["a"]

        def fill() -> None:
            for n in range(100):
                journal.append("c", [said(f"{n}", "x" * 900), said(f"{n}+", "x" * 900)])
                kept.extend([f"{n}", f"{n}+"])

        assert reason(fill) == "full"
        assert ids(journal.facts("c")) == kept
    with open_journal(tmp_path / "journal.db") as journal:
        assert ids(journal.facts("c")) == kept
        assert journal.append("c", [said("z")])[0].seq == len(kept) + 1


def test_a_file_that_cannot_be_written_is_an_error_and_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with open_journal(path) as journal:
        journal.append("c", [said("a")])
    with open_journal(path, read_only=True) as reader:
        assert ids(reader.facts("c")) == ["a"]
        assert reason(lambda: reader.append("c", [said("b")])) == "read_only"
    path.chmod(0o444)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and folder != folder.parent:
            folder.chmod(folder.stat().st_mode | 0o555)

    def as_somebody_else(send: Callable[[Any], None]) -> None:
        if os.geteuid() == 0:
            os.setuid(65534)
        try:
            with open_journal(path) as journal:
                journal.append("c", [said("b")])
        except JournalError as error:
            send(error.reason)

    tmp_path.chmod(0o555)
    assert Child(as_somebody_else).sent()[0] in ("read_only", "cannot_open")
    tmp_path.chmod(0o755)


def test_postgresql_read_only() -> None:
    import postgres

    url = postgres.database()
    assert reason(lambda: open_journal(url, read_only=True)) == "not_a_journal"
    with open_journal(url) as journal:
        journal.append("c", [said("a")])
    with open_journal(url, read_only=True) as reader:
        assert ids(reader.facts("c")) == ["a"]
        assert reason(lambda: reader.append("c", [said("b")])) == "read_only"


def test_a_lock_that_is_never_given_up_is_an_error(tmp_path: Path) -> None:
    with open_journal(tmp_path / "journal.db", patience=0.1) as journal:
        journal.append("c", [said("a")])
        other = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        assert reason(lambda: journal.append("c", [said("b")])) == "busy"
        assert ids(journal.facts("c")) == ["a"]  # readers are not held up
        other.execute("ROLLBACK")
        other.close()
        assert journal.append("c", [said("b")])[0].seq == 2


def test_a_file_locked_while_it_is_made_into_a_journal_is_an_error(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
    other.execute("PRAGMA user_version = 1")
    for lock in ("BEGIN EXCLUSIVE", "BEGIN; SELECT * FROM sqlite_master"):
        for statement in lock.split("; "):
            other.execute(statement)
        assert reason(lambda: open_journal(tmp_path / "journal.db", patience=0.05)) == "busy"
        other.execute("ROLLBACK")
    other.close()
    with open_journal(tmp_path / "journal.db") as journal:
        assert journal.append("c", [said("a", "1"), said("b")])[-1].seq == 2


@pytest.mark.parametrize("mode", ["delete", "wal"])
@pytest.mark.parametrize("open_elsewhere", [False, True])
def test_the_database_of_another_program_is_left_as_it_is(
    tmp_path: Path, mode: str, open_elsewhere: bool
) -> None:
    path = tmp_path / "theirs #1?.db"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute(f"PRAGMA journal_mode={mode}")
    other.execute("CREATE TABLE theirs (x)")
    if not open_elsewhere:
        other.close()
    before = {found.name: found.read_bytes() for found in tmp_path.iterdir() if found.suffix != ".db-shm"}
    with pytest.raises(JournalError, match="another program") as caught:
        open_journal(path)
    assert caught.value.reason == "foreign_database"
    assert "for writing" not in str(caught.value)
    after = {found.name: found.read_bytes() for found in tmp_path.iterdir() if found.suffix != ".db-shm"}
    assert after == before
    if not open_elsewhere:
        assert reason(lambda: open_journal(path, read_only=True)) == "foreign_database"
    other.close()


def test_an_empty_file_becomes_a_journal(tmp_path: Path) -> None:
    (tmp_path / "journal.db").touch()
    with open_journal(tmp_path / "journal.db") as journal:
        assert journal.append("c", [said("a")])[0].seq == 1


def test_a_place_that_cannot_be_durable_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///file:{tmp_path}/journal.db?vfs=unix-dotfile&uri=true"  # without shared memory, so without WAL
    assert reason(lambda: open_journal(url)) == "not_durable"


def test_all_connections_in_use_is_an_error(journal: Journal) -> None:
    database = journal._database
    journal.append("c", [said("a")])
    database._patience = 0.05
    database._opened.engine.dispose()
    database._opened = database._connect()
    held = [database._ours().engine.connect() for _ in range(15)]
    assert reason(lambda: journal.facts("c")) == "busy"
    for connection in held:
        connection.close()
    assert ids(journal.facts("c")) == ["a"]


def test_a_connection_that_broke_without_a_word_is_unreachable() -> None:
    silent = DBAPIError(
        "", None, psycopg.OperationalError("the connection is lost"), connection_invalidated=True
    )
    assert meaning(silent)[0] == "unreachable"


def test_a_broken_connection_is_made_again() -> None:
    import postgres

    url = postgres.database()
    with open_journal(url) as journal, psycopg.connect(url, autocommit=True) as other:
        journal.append("c", [said("a")])
        other.execute(END_OTHERS)
        assert journal.append("c", [said("b")])[0].seq == 2
        other.execute(END_OTHERS)
        assert ids(journal.facts("c")) == ["a", "b"]


def test_many_broken_connections_cost_no_append(caplog: pytest.LogCaptureFixture) -> None:
    import postgres

    url = postgres.database()
    with open_journal(url) as journal, psycopg.connect(url, autocommit=True) as other:
        journal.append("c", [said("a")])
        for name in "bc":
            held = [journal._database._ours().engine.connect() for _ in range(4)]
            for connection in held:
                connection.close()
            other.execute(END_OTHERS)
            assert ids(journal.append("c", [said(name)])) == [name]
        assert ids(journal.facts("c")) == ["a", "b", "c"]
    assert not caplog.records  # nor is a broken connection put back, to be found out there


def test_an_append_that_broke_off_before_its_end_is_recorded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import postgres

    url = postgres.database()
    with open_journal(url) as journal, psycopg.connect(url, autocommit=True) as other:
        journal.append("c", [said("a")])
        whole = Driven.commit

        def breaks_off(driven: Driven) -> None:
            monkeypatch.undo()
            other.execute(END_OTHERS)
            whole(driven)

        monkeypatch.setattr(Driven, "commit", breaks_off)
        assert [(fact.fact_id, fact.seq) for fact in journal.append("c", [said("b"), said("c")])] == [
            ("b", 2),
            ("c", 3),
        ]
        assert ids(journal.facts("c")) == ["a", "b", "c"]


def test_an_append_that_broke_off_behind_its_end_is_recorded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server has it, and the connection breaks before it can say so."""
    import postgres

    url = postgres.database()
    with open_journal(url) as journal, psycopg.connect(url, autocommit=True) as other:
        journal.append("c", [said("a")])
        whole = Driven.exec_driver_sql

        def breaks_off(driven: Driven, sql: str, values: Any) -> Any:
            whole(driven, sql, values)
            monkeypatch.undo()
            other.execute(END_OTHERS)
            return whole(driven, "SELECT 1", ())

        monkeypatch.setattr(Driven, "exec_driver_sql", breaks_off)
        assert [(fact.fact_id, fact.seq) for fact in journal.append("c", [said("b")])] == [("b", 2)]
        assert ids(journal.facts("c")) == ["a", "b"]
        assert journal.append("c", [said("c")])[0].seq == 3


@pytest.mark.parametrize(
    ("address", "word"),
    [
        ("{folder}/none/journal.db", "cannot_open"),
        ("{folder}/text.db", "not_a_database"),
        ("mysql://localhost/x", "unknown_database"),
        ("nonsense://", "unknown_database"),
        ("://x", "unknown_database"),
        (5, "unknown_database"),
        (":memory:", "not_durable"),
        ("sqlite://", "not_durable"),
        ("postgresql://nobody@/none?host={folder}", "cannot_open"),
    ],
)
def test_what_is_no_journal_is_refused(tmp_path: Path, address: Any, word: str) -> None:
    (tmp_path / "text.db").write_text(
        "this is no database, but a text that is long enough to be looked at\n" * 20
    )
    where = address.format(folder=tmp_path) if isinstance(address, str) else address
    assert reason(lambda: open_journal(where)) == word


def test_a_password_is_never_told(tmp_path: Path) -> None:
    with pytest.raises(JournalError) as caught:
        open_journal(f"postgresql://me:geheim@/none?host={tmp_path}")
    assert "geheim" not in str(caught.value)


def test_reading_creates_nothing(tmp_path: Path) -> None:
    assert reason(lambda: open_journal(tmp_path / "none.db", read_only=True)) == "cannot_open"
    assert not list(tmp_path.iterdir())


def beside(path: Path) -> list[str]:
    return sorted(found.name for found in path.parent.iterdir() if found != path)


def test_a_reader_leaves_nothing_behind_and_sees_what_is_written_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with open_journal(path) as journal:
        journal.append("c", [said("a")])
    before = path.read_bytes(), path.stat().st_mtime_ns
    with open_journal(path, read_only=True) as one, open_journal(path, read_only=True) as other:
        assert ids(one.facts("c")) == ids(other.facts("c")) == ["a"]
        assert reason(lambda: one.open_turn("c")) == "read_only"
        assert reason(lambda: one.delete("c")) == "read_only"
        with pytest.raises(JournalError) as kept:
            one.append("c", [said("b")])
    assert beside(path) == []
    assert kept.value.reason == "read_only"  # and whoever keeps an error keeps nothing open
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    with open_journal(path, read_only=True) as reader:
        assert ids(reader.facts("c")) == ["a"]
        with open_journal(path) as journal:
            journal.append("c", [said("b")])
            assert ids(reader.facts("c")) == ["a", "b"]
        assert ids(reader.facts("c")) == ["a", "b"]
    assert beside(path) == []
    with open_journal(path) as journal:
        assert ids(journal.facts("c")) == ["a", "b"]


def test_a_reader_leaves_what_a_killed_writer_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"

    def write(send: Callable[[Any], None]) -> None:
        journal = open_journal(path)
        send(ids(journal.append("c", [said("a")])))
        os.kill(os.getpid(), signal.SIGKILL)

    assert Child(write).sent() == [["a"]]
    held = {name: (tmp_path / name).read_bytes() for name in ("journal.db", "journal.db-wal")}
    with open_journal(path, read_only=True) as reader:
        assert ids(reader.facts("c")) == ["a"]
    assert {name: (tmp_path / name).read_bytes() for name in held} == held


def test_the_live_side_is_loaded_when_it_is_asked_for(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        sys.modules,
        "normalizer.live.conversation",
        SimpleNamespace(Conversation=lambda *given: ("live", *given)),
    )
    assert journal.conversation("c") == ("live", journal, "c")


@pytest.mark.parametrize(("package", "extra"), [("sqlalchemy", "journal"), ("psycopg", "postgresql")])
def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch, package: str, extra: str) -> None:
    for name in [n for n in sys.modules if n.startswith("normalizer.journal.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(JournalError, match=rf"transcript-normalizer\[{extra}\]") as caught:
        open_journal("postgresql://localhost/x")
    assert caught.value.reason == "missing_package"
    with pytest.raises(JournalError, match=rf"transcript-normalizer\[{extra}\]"):
        anyio.run(open_async_journal, "postgresql://localhost/x")


def test_importing_the_library_loads_no_database() -> None:
    import subprocess

    code = (
        "import sys, normalizer, normalizer.journal;"
        "print([m for m in ('sqlalchemy', 'psycopg', 'anyio', 'sqlite3') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


# ---------------------------------------------------------------- versions of the schema


def set_version(where: str, version: int) -> None:
    with open_journal(where) as journal:
        change = text("UPDATE normalizer_schema SET version = :version")
        journal._database.write(lambda c: c.execute(change, {"version": version}))


def test_a_newer_journal_is_refused(where: str) -> None:
    with open_journal(where) as journal:
        journal.append("c", [said("a")])
    set_version(where, schema.current() + 1)
    with pytest.raises(JournalError, match="newer release") as caught:
        open_journal(where)
    assert caught.value.reason == "newer_schema"


def test_an_older_journal_is_migrated_once(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_journal(where) as journal:
        journal.append("c", [said("a")])

    def add_label(connection: Any) -> None:
        connection.execute(text("ALTER TABLE normalizer_conversations ADD COLUMN label TEXT"))

    def fill_label(connection: Any) -> None:
        connection.execute(text("UPDATE normalizer_conversations SET label = 'old'"))

    monkeypatch.setattr(schema, "STEPS", (add_label, fill_label))
    assert reason(lambda: open_journal(where, read_only=True)) == "older_schema"
    openers = [Child(lambda send: send(bool(open_journal(where)))) for _ in range(3)]
    assert [child.sent() for child in openers] == [[True]] * 3
    with open_journal(where) as journal:
        assert rows(journal, "SELECT label FROM normalizer_conversations") == [("old",)]
        assert journal._database.read(schema.stored) == 3
        assert journal.append("c", [said("b")])[0].seq == 2
    monkeypatch.setattr(schema, "STEPS", (add_label,))
    assert reason(lambda: open_journal(where)) == "newer_schema"


def test_a_migration_that_fails_changes_nothing(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_journal(where) as journal:
        journal.append("c", [said("a")])

    def broken(connection: Any) -> None:
        connection.execute(text("ALTER TABLE normalizer_conversations ADD COLUMN label TEXT"))
        connection.execute(text("SELECT * FROM no_such_table"))

    monkeypatch.setattr(schema, "STEPS", (broken,))
    assert reason(lambda: open_journal(where)) == "journal"
    monkeypatch.undo()
    with open_journal(where) as journal:
        assert journal._database.read(schema.stored) == 1
        assert rows(journal, "SELECT * FROM normalizer_conversations") == [("c", 1)]


def test_a_fact_that_this_release_cannot_read_is_named(journal: Journal) -> None:
    journal.append("c", [said("a"), said("b")])
    change = text("UPDATE normalizer_facts SET body = :body WHERE seq = 2")
    journal._database.write(lambda c: c.execute(change, {"body": '{"fact_id":"b","kind":"dreamt"}'}))
    with pytest.raises(JournalError, match="fact 2 of conversation 'c'") as caught:
        journal.facts("c")
    assert caught.value.reason == "unreadable_fact"
    assert ids(journal.facts("c", limit=1)) == ["a"]


# ---------------------------------------------------------------- clock and ids


def test_clock_and_ids_come_from_outside(tmp_path: Path) -> None:
    numbers = iter(range(100))
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    with open_journal(tmp_path / "a.db", now=lambda: moment, new_id=lambda: f"id-{next(numbers)}") as journal:
        turn = journal.open_turn("c")
        assert (turn.fact_id, turn.turn_id, turn.run_id) == ("id-2", "id-0", "id-1")
        permit = journal.permit_start("c", "toolu_1", turn_id="id-0", run_id="id-1")
        assert (permit.fact_id, permit.at) == ("id-3", "2026-01-02T03:04:05.000000Z")


def test_a_copied_file_is_the_same_journal(tmp_path: Path) -> None:
    with open_journal(tmp_path / "a.db") as journal:
        names = [f"{n}" for n in sorted(range(50), key=lambda n: n * 7 % 50)]
        journal.append("c", [said(name) for name in names])
    shutil.copy(tmp_path / "a.db", tmp_path / "b.db")
    with open_journal(f"sqlite:///{tmp_path}/b.db") as journal:
        assert ids(journal.facts("c")) == names
