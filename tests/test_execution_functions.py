"""Functions as tools."""

from __future__ import annotations

import asyncio
import functools
import json
import threading
import time
from typing import Any

import anyio
import pytest
from executing import BACKENDS, Recorder, execute

from normalizer.execution.contract import Control, Finished, Permit, Stopped, Unknown, run
from normalizer.execution.functions import FunctionCall, is_async
from normalizer.parts import Media, Text


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def add(a: int, b: int) -> int:
    return a + b


async def add_later(a: int, b: int) -> int:
    await anyio.sleep(0.01)
    return a + b


class Adder:
    async def __call__(self, a: int, b: int) -> int:
        return a + b


@pytest.mark.parametrize(
    "function",
    [
        add,
        add_later,
        functools.partial(add, b=2),
        functools.partial(add_later, b=2),
        Adder(),
        Adder().__call__,
    ],
)
def test_a_function_runs_and_its_value_is_the_result(function: Any, backend: str) -> None:
    found = execute(FunctionCall(function, {"a": 1, "b": 2}), backend)
    assert found.end == Finished(content="3")
    assert found.recorder.kinds == ["call_completed"]
    assert found.recorder.facts[0].source == "function"


def test_what_is_async() -> None:
    assert not is_async(add)
    assert not is_async(int)
    assert is_async(functools.partial(functools.partial(add_later, 1), 2))
    assert is_async(Adder())


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (None, ""),
        ("as it is \0", "as it is \ufffd"),
        (b"caf\xc3\xa9 \xff", "café \ufffd"),
        ({"a": [1, None]}, '{"a": [1, null]}'),
        ((Text("a"), Media("image", data="AA==")), (Text("a"), Media("image", data="AA=="))),
        ((), "[]"),
        ("half \ud800", "half \\ud800"),
    ],
)
def test_what_is_returned(value: object, content: object) -> None:
    assert execute(FunctionCall(lambda: value)).end == Finished(content=content)  # type: ignore[arg-type]


def test_an_object_that_json_does_not_know_is_told_by_its_repr() -> None:
    found = execute(FunctionCall(lambda: {"x": Adder}))
    assert "Adder" in json.loads(str(found.end.content))["x"]  # type: ignore[union-attr]


def test_a_long_result_is_shortened() -> None:
    found = execute(FunctionCall(lambda: "x" * 1000, keep=100))
    assert isinstance(found.end, Finished)
    assert found.end.truncated
    assert len(str(found.end.content)) < 200


@pytest.mark.parametrize(
    "raised", [ValueError("no such page"), SystemExit("no such page"), KeyError("no such page")]
)
@pytest.mark.parametrize("asynchronous", [True, False])
def test_the_tools_own_exception_is_a_completed_call_with_an_error(
    raised: BaseException, asynchronous: bool, backend: str
) -> None:
    def fail() -> None:
        raise raised

    async def fail_later() -> None:
        raise raised

    found = execute(FunctionCall(fail_later if asynchronous else fail), backend)
    assert isinstance(found.end, Finished)
    assert found.end.is_error
    assert found.end.content == f"{type(raised).__name__}: {raised}"
    assert found.recorder.outcome.kind == "completed"


def test_an_error_is_short_and_without_secrets() -> None:
    def fail() -> None:
        raise RuntimeError("password=hunter2 " + "x" * 5000)

    content = str(execute(FunctionCall(fail)).end.content)  # type: ignore[union-attr]
    assert "hunter2" not in content
    assert len(content) < 600
    assert execute(FunctionCall(lambda: (_ for _ in ()).throw(StopAsyncIteration()))).end == Finished(
        content="StopAsyncIteration", is_error=True
    )


def test_wrong_arguments_are_an_error_of_the_tool() -> None:
    found = execute(FunctionCall(add, {"a": 1}))
    assert str(found.end.content).startswith("TypeError: ")  # type: ignore[union-attr]


# ---------------------------------------------------------------- stops


def stop_soon(control: Control, seconds: float = 0.15) -> None:
    threading.Timer(seconds, lambda: control.cancel("user", "enough")).start()


def test_an_async_function_that_gives_way_is_stopped(backend: str) -> None:
    control = Control()
    stop_soon(control)
    found = execute(FunctionCall(anyio.sleep, {"delay": 60}), backend, control=control)
    assert found.end == Stopped(by="user")
    assert found.recorder.kinds == ["call_cancel_requested", "call_terminated"]
    assert found.recorder.outcome.kind == "cancelled_while_running"


def test_an_async_function_that_returns_all_the_same_is_completed(backend: str) -> None:
    async def stubborn() -> str:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.4)
        return "done"

    control = Control()
    stop_soon(control)
    found = execute(FunctionCall(stubborn), backend, control=control)
    assert found.end == Finished(content="done")
    assert found.recorder.kinds == ["call_cancel_requested", "call_completed"]


def test_a_thread_that_does_not_end_in_time_is_unknown_and_its_end_is_late_news(backend: str) -> None:
    control, late, release = Control(), Recorder(), threading.Event()
    stop_soon(control)
    unit = FunctionCall(lambda: str(release.wait(20)), patience=0.2, late=late)
    found = execute(unit, backend, control=control)
    assert isinstance(found.end, Unknown)
    assert found.recorder.kinds == ["call_cancel_requested", "contact_lost"]
    assert found.recorder.outcome.kind == "unknown"
    assert late.facts == []
    release.set()
    for _ in range(200):
        if late.facts:
            break
        time.sleep(0.02)
    [fact] = late.facts
    assert (fact.kind, fact.content, fact.call_id, fact.run_id) == ("call_completed", "True", "c1", "r1")
    assert fact.fact_id not in {other.fact_id for other in found.recorder.facts}
    found.recorder.facts += late.facts
    assert found.recorder.outcome.kind == "completed"


def test_a_thread_that_ends_late_without_a_listener_is_let_go() -> None:
    control, release, ended = Control(), threading.Event(), threading.Event()
    control_soon = threading.Timer(0.1, control.cancel)
    control_soon.start()

    def tool() -> None:
        release.wait(20)
        ended.set()

    assert isinstance(execute(FunctionCall(tool, patience=0.1), control=control).end, Unknown)
    release.set()
    assert ended.wait(5)


def test_a_thread_that_ends_in_time_is_completed(backend: str) -> None:
    control = Control()
    stop_soon(control, 0.1)
    found = execute(FunctionCall(lambda: time.sleep(0.4) or "done", patience=5), backend, control=control)
    assert found.end == Finished(content="done")


def test_a_time_limit(backend: str) -> None:
    found = execute(FunctionCall(anyio.sleep, {"delay": 60}, time=0.1), backend)
    assert found.end == Stopped(by="limit")
    assert found.recorder.facts[0].reason == "it ran longer than 0.1 s"


def test_a_stop_before_the_start_calls_nothing() -> None:
    control, called = Control(), []
    control.cancel("user")
    assert execute(FunctionCall(lambda: called.append(1)), control=control).end == Stopped(by="user")
    assert called == []


@pytest.mark.parametrize("asynchronous", [True, False])
def test_the_callers_cancellation(asynchronous: bool, backend: str) -> None:
    recorder = Recorder()
    unit = (
        FunctionCall(anyio.sleep, {"delay": 60})
        if asynchronous
        else FunctionCall(lambda: time.sleep(0.6), patience=0.1)
    )

    async def main() -> bool:
        with anyio.move_on_after(0.15) as scope:
            await unit.run(Permit(call_id="c1"), recorder)
        return scope.cancelled_caught

    assert anyio.run(main, backend=backend)
    assert recorder.kinds == ["call_cancel_requested", "call_terminated" if asynchronous else "contact_lost"]


def test_a_native_cancellation_of_asyncio() -> None:
    recorder = Recorder()

    async def main() -> None:
        task = asyncio.create_task(
            FunctionCall(anyio.sleep, {"delay": 60}).run(Permit(call_id="c1"), recorder)
        )
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await FunctionCall(anyio.sleep, {"delay": 60}).run(Permit(call_id="c1"), recorder)

    asyncio.run(main())
    assert recorder.kinds == ["call_cancel_requested", "call_terminated"] * 2


def test_run_needs_no_event_loop() -> None:
    recorder = Recorder()
    assert run(FunctionCall(add, {"a": 1, "b": 1}), Permit(call_id="c1"), recorder) == Finished(content="2")


def test_a_report_that_fails_is_raised_behind_the_end() -> None:
    def report(_: object) -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk"):
        run(FunctionCall(add, {"a": 1, "b": 1}), Permit(call_id="c1"), report)
    control = Control()
    control.cancel()
    with pytest.raises(OSError, match="disk"):
        run(FunctionCall(add, {"a": 1, "b": 1}), Permit(call_id="c1"), report, control)
