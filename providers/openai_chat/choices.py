"""One choice of a stream: what its deltas brought, and what of it is whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from normalizer.parts import Text
from normalizer.providers.openai_chat import decoding, wire
from normalizer.reading.diagnostics import dump_any
from normalizer.reading.stream_choices import CallPieces, Choice, grow, tool_calls, unchanged

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from normalizer.parts import Part
    from normalizer.reading.stream_choices import Change


class ChatChoice(Choice):
    """Everything that came for one choice. The legacy call has no index."""

    says_empty: ClassVar[frozenset[str]] = frozenset(wire.REASONING_KEYS)

    def __init__(self, index: int, beside: Mapping[str, Any]) -> None:
        super().__init__(index, beside)
        self.reasoning: dict[str, Any] = {}
        self.audio: dict[str, Any] = {}
        self.legacy: CallPieces | None = None

    @property
    def deltas(self) -> Mapping[str, Change]:
        """What each key of a delta changes."""
        return DELTAS

    def fields(self, parts: tuple[Part, ...]) -> dict[str, Any]:
        """Text of a stream is one string."""
        return {"string": any(part.kind == "text" for part in parts)}

    def said(self) -> Iterator[Part]:
        """The parts that are whole, beside the calls. The last update of a recording brings its expiry."""
        if self.ended:
            thought = decoding.reasoning(self.reasoning)
            if thought is not None:
                yield thought
            if text := self.text("text"):
                yield Text(text)
            if refusal := self.text("refusal"):
                yield decoding.refusal(refusal)
        sound = decoding.stored_audio(self.audio)
        if sound is not None and (self.ended or "expires_at" in self.audio):
            yield sound

    def unsaid(self) -> Iterator[tuple[str, str]]:
        """Type and text of what is not whole."""
        for value in self.reasoning.values():
            if text := value if isinstance(value, str) else dump_any(value):
                yield "reasoning", text
        for kind in ("text", "refusal"):
            if text := self.text(kind):
                yield kind, text
        if self.audio and "expires_at" not in self.audio:
            yield "audio", dump_any(self.audio)

    def in_order(self) -> list[tuple[Any, CallPieces]]:
        """The calls in order of their index, the legacy one last."""
        return [*super().in_order(), *([(None, self.legacy)] if self.legacy is not None else ())]

    def call(self, index: Any, pieces: CallPieces) -> Part | None:
        """The part that a call is."""
        value = pieces.value()
        return decoding.call(value) if index is not None else decoding.legacy_call(value["function"])

    def message(self) -> dict[str, Any]:
        """All that came, as one message."""
        value: dict[str, Any] = {"role": "assistant", "content": self.text("text") or None}
        if refusal := self.text("refusal"):
            value["refusal"] = refusal
        if self.audio:
            value["audio"] = self.audio
        value |= self.reasoning
        if self.calls:
            value["tool_calls"] = [call.value() for index, call in self.in_order() if index is not None]
        return value


def _reason(key: str) -> Change:
    """Reasoning of a compatible server, under its key: a text, or a list of details."""

    def change(choice: ChatChoice, value: Any) -> bool:
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


def _sound(choice: ChatChoice, value: Any) -> bool:
    """Transcript and data get longer; the id stays what it was, the expiry comes last."""
    if not isinstance(value, dict) or not all(isinstance(value.get(key), str | None) for key in _GROWING):
        return False
    for key, item in value.items():
        if key in _GROWING and item is not None:
            choice.audio[key] = choice.audio.get(key, "") + item
        elif item is not None and not (key == "id" and choice.audio.get("id")):
            choice.audio[key] = item
    return True


def _legacy(choice: ChatChoice, value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    choice.legacy = choice.legacy or CallPieces()
    choice.legacy.add({"function": value})
    return True


# What each key of a delta changes. SDK: types/chat/chat_completion_chunk.py; the reasoning keys are those of
# compatible servers.
DELTAS: Final[dict[str, Change]] = {
    "role": unchanged,
    "content": grow("text"),
    "refusal": grow("refusal"),
    "tool_calls": tool_calls,
    "function_call": _legacy,
    "audio": _sound,
    **{key: _reason(key) for key in wire.REASONING_KEYS},
}
