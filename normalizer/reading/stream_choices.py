"""Streams of chunks: Chat Completions and its like. A chunk has a delta for each choice, a delta has keys.

There is no end mark for a text or a call, only the finish reason of the whole choice; so a choice without one has
nothing whole in it, and one that a limit ended was still writing the call with the highest index.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from normalizer.findings import Fragment, Leftover
from normalizer.parts import Json
from normalizer.reading.diagnostics import dump_any
from normalizer.reading.stream_assembler import Reply, State, StreamAssembler, beginning, in_states, plain
from normalizer.reading.truncation import CUTS_ALL, CUTS_LAST
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Unpack

    from normalizer.parts import Part
    from normalizer.reading.stream_assembler import About, Broken, Event, Failure, Step, Table

NO_FINISH: Final = "no_finish"
NO_NAME: Final = "no_id"
_NOT_BESIDE: Final = frozenset({"choices", "object"})
_CALL_KEYS: Final = frozenset({"index", "id", "type", "function", "custom"})


class CallPieces:
    """One element of `tool_calls`: id, type and name from whichever delta has them first, the text in order."""

    __slots__ = ("extra", "id", "name", "text", "type")

    def __init__(self) -> None:
        self.id: str | None = None
        self.type: str | None = None
        self.name: str | None = None
        self.text: list[str] = []
        self.extra: dict[str, Any] = {}

    def add(self, delta: dict[str, Any]) -> None:
        """Take a delta. A repeated id or name is no continuation of the first."""
        self.id = self.id or _word(delta, "id")
        self.type = self.type or _word(delta, "type")
        for kind, key in (("function", "arguments"), ("custom", "input")):
            held = delta.get(kind)
            if isinstance(held, dict):
                self.type = self.type or kind
                self.name = self.name or _word(held, "name")
                piece = held.get(key)
                if isinstance(piece, str):
                    self.text.append(piece)
                elif piece is not None:
                    self.text.append(Json.of(piece).text)
        self.extra.update((k, v) for k, v in delta.items() if k not in _CALL_KEYS and v is not None)

    def value(self) -> dict[str, Any]:
        """The call as an element of a whole message."""
        text = "".join(self.text)
        kind = "custom" if self.type == "custom" else "function"
        payload = {"name": self.name, "input" if kind == "custom" else "arguments": text}
        return {"id": self.id, "type": kind, kind: payload, **self.extra}

    @property
    def parses(self) -> bool:
        """Whether its arguments can be all of them; no text is no arguments, a custom call takes any."""
        text = "".join(self.text)
        return self.type == "custom" or not text.strip() or Json(text).valid


class Choice(Reply):
    """Everything that came for one choice. `texts` are its growing texts by their key.

    An API says in `deltas` what each key of a delta changes, in `said` what parts there are beside the calls.
    """

    says_empty: ClassVar[frozenset[str]] = frozenset()
    """Keys that say something also with an empty text."""
    cuts_all: ClassVar[frozenset[str]] = CUTS_ALL
    """Finish reasons after which no call is whole."""
    cuts_last: ClassVar[frozenset[str]] = CUTS_LAST
    """Finish reasons of a limit, which was hit inside the last call."""

    def __init__(self, index: int, beside: Mapping[str, Any]) -> None:
        self.index = index
        self.texts: dict[str, list[str]] = {}
        self.calls: dict[Any, CallPieces] = {}
        self._chunks = beside

    @property
    def beside(self) -> Mapping[str, Any]:
        """What stands in the chunks beside their choices."""
        return self._chunks

    @property
    def ended(self) -> bool:
        """Whether it has a finish reason: what had ended before an error is whole."""
        return self.stop_reason is not None

    def text(self, key: str) -> str:
        """A growing text, as far as it came."""
        return "".join(self.texts.get(key, ()))

    # ------------------------------------------------------------ what an API says of its choices

    @property
    @abstractmethod
    def deltas(self) -> Mapping[str, Change]:
        """What each key of a delta changes."""

    @abstractmethod
    def said(self) -> Iterator[Part]:
        """The parts that are whole, beside the calls."""

    @abstractmethod
    def unsaid(self) -> Iterator[tuple[str, str]]:
        """Type and text of what is not whole, beside the calls, while there is no finish reason."""

    @abstractmethod
    def call(self, index: Any, pieces: CallPieces) -> Part | None:
        """The part that a call is."""

    @abstractmethod
    def message(self) -> dict[str, Any]:
        """All that came, as one message."""

    # ------------------------------------------------------------ deltas

    def take(self, key: str, value: Any, leave: Callable[[str, Any], None]) -> None:
        """Take one key of a delta; `leave` keeps what cannot be understood, or comes too late."""
        change = self.deltas.get(key)
        if value is None or value in ("", [], {}):
            if value == "" and key in self.says_empty and change is not None:
                change(self, value)
        elif key != "role" and self.stop_reason is not None:
            leave("behind the end of its choice", {"index": self.index, key: value})
        elif change is None or not change(self, value):
            leave("unknown delta", {"index": self.index, key: value})

    # ------------------------------------------------------------ what is whole

    def parts(self) -> tuple[Part, ...]:
        """The parts that are whole."""
        called = [self.call(index, call) for index, call, why in self._in_order() if why is None]
        return (*self.said(), *(part for part in called if part is not None))

    def broken(self) -> Iterator[Broken]:
        """What is not."""
        pointer = f"/choices/{self.index}"
        for kind, text in self.unsaid() if self.stop_reason is None else ():
            fragment = Fragment(None, text, NO_FINISH, type=kind, pointer=pointer)
            yield beginning(fragment, f"a part of type {kind!r}")
        for index, call, why in self._in_order():
            if why is None:
                continue
            kind = "custom_tool_call" if call.type == "custom" else "tool_call"
            fragment = Fragment(
                call.id, "".join(call.text), why, kind if index is not None else "function_call",
                index if isinstance(index, int) else None, call.name, pointer=pointer,
            )  # fmt: skip
            what = f"call {named(call.id)}" if call.id else f"a part of type {fragment.type!r}"
            yield beginning(fragment, what)

    def in_order(self) -> list[tuple[Any, CallPieces]]:
        """The calls in order of their index."""
        return sorted(self.calls.items(), key=lambda item: (str(type(item[0])), item[0]))

    def _in_order(self) -> Iterator[tuple[Any, CallPieces, str | None]]:
        """The calls, and why one is not whole."""
        found = self.in_order()
        for number, (index, call) in enumerate(found):
            yield index, call, self._why_not(call, last=number == len(found) - 1)

    def _why_not(self, call: CallPieces, *, last: bool) -> str | None:
        reason = self.stop_reason
        if reason is None:
            return NO_FINISH
        if reason in self.cuts_all or (reason in self.cuts_last and (last or not call.parses)):
            return reason
        return None if call.name else NO_NAME

    def aside(self) -> Leftover | None:
        """The whole parts of a choice that nobody uses."""
        if not self.parts():
            return None
        value = {"index": self.index, "finish_reason": self.stop_reason, "message": self.message()}
        reason = "another choice than the one that is used"
        return Leftover(reason, dump_any(value), pointer=f"/choices/{self.index}")


Change: TypeAlias = Callable[[Any, Any], bool]
"""What a key of a delta changes in its choice; False where the value cannot be understood."""


def grow(key: str) -> Change:
    """A text that gets longer."""

    def change(choice: Choice, value: Any) -> bool:
        if not isinstance(value, str):
            return False
        if value:
            choice.texts.setdefault(key, []).append(value)
        return True

    return change


def tool_calls(choice: Choice, value: Any) -> bool:
    """Pieces of calls, each under its index; where it has none, its place in the list stands for it."""
    if not isinstance(value, list) or not all(isinstance(delta, dict) for delta in value):
        return False
    for number, delta in enumerate(value):
        index = delta.get("index")
        key = index if isinstance(index, int) else number
        choice.calls.setdefault(key, CallPieces()).add(delta)
    return True


def unchanged(_choice: Choice, _value: Any) -> bool:
    """A key that is known and adds nothing."""
    return True


# ---------------------------------------------------------------- chunks


class ChunkAssembler(StreamAssembler):
    """Collects the chunks of one reply: `{"id": …, "choices": [{"index": 0, "delta": {…}, "finish_reason": null}]}`.

    `make` makes a choice. `choice` is the index of the one that the application uses; the others are kept aside.
    """

    def __init__(
        self,
        table: Table,
        make: Callable[[int, Mapping[str, Any]], Choice],
        *,
        choice: int | None = None,
        **about: Unpack[About],
    ) -> None:
        super().__init__(table, **about)
        self._make = make
        self._used = choice
        self.choices: dict[int, Choice] = {}
        self.beside: dict[str, Any] = {}
        self.failure: Failure | None = None

    def take_object(self, event: Any) -> None:
        """A chunk of the SDK. Its stream helper fires one in front of events about the same, which are passed over."""
        if hasattr(event, "chunk"):
            self.take(plain(event.chunk))
        elif hasattr(event, "choices"):
            self.take(plain(event))
        elif not hasattr(event, "type"):
            self.leave("unknown event", event)

    def named(self, event: Event) -> tuple[str | None, Event]:
        """`error` or `chunk`."""
        chunk: Event = event["chunk"] if isinstance(event.get("chunk"), Mapping) else event
        if chunk.get("error") is not None:
            return "error", chunk
        return ("chunk" if isinstance(chunk.get("choices"), list) else None), chunk

    def choice(self, index: int) -> Choice:
        """The choice of an index."""
        if index not in self.choices:
            self.choices[index] = self._make(index, self.beside)
        return self.choices[index]

    def story(self) -> Sequence[Choice]:
        """The choice that is used."""
        index = min(self.choices, default=0) if self._used is None else self._used
        used = self.choices.get(index) or self._make(0, self.beside)
        used.failure = self.failure
        return (used,)

    def others(self) -> Sequence[Choice]:
        """The other choices."""
        (used,) = self.story()
        return [choice for choice in self.choices.values() if choice is not used]


def _chunk(assembler: ChunkAssembler, event: Event) -> bool:
    """What stands beside the choices counts where it comes first, usage where it comes last."""
    beside = assembler.beside
    for key, value in event.items():
        if key not in _NOT_BESIDE and value not in (None, "", 0) and (key == "usage" or key not in beside):
            beside[key] = value
    for number, given in enumerate(event["choices"]):
        if not isinstance(given, dict):
            assembler.leave("unknown choice", given)
            continue
        index, delta, reason = given.get("index"), given.get("delta"), given.get("finish_reason")
        choice = assembler.choice(index if isinstance(index, int) else number)
        for key, value in delta.items() if isinstance(delta, dict) else ():
            choice.take(key, value, assembler.leave)
        if isinstance(reason, str) and choice.stop_reason is None:
            choice.stop_reason = reason
    return True


def _error(assembler: ChunkAssembler, event: Event) -> bool:
    error = event["error"]
    held = error if isinstance(error, Mapping) else {"message": str(error)}
    assembler.failure = assembler.fail(held, {"error": error}, began=bool(assembler.choices))
    return True


# A stream has no mark of its beginning and its end but the chunks; an error ends it.
STEPS: Final[dict[tuple[State, str], tuple[Step, State]]] = {
    **in_states((State.NEW, State.OPEN), {"chunk": (_chunk, State.OPEN)}),
    **in_states((State.NEW, State.OPEN, State.FAILED), {"error": (_error, State.FAILED)}),
}


def _word(holder: dict[str, Any], key: str) -> str | None:
    found = holder.get(key)
    return found if isinstance(found, str) and found else None
