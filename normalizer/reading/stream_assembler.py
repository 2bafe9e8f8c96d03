"""The frame of every stream: events of any form, its state, errors, and the reading of what has come so far.

An API brings a `Table` (what an event does in which state), the steps in it, and a `Reply` that keeps what they take.
Laws: an event that no step takes is a leftover; what began and is not whole is a fragment; a reading may be asked for
at any time and is that of a stream that ends here.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypedDict

from normalizer.errors import UnreadableInput
from normalizer.facts import ModelReplied, ReplyCut
from normalizer.findings import Finding, Fragment, Leftover, Reading
from normalizer.parts import Json
from normalizer.reading import sanitizing
from normalizer.reading.call_matching import runnable
from normalizer.reading.diagnostics import dump_any, error_kind, error_line, only_the_beginning
from normalizer.reading.sse import Frames

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Unpack

    from normalizer.facts import Fact
    from normalizer.parts import Part

Event: TypeAlias = Mapping[str, Any]
TurnWord: TypeAlias = Literal["ended", "paused", "cut", "refused"]
Step: TypeAlias = Callable[[Any, Event], bool]
"""Takes the assembler and an event; False where the event makes no sense here."""


class State(Enum):
    """How far a stream is. `OVER`: its end came. `FAILED`: an error came instead."""

    NEW = "new"
    OPEN = "open"
    OVER = "over"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Table:
    """What the streams of one API are, as data.

    `source`: who observed the facts, where the host does not say. `steps[state, word]` is what an event of this
    word does in this state, and the state behind it; an absent pair makes the event a leftover. `silent`: types of
    events that are passed over unread (keep-alives, and what an SDK's helper fires beside the events). `end`: the
    text by which a stream says that nothing follows (`[DONE]`). `error_keys`: where an error names its kind; of the
    kinds in `refusing` the API refused the request itself, so that before the reply began nothing of it was read,
    and `refused` is the turn's word for that. `turns`: stop reasons after which the turn is something else than
    ended; `runs`: those after which our calls are to be run.
    """

    provider: str
    api: str
    source: str
    steps: Mapping[tuple[State, str], tuple[Step, State]]
    runs: frozenset[str]
    silent: frozenset[str] = frozenset()
    end: str | None = None
    error_keys: tuple[str, ...] = ("type",)
    refusing: frozenset[str] = frozenset()
    refused: TurnWord = "refused"
    turns: Mapping[str, TurnWord] = field(default_factory=dict)

    @property
    def words(self) -> frozenset[str]:
        """The words of all events that are known."""
        return frozenset(word for _, word in self.steps)


def in_states(
    states: Sequence[State], rows: Mapping[str, tuple[Step, State]]
) -> dict[tuple[State, str], tuple[Step, State]]:
    """The rows of a table for steps that are the same in several states."""
    return {(state, word): row for state in states for word, row in rows.items()}


def nothing(_assembler: Any, _event: Event) -> bool:
    """The step of an event that is known and adds nothing."""
    return True


class Failure(NamedTuple):
    """An error that ended a reply: what was reported, on one line, and whether it refused the request itself."""

    line: str | None
    refused: bool = False


class Broken(NamedTuple):
    """What began and is not whole: its fragment, what a finding says of it, and what the fragment has no field for."""

    fragment: Fragment
    message: str
    rest: Leftover | None = None


class Note(NamedTuple):
    """Another fact than a reply, between replies: `make(fact_id="reply/steer_1/queued", seq=…, **fields)`."""

    make: Callable[..., Fact]
    name: str
    fields: Mapping[str, Any]


class About(TypedDict, total=False):
    """What the host knows of the reply's fact: `answers` is the `fact_id` of the request that it answers."""

    fact_id: str
    seq: int
    turn_id: str | None
    answers: str | None
    source: str


class Reply(ABC):
    """What has come of one reply, as the steps of an API put it together."""

    stop_reason: str | None = None
    failure: Failure | None = None

    @property
    def ended(self) -> bool:
        """Whether it is known how the reply ended, and no error came."""
        return self.stop_reason is not None and self.failure is None

    @property
    def model(self) -> str | None:
        """Who wrote it."""
        named = self.beside.get("model")
        return named if isinstance(named, str) else None

    @property
    @abstractmethod
    def beside(self) -> Mapping[str, Any]:
        """What stands beside the content: id, model, usage. It becomes the fact's `raw`."""

    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """The parts that are whole, in order."""

    @abstractmethod
    def broken(self) -> Iterator[Broken]:
        """Everything that is not."""

    def fields(self, parts: tuple[Part, ...]) -> Mapping[str, Any]:  # noqa: ARG002 - for those who have some
        """Further fields of the reply's fact."""
        return {}

    def live(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """Those of its parts whose calls count."""
        return parts

    def waiting(self, parts: tuple[Part, ...]) -> tuple[str, ...]:
        """Ids of the server's calls that have no result yet."""
        answered = {part.call_id for part in parts if part.kind == "server_tool_result"}
        called = [part.id for part in self.live(parts) if part.kind == "server_tool_call"]
        return tuple(dict.fromkeys(found for found in called if found and found not in answered))

    def aside(self) -> Leftover | None:
        """The whole of it as a leftover, where it is a reply that nobody uses."""
        return None


class StreamAssembler(ABC):
    """Collects the events of one stream.

    `feed` takes a parsed `data` object, an event object of the SDK, or pieces of the SSE text, cut anywhere. What is
    passed as `about` is for the facts that `reading` makes: the first reply is called `fact_id`, a second
    `fact_id/2`, and that one answers no request, since the server began it by itself.
    """

    def __init__(self, table: Table, **about: Unpack[About]) -> None:
        self.table = table
        self.state = State.NEW
        self.fact_id = about.get("fact_id", "reply")
        self._seq = about.get("seq", 1)
        self._answers = about.get("answers")
        self._said: dict[str, Any] = {
            "turn_id": about.get("turn_id"), "source": about.get("source", table.source),
        }  # fmt: skip
        self._words = table.words
        self._frames = Frames()
        self._findings: list[Finding] = []
        self._leftovers: list[Leftover] = []

    # ------------------------------------------------------------ what an API brings beside its table

    @abstractmethod
    def story(self) -> Sequence[Reply | Note]:
        """The replies of the stream, and what became a fact between them, in order. At least one reply."""

    def others(self) -> Sequence[Reply]:
        """Replies beside the one that is used: they are kept aside."""
        return ()

    def named(self, event: Event) -> tuple[str | None, Event]:
        """The word under which the table knows an event, None for no word, and the event itself.

        For `{"type": "ping"}` it is `ping`; an API whose events are `{"messageStart": {…}}` unwraps them here.
        """
        word = event.get("type")
        return (word if isinstance(word, str) else None), event

    def repeated(self, word: str, event: Event) -> bool:  # noqa: ARG002 - for streams that can be resumed
        """Whether a resumed stream brings an event once more."""
        return False

    def dumped(self, event: Any) -> dict[str, Any]:
        """An event object of the SDK as it was on the wire."""
        return plain(event)

    # ------------------------------------------------------------ events

    def feed(self, event: Any) -> None:
        """Take one event, or the next piece of the stream's text."""
        if isinstance(event, str | bytes | bytearray):
            for text, is_data in self._frames.take(event):
                self._line(text, is_data=is_data)
        elif isinstance(event, Mapping):
            self.take(event)
        else:
            self.take_object(event)

    def take_object(self, event: Any) -> None:
        """Take an object that is no JSON: an event of the SDK, else a leftover."""
        if not hasattr(event, "model_dump"):
            self.leave("unknown event", event)
        elif getattr(event, "type", None) not in self.table.silent:
            self.take(self.dumped(event))

    def take(self, event: Event) -> None:
        """Let the table decide what an event means here."""
        kind = event.get("type")
        if isinstance(kind, str) and kind in self.table.silent:
            return
        cleaned = self._cleaned(event)
        if cleaned is None:
            return
        word, event = self.named(cleaned)
        if word is not None and self.repeated(word, event):
            return
        if word not in self._words:
            self.leave("unknown event", event)
            return
        step, state = self.table.steps.get((self.state, word or ""), (None, self.state))
        if step is None or not step(self, event):
            self.leave("unexpected event", event)
            return
        self.state = state

    def _line(self, text: str, *, is_data: bool) -> None:
        if self.table.end is not None and text.strip() == self.table.end:
            return
        try:
            event = json.loads(text) if is_data else None
        except (ValueError, RecursionError):
            event = None
        if isinstance(event, dict):
            self.take(event)
        else:
            self.leave("unknown event", text)

    def _cleaned(self, event: Event) -> Any:
        """The event as plain JSON, with what was bad in it on record; None where it cannot be read."""
        try:
            cleaned = sanitizing.from_event(event)
        except UnreadableInput as error:
            self.leave(f"unreadable event: {error}", "")
            return None
        self._findings.extend(cleaned.findings)
        self._leftovers.extend(cleaned.leftovers)
        return cleaned.value

    # ------------------------------------------------------------ what steps use

    def leave(self, reason: str, value: Any) -> None:
        """Keep what no fact holds."""
        self._leftovers.append(Leftover(reason, value if isinstance(value, str) else dump_any(value)))

    def fail(self, error: Any, event: Event, *, began: bool) -> Failure:
        """Keep the event of an error. `began`: something of the reply had come before it."""
        self.leave("error event", event)
        keys = self.table.error_keys
        return Failure(
            error_line(error, *keys), not began and error_kind(error, *keys) in self.table.refusing
        )

    # ------------------------------------------------------------ what has come so far

    def reading(self) -> Reading:
        """The facts of what has come so far, as if the stream ended here."""
        facts: list[Fact] = []
        broken: list[tuple[Broken, str]] = []
        replies: list[tuple[Reply, tuple[Part, ...]]] = []
        for chapter in self.story():
            seq = self._seq + len(facts)
            if isinstance(chapter, Reply):
                replies.append((chapter, chapter.parts()))
                facts.append(self._fact(*replies[-1], len(replies), seq))
                broken.extend((one, facts[-1].fact_id) for one in chapter.broken())
            else:
                fact_id = f"{self.fact_id}/{chapter.name}"
                facts.append(chapter.make(fact_id=fact_id, seq=seq, **self._said, **chapter.fields))
        last, parts = replies[-1]
        unused = self.others()
        broken.extend((one, self.fact_id) for reply in unused for one in reply.broken())
        return Reading(
            format=self.table.api,
            facts=tuple(facts),
            findings=(*self._findings, *(_finding(one, fact_id) for one, fact_id in broken)),
            leftovers=(
                *self._leftovers,
                *(one.rest for one, _ in broken if one.rest is not None),
                *(left for reply in unused if (left := reply.aside()) is not None),
                *self._unfinished(),
            ),
            fragments=tuple(one.fragment for one, _ in broken),
            home=self.table.api,
            turn=self._turn(last),
            stop_reason=last.stop_reason,
            open_server_calls=last.waiting(parts),
            calls_to_run=self._to_run(last, parts),
        )

    def _fact(self, reply: Reply, parts: tuple[Part, ...], number: int, seq: int) -> ModelReplied | ReplyCut:
        about = {
            "fact_id": self.fact_id if number == 1 else f"{self.fact_id}/{number}",
            "seq": seq,
            **self._said,
            "answers": self._answers if number == 1 else None,
            "provider": self.table.provider,
            "api": self.table.api,
            "parts": parts,
            "model": reply.model,
            "raw": Json.of(dict(reply.beside)) if reply.beside else None,
            **reply.fields(parts),
        }
        if reply.ended:
            return ModelReplied(stop_reason=reply.stop_reason, **about)
        failure = reply.failure or Failure(None)
        return ReplyCut(error=failure.line, refused=failure.refused, **about)

    def _turn(self, reply: Reply) -> TurnWord:
        """How the turn stands behind its last reply."""
        if reply.ended:
            return self.table.turns.get(reply.stop_reason or "", "ended")
        return self.table.refused if reply.failure is not None and reply.failure.refused else "cut"

    def _to_run(self, reply: Reply, parts: tuple[Part, ...]) -> tuple[str, ...]:
        """Ids of our calls that are to be run now."""
        if not reply.ended or reply.stop_reason not in self.table.runs:
            return ()
        return runnable(reply.live(parts))

    def _unfinished(self) -> Iterator[Leftover]:
        """The text of a frame that has not ended."""
        if text := self._frames.unfinished:
            yield Leftover("unfinished frame", text)


def _finding(broken: Broken, fact_id: str) -> Finding:
    return Finding("fragment", broken.message, call_id=broken.fragment.call_id, facts=(fact_id,))


def beginning(fragment: Fragment, what: str, rest: Leftover | None = None) -> Broken:
    """What began and is not whole, told as that: `what` is `call 'toolu_1'`, `a block of type 'text'`."""
    return Broken(fragment, only_the_beginning(what), rest)


def plain(event: Any) -> dict[str, Any]:
    """An object of an SDK as it was on the wire."""
    held: dict[str, Any] = event.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
    return held
