"""One choice of a stream: what its deltas brought, and what of it is whole.

Chat has no end mark for a text or a call, only `finish_reason` for the whole choice; so a choice without one has
nothing whole in it, and one that a limit ended was still writing the call with the highest index.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from normalizer.findings import Fragment
from normalizer.parts import Json, Text
from normalizer.providers.openai_chat import decoding, wire
from normalizer.reading.diagnostics import dump_any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from normalizer.parts import Part

NO_FINISH: Final = "no_finish"
NO_ID: Final = "no_id"


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


class Choice:
    """Everything that came for one choice."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.finish: str | None = None
        self.text: list[str] = []
        self.refusal: list[str] = []
        self.reasoning: dict[str, Any] = {}
        self.audio: dict[str, Any] = {}
        self.calls: dict[Any, CallPieces] = {}
        self.legacy: CallPieces | None = None

    def change(self, key: str, value: Any) -> bool:
        """Take one key of a delta; False where it is unknown or cannot be understood."""
        change = DELTAS.get(key)
        return change is not None and change(self, value)

    # ------------------------------------------------------------ what is whole

    def parts(self) -> tuple[Part, ...]:
        """The parts that are whole."""
        return tuple(part for part, why in self._all() if why is None)

    def fragments(self) -> Iterator[Fragment]:
        """What is not."""
        pointer = f"/choices/{self.index}"
        if self.finish is None:
            words = {**{k: v if isinstance(v, str) else dump_any(v) for k, v in self.reasoning.items()}}
            for kind, text in (
                *words.items(),
                ("text", "".join(self.text)),
                ("refusal", "".join(self.refusal)),
            ):
                if text:
                    name = "reasoning" if kind in wire.REASONING_KEYS else kind
                    yield Fragment(None, text, NO_FINISH, type=name, pointer=pointer)
            if self.audio and not self._audio_whole:
                yield Fragment(None, dump_any(self.audio), NO_FINISH, type="audio", pointer=pointer)
        for index, call, why in self._calls():
            if why is not None:
                kind = "custom_tool_call" if call.type == "custom" else "tool_call"
                yield Fragment(
                    call.id, "".join(call.text), why, kind if index is not None else "function_call",
                    index if isinstance(index, int) else None, call.name, pointer=pointer,
                )  # fmt: skip

    def _all(self) -> Iterator[tuple[Part, str | None]]:
        why = NO_FINISH if self.finish is None else None
        thought = decoding.reasoning(self.reasoning)
        if thought is not None:
            yield thought, why
        if text := "".join(self.text):
            yield Text(text), why
        if refusal := "".join(self.refusal):
            yield decoding.refusal(refusal), why
        sound = decoding.stored_audio(self.audio)
        if sound is not None:
            yield sound, None if self._audio_whole else why
        for index, call, broken in self._calls():
            made = (
                decoding.call(call.value())
                if index is not None
                else decoding.legacy_call(call.value()["function"])
            )
            if made is not None:
                yield made, broken

    @property
    def _audio_whole(self) -> bool:
        """The last update of a recording brings its expiry."""
        return self.finish is not None or "expires_at" in self.audio

    def _calls(self) -> Iterator[tuple[Any, CallPieces, str | None]]:
        """The calls in order of their index, and why one is not whole. The legacy call has no index."""
        found: list[tuple[Any, CallPieces]] = sorted(
            self.calls.items(), key=lambda item: (str(type(item[0])), item[0])
        )
        if self.legacy is not None:
            found.append((None, self.legacy))
        for number, (index, call) in enumerate(found):
            yield index, call, self._why_not(call, last=number == len(found) - 1)

    def _why_not(self, call: CallPieces, *, last: bool) -> str | None:
        if self.finish is None:
            return NO_FINISH
        if self.finish == "content_filter" or (self.finish == "length" and (last or not call.parses)):
            return self.finish
        return None if call.name else NO_ID

    def runnable(self) -> tuple[str, ...]:
        """Ids of the calls that are whole and whose arguments can be read."""
        if self.finish not in wire.ENDS_WHOLE:
            return ()
        found = [call.id for _, call, why in self._calls() if why is None and call.parses]
        return tuple(dict.fromkeys(wire_id for wire_id in found if wire_id))

    def message(self) -> dict[str, Any]:
        """All that came, as one message."""
        value: dict[str, Any] = {"role": "assistant", "content": "".join(self.text) or None}
        if self.refusal:
            value["refusal"] = "".join(self.refusal)
        if self.audio:
            value["audio"] = self.audio
        value |= self.reasoning
        if self.calls:
            value["tool_calls"] = [call.value() for index, call, _ in self._calls() if index is not None]
        return value


Change: TypeAlias = Callable[[Choice, Any], bool]


def _grow(name: str) -> Change:
    """A text that gets longer."""

    def change(choice: Choice, value: Any) -> bool:
        if not isinstance(value, str):
            return False
        if value:
            getattr(choice, name).append(value)
        return True

    return change


def _reason(key: str) -> Change:
    """Reasoning of a compatible server, under its key: a text, or a list of details."""

    def change(choice: Choice, value: Any) -> bool:
        held = choice.reasoning.get(key)
        if isinstance(value, str) and isinstance(held, str | None):
            choice.reasoning[key] = (held or "") + value
            return True
        if isinstance(value, list) and not isinstance(held, str):
            choice.reasoning[key] = [*(held or ()), *value]
            return True
        return False

    return change


_GROWING: Final = ("transcript", "data")


def _sound(choice: Choice, value: Any) -> bool:
    """Transcript and data get longer; the id stays what it was, the expiry comes last."""
    if not isinstance(value, dict) or not all(isinstance(value.get(key), str | None) for key in _GROWING):
        return False
    for key, item in value.items():
        if key in _GROWING and item is not None:
            choice.audio[key] = choice.audio.get(key, "") + item
        elif item is not None and not (key == "id" and choice.audio.get("id")):
            choice.audio[key] = item
    return True


def _call(choice: Choice, value: Any) -> bool:
    if not isinstance(value, list) or not all(isinstance(delta, dict) for delta in value):
        return False
    for number, delta in enumerate(value):
        index = delta.get("index")
        key = index if isinstance(index, int) else number
        choice.calls.setdefault(key, CallPieces()).add(delta)
    return True


def _legacy(choice: Choice, value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    choice.legacy = choice.legacy or CallPieces()
    choice.legacy.add({"function": value})
    return True


def _nothing(_choice: Choice, _value: Any) -> bool:
    return True


_CALL_KEYS: Final = frozenset({"index", "id", "type", "function", "custom"})

# What each key of a delta changes. SDK: types/chat/chat_completion_chunk.py; the reasoning keys are those of
# compatible servers.
DELTAS: Final[dict[str, Change]] = {
    "role": _nothing,
    "content": _grow("text"),
    "refusal": _grow("refusal"),
    "tool_calls": _call,
    "function_call": _legacy,
    "audio": _sound,
    **{key: _reason(key) for key in wire.REASONING_KEYS},
}


def _word(holder: dict[str, Any], key: str) -> str | None:
    found = holder.get(key)
    return found if isinstance(found, str) and found else None
