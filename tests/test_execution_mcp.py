"""Remote tools: scripted and real servers in processes of their own, on pipes and on 127.0.0.1."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import anyio
import pytest
from executing import BACKENDS, Recorder
from mcp import StdioServerParameters, stdio_client

from normalizer.errors import StartRefused
from normalizer.execution.contract import Control, Finished, Permit, Stopped, Unknown
from normalizer.execution.mcp import Connection, RemoteCall
from normalizer.parts import Media, Text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from normalizer.execution.contract import End

HERE = Path(__file__).parent
SCRIPTED = StdioServerParameters(command=sys.executable, args=[str(HERE / "scripted_mcp_server.py")])
LOOPBACK = StdioServerParameters(command=sys.executable, args=[str(HERE / "loopback_mcp_server.py"), "stdio"])
PERMIT = Permit(call_id="c1", turn_id="t1", run_id="r1", operation_id="op_1", idempotency_key="key_1")


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def ask(
    server: Connection,
    tool: str,
    arguments: dict[str, Any] | None = None,
    *,
    stop_after: float | None = None,
    **more: Any,
) -> tuple[End, Recorder]:
    control, recorder = Control(), Recorder()
    if stop_after is not None:
        timer = threading.Timer(stop_after, lambda: control.cancel("user", "enough"))
        timer.start()
    more.setdefault("patience", 0.3)
    return await RemoteCall(server, tool, arguments or {}, **more).run(PERMIT, recorder, control), recorder


async def heard(recorder: Recorder, kind: str) -> None:
    """Wait until the newest fact is of this kind."""
    event = anyio.Event()
    recorder.on_fact = lambda fact: event.set() if fact.kind == kind else None
    if recorder.kinds[-1] != kind:
        with anyio.fail_after(10):
            await event.wait()


def scripted(
    backend: str, scenario: Callable[[Connection], Awaitable[None]], log: IO[str] | None = None
) -> None:
    async def main() -> None:
        transport = stdio_client(SCRIPTED, errlog=log or sys.stderr)
        async with Connection(transport, mode="legacy") as server:
            assert server.protocol_version == "2025-06-18"
            await scenario(server)

    anyio.run(main, backend=backend)


# ---------------------------------------------------------------- answers


def test_answers_are_results_verbatim(backend: str) -> None:
    async def scenario(server: Connection) -> None:
        end, recorder = await ask(server, "text")
        assert end == Finished(content="done")
        assert recorder.kinds == ["call_completed"]
        assert recorder.facts[0].source == "mcp"
        assert (await ask(server, "error"))[0] == Finished(content="no such page", is_error=True)
        assert (await ask(server, "empty"))[0] == Finished(content="")
        assert (await ask(server, "structured"))[0] == Finished(content='{"pages": [1, 2]}')
        end, _ = await ask(server, "mixed")
        assert isinstance(end, Finished)
        assert end.content[:5] == (
            Text("a\ufffdb"),
            Media("image", "image/png", "AA=="),
            Media("audio", "audio/wav", "AQ=="),
            Text("inside"),
            Media("file", "x/y", "Ag==", name="file:///b.bin"),
        )
        assert json.loads(end.content[5].text)["uri"] == "file:///c.txt"  # type: ignore[union-attr]

    scripted(backend, scenario)


def test_long_texts_are_shortened_each_to_its_share() -> None:
    async def scenario(server: Connection) -> None:
        end, _ = await ask(server, "long", keep=2000)
        assert isinstance(end, Finished)
        assert end.truncated
        assert [len(part.text.encode()) < 1100 for part in end.content] == [True, True]  # type: ignore[union-attr]

    scripted("asyncio", scenario)


def test_an_answer_that_the_sdk_refuses_counts_all_the_same() -> None:
    async def scenario(server: Connection) -> None:
        await server.client.list_tools()
        end, _ = await ask(server, "breaks_its_schema")
        assert end == Finished(content="done")
        end, _ = await ask(server, "malformed")
        assert isinstance(end, Finished)
        assert end.is_error
        assert str(end.content).startswith("The server's answer is no tool result (")
        assert str(end.content).endswith('):\n{"content": "nope"}')

    scripted("asyncio", scenario)


def test_an_error_of_the_server_is_an_answer_and_one_that_means_none_is_not() -> None:
    async def scenario(server: Connection) -> None:
        assert (await ask(server, "refused"))[0] == Finished(content="no such argument", is_error=True)
        assert (await ask(server, "broken"))[0] == Finished(content="the server fell over", is_error=True)
        end, recorder = await ask(server, "unreadable")
        assert end == Unknown(reason="no answer came: what?")
        assert recorder.kinds == ["contact_lost"]

    scripted("asyncio", scenario)


def test_the_idempotency_key_goes_into_the_argument_that_takes_it() -> None:
    async def scenario(server: Connection) -> None:
        end, _ = await ask(server, "echo", {"page": 3}, key_argument="request_key", meta={"trace": "x"})
        assert json.loads(str(end.content)) == {"page": 3, "request_key": "key_1"}  # type: ignore[union-attr]

    scripted("asyncio", scenario)


# ---------------------------------------------------------------- stops


def test_a_cancel_names_the_request_and_silence_is_unknown(backend: str, tmp_path: Path) -> None:
    async def scenario(server: Connection) -> None:
        end, recorder = await ask(server, "silent", stop_after=0.2)
        assert end == Unknown(reason="it was asked to stop, and no answer came")
        assert recorder.kinds == ["call_cancel_requested", "remote_cancel_updated", "contact_lost"]
        assert (recorder.facts[0].by, recorder.facts[1].state) == ("user", "requested")
        assert recorder.outcome.kind == "unknown"

    with (tmp_path / "log").open("w+") as log:
        scripted(backend, scenario, log)
        log.seek(0)
        messages = [json.loads(line) for line in log if line.startswith("{")]
    [asked] = [message for message in messages if message["method"] == "tools/call"]
    # The second is the SDK's own: the request was still open when the connection was left.
    cancel, *_ = [message for message in messages if message["method"] == "notifications/cancelled"]
    assert cancel["params"] == {"requestId": asked["id"], "reason": "enough"}


def test_an_answer_at_the_moment_of_the_cancel_completes_it(backend: str) -> None:
    async def scenario(server: Connection) -> None:
        end, recorder = await ask(server, "at_once", stop_after=0.1, patience=5)
        assert end == Finished(content="done")
        assert recorder.ends == ["call_cancel_requested", "remote_cancel_updated", "call_completed"]
        assert recorder.outcome.kind == "completed"

    scripted(backend, scenario)


def test_a_late_answer_is_reported_as_completion(backend: str) -> None:
    async def scenario(server: Connection) -> None:
        end, recorder = await ask(server, "late", stop_after=0.1, patience=0.1)
        assert isinstance(end, Unknown)
        await heard(recorder, "call_completed")
        assert recorder.facts[-1].content == "done all the same"
        assert recorder.outcome.kind == "completed"
        assert len({fact.fact_id for fact in recorder.facts}) == len(recorder.facts)

    scripted(backend, scenario)


def test_a_servers_word_that_it_gave_up_says_nothing_about_effects() -> None:
    async def scenario(server: Connection) -> None:
        end, recorder = await ask(server, "given_up", stop_after=0.1, patience=5)
        assert end == Unknown(reason="it was asked to stop, and the server said: Request cancelled")
        states = [fact.state for fact in recorder.facts if fact.kind == "remote_cancel_updated"]
        assert states == ["requested", "acknowledged"]
        end, recorder = await ask(server, "late_given_up", stop_after=0.1, patience=0.1)
        assert isinstance(end, Unknown)
        await heard(recorder, "remote_cancel_updated")
        assert recorder.facts[-1].state == "acknowledged"
        assert recorder.outcome.kind == "unknown"

    scripted("asyncio", scenario)


def test_a_late_answer_that_cannot_be_reported_is_told_when_the_connection_is_left() -> None:
    async def scenario(server: Connection) -> None:
        control = Control()

        def report(fact: Any) -> None:
            if fact.kind == "call_completed":
                raise OSError("the disk is full")

        threading.Timer(0.1, control.cancel).start()
        end = await RemoteCall(server, "late", patience=0.1).run(PERMIT, report, control)
        assert isinstance(end, Unknown)
        await anyio.sleep(1)

    with pytest.raises(OSError, match="the disk is full"):
        scripted("asyncio", scenario)


def test_time_limit_stop_before_the_start_and_the_callers_cancellation(backend: str) -> None:
    async def scenario(server: Connection) -> None:
        end, recorder = await ask(server, "silent", time=0.1, patience=0.1)
        assert isinstance(end, Unknown)
        assert recorder.facts[0].by == "limit"
        control, recorder = Control(), Recorder()
        control.cancel("user")
        assert await RemoteCall(server, "text").run(PERMIT, recorder, control) == Stopped(by="user")
        recorder = Recorder()
        with anyio.move_on_after(0.1) as scope:
            await RemoteCall(server, "silent", patience=0.1).run(PERMIT, recorder)
        assert scope.cancelled_caught
        assert recorder.kinds == ["call_cancel_requested", "remote_cancel_updated", "contact_lost"]

    scripted(backend, scenario)


# ---------------------------------------------------------------- the connection


def test_a_server_that_dies_leaves_its_calls_unknown_and_takes_no_more(backend: str) -> None:
    async def scenario(server: Connection) -> None:
        async with anyio.create_task_group() as tasks:
            ends: list[End] = []

            async def wait() -> None:
                ends.append((await ask(server, "silent"))[0])

            tasks.start_soon(wait)
            await anyio.sleep(0.1)
            ends.append((await ask(server, "die"))[0])
        assert [type(end) for end in ends] == [Unknown, Unknown]
        end, recorder = await ask(server, "text")
        assert isinstance(end, Finished)
        assert (end.is_error, end.started) == (True, False)
        assert str(end.content).startswith("The call was not sent: ")
        assert recorder.kinds == ["call_completed"]

    scripted(backend, scenario)


def test_leaving_the_connection_settles_what_runs(backend: str) -> None:
    recorder, ends = Recorder(), []

    async def main() -> None:
        async with anyio.create_task_group() as tasks, Connection(SCRIPTED, mode="legacy") as server:

            async def wait() -> None:
                ends.append(await RemoteCall(server, "silent").run(PERMIT, recorder))

            tasks.start_soon(wait)
            await anyio.sleep(0.2)
        assert server.protocol_version is None
        with pytest.raises(StartRefused, match="closed"):
            _ = server.client
        end, _ = await ask(server, "text")
        assert end == Finished(
            content="The call was not sent: the connection to the server is closed",
            is_error=True,
            started=False,
        )

    anyio.run(main, backend=backend)
    assert ends == [Unknown(reason="no answer came: the connection to the server is closed")]
    assert recorder.kinds == ["contact_lost"]


def test_an_error_inside_is_not_wrapped(backend: str) -> None:
    async def scenario(_: Connection) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        scripted(backend, scenario)


@pytest.mark.parametrize(
    ("server", "patience"),
    [
        (StdioServerParameters(command="no-such-program-here"), 30),
        (StdioServerParameters(command=sys.executable, args=["-c", "pass"]), 30),
        (StdioServerParameters(command=sys.executable, args=["-c", "input(); input(); input()"]), 0.3),
    ],
)
def test_no_connection_means_that_nothing_was_started(server: StdioServerParameters, patience: float) -> None:
    async def main() -> None:
        async with Connection(server, patience=patience, mode="legacy"):
            raise AssertionError("connected to nothing")

    with pytest.raises(StartRefused, match="the MCP server could not be reached") as refused:
        anyio.run(main)
    assert refused.value.reason == "not_connected"


def test_being_cancelled_while_connecting() -> None:
    async def main() -> bool:
        silent = StdioServerParameters(command=sys.executable, args=["-c", "input(); input(); input()"])
        with anyio.move_on_after(0.3) as scope:
            async with Connection(silent, mode="legacy"):
                raise AssertionError("connected to nothing")
        return scope.cancelled_caught

    assert anyio.run(main)


# ---------------------------------------------------------------- a server made with the SDK


def test_a_real_server_over_pipes(backend: str, tmp_path: Path) -> None:
    effect = tmp_path / "effect"

    async def main() -> None:
        async with Connection(LOOPBACK) as server:
            assert server.protocol_version == "2026-07-28"
            assert (await ask(server, "publish", {"page": 3}))[0] == Finished(content="published page 3")
            assert (await ask(server, "publish", {"page": "x"}))[0].is_error  # type: ignore[union-attr]
            assert (await ask(server, "fail"))[0] == Finished(
                content="Error executing tool fail", is_error=True
            )
            assert (await ask(server, "nothing"))[0] == Finished(
                content="Unknown tool: nothing", is_error=True
            )
            end, recorder = await ask(server, "slow", {"seconds": 0.5, "effect": str(effect)})
            assert end == Finished(content="slow, and done")
            assert recorder.output == "1 of 3: begun\n"
            effect.unlink()
            end, recorder = await ask(server, "slow", {"seconds": 2, "effect": str(effect)}, stop_after=0.3)
            assert isinstance(end, Unknown)
            assert recorder.output == "1 of 3: begun\n"
            assert not effect.exists()
            assert isinstance((await ask(server, "vanish"))[0], Unknown)

    anyio.run(main, backend=backend)


@pytest.fixture
def address() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = [sys.executable, str(HERE / "loopback_mcp_server.py"), "http", str(port)]
    with subprocess.Popen(program, stderr=subprocess.DEVNULL) as server:
        try:
            for _ in range(600):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            server.kill()


# Under trio the SDK's HTTP client leaves async generators to the collector, which warns; the unit is the same.
def test_a_real_server_over_http(address: str, tmp_path: Path) -> None:
    effect = tmp_path / "effect"

    async def main() -> None:
        for mode, version, hears in (("auto", "2026-07-28", False), ("legacy", "2025-11-25", True)):
            async with Connection(address, mode=mode) as server:
                assert (server.protocol_version, server.hears_after_cancel) == (version, hears)
                assert (await ask(server, "publish", {"page": 3}))[0] == Finished(content="published page 3")
                end, recorder = await ask(
                    server, "slow", {"seconds": 3, "effect": str(effect)}, stop_after=0.4, patience=1
                )
                assert isinstance(end, Unknown)
                states = [fact.state for fact in recorder.facts if fact.kind == "remote_cancel_updated"]
                assert states == (["requested", "acknowledged"] if hears else ["requested"])
                assert not effect.exists()
        async with Connection(address) as server:
            end, recorder = await ask(server, "vanish")
            assert isinstance(end, Unknown)
            assert recorder.kinds == ["contact_lost"]
            assert not isinstance((await ask(server, "publish", {"page": 3}))[0], Stopped)

    anyio.run(main)


class _Gateway(BaseHTTPRequestHandler):
    """In front of a server that does not answer tool calls."""

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if message["method"] == "initialize":
            info = {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "serverInfo": {"name": "x", "version": "1"},
            }
            self._send(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": info}))
        elif message["method"] == "tools/call":
            self._send(502, "<h1>Bad gateway</h1>", "text/html")
        else:
            self._send(202, "")

    def do_GET(self) -> None:
        self._send(405, "")

    def _send(self, status: int, body: str, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass


def test_an_error_page_of_a_gateway_is_no_answer() -> None:
    with HTTPServer(("127.0.0.1", 0), _Gateway) as gateway:
        threading.Thread(target=gateway.serve_forever, daemon=True).start()

        async def main() -> None:
            async with Connection(f"http://127.0.0.1:{gateway.server_port}/mcp", mode="legacy") as server:
                end, recorder = await ask(server, "publish")
                assert end == Unknown(reason="no answer came: Server returned an error response")
                assert recorder.outcome.kind == "unknown"

        anyio.run(main)
        gateway.shutdown()
