"""What the user types while a turn runs. It is kept, and becomes part of the conversation at a safe boundary only.

Steering is meant for one turn. Where that turn is cancelled or over first, it stays `not applied`: the user decides,
and nothing drops or applies it by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from normalizer.errors import JournalError
from normalizer.facts import SteeringApplied, SteeringQueued, SteeringWithdrawn
from normalizer.parts import Text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from normalizer.facts import Fact
    from normalizer.journal.journal import Journal
    from normalizer.parts import Part
    from normalizer.transcript import Transcript


class Steered(Protocol):
    """What steering needs of its conversation; see `ConversationRecord`."""

    @property
    def id(self) -> str:
        """The conversation's id in the journal."""

    @property
    def journal(self) -> Journal:
        """The journal that it is in."""

    @property
    def transcript(self) -> Transcript:
        """What its facts add up to at this moment."""

    def append(self, *facts: Fact) -> tuple[Fact, ...]:
        """Record facts, all or none, and give them back with their numbers."""

    def new_id(self) -> str:
        """An id for a fact."""

    def now(self) -> str:
        """The time, as facts have it."""


class Steering:
    """The steering of one conversation."""

    def __init__(self, conversation: Steered) -> None:
        self._conversation = conversation

    @property
    def waiting(self) -> tuple[SteeringQueued, ...]:
        """What is queued and neither applied nor withdrawn, in order."""
        transcript = self._conversation.transcript
        return tuple(
            fact
            for fact in transcript.facts
            if fact.kind == "steering_queued" and fact.steering_id in transcript.steering
        )

    def queue(self, said: str | Iterable[Part], *, turn_id: str | None = None) -> str:
        """Keep what was typed, for the turn that runs (or the one named). Gives the id of the steering."""
        conversation = self._conversation
        parts = (Text(said),) if isinstance(said, str) else tuple(said)
        expected = turn_id or _running(conversation.transcript)
        steering_id = conversation.new_id()
        self._append(SteeringQueued, steering_id=steering_id, parts=parts, expected_turn=expected)
        return steering_id

    def withdraw(self, steering_id: str) -> Fact:
        """Take it back."""
        self._known(steering_id)
        return self._append(SteeringWithdrawn, steering_id=steering_id)

    def apply(self, steering_id: str | None = None, *, anyway: bool = False) -> tuple[Fact, ...]:
        """Apply what waits for the running turn (or only the one named), if the boundary is safe; what was applied.

        Nothing is applied while a call of the newest reply is open. `anyway`: also what was meant for another turn,
        because the user said so.
        """
        conversation = self._conversation
        transcript = conversation.transcript
        turn_id = _running(transcript)
        if steering_id is not None:
            self._known(steering_id)
        if turn_id is None or transcript.pending:
            return ()
        chosen = [
            fact
            for fact in self.waiting
            if steering_id in (None, fact.steering_id) and (anyway or fact.expected_turn in (None, turn_id))
        ]
        made = [
            SteeringApplied(
                fact_id=conversation.new_id(), at=conversation.now(), source="host", turn_id=turn_id,
                steering_id=fact.steering_id,
            )
            for fact in chosen
        ]  # fmt: skip
        return conversation.journal.apply_steering(conversation.id, made, turn_id=turn_id) if made else ()

    def _known(self, steering_id: str) -> None:
        if steering_id not in self._conversation.transcript.steering:
            raise JournalError(
                f"there is no steering {steering_id!r} that waits; it was applied or withdrawn before, or never queued",
                reason="unknown_steering",
            )

    def _append(self, make: Any, **fields: Any) -> Fact:
        conversation = self._conversation
        return conversation.append(
            make(fact_id=conversation.new_id(), at=conversation.now(), source="host", **fields)
        )[0]


def _running(transcript: Transcript) -> str | None:
    """The turn that runs: neither over nor being cancelled."""
    return next(
        (turn.turn_id for turn in transcript.turns.values() if turn.status == "running" and not turn.over),
        None,
    )
