"""The journal for asyncio and Trio: the same methods, each in a thread of the journal's own limited number.

The event loop never waits for a disk or a lock. A cancelled caller waits for the thread that it started, so that
what it asked for is either recorded or not, and nothing is still under way behind its back.
"""

from __future__ import annotations

import time
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Self, TypeVar, cast

import anyio
from anyio import CapacityLimiter, to_thread

from normalizer.journal import live_side
from normalizer.journal.journal import PAGE, POLLS, Journal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from normalizer.facts import Fact

P = ParamSpec("P")
T = TypeVar("T")

THREADS: Final = 8
"""How many of one journal's methods run at once; further ones queue without a thread."""


def _threaded(
    method: Callable[Concatenate[Journal, P], T],
) -> Callable[Concatenate[AsyncJournal, P], Awaitable[T]]:
    """The same method, awaited."""

    @wraps(method)
    async def call(self: AsyncJournal, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.run(partial(method, self.journal, *args, **kwargs))

    return cast("Callable[Concatenate[AsyncJournal, P], Awaitable[T]]", call)


class AsyncJournal:
    """A `Journal` whose methods are awaited. `journal` is the one behind it, for code that may block."""

    def __init__(self, journal: Journal) -> None:
        self.journal: Final = journal
        self._limiter = CapacityLimiter(THREADS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.CancelScope(shield=True):
            await self.close()

    def __repr__(self) -> str:
        return f"Async{self.journal!r}"

    async def run(self, work: Callable[[], T]) -> T:
        """Do something with the journal in one of its threads."""
        return await to_thread.run_sync(work, limiter=self._limiter)

    append = _threaded(Journal.append)
    facts = _threaded(Journal.facts)
    conversations = _threaded(Journal.conversations)
    delete = _threaded(Journal.delete)
    add_fragments = _threaded(Journal.add_fragments)
    fragments = _threaded(Journal.fragments)
    open_turn = _threaded(Journal.open_turn)
    permit_start = _threaded(Journal.permit_start)
    cancel_turn = _threaded(Journal.cancel_turn)
    apply_steering = _threaded(Journal.apply_steering)
    runs = _threaded(Journal.runs)
    renew_lease = _threaded(Journal.renew_lease)
    lose_run = _threaded(Journal.lose_run)
    close = _threaded(Journal.close)

    async def follow(
        self,
        conversation: str,
        after: int = 0,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - of silence; a time limit is the caller's scope
        stop: anyio.Event | None = None,
    ) -> AsyncIterator[Fact]:
        """As `Journal.follow`. Cancelling the reader ends it as well."""
        pause, limit = POLLS
        quiet_since = time.monotonic()
        while stop is None or not stop.is_set():
            found = await self.facts(conversation, after, limit=PAGE)
            if found:
                for fact in found:
                    yield fact
                after, pause, quiet_since = found[-1].seq, POLLS[0], time.monotonic()
                continue
            quiet = time.monotonic() - quiet_since
            if timeout is not None and quiet >= timeout:
                return
            rest = pause if timeout is None else min(pause, timeout - quiet)
            with anyio.move_on_after(rest):
                await (anyio.sleep_forever() if stop is None else stop.wait())
            pause = min(2 * pause, limit)

    def conversation(self, conversation: str) -> Any:
        """The live side of one conversation, to be used with `await`."""
        return live_side.async_conversation(self, conversation)


async def open_in_thread(open_journal: Callable[[], Journal]) -> AsyncJournal:
    """Open a journal without blocking the event loop."""
    return AsyncJournal(await to_thread.run_sync(open_journal))
