"""Tools of a remote server over MCP, by the official SDK.

    async with Connection("http://127.0.0.1:8000/mcp") as server:      # or StdioServerParameters, or a transport
        end = await RemoteCall(server, "publish", {"page": 3}).run(permit, report, control)

A stop is a request: `notifications/cancelled` with the request's id goes out (over HTTP in protocol 2026-07-28 the
request's stream is closed, which is that protocol's way to say it), and then only a result tells what came of it. None
in time is `Unknown`, and so is a server's word that it gave the call up; a result that comes later, while the
connection lives, is reported as the call's completion.
Where the connection breaks, calls that were sent are `Unknown`, and the caller's own task goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

import anyio
from mcp import Client, StdioServerParameters, stdio_client
from mcp import types as wire
from mcp.client.streamable_http import streamable_http_client
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from normalizer.errors import StartRefused
from normalizer.execution import mcp_answers
from normalizer.execution.contract import (
    Control,
    Finished,
    Reporter,
    Stopped,
    Unknown,
    forestalled,
    shielded,
    watch_the_clock,
)
from normalizer.execution.mcp_wire import CURRENT, Exchange, Wiretap
from normalizer.execution.telling import Telling
from normalizer.facts import RemoteCancelUpdated
from normalizer.util.text import excerpt

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from anyio.abc import TaskGroup
    from mcp.client import Transport

    from normalizer.execution.contract import CancelRequest, End, Permit, Report

CLOSED: Final = "the connection to the server is closed"


class Connection:
    """A connected server, in a task of its own: what breaks there ends the connection and not its user.

    `options` are those of the SDK's `Client` (callbacks, `mode`, ...). Not being connected within `patience` seconds is
    `StartRefused`: nothing was started.
    """

    def __init__(
        self, server: str | StdioServerParameters | Transport, *, patience: float = 30.0, **options: Any
    ) -> None:
        transport: Any = server
        if isinstance(server, str):
            transport = streamable_http_client(server)
        elif isinstance(server, StdioServerParameters):
            transport = stdio_client(server)
        self._over_http = isinstance(server, str)
        self._transport = Wiretap(transport)
        self._patience = patience
        self._options = options
        self._client: Client | None = None
        self._calls: TaskGroup | None = None
        self._ready = anyio.Event()
        self._leaving = anyio.Event()
        self._failure: BaseException | None = None
        self._late_failure: Exception | None = None

    @property
    def protocol_version(self) -> str | None:
        """The version that both sides speak; None while there is no connection."""
        return self._client.session.protocol_version if self._client is not None else None

    @property
    def client(self) -> Client:
        """The SDK's client, for everything but calling tools."""
        if self._client is None:
            raise StartRefused(f"{CLOSED}{self._why()}", reason="not_connected")
        return self._client

    @property
    def hears_after_cancel(self) -> bool:
        """Whether a cancelled request may still be answered: not where its stream is what was closed."""
        return not (self._over_http and self.protocol_version in MODERN_PROTOCOL_VERSIONS)

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._serve)
        try:
            with anyio.move_on_after(self._patience):
                await self._ready.wait()
        except BaseException:
            await self._leave()
            raise
        if self._client is None:
            await self._leave()
            raise StartRefused(f"the MCP server could not be reached{self._why()}", reason="not_connected")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._leave()
        if self._late_failure is not None:
            raise self._late_failure

    async def _leave(self) -> None:
        if self._client is None:
            self._tasks.cancel_scope.cancel()
        self._leaving.set()
        # Without the caller's exception: it is not the group's, and must not come back wrapped.
        await self._tasks.__aexit__(None, None, None)

    async def _serve(self) -> None:
        try:
            async with Client(self._transport, **self._options) as client, anyio.create_task_group() as calls:
                self._client, self._calls = client, calls
                self._ready.set()
                await self._leaving.wait()
                calls.cancel_scope.cancel()
        except Exception as error:  # noqa: BLE001 - whatever broke: the calls are told, and `client` tells the rest
            self._failure = error
        finally:
            self._client = self._calls = None
            self._ready.set()

    def _why(self) -> str:
        error = self._failure
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        return f": {excerpt(str(error), 200) or type(error).__name__}" if error is not None else ""

    def spawn(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Do this as long as the connection lives, whoever waits for it. False: it does not live."""
        if self._calls is None:
            return False
        self._calls.start_soon(self._guarded, work)
        return True

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - a late answer could not be reported; raised on leaving
            self._late_failure = self._late_failure or error

    async def cancel(self, request_id: str | int, reason: str | None, limit: float) -> bool:
        """Send `notifications/cancelled`. False: it could not be sent."""
        if self._client is None:
            return False
        params = wire.CancelledNotificationParams(request_id=request_id, reason=reason)
        with anyio.move_on_after(limit):
            await self._client.session.send_notification(wire.CancelledNotification(params=params))
            return True
        return False


@dataclass(frozen=True, slots=True)
class RemoteCall:
    """A tool of a server with its arguments.

    `key_argument` names the argument that takes the permit's idempotency key, where the tool has one. `time` is how
    long it may take, None: as long as it likes. `patience` is how long a stop waits for an answer. `keep` bounds the
    text of a result, in bytes. `meta` goes along as the request's `_meta`.
    """

    server: Connection
    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    key_argument: str | None = None
    time: float | None = None
    patience: float = 2.0
    keep: int = 65_536
    meta: Mapping[str, Any] | None = None

    async def run(self, permit: Permit, report: Report, control: Control | None = None) -> End:
        """Send it, and wait for its answer or for that of a stop."""
        reporter, control = Reporter(permit, report, "mcp"), control or Control()
        if (end := await forestalled(control, reporter)) is not None:
            return end
        arguments = dict(self.arguments)
        if self.key_argument is not None and permit.idempotency_key is not None:
            arguments[self.key_argument] = permit.idempotency_key
        asking = _Asking(self, arguments, reporter, control)
        seen = await shielded(asking.attend, control)
        reporter.check()
        return seen


class _Asking:
    """One call, from its request to its answer, or to the end of the patience."""

    def __init__(
        self, call: RemoteCall, arguments: dict[str, Any], reporter: Reporter, control: Control
    ) -> None:
        self._call = call
        self._arguments = arguments
        self._reporter = reporter
        self._control = control
        self._exchange = Exchange()
        self._telling = Telling(["progress"], reporter, head=8_192, tail=2_048, pause=0.25)
        self._scope = anyio.CancelScope()
        self._request = anyio.CancelScope()
        self._settled = anyio.Event()
        self._answer: mcp_answers.Answer | None = None
        self._cancelled = False
        self._given_up = False
        self._told: CancelRequest | None = None

    async def attend(self) -> End:
        """Send the call, wait, and report how it ended."""
        async with anyio.create_task_group() as helpers:
            helpers.start_soon(self._telling.go_on)
            helpers.start_soon(self._hear_control)
            if self._call.time is not None:
                helpers.start_soon(watch_the_clock, self._call.time, self._control)
            with self._scope:
                await self._ask()
            helpers.cancel_scope.cancel()
        if self._control.requested is not None:
            await self._ask_to_stop(self._control.requested)
        answer = self._answer
        self._given_up = True
        if isinstance(answer, mcp_answers.Acknowledged):
            await self._reporter.tell(RemoteCancelUpdated, state="acknowledged")
            answer = Unknown(reason=f"it was asked to stop, and the server said: {answer.words}")
        end = answer or self._unanswered()
        if isinstance(end, Unknown):
            await self._telling.tell_rest()
        await self._reporter.end(end)
        return end

    def _unanswered(self) -> Stopped | Unknown:
        if self._exchange.request_id is None:  # it still waited to be written, and is taken back
            self._request.cancel()
            return Stopped(by=self._told.by if self._told else None)
        return Unknown(reason="it was asked to stop, and no answer came")

    async def _ask(self) -> None:
        if self._call.server.spawn(self._exchange_messages):
            await self._settled.wait()
        else:
            self._answer = Finished(content=f"The call was not sent: {CLOSED}", is_error=True, started=False)

    async def _exchange_messages(self) -> None:
        """In a task of the connection: it goes on when nobody waits any more."""
        CURRENT.set(self._exchange)
        answer: mcp_answers.Answer | None = None
        try:
            with self._request:
                result = await self._call.server.client.call_tool(
                    self._call.tool,
                    self._arguments,
                    progress_callback=self._progress,
                    meta=dict(self._call.meta) if self._call.meta else None,  # type: ignore[arg-type]
                )
                answer = mcp_answers.finished(result, self._call.keep)
        except Exception as error:  # noqa: BLE001 - the SDK's, its transports' and those of the host's callbacks
            answer = self._ended(error)
        finally:
            self._settle(answer or self._ended(ConnectionError(CLOSED)))
        if self._given_up:
            await self._tell_late(answer)

    def _ended(self, error: Exception) -> mcp_answers.Answer:
        return mcp_answers.ended(error, self._exchange, self._call.keep, cancelled=self._cancelled)

    def _settle(self, answer: mcp_answers.Answer) -> None:
        if not self._given_up:
            self._answer = answer
        self._settled.set()

    async def _tell_late(self, answer: mcp_answers.Answer | None) -> None:
        """An answer that came when nobody waited any more is news; that none will come is not."""
        match answer:
            case Finished():
                await self._reporter.end(answer)
            case mcp_answers.Acknowledged():
                await self._reporter.tell(RemoteCancelUpdated, state="acknowledged")
        self._reporter.check()

    async def _progress(self, progress: float, total: float | None, message: str | None) -> None:
        part = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
        self._telling.feed("progress", f"{part}: {message}\n".encode() if message else f"{part}\n".encode())

    async def _hear_control(self) -> None:
        request = await self._control.wait()
        with anyio.CancelScope(shield=True):
            await self._ask_to_stop(request)
        if self._call.server.hears_after_cancel:
            await anyio.sleep(self._call.patience)
        self._scope.cancel()

    async def _ask_to_stop(self, request: CancelRequest) -> None:
        if self._told is not None:
            return
        self._told = request
        await self._reporter.cancel_requested(request)
        with anyio.move_on_after(self._call.patience):
            await self._exchange.sent.wait()
        request_id = self._exchange.request_id
        if self._answer is None and request_id is not None:
            self._cancelled = True
            sent = await self._call.server.cancel(request_id, request.reason, self._call.patience)
            await self._reporter.tell(RemoteCancelUpdated, state="requested" if sent else "not_sent")
