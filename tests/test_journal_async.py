"""The journal under asyncio and Trio: the same methods and answers, and an event loop that never waits."""

from __future__ import annotations

import inspect
import sqlite3
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from journaling import DATABASES, address, done, ids, said

from normalizer.errors import JournalError, StartRefused, TurnClosed
from normalizer.facts import ReplyCut
from normalizer.findings import Fragment
from normalizer.journal import open_async_journal, open_journal
from normalizer.journal.journal import Journal
from normalizer.journal.journal_async import AsyncJournal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

pytestmark = [
    pytest.mark.parametrize("backend", ["asyncio", "trio"]),
    pytest.mark.parametrize("kind", DATABASES),
]


def run(backend: str, where: str, work: Callable[[AsyncJournal], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        async with await open_async_journal(where, **options) as journal:
            await work(journal)

    anyio.run(main, backend=backend)


def test_a_conversation_from_opening_to_deleting(backend: str, kind: str, tmp_path: Path) -> None:
    where = address(kind, tmp_path)

    async def work(journal: AsyncJournal) -> None:
        turn = await journal.open_turn("c", lease=60)
        turn_id, run_id = turn.turn_id or "", turn.run_id or ""
        start = partial(journal.permit_start, "c", turn_id=turn_id, run_id=run_id)
        permit = await start("toolu_1", operation_id="op")
        assert (permit.seq, permit.operation_id) == (2, "op")
        with pytest.raises(StartRefused) as caught:
            await start("toolu_1")
        assert caught.value.reason == "already_permitted"
        assert (
            await journal.append("c", [done("d", "toolu_1"), done("d", "toolu_1")])
            == (await journal.facts("c"))[2:] * 2
        )
        cancelled = await journal.cancel_turn("c", turn_id, by="user")
        assert await journal.cancel_turn("c", turn_id) == cancelled
        with pytest.raises(TurnClosed):
            await start("toolu_2")
        fragment = Fragment(None, "{", "not_closed")
        await journal.append("c", [ReplyCut(fact_id="cut")], fragments=[fragment])
        await journal.add_fragments("c", [fragment], about="cut")
        assert await journal.fragments("c") == (fragment,)
        assert await journal.renew_lease("c", run_id, 60)
        assert [run.run_id for run in await journal.runs()] == [run_id]
        assert await journal.lose_run("c", run_id, by="test") is not None
        assert await journal.conversations() == ("c",)
        assert len(await journal.facts("c", after=1, limit=2)) == 2
        assert await journal.delete("c")
        assert await journal.conversations() == ()
        assert where.rsplit("/", 1)[-1].split("?")[0] in repr(journal)

    run(backend, where, work)


def test_followers_get_facts_as_they_come(backend: str, kind: str, tmp_path: Path) -> None:
    async def work(journal: AsyncJournal) -> None:
        await journal.append("c", [said("a"), said("b")])
        seen, stop = [], anyio.Event()

        async def follow() -> None:
            async for fact in journal.follow("c", after=1, stop=stop):
                seen.append(fact.fact_id)
                if fact.fact_id == "d":
                    stop.set()

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(follow)
                for name in "cd":
                    await journal.append("c", [said(name)])
        assert seen == ["b", "c", "d"]
        assert [fact.fact_id async for fact in journal.follow("c", timeout=0.03)] == list("abcd")
        with anyio.move_on_after(0.05) as scope:
            async for _ in journal.follow("c", after=4):
                raise AssertionError
        assert scope.cancelled_caught

    run(backend, address(kind, tmp_path), work)


def test_many_tasks_append_at_once(backend: str, kind: str, tmp_path: Path) -> None:
    async def work(journal: AsyncJournal) -> None:
        async with anyio.create_task_group() as group:
            for n in range(40):
                group.start_soon(journal.append, "c", [said(f"{n}/1"), said(f"{n}/2")])
        facts = await journal.facts("c")
        assert [fact.seq for fact in facts] == list(range(1, 81))
        assert len(set(ids(facts))) == 80

    run(backend, address(kind, tmp_path), work)


def test_a_cancelled_caller_knows_whether_it_was_recorded(backend: str, kind: str, tmp_path: Path) -> None:
    """The scope's cancellation waits for the thread, so that nothing is recorded behind the caller's back."""

    async def work(journal: AsyncJournal) -> None:
        for n in range(10):
            recorded = None
            with anyio.move_on_after(n / 2000):
                recorded = await journal.append("c", [said(f"{n}")])
            there = [fact.fact_id for fact in await journal.facts("c")]
            assert (f"{n}" in there) == (recorded is not None)

    run(backend, address(kind, tmp_path), work)


def test_errors_are_those_of_the_journal(backend: str, kind: str, tmp_path: Path) -> None:
    async def work(journal: AsyncJournal) -> None:
        await journal.close()
        with pytest.raises(JournalError) as caught:
            await journal.facts("c")
        assert caught.value.reason == "closed"

    where = address(kind, tmp_path)
    run(backend, where, work)
    with open_journal(where) as journal:
        assert journal.facts("c") == ()


def test_the_event_loop_never_waits_for_a_lock(backend: str, kind: str, tmp_path: Path) -> None:
    if kind != "sqlite":
        pytest.skip("a row's lock waits in the server; the file's lock waits in this process")
    where = address(kind, tmp_path)

    async def work(journal: AsyncJournal) -> None:
        await journal.append("c", [said("a")])
        other = sqlite3.connect(where, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        async with anyio.create_task_group() as group:
            for n in range(12):  # more than there are threads
                group.start_soon(journal.append, "c", [said(f"{n}")])
            # Only this loop gives the lock back: did it wait for it, it would wait until the database gives up.
            for _ in range(100):
                await anyio.sleep(0.005)
            other.execute("ROLLBACK")
        other.close()
        assert len(await journal.facts("c")) == 13

    run(backend, where, work)


def test_a_conversation_of_it_is_to_be_awaited(backend: str, kind: str, tmp_path: Path) -> None:
    async def work(journal: AsyncJournal) -> None:
        conversation = journal.conversation("c")
        async with await conversation.open_turn() as turn:
            await turn.user_said("Go on.")
        assert [fact.kind for fact in await journal.facts("c")] == ["turn_opened", "user_said", "turn_ended"]

    run(backend, address(kind, tmp_path), work)


def test_both_have_the_same_methods(backend: str, kind: str) -> None:
    del backend, kind
    for name, method in vars(Journal).items():
        if not name.startswith("_") and callable(method):
            theirs = inspect.signature(getattr(AsyncJournal, name))
            if name != "follow":
                assert list(theirs.parameters) == list(inspect.signature(method).parameters), name
