"""Functions of this program as tools.

A tool's own exception is a completed call with an error result: its type and a short, redacted message. An async
function is cancelled and waited for, so it is `Stopped` when it gave way, and completed when it returned all the same;
one that holds on to itself for ever holds its caller too. A sync function runs in a thread, which nothing can stop: it
is given a last wait, and is then `Unknown`; what it returns later goes to `late`.
"""

from __future__ import annotations

import inspect
import threading
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread

from normalizer.execution.capture import readable, shortened
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
from normalizer.facts import CallCompleted
from normalizer.parts import Media, Opaque, Text
from normalizer.util.text import escaped, excerpt, json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from normalizer.execution.contract import CancelRequest, End, Permit, Report
    from normalizer.facts import Fact

_PARTS: Final = (Text, Media, Opaque)


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function with its arguments.

    `time` is how long it may run, None: as long as it likes. `patience` is how long a stop waits for a sync function to
    end by itself. `late` gets the fact about the end of one that was given up, in the thread in which that happens.
    `keep` bounds the text of a result, in bytes.
    """

    function: Callable[..., Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    time: float | None = None
    patience: float = 1.0
    late: Callable[[Fact], object] | None = None
    keep: int = 65_536

    async def run(self, permit: Permit, report: Report, control: Control | None = None) -> End:
        """Call it, and wait for its end or for that of the patience."""
        reporter, control = Reporter(permit, report, "function"), control or Control()
        if (end := await forestalled(control, reporter)) is not None:
            return end
        calling = _Calling(self, reporter, control)
        seen = await shielded(calling.attend, control)
        reporter.check()
        return seen


class _Calling:
    """One call of one function."""

    def __init__(self, call: FunctionCall, reporter: Reporter, control: Control) -> None:
        self._call = call
        self._reporter = reporter
        self._control = control
        self._threaded = not is_async(call.function)
        self._scope = anyio.CancelScope()
        self._lock = threading.Lock()
        self._end: Finished | None = None
        self._given_up = False
        self._told: CancelRequest | None = None

    async def attend(self) -> End:
        """Call it, and report how that ended."""
        async with anyio.create_task_group() as helpers:
            helpers.start_soon(self._hear_control)
            if self._call.time is not None:
                helpers.start_soon(watch_the_clock, self._call.time, self._control)
            with self._scope:
                await (self._through_a_thread() if self._threaded else self._directly())
            helpers.cancel_scope.cancel()
        end = self._settled()
        if self._control.requested is not None:
            await self._tell_request(self._control.requested)
        await self._reporter.end(end)
        return end

    async def _hear_control(self) -> None:
        request = await self._control.wait()
        with anyio.CancelScope(shield=True):
            await self._tell_request(request)
        if self._threaded:
            await anyio.sleep(self._call.patience)
        self._scope.cancel()

    async def _tell_request(self, request: CancelRequest) -> None:
        if self._told is None:
            self._told = request
            await self._reporter.cancel_requested(request)

    async def _directly(self) -> None:
        try:
            value = await self._call.function(**self._call.arguments)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a tool raises is its result
            self._end = failed(error)
        else:
            self._end = returned(value, self._call.keep)

    async def _through_a_thread(self) -> None:
        # A limiter of its own: threads that were given up must not use up everybody's.
        await anyio.to_thread.run_sync(
            self._in_thread, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
        )

    def _in_thread(self) -> None:
        try:
            end = returned(self._call.function(**self._call.arguments), self._call.keep)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a tool raises is its result
            end = failed(error)
        with self._lock:
            if not self._given_up:
                self._end = end
                return
        if self._call.late is not None:
            self._call.late(
                self._reporter.fact(
                    CallCompleted, content=end.content, is_error=end.is_error, truncated=end.truncated
                )
            )

    def _settled(self) -> End:
        with self._lock:
            self._given_up = self._end is None
        if self._end is not None:
            return self._end
        if self._threaded:
            return Unknown(reason="its function runs in a thread, which cannot be stopped; it may still run")
        return Stopped(by=self._control.requested.by if self._control.requested else None)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine: looked up below `partial`, and of an object in its class."""
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def failed(error: BaseException) -> Finished:
    """The result of a tool that raised: type and short message, without secrets."""
    message = excerpt(str(error), 500)
    name = type(error).__name__
    return Finished(content=f"{name}: {message}" if message else name, is_error=True)


def returned(value: Any, keep: int) -> Finished:
    """The result of a tool that returned: text and parts as they are, bytes as text, anything else as JSON."""
    match value:
        case None:
            return Finished(content="")
        case str():
            text = escaped(value).replace("\0", "\ufffd")
        case bytes() | bytearray():
            text = readable(bytes(value))
        case tuple() if value and all(isinstance(part, _PARTS) for part in value):
            return Finished(content=value)
        case _:
            text = json_text(value)
    content, truncated = shortened(text, keep)
    return Finished(content=content, truncated=truncated)
