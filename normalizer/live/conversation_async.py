"""The conversation for asyncio and Trio: the same names, awaited, and none of them blocks the event loop.

What is being written down when its caller is cancelled is seen through first.
"""

from __future__ import annotations

from functools import partial, wraps
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Self, TypeVar, cast

from normalizer.errors import JournalError
from normalizer.live.conversation import Conversation
from normalizer.live.reply_recording import Receiving, is_whole
from normalizer.live.steering import Steering
from normalizer.live.tool_run import ASKING, Execution, in_thread, task
from normalizer.live.turn import BUDGET, Turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from types import TracebackType

    from normalizer.execution.contract import End, Unit
    from normalizer.facts import Fact, TurnCancelRequested
    from normalizer.findings import Fragment, Reading
    from normalizer.journal.journal_async import AsyncJournal
    from normalizer.projection import Projection
    from normalizer.transcript import Call, Transcript

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")


def _threaded(
    method: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[Any, P], Awaitable[T]]:
    """The same method, awaited."""

    @wraps(method)
    async def call(self: Any, *args: P.args, **kwargs: P.kwargs) -> T:
        return await in_thread(partial(method, self.behind, *args, **kwargs))

    return cast("Callable[Concatenate[Any, P], Awaitable[T]]", call)


class AsyncConversation:
    """A `Conversation` to be used with `await`; `behind` is the one behind it, for code that may block."""

    def __init__(self, journal: AsyncJournal, conversation: str) -> None:
        self.journal: Final = journal
        self.behind: Final = Conversation(journal.journal, conversation)
        self.id: Final = conversation
        self.steering: Final = AsyncSteering(self.behind.steering)

    def __repr__(self) -> str:
        return f"Async{self.behind!r}"

    append = _threaded(Conversation.append)
    instructions = _threaded(Conversation.instructions)
    tools = _threaded(Conversation.tools)
    sent = _threaded(Conversation.sent)

    async def project(self, target: str, **options: Any) -> Projection:
        """As `Conversation.project`."""
        return await in_thread(partial(self.behind.project, target, **options))

    async def transcript(self) -> Transcript:
        """What the facts add up to at this moment."""
        return await in_thread(lambda: self.behind.transcript)

    async def facts(self) -> tuple[Fact, ...]:
        """All facts, in order."""
        return await self.journal.facts(self.id)

    async def fragments(self) -> tuple[Fragment, ...]:
        """What cut replies left."""
        return await self.journal.fragments(self.id)

    def follow(self, after: int = 0, **options: Any) -> AsyncIterator[Fact]:
        """The facts behind a number, and further ones as they come; see `AsyncJournal.follow`."""
        return self.journal.follow(self.id, after, **options)

    async def open_turn(self, *, lease: float | None = None) -> AsyncTurn:
        """As `Conversation.open_turn`."""
        return AsyncTurn(await in_thread(partial(self.behind.open_turn, lease=lease)))


class AsyncSteering:
    """Steering to be used with `await`."""

    def __init__(self, behind: Steering) -> None:
        self.behind: Final = behind

    queue = _threaded(Steering.queue)
    withdraw = _threaded(Steering.withdraw)
    apply = _threaded(Steering.apply)

    async def waiting(self) -> tuple[Fact, ...]:
        """What is queued and neither applied nor withdrawn."""
        return await in_thread(lambda: self.behind.waiting)


class AsyncTurn:
    """A `Turn` to be used with `await` and `async with`."""

    def __init__(self, behind: Turn) -> None:
        self.behind: Final = behind
        self.turn_id: Final = behind.turn_id
        self.run_id: Final = behind.run_id

    def __repr__(self) -> str:
        return f"Async{self.behind!r}"

    user_said = _threaded(Turn.user_said)
    calls_to_run = _threaded(Turn.calls_to_run)
    queue = _threaded(Turn.queue)
    skip = _threaded(Turn.skip)
    request_approval = _threaded(Turn.request_approval)
    approve = _threaded(Turn.approve)
    deny = _threaded(Turn.deny)
    close = _threaded(Turn.close)
    fail = _threaded(Turn.fail)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await in_thread(partial(self.behind.__exit__, kind, error, where))

    async def receive(
        self, api: str, source: Any, on_event: Callable[[Any], object] | None = None
    ) -> Reading:
        """As `Turn.receive`. Streams, the functions that ask for them, and `on_event` may be async."""
        receiving = await in_thread(partial(Receiving, self.behind, api))
        try:
            given = source() if callable(source) and not hasattr(source, "__aiter__") else source
            if isawaitable(given):
                given = await given
            if is_whole(given):
                return await in_thread(partial(receiving.whole, given))
            if hasattr(given, "__aenter__") and not hasattr(given, "__aiter__"):
                async with given as stream:
                    await _listen(receiving, stream, on_event)
            else:
                await _listen(receiving, given, on_event)
            return await in_thread(receiving.streamed)
        except JournalError:
            raise
        except BaseException as error:
            await in_thread(partial(receiving.broken, error))
            raise

    def execute(self, call: Call, *, stop: Callable[[], bool] | None = None, **permit: Any) -> AsyncExecution:
        """As `Turn.execute`, for `async with`."""
        return AsyncExecution(self.behind.execute(call, stop=stop, **permit))

    async def run(self, call: Call, unit: Unit, **permit: Any) -> End:
        """As `Turn.run`, in this event loop."""
        execution = self.behind.execute(call, **permit).by_unit()
        await execution.enter_in_thread()
        try:
            end = await execution.attend(unit)
        except BaseException as error:
            await in_thread(partial(execution.leave, error, of_tool=False))
            raise
        await in_thread(partial(execution.leave, None))
        return end

    async def cancel(
        self, by: str | None = None, reason: str | None = None, *, budget: float = BUDGET
    ) -> TurnCancelRequested | None:
        """As `Turn.cancel`: carried through whatever becomes of the caller."""
        token = ASKING.set(task())
        try:
            return await in_thread(partial(self.behind.cancel, by, reason, budget=budget))
        finally:
            ASKING.reset(token)


class AsyncExecution:
    """An `Execution` to be used with `await` and `async with`."""

    def __init__(self, behind: Execution) -> None:
        self.behind: Final = behind
        self.call: Final = behind.call
        self.control: Final = behind.control

    async def __aenter__(self) -> Self:
        await self.behind.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.behind.__aexit__(kind, error, where)

    complete = _threaded(Execution.complete)
    output = _threaded(Execution.output)
    terminated = _threaded(Execution.terminated)
    lost = _threaded(Execution.lost)
    cancel_requested = _threaded(Execution.cancel_requested)
    remote_cancelled = _threaded(Execution.remote_cancelled)


async def _listen(receiving: Receiving, stream: Any, on_event: Callable[[Any], object] | None) -> None:
    async def take(event: Any) -> None:
        receiving.feed(event)
        if on_event is not None and isawaitable(told := on_event(event)):
            await told

    if hasattr(stream, "__aiter__"):
        async for event in stream:
            await take(event)
    else:
        for event in stream:
            await take(event)
