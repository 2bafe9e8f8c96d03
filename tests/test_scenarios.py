"""The fourteen ways in which a run of calls is stopped, from the process to what the model is told afterwards."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import psutil
import pytest
from executing import QUICK, gone, python, runs
from journaling import Child
from living import MODEL, Agent, Beside, agent, tool, until
from loopback import Reply, text
from mcp import StdioServerParameters

from normalizer.errors import TurnClosed
from normalizer.execution import operations
from normalizer.execution.functions import FunctionCall
from normalizer.execution.local import LocalCommand
from normalizer.execution.mcp import Connection, RemoteCall
from normalizer.journal import open_async_journal, open_journal
from normalizer.live.conversation_async import AsyncTurn
from normalizer.recovery import Answer, Question, recover

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Agent]:
    with agent(tmp_path) as made:
        yield made


def pids(folder: Path, count: int = 1) -> list[int]:
    """Processes that wrote their ids to the file `pids`, once all of them did."""
    file = folder / "pids"
    return until(
        lambda: (
            found
            if file.exists() and len(found := [int(line) for line in file.read_text().split()]) == count
            else None
        )
    )


def shell(folder: Path, command: str) -> LocalCommand:
    return LocalCommand(command, directory=folder, limits=QUICK)


def test_a_queued_call_never_runs_when_its_turn_is_stopped(live: Agent, tmp_path: Path) -> None:
    turn = live.conversation.open_turn()
    first, second = live.calls(turn, tool(1), tool(2))
    turn.queue(second)
    running = Beside(lambda: turn.run(first, shell(tmp_path, "echo $$ >> pids; exec sleep 60")))
    (pid,) = pids(tmp_path)
    turn.cancel(by="user")
    running.join()
    with pytest.raises(TurnClosed):
        turn.run(second, shell(tmp_path, "touch second"))
    assert gone([pid])
    assert not (tmp_path / "second").exists()
    assert (live.outcome("toolu_1"), live.outcome("toolu_2")) == ("cancelled_while_running", "never_run")
    assert "[tool outcome: never_run]" in live.told()
    live.go_on()


def test_a_stop_during_a_back_off_starts_no_second_try(live: Agent, tmp_path: Path) -> None:
    tries = tmp_path / "tries"

    async def publish() -> str:
        for pause in (60, 0):
            with tries.open("a") as file:
                file.write("x")
            await anyio.sleep(pause)
        return "published"

    turn = live.conversation.open_turn()
    (call,) = live.calls(turn, tool(1, "publish"))
    running = Beside(lambda: turn.run(call, FunctionCall(publish)))
    until(lambda: tries.exists() and tries.read_text() == "x")
    turn.cancel(by="user")
    running.join()
    time.sleep(0.05)
    assert tries.read_text() == "x"
    assert live.outcome() == "cancelled_while_running"
    live.go_on()


def test_half_a_calls_arguments_are_a_fragment_and_no_call(live: Agent) -> None:
    turn = live.conversation.open_turn()
    turn.user_said("Do it")
    reply = Reply((text("Yes."), tool(1, command="rm -r /tmp/x")), "tool_use", cut=0.7, abrupt=True)
    with pytest.raises(Exception, match=r"peer closed|incomplete"):
        live.ask(turn, reply)
    assert live.conversation.transcript.calls == {}
    assert turn.calls_to_run() == ()
    (fragment,) = live.conversation.fragments
    assert (fragment.call_id, fragment.reason) == ("toolu_1", "not_closed")
    assert live.kinds()[-1] == "reply_cut"
    assert "toolu_1" not in live.told()
    turn.close()
    live.go_on()


def test_a_shells_children_are_stopped_with_it(live: Agent, tmp_path: Path) -> None:
    turn = live.conversation.open_turn()
    (call,) = live.calls(turn, tool(1))
    command = "for n in 1 2 3; do sleep 60 & echo $! >> pids; done; wait"
    running = Beside(lambda: turn.run(call, shell(tmp_path, command)))
    children = pids(tmp_path, 3)
    turn.cancel(by="user")
    running.join()
    assert gone(children)
    assert live.outcome() == "cancelled_while_running"
    assert live.conversation.transcript.calls["toolu_1"].facts[-1].residue == ()  # type: ignore[union-attr]
    live.go_on()


def test_a_descendant_in_a_session_of_its_own_is_stopped_or_named(live: Agent, tmp_path: Path) -> None:
    turn = live.conversation.open_turn()
    (call,) = live.calls(turn, tool(1))
    code = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
        "open('pids', 'w').write(f'{child.pid}\\n')\n"
        "time.sleep(60)"
    )
    running = Beside(lambda: turn.run(call, LocalCommand(python(code), directory=tmp_path, limits=QUICK)))
    (child,) = pids(tmp_path)
    turn.cancel(by="user")
    running.join()
    end = live.conversation.transcript.calls["toolu_1"].facts[-1]
    assert end.kind == "call_terminated"
    assert gone([child]) or any(str(child) in left for left in end.residue)
    live.go_on()


def test_a_pipe_that_a_descendant_holds_does_not_hold_the_call(live: Agent, tmp_path: Path) -> None:
    turn = live.conversation.open_turn()
    (call,) = live.calls(turn, tool(1))
    turn.run(call, shell(tmp_path, "sleep 60 & echo $! >> pids; echo hello; exit 3"))
    (child,) = pids(tmp_path)
    try:
        assert runs(child)  # so nobody waited for it
        end = live.conversation.transcript.calls["toolu_1"].facts[-1]
        assert (end.kind, end.exit_code, end.truncated) == ("call_completed", 3, True)  # type: ignore[union-attr]
        assert "hello" in live.told()
        assert "output cut" in live.told()
    finally:
        with contextlib.suppress(psutil.Error):
            psutil.Process(child).kill()
    turn.close()
    live.go_on()


def test_a_tool_that_ignores_the_polite_signals_is_killed(live: Agent, tmp_path: Path) -> None:
    turn = live.conversation.open_turn()
    (call,) = live.calls(turn, tool(1))
    code = (
        "import os, signal, time\n"
        "for each in (signal.SIGINT, signal.SIGTERM): signal.signal(each, signal.SIG_IGN)\n"
        "open('pids', 'w').write(f'{os.getpid()}\\n')\n"
        "time.sleep(60)"
    )
    running = Beside(lambda: turn.run(call, LocalCommand(python(code), directory=tmp_path, limits=QUICK)))
    (pid,) = pids(tmp_path)
    turn.cancel(by="user")
    running.join()
    assert gone([pid])
    end = live.conversation.transcript.calls["toolu_1"].facts[-1]
    assert (end.kind, end.signal) == ("call_terminated", "SIGKILL")  # type: ignore[union-attr]
    live.go_on()


def test_parallel_calls_have_each_its_own_outcome(live: Agent, tmp_path: Path) -> None:
    turn = live.conversation.open_turn()
    calls = live.calls(turn, tool(1), tool(2), tool(3))

    async def work() -> None:
        async with await open_async_journal(live.where) as journal, anyio.create_task_group() as tasks:
            conversation = journal.conversation("c-1")
            asynchronous = AsyncTurn(turn)
            commands = ("echo one", "echo $$ >> pids; exec sleep 60", "echo $$ >> pids; exec sleep 60")
            for call, command in zip(calls, commands, strict=True):
                tasks.start_soon(asynchronous.run, call, shell(tmp_path, command))
            async for fact in conversation.follow(timeout=20):
                if fact.kind == "call_completed":
                    break
            await anyio.to_thread.run_sync(pids, tmp_path, 2)
            await asynchronous.cancel(by="user")

    anyio.run(work)
    assert [live.outcome(f"toolu_{n}") for n in (1, 2, 3)] == [
        "completed",
        "cancelled_while_running",
        "cancelled_while_running",
    ]
    assert gone(pids(tmp_path, 2))
    live.go_on()


def test_a_completion_beats_a_cancel_at_the_same_moment(live: Agent) -> None:
    turn = live.conversation.open_turn()
    (call,) = live.calls(turn, tool(1))
    with turn.execute(call) as execution:
        stopping = Beside(lambda: turn.cancel(by="user"))
        until(lambda: "call_cancel_requested" in live.kinds("toolu_1"))
        execution.complete("made it")
    stopping.join()
    assert live.outcome() == "completed"
    assert live.conversation.transcript.turns[turn.turn_id].status == "cancelled"
    assert "made it" in live.told()
    live.go_on()


def test_a_remote_that_did_it_and_could_not_say_so_is_found_out(live: Agent, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    server = StdioServerParameters(
        command=sys.executable, args=[str(Path(__file__).parent / "forgetful_mcp_server.py"), str(ledger)]
    )
    operation = operations.named("c-1", "publish", 7)
    turn = live.conversation.open_turn()
    (call,) = live.calls(turn, tool(1, "publish", page=7))

    async def work() -> None:
        async with Connection(server) as connection:
            unit = RemoteCall(connection, "publish", {"page": 7}, key_argument="key")
            await AsyncTurn(turn).run(call, unit, operation=operation, remote=True, recovery="query")

    anyio.run(work)
    assert live.outcome() == "unknown"
    assert operation.idempotency_key
    assert operation.idempotency_key in ledger.read_text()
    live.ask(turn, Reply((text("I do not know."),)))
    turn.close()

    def look(question: Question) -> Answer | None:
        lines = [line for line in ledger.read_text().splitlines() if question.idempotency_key in line]  # type: ignore[operator]
        return Answer(
            evidence="the ledger", effects="happened", outcome="completed", content=lines[0], is_error=False
        )

    live.reopen()
    found = recover(live.journal, {"query": look})
    assert [(row.operation_id, row.execution_state) for row in found] == [
        (operation.operation_id, "completed")
    ]
    assert live.outcome() == "completed"
    assert not recover(live.journal, {"query": look})
    projection = live.conversation.project("anthropic", model=MODEL)
    assert [("revision 18" in news) for news in projection.late_news] == [True]
    assert all(one.kind != "prefix_changed" for one in projection.adjustments)
    assert len(ledger.read_text().splitlines()) == 1
    live.go_on()


def test_pressing_stop_again_and_again_winds_up_once(live: Agent, tmp_path: Path) -> None:
    turn = live.conversation.open_turn()
    (call,) = live.calls(turn, tool(1))
    running = Beside(lambda: turn.run(call, shell(tmp_path, "echo $$ >> pids; exec sleep 60")))
    pids(tmp_path)
    presses = [Beside(lambda: turn.cancel(by="user")) for _ in range(8)]
    running.join()
    asked = {press.join().fact_id for press in presses}
    asked.add(turn.cancel(by="somebody else").fact_id)  # type: ignore[union-attr]
    assert len(asked) == 1
    kinds = live.kinds()
    once = ("turn_cancel_requested", "call_cancel_requested", "call_terminated", "turn_ended")
    assert [kinds.count(kind) for kind in once] == [1, 1, 1, 1]
    live.go_on()


def test_a_crash_before_the_result_is_saved_leaves_it_unknown(live: Agent, tmp_path: Path) -> None:
    live.server.replies(Reply((text("Yes."), tool(1, "publish", page=7)), "tool_use"))

    def work(_send: Callable[[object], None]) -> None:
        conversation = open_journal(live.where).conversation("c-1")
        turn = conversation.open_turn()
        turn.user_said("Do it")
        projection = conversation.project("anthropic", model=MODEL)
        conversation.sent(projection)
        turn.receive(
            "anthropic", live.client.messages.create(**projection.request, max_tokens=9, stream=True)
        )
        with turn.execute(turn.calls_to_run()[0], recovery="ask"):
            (tmp_path / "page").write_text("revision 18")
            os.kill(os.getpid(), signal.SIGKILL)

    child = Child(work)
    assert child.sent() == []
    assert (tmp_path / "page").read_text() == "revision 18"
    turn = live.conversation.open_turn()
    assert "run_lost" in live.kinds()
    assert live.outcome() == "unknown"
    (row,) = recover(live.journal)
    assert (row.execution_state, row.side_effect_state, row.recovery_action) == (
        "unknown",
        "to_verify",
        "ask",
    )
    turn.user_said("What happened?")
    live.ask(turn, Reply((text("I do not know."),)))
    assert "[tool outcome: unknown]" in live.told()
    turn.close()
    live.go_on()


def test_an_old_callback_is_late_news_and_leaves_the_next_run_alone(live: Agent) -> None:
    turn = live.conversation.open_turn()
    (old,) = live.calls(turn, tool(1))
    let_go, inside = threading.Event(), threading.Event()

    def work() -> None:
        with turn.execute(old) as execution:
            inside.set()
            let_go.wait(20)
            execution.complete("done long after")

    running = Beside(work)
    inside.wait(10)
    turn.cancel(by="user", budget=0.05)
    assert live.outcome() == "unknown"
    further = live.conversation.open_turn()
    (new,) = live.calls(further, tool(2))
    let_go.set()
    running.join()
    late = live.conversation.transcript.calls["toolu_1"].facts[-1]
    assert (late.kind, late.run_id) == ("call_completed", turn.run_id)
    assert live.outcome("toolu_2") == "pending"
    with further.execute(new) as execution:
        execution.complete("mine")
    projection = live.conversation.project("anthropic", model=MODEL)
    (news,) = projection.late_news
    assert "done long after" in news
    live.ask(further, Reply((text("I see."),)))
    further.close()
    live.go_on()


def test_steering_for_a_turn_that_is_cancelled_is_kept_and_not_applied(live: Agent) -> None:
    turn = live.conversation.open_turn()
    (call,) = live.calls(turn, tool(1))
    with turn.execute(call) as execution:
        steering = live.conversation.steering.queue("only the tests, please")
        assert live.conversation.steering.apply() == ()  # no safe boundary: the call is open
        turn.cancel(by="user", budget=0.1)
        execution.complete("ran")
    assert live.conversation.steering.apply() == ()
    further = live.conversation.open_turn()
    assert live.conversation.steering.apply() == ()
    assert [fact.steering_id for fact in live.conversation.steering.waiting] == [steering]
    further.user_said("Go on")
    assert "only the tests" not in live.told()
    (applied,) = live.conversation.steering.apply(steering, anyway=True)
    assert applied.turn_id == further.turn_id
    assert "only the tests" in live.told()
    live.ask(further, Reply((text("Only those."),)))
    further.close()
    assert live.accepted()


def test_all_of_it_is_on_disk(live: Agent) -> None:
    turn = live.conversation.open_turn()
    (call,) = live.calls(turn, tool(1))
    with turn.execute(call) as execution:
        execution.complete("yes")
    before = live.conversation.transcript, live.conversation.project("anthropic", model=MODEL).request
    live.reopen()
    assert (
        live.conversation.transcript,
        live.conversation.project("anthropic", model=MODEL).request,
    ) == before
