"""`Journal`, the open journal: append, read, follow, and the launch gate.

What a method returns is durable; what is not raises `JournalError`. One conversation's facts are numbered under
its lock, by every thread, process and host alike.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from normalizer.errors import JournalError
from normalizer.facts import Observation, RunLost, StartPermitted, TurnCancelRequested, TurnOpened
from normalizer.journal import launch_gate as gate
from normalizer.journal import live_side
from normalizer.journal import transactions as store
from normalizer.journal.database import Database, located
from normalizer.journal.processes import Run, this_process
from normalizer.journal.serialization import stamp

if TYPE_CHECKING:
    import os
    import threading
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from normalizer.facts import Fact, SteeringApplied
    from normalizer.findings import Fragment
    from normalizer.journal.processes import ProcessId
    from normalizer.journal.transactions import Locked

T = TypeVar("T")

POLLS: Final = (0.01, 0.25)
"""Seconds between two looks for further facts: at first, and at most."""

# Why an append looks which of its facts are there before it records the others. The usual one need not.
_LOOK: Final = frozenset({"fact_id_reused", "unreachable"})

PAGE: Final = 1000
"""How many facts `follow` reads at once."""


class Journal:
    """One open journal. Safe to share among threads, and in the children of a fork. Close it, or use `with`."""

    def __init__(self, database: Database, now: Callable[[], datetime], new_id: Callable[[], str]) -> None:
        self._database = database
        self._now = now
        self._new_id = new_id

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Journal({self._database.name!r})"

    def close(self) -> None:
        """Close all connections. What was returned stays durable."""
        self._database.close()

    def conversation(self, conversation: str) -> Any:
        """The live side of one conversation: turns, replies, execution."""
        return live_side.conversation(self, conversation)

    # ------------------------------------------------------------ facts

    def append(
        self,
        conversation: str,
        facts: Iterable[Fact],
        *,
        fragments: Sequence[Fragment] = (),
        imported: bool = False,
    ) -> tuple[Fact, ...]:
        """Record facts, all or none, and give them back with their `seq`; durable when it returns.

        A fact whose `fact_id` is recorded already is not recorded again; the recorded one is given back. `fragments`
        are what the reply among the facts left: the `reply_cut`, else the `model_replied`. Permits and gated turns come
        only from `permit_start` and `open_turn`, except where what another journal recorded is `imported`.
        """
        new = _given(facts)
        if not new:
            return ()
        if not imported and (forged := _forged(new)):
            self._locked(conversation, lambda locked: store.check_known(locked, forged))
        reply = _leaving(new) if fragments else None
        if reply is None:
            try:
                return self._database.drive(
                    lambda driver: store.append(driver, conversation, new, self._now())
                )
            except JournalError as error:
                if error.reason not in _LOOK:
                    raise

        def add(locked: Locked) -> tuple[Fact, ...]:
            recorded = store.add_unknown(locked, new)
            if reply is not None:
                locked.add_fragments(reply, fragments)
            return recorded

        return self._locked(conversation, add)

    def facts(self, conversation: str, after: int = 0, *, limit: int | None = None) -> tuple[Fact, ...]:
        """The facts of a conversation in order, those behind the number `after`; none where it is not known."""
        return self._database.read(lambda connection: store.facts(connection, conversation, after, limit))

    def conversations(self) -> tuple[str, ...]:
        """The ids of all conversations, sorted."""
        return self._database.read(store.conversations)

    def delete(self, conversation: str) -> bool:
        """Delete a conversation with everything that belongs to it; whether there was one. A single fact stays."""

        def forget(connection: Connection) -> bool:
            known: bool = store.lock(connection, conversation, self._now()).last > 0
            store.forget(connection, conversation)
            return known

        return self._database.write(forget)

    def add_fragments(self, conversation: str, fragments: Sequence[Fragment], *, about: str) -> None:
        """Keep what a reply left; `about` is the reply's `fact_id`. Twice is the same as once."""
        self._locked(conversation, lambda locked: locked.add_fragments(about, fragments))

    def fragments(self, conversation: str) -> tuple[Fragment, ...]:
        """What cut replies left, whole, in the order in which it was kept."""
        return self._database.read(lambda connection: store.fragments(connection, conversation))

    def follow(
        self,
        conversation: str,
        after: int = 0,
        *,
        timeout: float | None = None,
        stop: threading.Event | None = None,
    ) -> Iterator[Fact]:
        """The facts behind `after`, and further ones as they come.

        Ends when none came for `timeout` seconds, or when `stop` is set.
        """
        pause, limit = POLLS
        quiet_since = time.monotonic()
        while stop is None or not stop.is_set():
            found = self.facts(conversation, after, limit=PAGE)
            if found:
                yield from found
                after, pause, quiet_since = found[-1].seq, POLLS[0], time.monotonic()
                continue
            quiet = time.monotonic() - quiet_since
            if timeout is not None and quiet >= timeout:
                return
            rest = pause if timeout is None else min(pause, timeout - quiet)
            if stop is None:
                time.sleep(rest)
            else:
                stop.wait(rest)
            pause = min(2 * pause, limit)

    # ------------------------------------------------------------ the launch gate

    def open_turn(
        self,
        conversation: str,
        *,
        turn_id: str | None = None,
        run_id: str | None = None,
        process: ProcessId | None = None,
        lease: float | None = None,
        source: str = "journal",
    ) -> TurnOpened:
        """Open a gated turn, run by `process` (this one), and give its fact. Refused while another turn is open.

        `lease`: for how many seconds the run counts as alive on other hosts; see `renew_lease`.
        """
        now, runner = self._now(), process or this_process()
        turn, run = turn_id or self._new_id(), run_id or self._new_id()
        opened = TurnOpened(
            fact_id=self._new_id(), at=stamp(now), source=source, gated=True,
            turn_id=turn, run_id=run,
        )  # fmt: skip
        until = None if lease is None else now + timedelta(seconds=lease)

        def open_it(locked: Locked) -> Fact:
            running = locked.open_run()
            known = gate.open_turn(
                opened, locked.gate(gate.turn_gate(turn)), running.turn_id if running else None
            )
            if known is not None:
                return known
            if locked.run(run) is not None:
                raise JournalError(
                    f"run {run!r} ran a turn before; every run needs its own id", reason="run_exists"
                )
            seq = locked.take(1)
            locked.add_run(Run(conversation, run, turn, seq, runner, until, "open"))
            return locked.add([opened], seq)[0]

        return self._locked(conversation, open_it)  # type: ignore[return-value]

    def permit_start(
        self,
        conversation: str,
        call_id: str,
        *,
        turn_id: str,
        run_id: str,
        operation_id: str | None = None,
        idempotency_key: str | None = None,
        remote: bool = False,
        may_have_effects: bool = True,
        recovery: str | None = None,
        reply: str | None = None,
        fact_id: str | None = None,
        source: str = "journal",
    ) -> StartPermitted:
        """Let a call start: once, and only while its turn is open. Raises StartRefused (TurnClosed is one) otherwise.

        `reply`: the `fact_id` of the reply that made the call, checked to be of this turn. `fact_id`: name the permit,
        so that the same asker, after an error that leaves open whether it was recorded, gets the same permit again.
        """
        asked = StartPermitted(
            fact_id=fact_id or self._new_id(), at=stamp(self._now()), source=source, turn_id=turn_id,
            run_id=run_id, call_id=call_id, operation_id=operation_id, idempotency_key=idempotency_key,
            remote=remote, may_have_effects=may_have_effects, recovery=recovery,
        )  # fmt: skip

        def permit(locked: Locked) -> Fact:
            if reply is not None:
                gate.made_by(asked, locked.known([reply]).get(reply), reply)
            known = gate.permit(asked, locked.gate(gate.turn_gate(turn_id), gate.call_gate(call_id)))
            if known is None:
                return locked.add([asked], locked.last)[0]
            locked.take(-1)  # which was taken with the lock, as nearly every permit needs one
            return known

        return self._locked(conversation, permit, count=1)  # type: ignore[return-value]

    def cancel_turn(
        self,
        conversation: str,
        turn_id: str,
        by: str | None = None,
        reason: str | None = None,
        *,
        run_id: str | None = None,
        source: str = "journal",
    ) -> TurnCancelRequested | None:
        """Close a turn's gate: no call of it starts any more. Asking again records nothing and gives the first request.

        None where the turn was over before anybody asked.
        """
        asked = TurnCancelRequested(
            fact_id=self._new_id(), at=stamp(self._now()), source=source, turn_id=turn_id,
            run_id=run_id, by=by, reason=reason,
        )  # fmt: skip

        def cancel(locked: Locked) -> Fact | None:
            record, known = gate.cancel(asked, locked.gate(gate.turn_gate(turn_id)))
            return locked.add([asked], locked.take(1))[0] if record else known

        return self._locked(conversation, cancel)  # type: ignore[return-value]

    def apply_steering(
        self, conversation: str, applied: Sequence[SteeringApplied], *, turn_id: str
    ) -> tuple[Fact, ...]:
        """Record that steering was applied to a turn, while it is open. Raises TurnClosed otherwise."""

        def apply(locked: Locked) -> tuple[Fact, ...]:
            if len(locked.known(fact.fact_id for fact in applied)) < len(applied):
                gate.apply_steering(locked.gate(gate.turn_gate(turn_id)))
            return store.add_unknown(locked, applied)

        return self._locked(conversation, apply)

    # ------------------------------------------------------------ runs

    def runs(self, conversation: str | None = None) -> tuple[Run, ...]:
        """The runs of a conversation; without one, the open runs of all conversations."""
        return self._database.read(lambda connection: store.runs(connection, conversation))

    def renew_lease(self, conversation: str, run_id: str, lease: float) -> bool:
        """Say that a run lives for `lease` seconds more. False where it is over, or was declared lost: stop it."""
        until = self._now() + timedelta(seconds=lease)
        return self._database.write(lambda c: store.extend_lease(c, conversation, run_id, until))

    def lose_run(
        self,
        conversation: str,
        run_id: str,
        *,
        by: str | None = None,
        how: str | None = None,
        if_expired: bool = False,
        source: str = "journal",
    ) -> RunLost | None:
        """Record that the process of a run is gone, which closes its turn's gate. None where the run was over.

        Asking again gives the first fact. `if_expired`: only if its lease ran out and was not renewed meanwhile.
        """
        now = self._now()

        def lose(locked: Locked) -> Fact | None:
            run = locked.run(run_id)
            if run is None:
                raise JournalError(
                    f"there is no run {run_id!r} in conversation {conversation!r}", reason="unknown_run"
                )
            if run.state != "open":
                turn = locked.gate(gate.turn_gate(run.turn_id))
                return next((fact for fact in turn if fact.kind == "run_lost"), None)
            if if_expired and not run.expired(now):
                raise JournalError(
                    f"run {run_id!r} still holds its lease; it may be alive", reason="run_alive"
                )
            lost = RunLost(
                fact_id=self._new_id(), at=stamp(now), source=source, turn_id=run.turn_id, run_id=run_id,
                by=by, how=how,
            )  # fmt: skip
            return locked.add([lost], locked.take(1))[0]

        return self._locked(conversation, lose)  # type: ignore[return-value]

    # ------------------------------------------------------------ inside

    def _locked(self, conversation: str, work: Callable[[Locked], T], count: int = 0) -> T:
        """Do work under the conversation's lock, with `count` numbers taken at once."""

        def run(connection: Connection) -> T:
            return work(store.lock(connection, conversation, self._now(), count))

        return self._database.write(run)


def opened(
    where: str | os.PathLike[str],
    *,
    read_only: bool,
    patience: float,
    now: Callable[[], datetime],
    new_id: Callable[[], str],
) -> Journal:
    """See `normalizer.journal.open_journal`."""
    return Journal(Database(located(where), read_only=read_only, patience=patience), now, new_id)


def _given(facts: Any) -> tuple[Fact, ...]:
    """The facts of a caller, who may have taken something else for one."""
    given: tuple[Any, ...] = (
        (facts,) if isinstance(facts, (Observation, Mapping, str, bytes)) else tuple(facts)
    )
    for number, fact in enumerate(given, start=1):
        if not isinstance(fact, Observation):
            raise JournalError(
                f"number {number} of what was to be recorded is of type {type(fact).__name__!r}, and no fact; make"
                " one of a kind of normalizer.facts",
                reason="unstorable",
            )
    return given


def _leaving(facts: Sequence[Fact]) -> str:
    """The reply that left the fragments."""
    for kind in ("reply_cut", "model_replied"):
        for fact in facts:
            if fact.kind == kind:
                return fact.fact_id
    raise JournalError(
        "fragments belong to a reply, and none of the facts is a reply_cut or model_replied",
        reason="no_reply_cut",
    )


def _forged(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """Facts that only the gate may write: a permit of somebody else could come after the turn was closed."""
    return tuple(f for f in facts if f.kind == "start_permitted" or (f.kind == "turn_opened" and f.gated))
