"""A model's reply on its way into the journal: whole parts become facts, the rest is kept as fragments.

A stream that breaks off, by an error or by a cancel, leaves a `reply_cut` with what was whole, before the exception
goes on. The reply names the request that it answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from normalizer import registry
from normalizer.facts import CallSkipped
from normalizer.reading.truncation import CUT_SHORT
from normalizer.repairing import read
from normalizer.util.text import excerpt

if TYPE_CHECKING:
    from normalizer.facts import Fact
    from normalizer.findings import Reading
    from normalizer.live.record import TurnRecord
    from normalizer.provider import Assembler

# Answers by which an API says that it did not take the request at all; after others it may have been read.
REFUSING: Final = frozenset({400, 401, 402, 403, 404, 413, 422})
_LONGEST_ERROR: Final = 200
_TURN_KINDS: Final = frozenset({"turn_opened", "turn_ended"})


def is_whole(source: Any) -> bool:
    """Whether it is a response, not a stream: JSON, or an SDK object (which may be iterable all the same)."""
    return isinstance(source, Mapping) or (
        hasattr(source, "model_dump") and not hasattr(source, "__next__") and not hasattr(source, "__anext__")
    )


class Receiving:
    """One reply that comes in."""

    def __init__(self, turn: TurnRecord, api: str) -> None:
        self._turn = turn
        self._api = api
        requests = [sent for sent in turn.conversation.transcript.requests if sent.turn_id == turn.turn_id]
        self._about: Final[dict[str, Any]] = {
            "fact_id": turn.conversation.new_id(),
            "turn_id": turn.turn_id,
            "answers": requests[-1].fact_id if requests else None,
            "source": api,
        }
        make: Any = registry.provider(api).assembler
        self._assembler: Assembler = make(seq=0, **self._about)

    def feed(self, event: Any) -> None:
        """The next event of a stream."""
        self._assembler.feed(event)

    def streamed(self) -> Reading:
        """The stream is over: record what it brought."""
        return self._record(self._assembler.reading())

    def whole(self, response: Any) -> Reading:
        """Record a whole response."""
        reading = read(response, format=self._api)
        facts: list[Fact] = []
        for fact in reading.facts:
            if fact.kind in ("model_replied", "reply_cut"):
                if not any(one.kind == fact.kind for one in facts):
                    facts.append(replace(fact, group=None, **self._about))
            elif fact.kind not in _TURN_KINDS:
                facts.append(
                    replace(fact, fact_id=self._turn.conversation.new_id(), turn_id=self._turn.turn_id)
                )
        stop = reading.stop_reason or next((f.stop_reason for f in facts if f.kind == "model_replied"), None)
        runnable = () if stop in CUT_SHORT else _calls(facts)
        word = reading.turn or ("ended" if any(f.kind == "model_replied" for f in facts) else "cut")
        # its calls are not answered yet, which is no fault of theirs
        findings = tuple(found for found in reading.findings if found.kind != "missing_result")
        return self._record(
            replace(
                reading,
                facts=tuple(facts),
                findings=findings,
                turn=word,
                stop_reason=stop,
                calls_to_run=runnable,
            )
        )

    def broken(self, error: BaseException) -> Reading:
        """The stream broke off, or never began: record what came."""
        reading = self._assembler.reading()
        facts: list[Fact] = [fact for fact in reading.facts if fact.kind != "reply_cut"]
        for fact in reading.facts:
            if fact.kind == "reply_cut":
                refused = fact.refused or (not fact.parts and refuses(error))
                facts.append(replace(fact, error=fact.error or described(error), refused=refused))
        return self._record(replace(reading, facts=tuple(facts)))

    def _record(self, reading: Reading) -> Reading:
        turn, conversation = self._turn, self._turn.conversation
        facts = [
            replace(fact, run_id=turn.run_id, at=fact.at or conversation.now()) for fact in reading.facts
        ]
        added = conversation.append(*facts, fragments=reading.fragments)
        self._skip_what_was_not_asked_for(reading)
        return replace(reading, facts=added)

    def _skip_what_was_not_asked_for(self, reading: Reading) -> None:
        """Calls that stood whole in a reply that broke off are not run, which is recorded."""
        if reading.turn == "paused":
            return
        transcript = self._turn.conversation.transcript
        for call in [transcript.calls[key] for key in transcript.pending]:
            if call.reply == self._about["fact_id"] and call.id not in reading.calls_to_run:
                self._turn.record(
                    CallSkipped, call_id=call.key, by="program", reason="the reply that made it did not end"
                )


def _calls(facts: list[Fact]) -> tuple[str, ...]:
    parts = [part for fact in facts if fact.kind == "model_replied" for part in fact.parts]
    found = [part.id for part in parts if part.kind == "tool_call" and part.arguments.valid and part.id]
    return tuple(dict.fromkeys(found))


def refuses(error: BaseException) -> bool:
    """Whether the error is the API's word that it did not take the request."""
    return getattr(error, "status_code", None) in REFUSING


def described(error: BaseException) -> str:
    """An error in a short text, without secrets."""
    text = excerpt(str(error), _LONGEST_ERROR)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
