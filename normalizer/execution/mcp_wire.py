"""What passes between the MCP SDK and a server, looked at from beside.

The SDK forgets a request when its caller stops waiting, and keeps the ids of requests to itself. Both are needed here:
an answer to a cancelled request is news, and `notifications/cancelled` names a request. So the streams of a transport
are wrapped; what goes through them is not changed.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import anyio
from mcp.types import JSONRPCError, JSONRPCRequest, JSONRPCResponse

if TYPE_CHECKING:
    from types import TracebackType

    from mcp.client import Transport
    from mcp.client._transport import ReadStream, TransportStreams, WriteStream
    from mcp.shared.message import SessionMessage


@dataclass(slots=True)
class Exchange:
    """What was sent and received for one call. `request_id` is that of its newest request, None: nothing was sent."""

    request_id: str | int | None = None
    answer: dict[str, Any] | None = None
    sent: anyio.Event = field(default_factory=anyio.Event)


CURRENT: ContextVar[Exchange | None] = ContextVar("normalizer_mcp_exchange", default=None)
"""The exchange that a request sent from this task belongs to."""


class Wiretap:
    """A transport that notes the requests of each exchange and the answers to them."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._stack = AsyncExitStack()
        self._open: dict[str, Exchange] = {}

    async def __aenter__(self) -> TransportStreams:
        read, write = await self._stack.enter_async_context(self._transport)
        return _Read(read, self), _Write(write, self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)

    def goes_out(self, message: SessionMessage) -> None:
        """A message on its way to the server."""
        request, exchange = message.message, CURRENT.get()
        if exchange is not None and isinstance(request, JSONRPCRequest) and request.method == "tools/call":
            exchange.request_id = request.id
            exchange.answer = None
            exchange.sent.set()
            self._open[str(request.id)] = exchange

    def comes_in(self, message: SessionMessage | Exception) -> None:
        """A message from the server, or what the transport made of none."""
        if isinstance(message, Exception):
            return
        answer = message.message
        if isinstance(answer, JSONRPCResponse | JSONRPCError):
            exchange = self._open.pop(str(answer.id), None)
            if exchange is not None and isinstance(answer, JSONRPCResponse):
                exchange.answer = answer.result


class _Stream:
    """Everything but the messages is the wrapped stream's own affair."""

    def __init__(self, inner: Any, tap: Wiretap) -> None:
        self._inner = inner
        self._tap = tap

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, trace)  # type: ignore[no-any-return]

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Read(_Stream):
    async def receive(self) -> SessionMessage | Exception:
        message: SessionMessage | Exception = await self._inner.receive()
        self._tap.comes_in(message)
        return message

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        message: SessionMessage | Exception = await self._inner.__anext__()
        self._tap.comes_in(message)
        return message


class _Write(_Stream):
    async def send(self, message: SessionMessage, /) -> None:
        self._tap.goes_out(message)
        await self._inner.send(message)


if TYPE_CHECKING:
    _read: type[ReadStream[SessionMessage | Exception]] = _Read
    _write: type[WriteStream[SessionMessage]] = _Write
