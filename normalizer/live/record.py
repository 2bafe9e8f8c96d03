"""One conversation on record: what its facts add up to, further facts, and the requests that are made of it.

Everything that a method did is on disk when it returns. Nothing is kept here but what can be folded again from the
journal: another process that opens the same conversation sees the same.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import uuid4

from normalizer import repairing
from normalizer.errors import JournalError
from normalizer.facts import InstructionsSet, ToolsDeclared
from normalizer.folding.fold_run import fold
from normalizer.journal.serialization import stamp
from normalizer.live.steering import Steering
from normalizer.parts import Text
from normalizer.projecting.sent_history import base_of
from normalizer.projecting.sent_record import request_sent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from normalizer.facts import Fact, RequestSent
    from normalizer.findings import Fragment
    from normalizer.journal.journal import Journal
    from normalizer.parts import Part, Tool
    from normalizer.projection import Projection
    from normalizer.transcript import Transcript


class ConversationRecord:
    """A conversation by its id, as its turns know it: all but that it opens turns. Safe to share among threads."""

    def __init__(self, journal: Journal, conversation: str) -> None:
        self.journal: Final = journal
        self.id: Final = conversation
        self.steering: Final = Steering(self)
        self._lock = threading.RLock()
        self._transcript = fold(())
        self._seen = 0
        self._previous: dict[tuple[str, str | None, str | None], Projection] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r} in {self.journal!r})"

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

    # ------------------------------------------------------------ system prompt and tools

    def instructions(self, said: str | Iterable[Part]) -> None:
        """Set the instructions. Those that are in force already are not recorded again."""
        parts = (Text(said),) if isinstance(said, str) else tuple(said)
        if self._in_force("instructions_set", "parts") != parts:
            self._record(InstructionsSet, parts=parts)

    def tools(self, *tools: Tool, api: str | None = None) -> None:
        """Declare the tools. `api`: in which provider's form their `raw` is, if they have one."""
        if self._in_force("tools_declared", "tools") != tools:
            self._record(ToolsDeclared, tools=tools, api=api)

    def _in_force(self, kind: str, what: str) -> Any:
        found = [entry.fact for entry in self.transcript.heads if entry.fact.kind == kind]
        return getattr(found[-1], what) if found else None

    # ------------------------------------------------------------ requests

    def project(self, target: str, **options: Any) -> Projection:
        """The request for a target; what was projected before is not projected again.

        `options` are those of `normalizer.project`. Raises OpenCalls while calls are pending.
        """
        key = (target, options.get("model"), options.get("profile"))
        with self._lock:
            made = repairing.project(self.transcript, target, previous=self._previous.get(key), **options)
            self._previous[key] = made
        return made

    def sent(self, projection: Projection) -> RequestSent:
        """Record that a projection goes out; call it before it does. From then on its bytes stay as they are.

        Refused (JournalError, `stale_projection`) where another request of the same sent history went out meanwhile.
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


class TurnRecord(Protocol):
    """What a reply and the run of a call need of their turn; `Turn` is one."""

    @property
    def conversation(self) -> ConversationRecord:
        """The conversation that the turn belongs to."""

    @property
    def turn_id(self) -> str:
        """The turn's id."""

    @property
    def run_id(self) -> str:
        """The id of the turn's execution."""

    def record(self, make: Callable[..., Fact], *, fact_id: str | None = None, **fields: Any) -> Fact:
        """Append one fact of the turn; durable when it returns."""
