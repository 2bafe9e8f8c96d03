"""One conversation of a journal, live: turns are opened, requests projected and sent, replies and calls recorded.

Everything that a method did is on disk when it returns. Nothing is kept here but what can be folded again from the
journal: another process that opens the same conversation sees the same.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from normalizer import repairing
from normalizer.errors import JournalError
from normalizer.facts import InstructionsSet, ToolsDeclared
from normalizer.folding.fold_run import fold
from normalizer.journal.processes import alive
from normalizer.journal.serialization import stamp
from normalizer.live.steering import Steering
from normalizer.live.turn import Turn
from normalizer.parts import Text
from normalizer.projecting.sent_history import base_of
from normalizer.projecting.sent_record import request_sent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from normalizer.facts import Fact, RequestSent
    from normalizer.findings import Fragment
    from normalizer.journal.journal import Journal
    from normalizer.journal.processes import Run
    from normalizer.parts import Part, Tool
    from normalizer.projection import Projection
    from normalizer.transcript import Transcript


class Conversation:
    """A conversation by its id; it begins with its first fact. Safe to share among threads."""

    def __init__(self, journal: Journal, conversation: str) -> None:
        self.journal: Final = journal
        self.id: Final = conversation
        self.steering: Final = Steering(self)
        self._lock = threading.RLock()
        self._transcript = fold(())
        self._seen = 0
        self._previous: dict[tuple[str, str | None, str | None], Projection] = {}

    def __repr__(self) -> str:
        return f"Conversation({self.id!r} in {self.journal!r})"

    # ------------------------------------------------------------ what is on record

    @property
    def transcript(self) -> Transcript:
        """What the facts add up to at this moment, those of other processes included."""
        with self._lock:
            if found := self.journal.facts(self.id, after=self._seen):
                self._transcript = fold(found, onto=self._transcript)
                self._seen = found[-1].seq
            return self._transcript

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All facts, in order."""
        return self.journal.facts(self.id)

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """What cut replies left."""
        return self.journal.fragments(self.id)

    def follow(
        self, after: int = 0, *, timeout: float | None = None, stop: threading.Event | None = None
    ) -> Iterator[Fact]:
        """The facts behind a number, and further ones as they come."""
        return self.journal.follow(self.id, after, timeout=timeout, stop=stop)

    def append(self, *facts: Fact, fragments: Sequence[Fragment] = ()) -> tuple[Fact, ...]:
        """Record facts, all or none, and give them back with their numbers."""
        return self.journal.append(self.id, facts, fragments=fragments)

    # ------------------------------------------------------------ what stands above the messages

    def instructions(self, said: str | Iterable[Part]) -> None:
        """Set the instructions. Those that are in force already are not recorded again."""
        parts = (Text(said),) if isinstance(said, str) else tuple(said)
        if self._head("instructions_set", "parts") != parts:
            self._record(InstructionsSet, parts=parts)

    def tools(self, *tools: Tool, api: str | None = None) -> None:
        """Declare the tools. `api`: in which provider's form their `raw` is, if they have one."""
        if self._head("tools_declared", "tools") != tools:
            self._record(ToolsDeclared, tools=tools, api=api)

    def _head(self, kind: str, what: str) -> Any:
        found = [entry.fact for entry in self.transcript.heads if entry.fact.kind == kind]
        return getattr(found[-1], what) if found else None

    # ------------------------------------------------------------ turns

    def open_turn(self, *, lease: float | None = None) -> Turn:
        """Open a turn, to be run by this process.

        Refused (JournalError, `turn_open`) while the process of another turn lives; one whose process is found gone is
        recorded as lost first. `lease`: for how many seconds at a time this run counts as alive on other hosts.
        """
        for run in self.journal.runs(self.id):
            if run.state == "open":
                self._lose(run)
        opened = self.journal.open_turn(self.id, lease=lease, source="host")
        return Turn(self, opened, lease)

    def _lose(self, run: Run) -> None:
        """Record that a run is gone, if that is certain; if not, the journal refuses the next turn."""
        lives = alive(run.process)
        if lives is False:
            self.journal.lose_run(self.id, run.run_id, by="open_turn", how="its process is gone")
        elif lives is None and run.expired(datetime.now(UTC)):
            self.journal.lose_run(
                self.id, run.run_id, by="open_turn", how="its lease ran out", if_expired=True
            )

    # ------------------------------------------------------------ requests

    def project(self, target: str, **options: Any) -> Projection:
        """The request for a target; what was projected before is not projected again.

        `options` are those of `normalizer.project`. Raises OpenCalls while calls are pending.
        """
        chain = (target, options.get("model"), options.get("profile"))
        with self._lock:
            made = repairing.project(self.transcript, target, previous=self._previous.get(chain), **options)
            self._previous[chain] = made
        return made

    def sent(self, projection: Projection) -> RequestSent:
        """Record that a projection goes out; call it before it does. From then on its bytes stay as they are.

        Refused (JournalError, `stale_projection`) where its chain was sent something else meanwhile.
        """
        sending = projection.sending()
        with self._lock:
            transcript = self.transcript
            base = base_of(transcript, sending.target, sending.model, sending.profile, sending.account)
            if (base.fact_id if base is not None else None) != sending.base:
                raise JournalError(
                    "this projection was made before another request of its chain went out; project again and"
                    " send that",
                    reason="stale_projection",
                )
            turn = next((turn for turn in transcript.turns.values() if not turn.over), None)
            made = request_sent(
                projection,
                fact_id=self.new_id(),
                seq=0,
                at=self.now(),
                turn_id=turn.turn_id if turn else None,
            )
            self.append(made)
            return next(fact for fact in self.transcript.requests if fact.fact_id == made.fact_id)

    # ------------------------------------------------------------ inside

    def _record(self, make: Any, **fields: Any) -> None:
        self.append(make(fact_id=self.new_id(), at=self.now(), source="host", **fields))

    def new_id(self) -> str:
        """An id for a fact."""
        return uuid4().hex

    def now(self) -> str:
        """The time, as facts have it."""
        return stamp(datetime.now(UTC))
