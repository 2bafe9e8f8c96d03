"""A turn while it runs: what the user says, what the model replies, which calls start, and how it is stopped.

Stopping has two phases. The gate closes first, so that nothing starts any more; then what runs is asked to stop, and
waited for within a time budget. What could not be confirmed by then is recorded as unknown, and a result that comes
later is recorded all the same.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import anyio

from normalizer.errors import JournalError, OpenCalls
from normalizer.facts import (
    ApprovalDenied,
    ApprovalGiven,
    ApprovalRequested,
    CallQueued,
    CallSkipped,
    ContactLost,
    TurnEnded,
    UserSaid,
)
from normalizer.live.reply_recording import Receiving, is_whole
from normalizer.live.sigint import uninterrupted
from normalizer.live.tool_run import Execution, Executions
from normalizer.parts import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from normalizer.execution.contract import End, Unit
    from normalizer.facts import Fact, StartPermitted, TurnCancelRequested, TurnOpened
    from normalizer.findings import Reading
    from normalizer.live.record import ConversationRecord
    from normalizer.parts import Part
    from normalizer.transcript import Call

BUDGET: Final = 10.0
"""Seconds that the wind-up of a cancelled turn may take."""

PERMITS: Final = frozenset(
    {"operation_id", "idempotency_key", "remote", "may_have_effects", "recovery", "operation"}
)


class Turn:
    """One open turn, run by this process. As a context manager it is closed at the end, and cancelled by Ctrl-C."""

    def __init__(
        self, conversation: ConversationRecord, opened: TurnOpened, lease: float | None = None
    ) -> None:
        assert opened.turn_id is not None  # noqa: S101 - the journal names both
        assert opened.run_id is not None  # noqa: S101
        self.conversation: Final = conversation
        self.turn_id: Final[str] = opened.turn_id
        self.run_id: Final[str] = opened.run_id
        self.running: Final = Executions()
        self.declared_lost: Final = threading.Event()
        self._winding = threading.Lock()
        self._over = threading.Event()
        if lease is not None:
            threading.Thread(target=self._keep_alive, args=(lease,), daemon=True).start()

    def __repr__(self) -> str:
        return f"Turn({self.turn_id!r} of {self.conversation.id!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _where: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        elif isinstance(error, Exception):
            self.fail()
        else:
            self.cancel(reason=f"the program was interrupted ({type(error).__name__})")

    # ------------------------------------------------------------ what is said

    def user_said(
        self, said: str | Iterable[Part], *, by: Literal["person", "program"] | None = "person"
    ) -> Fact:
        """A user message, of a person or of the program."""
        parts = (Text(said),) if isinstance(said, str) else tuple(said)
        return self.record(UserSaid, parts=parts, by=by)

    def receive(self, api: str, source: Any, on_event: Callable[[Any], object] | None = None) -> Reading:
        """Record a reply: a stream of the SDK or of parsed events, a whole response, or a function that asks for one.

        `on_event` sees each event. What breaks the stream is recorded as a cut reply, and raised; where the function
        raises the API's refusal, that is recorded as such.
        """
        receiving = Receiving(self, api)
        try:
            given = source() if callable(source) and not hasattr(source, "__iter__") else source
            if is_whole(given):
                with uninterrupted():
                    return receiving.whole(given)
            if not hasattr(given, "__iter__") and hasattr(given, "__enter__"):
                with given as stream:
                    self._listen(receiving, stream, on_event)
            else:
                self._listen(receiving, given, on_event)
            with uninterrupted():
                return receiving.streamed()
        except JournalError:
            raise
        except BaseException as error:
            with uninterrupted():  # a reply that is on record already stays as it is: it has the same id
                receiving.broken(error)
            raise

    @staticmethod
    def _listen(
        receiving: Receiving, stream: Iterable[Any], on_event: Callable[[Any], object] | None
    ) -> None:
        for event in stream:
            receiving.feed(event)
            if on_event is not None:
                on_event(event)

    # ------------------------------------------------------------ calls

    def calls_to_run(self) -> tuple[Call, ...]:
        """The calls of this turn that wait to be started (or approved, or denied), in order."""
        busy = self.running.keys()
        transcript = self.conversation.transcript
        pending = (transcript.calls[key] for key in transcript.pending)
        return tuple(
            call
            for call in pending
            if call.turn_id == self.turn_id and call.outcome.basis == "waiting" and call.key not in busy
        )

    def queue(self, call: Call) -> Fact:
        """It waits for its start."""
        return self.record(CallQueued, call_id=call.key)

    def skip(self, call: Call, *, by: str | None = "program", reason: str | None = None) -> Fact:
        """The program does not start it."""
        return self.record(CallSkipped, call_id=call.key, by=by, reason=reason)

    def request_approval(self, call: Call) -> Fact:
        """Somebody is asked whether it may run; until then the gate stays shut for it."""
        return self.record(ApprovalRequested, call_id=call.key)

    def approve(self, call: Call, by: str | None = None) -> Fact:
        """It may run."""
        return self.record(ApprovalGiven, call_id=call.key, by=by)

    def deny(self, call: Call, by: str | None = None, reason: str | None = None) -> Fact:
        """It must not run, for good."""
        return self.record(ApprovalDenied, call_id=call.key, by=by, reason=reason)

    def execute(self, call: Call, *, stop: Callable[[], bool] | None = None, **permit: Any) -> Execution:
        """Run a call in a `with` or `async with` block, which asks the gate.

        `permit` goes on record with the start: `operation` (see `execution.operations`) or `operation_id` and
        `idempotency_key`, `remote`, `may_have_effects`, `recovery`. `stop` stops the tool and says whether that is
        confirmed.
        """
        return Execution(self, call, _checked(permit), stop)

    def run(self, call: Call, unit: Unit, **permit: Any) -> End:
        """Let a unit of execution run a call, where no event loop runs."""
        execution = Execution(self, call, _checked(permit)).by_unit()
        execution.enter(threading.get_ident())
        try:
            end = anyio.run(execution.attend, unit)
        except BaseException as error:
            execution.leave(error, of_tool=False)
            raise
        execution.leave(None)
        return end

    def permit(self, call: Call, options: dict[str, Any]) -> StartPermitted:
        """Ask the gate for a start."""
        operation = options.get("operation")
        named = {key: value for key, value in options.items() if key != "operation"}
        if operation is not None:
            named |= {"operation_id": operation.operation_id, "idempotency_key": operation.idempotency_key}
        return self.conversation.journal.permit_start(
            self.conversation.id, call.key, turn_id=self.turn_id, run_id=self.run_id, reply=call.reply,
            source="host", **named,
        )  # fmt: skip

    # ------------------------------------------------------------ the end

    def cancel(
        self, by: str | None = None, reason: str | None = None, *, budget: float = BUDGET
    ) -> TurnCancelRequested | None:
        """Stop the turn: nothing starts any more, what runs is wound up, the turn ends. Again: nothing more happens.

        None where the turn was over before.
        """
        with uninterrupted():
            asked = self.conversation.journal.cancel_turn(
                self.conversation.id, self.turn_id, by, reason, run_id=self.run_id, source="host"
            )
        if asked is None or self._over.is_set() or not self._winding.acquire(blocking=False):
            return asked
        try:
            self._wind_up(asked.by, asked.reason, budget)
            self._end("cancelled")
        finally:
            self._winding.release()
        return asked

    def _wind_up(self, by: str | None, reason: str | None, budget: float) -> None:
        deadline = time.monotonic() + budget
        running = self.running.all()
        helpers = [
            threading.Thread(target=partial(_ask_to_stop, one, by, reason), daemon=True) for one in running
        ]
        for helper in helpers:
            helper.start()
        for helper in helpers:  # at the same time: one that takes long takes nothing from the others' budget
            helper.join(max(0.0, deadline - time.monotonic()))
        own = self.running.own()
        for one in running:
            if one.owner in own:
                continue  # it asks from inside its own block, and may still say how that ends
            one.left.wait(max(0.0, deadline - time.monotonic()))
            if not one.ended and one.permit is not None:
                self.record(
                    ContactLost,
                    call_id=one.call.key,
                    reason=f"it was asked to stop, and no end of it was observed within {budget:g} s",
                )

    def close(self) -> None:
        """End the turn. Calls that still run are refused (OpenCalls); those that were not started never ran."""
        if self._over.is_set():
            return
        if running := self.running.keys():
            raise OpenCalls(tuple(sorted(running)))
        self._end("completed")

    def fail(self) -> None:
        """End the turn after an error of the program. What runs and was not waited for is unknown."""
        if not self._over.is_set():
            self._end("failed")

    def _end(self, status: Literal["completed", "cancelled", "failed"]) -> None:
        with uninterrupted():
            self.record(TurnEnded, fact_id=f"{self.turn_id}.ended", status=status)
        self._over.set()

    # ------------------------------------------------------------ what all of it rests on

    @property
    def over(self) -> bool:
        """Whether this process ended the turn."""
        return self._over.is_set()

    def record(self, make: Callable[..., Fact], *, fact_id: str | None = None, **fields: Any) -> Fact:
        """Append one fact of this turn; durable when it returns."""
        return self.conversation.append(
            make(
                fact_id=fact_id or self.conversation.new_id(),
                at=self.conversation.now(),
                source="host",
                turn_id=self.turn_id,
                run_id=self.run_id,
                **fields,
            )
        )[0]

    def _keep_alive(self, lease: float) -> None:
        """Renew the lease. Who was declared lost asks its tools to stop: somebody else goes on."""
        while not self._over.wait(lease / 3):
            with suppress(JournalError):  # once more after a third; the lease lasts that long
                if not self.conversation.journal.renew_lease(self.conversation.id, self.run_id, lease):
                    self.declared_lost.set()
                    for one in self.running.all():
                        one.ask_to_stop("journal", "this process was declared lost")
                    return


def _ask_to_stop(execution: Execution, by: str | None, reason: str | None) -> None:
    with suppress(JournalError):  # it is unknown, since no end of it is on record
        execution.ask_to_stop(by, reason)


def _checked(permit: dict[str, Any]) -> dict[str, Any]:
    if wrong := permit.keys() - PERMITS:
        raise TypeError(f"{min(wrong)!r} is no option of a start; options: {', '.join(sorted(PERMITS))}")
    return permit
