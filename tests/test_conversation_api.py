"""The live side as a program uses it: what each method records, what it refuses, and what every way out leaves."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import anthropic
import anyio
import anyio.lowlevel
import pytest
from journaling import DATABASES, Child
from living import MODEL, Agent, Beside, agent, tool, until
from loopback import Refusal, Reply, message, text, thinking

import normalizer
from normalizer.errors import JournalError, OpenCalls, StartRefused, TurnClosed
from normalizer.execution.functions import FunctionCall
from normalizer.execution.operations import Operation
from normalizer.journal import open_async_journal, open_journal
from normalizer.journal.transactions import Locked
from normalizer.live.conversation_async import AsyncTurn
from normalizer.live.sigint import uninterrupted
from normalizer.parts import Text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from normalizer.execution.contract import Permit, Unknown
    from normalizer.live.conversation import Conversation
    from normalizer.live.turn import Turn
    from normalizer.transcript import Call

BACKENDS = ("asyncio", "trio")
SAID = Reply((text("So."),))


@pytest.fixture
def live(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Agent]:
    with agent(tmp_path, getattr(request, "param", "sqlite")) as made:
        yield made


# What is decided in the database: who is first, who is lost, what is recorded together.
on_both = pytest.mark.parametrize("live", DATABASES, indirect=True)


@pytest.fixture
def running(live: Agent) -> tuple[Agent, Turn, Call]:
    """A turn with one call that waits."""
    turn = live.conversation.open_turn()
    return live, turn, live.calls(turn, tool(1))[0]


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


# ---------------------------------------------------------------- importing


def test_importing_the_library_loads_neither_the_journal_nor_an_sdk() -> None:
    code = (
        "import sys, normalizer; heavy = {'sqlalchemy', 'anyio', 'psutil', 'anthropic', 'mcp'} & set(sys.modules);"
        " assert not heavy, heavy; normalizer.open_journal; normalizer.open_async_journal; normalizer.recover"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = normalizer.no_such_name


# ---------------------------------------------------------------- the heads


def test_instructions_and_tools_are_recorded_when_they_change(live: Agent) -> None:
    before = live.kinds()
    live.conversation.tools(*_tools(live.conversation))
    assert live.kinds() == before
    for words in ("Be brief.", "Be brief.", "Be kind."):
        live.conversation.instructions(words)
    live.conversation.instructions([Text("Be kind.")])
    assert live.kinds() == [*before, "instructions_set", "instructions_set"]


def _tools(conversation: Conversation) -> Any:
    return next(e.fact.tools for e in conversation.transcript.heads if e.kind == "tools")


# ---------------------------------------------------------------- turns


@on_both
def test_a_second_turn_waits_for_the_first(live: Agent) -> None:
    with live.conversation.open_turn():
        with pytest.raises(JournalError) as caught:
            live.conversation.open_turn()
        assert caught.value.reason == "turn_open"
        other = open_journal(live.where)
        with pytest.raises(JournalError):
            other.conversation("c-1").open_turn()
        other.conversation("c-2").open_turn().close()
        other.close()
    live.conversation.open_turn().close()


@on_both
def test_a_turn_of_a_dead_process_is_recovered_first(live: Agent) -> None:
    child = Child(lambda send: send(open_journal(live.where).conversation("c-1").open_turn().turn_id))
    (turn_id,) = child.sent()
    turn = live.conversation.open_turn()
    (lost,) = [fact for fact in live.conversation.facts if fact.kind == "run_lost"]
    assert (lost.turn_id, lost.how) == (turn_id, "its process is gone")
    turn.close()


def test_a_turn_closes_fails_or_is_cancelled_as_its_block_is_left(live: Agent) -> None:
    with live.conversation.open_turn():
        pass
    with pytest.raises(KeyError), live.conversation.open_turn():
        raise KeyError
    with pytest.raises(KeyboardInterrupt), live.conversation.open_turn():
        interrupt()
    ended = [fact.status for fact in live.conversation.facts if fact.kind == "turn_ended"]
    assert ended == ["completed", "failed", "cancelled"]


def test_closing_waits_for_nothing_and_is_refused_while_a_call_runs(
    running: tuple[Agent, Turn, Call],
) -> None:
    live, turn, call = running
    with turn.execute(call) as execution:
        with pytest.raises(OpenCalls):
            turn.close()
        execution.complete("ok")
    turn.close()
    turn.close()
    turn.fail()
    assert turn.over
    assert turn.cancel(by="user") is None
    assert live.kinds().count("turn_ended") == 1


@on_both
def test_a_lease_is_renewed_and_its_loss_is_noticed(live: Agent) -> None:
    turn = live.conversation.open_turn(lease=0.15)
    first = live.journal.runs("c-1")[0].lease_until
    assert first
    until(lambda: (renewed := live.journal.runs("c-1")[0].lease_until) and renewed > first)
    (call,) = live.calls(turn, tool(1))
    with turn.execute(call) as execution:
        live.journal.lose_run("c-1", turn.run_id, by="operator", how="declared")
        assert turn.declared_lost.wait(60)
        assert execution.control.requested
        execution.complete("all the same")
    assert live.outcome() == "completed"


# ---------------------------------------------------------------- requests and replies


@on_both
def test_a_projection_goes_out_once_and_only_if_it_is_the_newest(live: Agent) -> None:
    with live.conversation.open_turn() as turn:
        turn.user_said("Hello")
        first = live.conversation.project("anthropic", model=MODEL)
        sent = live.conversation.sent(first)
        assert (sent.turn_id, sent.seq) == (turn.turn_id, live.conversation.facts[-1].seq)
        with pytest.raises(JournalError) as caught:
            live.conversation.sent(first)
        assert caught.value.reason == "stale_projection"
        live.conversation.sent(live.conversation.project("anthropic", model=MODEL))


def test_a_reply_names_the_request_that_it_answers(live: Agent) -> None:
    with live.conversation.open_turn() as turn:
        turn.user_said([Text("Hello")], by="program")
        reading = live.ask(turn, SAID)
        sent, replied = live.conversation.facts[-2:]
        assert replied.answers == sent.fact_id  # type: ignore[union-attr]
        assert (replied.run_id, replied.turn_id) == (turn.run_id, turn.turn_id)
        assert reading.facts == (replied,)


@pytest.mark.parametrize("form", ["json", "object", "manager", "events", "stream"])
def test_every_form_of_a_reply_is_taken(live: Agent, form: str) -> None:
    seen: list[Any] = []
    with live.conversation.open_turn() as turn:
        turn.user_said("Do it")
        projection = live.conversation.project("anthropic", model=MODEL)
        live.conversation.sent(projection)
        reply = Reply((thinking("hm"), text("Yes."), tool(1)), "tool_use")
        live.server.replies(reply)
        body = {**projection.request, "max_tokens": 99}
        create = live.client.messages.create
        source: Any = {
            "json": lambda: message(body, reply, [text("Yes."), tool(1)], 1),
            "object": lambda: create(**body),
            "manager": lambda: live.client.messages.stream(**body),
            "events": lambda: [event.model_dump(mode="json") for event in create(**body, stream=True)],
            "stream": lambda: create(**body, stream=True),
        }[form]()
        reading = turn.receive("anthropic", source, seen.append)
        assert reading.turn == "ended"
        assert reading.calls_to_run == ("toolu_1",)
        assert bool(seen) == (form not in ("json", "object"))
        (call,) = turn.calls_to_run()
        assert (call.name, call.arguments) == ("run", {})
        with turn.execute(call) as execution:
            execution.complete({"done": True})
        assert turn.calls_to_run() == ()
        live.ask(turn, SAID)
    assert live.accepted()


def test_a_refused_request_is_no_base(live: Agent) -> None:
    with live.conversation.open_turn() as turn:
        turn.user_said("Hello")
        with pytest.raises(anthropic.BadRequestError):
            live.ask(turn, Refusal("no"))
        cut = live.conversation.facts[-1]
        assert (cut.kind, cut.refused) == ("reply_cut", True)  # type: ignore[union-attr]
        with pytest.raises(anthropic.InternalServerError):
            live.ask(turn, Refusal("overloaded", "overloaded_error", 529))
        assert live.conversation.facts[-1].refused is False  # type: ignore[union-attr]
        live.ask(turn, SAID)


def test_whole_calls_of_a_cut_reply_are_not_run(live: Agent) -> None:
    with live.conversation.open_turn() as turn:
        turn.user_said("Do it")
        reply = Reply(
            (tool(1, command="ls"), text("and then " * 30)), "tool_use", cut=0.75, error="overloaded_error"
        )
        with pytest.raises(anthropic.APIError):
            live.ask(turn, reply)
        assert turn.calls_to_run() == ()
        assert live.outcome() == "never_run"
        live.ask(turn, SAID)


def test_ctrl_c_in_a_stream_leaves_a_cut_reply(live: Agent) -> None:
    turn = live.conversation.open_turn()
    turn.user_said("Do it")
    live.server.replies(Reply((text("A long story."),)))
    projection = live.conversation.project("anthropic", model=MODEL)
    live.conversation.sent(projection)
    stream = live.client.messages.create(**projection.request, max_tokens=9, stream=True)

    def press(event: Any) -> None:
        if event.type == "content_block_delta":
            interrupt()

    with pytest.raises(KeyboardInterrupt):
        turn.receive("anthropic", stream, press)
    stream.close()
    cut = live.conversation.facts[-1]
    assert (cut.kind, cut.refused, cut.error) == ("reply_cut", False, "KeyboardInterrupt")  # type: ignore[union-attr]
    assert [fragment.text for fragment in live.conversation.fragments] == ["A long"]
    turn.cancel(by="user")
    live.go_on()


def test_a_length_limit_inside_a_call_keeps_its_fragment(live: Agent) -> None:
    with live.conversation.open_turn() as turn:
        turn.user_said("Do it")
        broken = tool(1) | {"_json": '{"command": "ls'}
        reading = live.ask(turn, Reply((text("Yes."), broken), "max_tokens"))
        assert live.conversation.fragments == reading.fragments
        assert reading.fragments
        assert turn.calls_to_run() == ()


@on_both
def test_a_reply_and_its_fragments_are_recorded_together_or_not_at_all(
    live: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise JournalError("the disk is full", reason="full")

    turn = live.conversation.open_turn()
    turn.user_said("Do it")
    with monkeypatch.context() as patch:
        patch.setattr(Locked, "add_fragments", full)
        with pytest.raises(JournalError, match="full"):
            live.ask(turn, Reply((text("Yes."), tool(1) | {"_json": '{"command": "ls'}), "max_tokens"))
    assert live.kinds()[-1] == "request_sent"
    assert live.conversation.fragments == ()
    turn.close()


# ---------------------------------------------------------------- calls


def test_approval_is_asked_for_given_and_denied(live: Agent) -> None:
    turn = live.conversation.open_turn()
    first, second, third = live.calls(turn, tool(1), tool(2), tool(3))
    turn.request_approval(first)
    turn.request_approval(second)
    with pytest.raises(StartRefused) as caught, turn.execute(first):
        raise AssertionError
    assert caught.value.reason == "awaiting_approval"
    turn.approve(first, by="ana")
    turn.deny(second, by="ana", reason="not on a Friday")
    turn.skip(third, reason="not needed")
    with turn.execute(first) as execution:
        execution.complete("ok")
    with pytest.raises(StartRefused), turn.execute(second):
        raise AssertionError
    assert [live.outcome(f"toolu_{n}") for n in (1, 2, 3)] == ["completed", "denied", "never_run"]
    assert "not on a Friday" in live.told()
    live.ask(turn, SAID)
    turn.close()


@on_both
def test_a_call_starts_once(running: tuple[Agent, Turn, Call]) -> None:
    _, turn, call = running
    with turn.execute(call, operation=Operation("op_1", "key_1"), remote=True, recovery="query") as execution:
        execution.complete("ok")
    permit = execution.permit
    assert permit
    assert (permit.operation_id, permit.idempotency_key, permit.recovery) == ("op_1", "key_1", "query")
    with pytest.raises(StartRefused) as caught, turn.execute(call):
        raise AssertionError
    assert caught.value.reason == "already_permitted"
    with pytest.raises(TypeError, match="operation_idd"):
        turn.execute(call, operation_idd="x")


def test_leaving_without_a_word_is_an_error_and_the_call_stays_open(
    running: tuple[Agent, Turn, Call],
) -> None:
    live, turn, call = running
    with pytest.raises(JournalError, match=r"execution\.complete") as caught, turn.execute(call):
        pass
    assert caught.value.reason == "call_left_open"
    assert live.outcome() == "pending"
    with pytest.raises(OpenCalls):
        live.conversation.project("anthropic", model=MODEL)
    turn.cancel(by="user", budget=0.1)
    assert live.outcome() == "unknown"


def test_a_tools_own_exception_is_its_result(running: tuple[Agent, Turn, Call]) -> None:
    live, turn, call = running
    with pytest.raises(ValueError, match="no such page"), turn.execute(call):
        raise ValueError("no such page")
    assert "ValueError: no such page" in live.told()
    assert live.conversation.transcript.calls["toolu_1"].outcome.is_error


@pytest.mark.parametrize("way", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interrupted_call_is_never_a_success(
    running: tuple[Agent, Turn, Call], way: type[BaseException]
) -> None:
    live, turn, call = running
    with pytest.raises(way), turn.execute(call) as execution:  # noqa: PT012 - the block is what is tested
        execution.output("half of it", "stdout")
        raise way
    assert live.kinds("toolu_1")[1:] == ["call_cancel_requested", "contact_lost"]
    assert live.outcome() == "unknown"
    assert "half of it" in live.told()
    turn.cancel()


def test_an_interrupted_call_that_confirms_its_stop_is_cancelled(running: tuple[Agent, Turn, Call]) -> None:
    live, turn, call = running
    with pytest.raises(KeyboardInterrupt), turn.execute(call, stop=lambda: True):
        interrupt()
    assert live.outcome() == "cancelled_while_running"
    turn.cancel(by="user")


def test_a_stop_that_fails_confirms_nothing(running: tuple[Agent, Turn, Call]) -> None:
    live, turn, call = running
    with pytest.raises(KeyboardInterrupt), turn.execute(call, stop=lambda: 1 // 0 == 0):
        interrupt()
    assert live.outcome() == "unknown"
    turn.cancel()


@on_both
def test_a_stop_from_elsewhere_is_heard_and_obeyed(running: tuple[Agent, Turn, Call]) -> None:
    live, turn, call = running
    inside, stopped = threading.Event(), threading.Event()

    def work() -> None:
        with turn.execute(call, stop=lambda: stopped.set() or True) as execution:
            inside.set()
            stopped.wait(10)
            execution.cancel_requested()

    def obey() -> None:
        for fact in turn.conversation.follow(timeout=10):
            if fact.kind == "turn_cancel_requested" and fact.turn_id == turn.turn_id:
                turn.cancel(fact.by)
                return

    beside, obeying = Beside(work), Beside(obey)
    inside.wait(10)
    with open_journal(live.where) as elsewhere:
        elsewhere.cancel_turn(turn.conversation.id, turn.turn_id, by="operator")
    beside.join()
    obeying.join()
    terminated = live.conversation.transcript.calls["toolu_1"].facts[-1]
    assert (terminated.kind, terminated.by) == ("call_terminated", "operator")  # type: ignore[union-attr]
    assert live.conversation.transcript.turns[turn.turn_id].status == "cancelled"


@on_both
def test_cancel_asks_the_stop_of_a_running_call(running: tuple[Agent, Turn, Call]) -> None:
    live, turn, call = running
    inside, stopped = threading.Event(), threading.Event()

    def stop() -> bool:
        stopped.set()
        return True

    def work() -> None:
        with turn.execute(call, stop=stop) as execution:
            inside.set()
            stopped.wait(10)
            execution.cancel_requested()

    beside = Beside(work)
    inside.wait(10)
    turn.cancel(by="user")
    beside.join()
    terminated = live.conversation.transcript.calls["toolu_1"].facts[-1]
    assert (terminated.kind, terminated.by) == ("call_terminated", "user")  # type: ignore[union-attr]


def test_cancelling_inside_the_own_block_does_not_wait_for_itself(running: tuple[Agent, Turn, Call]) -> None:
    live, turn, call = running
    with turn.execute(call) as execution:
        turn.cancel(by="user", budget=0.5)
        assert "contact_lost" not in live.kinds()  # as would be noted after waiting for the whole budget
        execution.complete("ok")
    assert live.outcome() == "completed"
    with pytest.raises(TurnClosed), turn.execute(call):
        raise AssertionError


@on_both
def test_the_first_result_counts_and_a_later_one_is_better_than_none(
    running: tuple[Agent, Turn, Call],
) -> None:
    live, turn, call = running
    with turn.execute(call) as execution:
        execution.remote_cancelled("requested")
        execution.lost("no answer")
        assert live.outcome() == "unknown"
        execution.complete("late", is_error=True)
        with pytest.raises(JournalError) as caught:
            execution.complete("later")
        assert caught.value.reason == "already_ended"
    assert live.outcome() == "completed"
    assert live.conversation.transcript.calls["toolu_1"].remote_cancel_state == "requested"
    turn.close()


def test_what_could_not_be_saved_is_not_the_tools_fault(
    running: tuple[Agent, Turn, Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    live, turn, call = running

    def full(*_: Any, **__: Any) -> Any:
        raise JournalError("the disk is full")

    with pytest.raises(JournalError, match="full"), turn.execute(call) as execution:  # noqa: PT012 - the block is what is tested
        monkeypatch.setattr(live.conversation.journal, "append", full)
        execution.complete("ok")
    monkeypatch.undo()
    assert live.kinds("toolu_1") == ["start_permitted"]


def test_a_unit_that_breaks_off_leaves_its_call_unknown(running: tuple[Agent, Turn, Call]) -> None:
    live, turn, call = running

    class Broken:
        async def run(self, _permit: Permit, _report: Any, _control: Any = None) -> Unknown:
            raise RuntimeError("a bug of the unit")

    with pytest.raises(RuntimeError):
        turn.run(call, Broken())
    assert live.outcome() == "unknown"
    turn.cancel()


def test_ctrl_c_at_the_gate_starts_nothing(
    running: tuple[Agent, Turn, Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    live, turn, call = running
    permit = turn.permit

    def pressed(*given: Any) -> Any:
        interrupt()
        return permit(*given)

    monkeypatch.setattr(turn, "permit", pressed)
    with pytest.raises(KeyboardInterrupt), turn.execute(call):
        raise AssertionError
    assert live.kinds("toolu_1") == ["start_permitted", "outcome_attested"]
    assert live.outcome() == "never_run"
    assert turn.running.keys() == frozenset()
    turn.cancel()


def test_ctrl_c_waits_for_what_is_being_written() -> None:
    steps = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():  # noqa: PT012 - the block is what is tested
        interrupt()
        steps.append("written")
    assert steps == ["written"]
    assert Beside(_shielded_elsewhere).join() == "done"


def _shielded_elsewhere() -> str:
    with uninterrupted():
        return "done"


# ---------------------------------------------------------------- steering


@on_both
def test_steering_is_applied_behind_the_results(running: tuple[Agent, Turn, Call]) -> None:
    live, turn, call = running
    steering = live.conversation.steering
    first, second = steering.queue("faster"), steering.queue([Text("and quieter")])
    steering.withdraw(second)
    with pytest.raises(JournalError) as caught:
        steering.withdraw(second)
    assert caught.value.reason == "unknown_steering"
    with turn.execute(call) as execution:
        assert steering.apply() == ()
        execution.complete("ok")
    assert [fact.steering_id for fact in steering.apply()] == [first]  # type: ignore[union-attr]
    assert "faster" in live.told()
    assert "quieter" not in live.told()
    live.ask(turn, SAID)
    turn.close()


@on_both
def test_steering_yields_to_a_cancel_that_came_first(live: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    turn = live.conversation.open_turn()
    steering = live.conversation.steering
    steering_id = steering.queue("faster")
    stale = live.conversation.transcript
    turn.cancel(by="user")
    with monkeypatch.context() as patch:  # what a thread saw a moment before the cancel
        patch.setattr(type(live.conversation), "transcript", property(lambda _: stale))
        with pytest.raises(TurnClosed) as caught:
            steering.apply()
    assert caught.value.reason == "turn_cancelled"
    assert live.conversation.transcript.steering == (steering_id,)


# ---------------------------------------------------------------- the twin


def test_the_twin_has_the_same_names() -> None:
    from normalizer.live import conversation, conversation_async, steering, tool_run, turn

    inner = {"new_id", "now", "permit", "record", "over", "running"}
    sync_only = {"ask_to_stop", "attend", "by_unit", "enter", "enter_in_thread", "abandon", "leave", "ended"}
    pairs = (
        (conversation.Conversation, conversation_async.AsyncConversation),
        (turn.Turn, conversation_async.AsyncTurn),
        (tool_run.Execution, conversation_async.AsyncExecution),
        (steering.Steering, conversation_async.AsyncSteering),
    )
    for one, twin in pairs:
        missing = (
            {name for name in vars(one) if not name.startswith("_")} - set(vars(twin)) - inner - sync_only
        )
        assert not missing


def twin(backend: str, where: Path | str, work: Callable[[Any], Awaitable[None]]) -> None:
    async def main() -> None:
        async with await open_async_journal(where) as journal:
            await work(journal.conversation("c-1"))

    anyio.run(main, backend=backend)


@on_both
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_turn_with_await(live: Agent, backend: str) -> None:
    live.server.replies(Reply((text("Yes."), tool(1)), "tool_use"), SAID)

    async def work(conversation: Any) -> None:
        await conversation.instructions("Be brief.")
        async with (
            anthropic.AsyncAnthropic(base_url=live.server.url, api_key="none", max_retries=0) as client,
            await conversation.open_turn() as turn,
        ):
            await turn.user_said("Do it")
            seen: list[str] = []

            async def show(event: Any) -> None:
                await anyio.lowlevel.checkpoint()
                seen.append(event.type)

            for number in range(2):
                projection = await conversation.project("anthropic", model=MODEL)
                await conversation.sent(projection)
                body = {**projection.request, "max_tokens": 99}
                if number:
                    await turn.receive("anthropic", client.messages.stream(**body), show)
                else:
                    await turn.receive(
                        "anthropic", lambda body=body: client.messages.create(**body, stream=True), show
                    )
                for call in await turn.calls_to_run():
                    steering = await conversation.steering.queue("faster")
                    async with turn.execute(call, may_have_effects=False) as execution:
                        await execution.output("working")
                        await execution.complete("ok")
                    assert await conversation.steering.apply(steering)
                    assert not await conversation.steering.waiting()
            assert "message_stop" in seen
        assert await conversation.fragments() == ()
        assert (await conversation.facts())[-1].kind == "turn_ended"
        assert [fact.seq async for fact in conversation.follow(timeout=0.05)][:2] == [1, 2]
        assert (await conversation.transcript()).calls["toolu_1"].outcome.kind == "completed"
        assert "AsyncConversation" in repr(conversation) or "c-1" in repr(conversation)

    twin(backend, live.where, work)
    assert live.accepted()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("blocking", [True, False])
def test_a_cancelled_task_records_its_call_as_unknown(live: Agent, backend: str, *, blocking: bool) -> None:
    turn = live.conversation.open_turn()
    (call,) = live.calls(turn, tool(1))

    async def work(_conversation: Any) -> None:
        inside = anyio.Event()
        made: Any = turn.execute(call) if blocking else AsyncTurn(turn).execute(call)

        async def tooling() -> None:
            async with made:
                inside.set()
                await anyio.sleep_forever()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tooling)
            await inside.wait()
            tasks.cancel_scope.cancel()

    twin(backend, live.where, work)
    assert live.kinds("toolu_1")[1:] == ["call_cancel_requested", "contact_lost"]
    assert live.outcome() == "unknown"
    turn.cancel()


def test_a_natively_cancelled_task_is_no_different(running: tuple[Agent, Turn, Call]) -> None:
    import asyncio

    live, turn, call = running

    async def main() -> None:
        inside = asyncio.Event()

        async def tooling() -> None:
            async with AsyncTurn(turn).execute(call):
                inside.set()
                await asyncio.sleep(60)

        task = asyncio.create_task(tooling())
        await inside.wait()
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert live.outcome() == "unknown"
    turn.cancel()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_task_that_is_cancelled_at_the_gate_starts_nothing(live: Agent, backend: str) -> None:
    turn = live.conversation.open_turn()
    (call,) = live.calls(turn, tool(1))

    async def work(_conversation: Any) -> None:
        with anyio.CancelScope() as scope:
            scope.cancel()
            async with AsyncTurn(turn).execute(call):
                raise AssertionError

    twin(backend, live.where, work)
    assert live.outcome() in ("never_run", "pending")
    assert turn.running.keys() == frozenset()
    turn.cancel()
    assert live.outcome() == "never_run"


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_cancelled_stream_leaves_a_cut_reply(live: Agent, backend: str) -> None:
    turn = live.conversation.open_turn()
    turn.user_said("Hello")
    live.conversation.sent(live.conversation.project("anthropic", model=MODEL))

    async def events() -> Any:
        yield {
            "type": "message_start",
            "message": {"id": "m", "model": MODEL, "role": "assistant", "content": []},
        }
        yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Once"}}
        await anyio.sleep_forever()

    async def work(_conversation: Any) -> None:
        with anyio.move_on_after(0.1):
            await AsyncTurn(turn).receive("anthropic", events())

    twin(backend, live.where, work)
    assert live.kinds()[-1] == "reply_cut"
    assert [fragment.text for fragment in live.conversation.fragments] == ["Once"]
    turn.cancel()


@pytest.mark.parametrize("backend", BACKENDS)
def test_cancelling_with_await_inside_the_own_block(live: Agent, backend: str) -> None:
    turn = live.conversation.open_turn()
    (call,) = live.calls(turn, tool(1))

    async def work(_conversation: Any) -> None:
        asynchronous = AsyncTurn(turn)
        async with asynchronous.execute(call) as execution:
            await asynchronous.cancel(by="user", budget=0.5)
            assert "contact_lost" not in live.kinds()
            await execution.terminated(residue=("a lock file",))

    twin(backend, live.where, work)
    assert live.outcome() == "cancelled_while_running"


@on_both
def test_whoever_follows_sees_the_stop_as_it_happens(running: tuple[Agent, Turn, Call]) -> None:
    live, turn, call = running
    seen: list[str] = []

    def watch() -> None:
        for fact in live.conversation.follow(timeout=20):
            seen.append(fact.kind)
            if fact.kind == "turn_ended":
                return

    watching = Beside(watch)
    with turn.execute(call) as execution:
        stopping = Beside(lambda: turn.cancel(by="user"))
        until(lambda: "call_cancel_requested" in seen)
        execution.terminated(exit_code=1)
    stopping.join()
    watching.join()
    assert seen[-4:] == ["turn_cancel_requested", "call_cancel_requested", "call_terminated", "turn_ended"]


# ---------------------------------------------------------------- the rarer ways


@pytest.mark.parametrize("backend", BACKENDS)
def test_whole_replies_lists_and_units_with_await(live: Agent, backend: str) -> None:
    turn = live.conversation.open_turn()
    turn.user_said("Do it")
    reply = {"id": "m", "type": "message", "role": "assistant", "model": MODEL, "stop_reason": "tool_use"}
    calls = [tool(1), tool(2)]

    class Broken:
        async def run(self, _permit: Permit, _report: Any, _control: Any = None) -> Unknown:
            raise RuntimeError("a bug of the unit")

    async def work(conversation: Any) -> None:
        asynchronous = AsyncTurn(turn)
        seen: list[Any] = []
        await asynchronous.receive("anthropic", {**reply, "content": calls})
        first, second = await asynchronous.calls_to_run()
        await asynchronous.run(first, FunctionCall(lambda: "ok"))
        with pytest.raises(RuntimeError):
            await asynchronous.run(second, Broken())
        await asynchronous.receive("anthropic", [{"type": "message_start", "message": reply}], seen.append)
        assert len(seen) == 1
        monkey = JournalError("the disk is full")
        with pytest.raises(JournalError, match="full"):
            await asynchronous.receive("anthropic", [{"type": "ping"}], lambda _: _raise(monkey))
        assert repr(conversation).startswith("AsyncConversation('c-1'")
        assert repr(asynchronous).startswith("AsyncTurn(")

    twin(backend, live.where, work)
    assert (live.outcome("toolu_1"), live.outcome("toolu_2")) == ("completed", "unknown")
    turn.close()


def _raise(error: Exception) -> None:
    raise error


@on_both
def test_what_the_journal_refuses_in_a_reply_is_no_cut_reply(live: Agent) -> None:
    with live.conversation.open_turn() as turn:
        with pytest.raises(JournalError, match="full"):
            turn.receive("anthropic", [{"type": "ping"}], lambda _: _raise(JournalError("the disk is full")))
        assert "reply_cut" not in live.kinds()
        assert repr(live.conversation).startswith("Conversation('c-1'")
        assert repr(turn).endswith("of 'c-1')")


def test_only_the_first_of_several_choices_is_the_conversation(live: Agent) -> None:
    def choice(number: int) -> dict[str, Any]:
        return {
            "index": number,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": f"{number}"},
        }

    with live.conversation.open_turn() as turn:
        turn.user_said("Hello")
        body = {"id": "c", "object": "chat.completion", "model": "gpt-5", "choices": [choice(0), choice(1)]}
        turn.receive("openai_chat", body)
        assert live.kinds().count("model_replied") == 1


def test_a_call_beside_a_paused_search_is_not_skipped(live: Agent) -> None:
    with live.conversation.open_turn() as turn:
        turn.user_said("Find it")
        search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
        live.ask(turn, Reply((tool(1), search), "pause_turn"))
        (call,) = turn.calls_to_run()
        with turn.execute(call) as execution:
            execution.complete("ok")
        assert live.outcome() == "completed"


def test_an_error_behind_the_end_of_a_reply_leaves_it_whole(live: Agent) -> None:
    with live.conversation.open_turn() as turn:
        turn.user_said("Hello")

        def press(event: Any) -> None:
            if event.type == "message_stop":
                raise RuntimeError("the screen is gone")

        live.server.replies(SAID)
        projection = live.conversation.project("anthropic", model=MODEL)
        live.conversation.sent(projection)
        with pytest.raises(RuntimeError):
            turn.receive(
                "anthropic",
                lambda: live.client.messages.create(**projection.request, max_tokens=9, stream=True),
                press,
            )
        assert live.kinds()[-1] == "model_replied"
