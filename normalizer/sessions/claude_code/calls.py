"""What a Claude Code session says about calls: results, and signs of a start or an end in other lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from normalizer.facts import (
    ApprovalDenied,
    ApprovalRequested,
    CallSkipped,
    CallTerminated,
    OutputObserved,
    StartPermitted,
)
from normalizer.notices import MARK
from normalizer.parts import Json, Opaque, Text
from normalizer.providers.anthropic.decoding import part
from normalizer.sessions.claude_code.evidence import Told, prove
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Callable

    from normalizer.facts import Fact
    from normalizer.parts import Part
    from normalizer.reading.fact_builder import Recorder
    from normalizer.sessions.claude_code.evidence import Verdict
    from normalizer.sessions.claude_code.lines import Record

_RESULT_KEYS: Final = frozenset({"type", "tool_use_id", "content", "is_error"})


@dataclass(slots=True)
class Signs:
    """What lines beside the conversation show of calls, by call id (`prompts`: by the prompt of a sub-agent)."""

    started: dict[str, tuple[Record, Any]] = field(default_factory=dict)
    stopped: dict[str, tuple[Record, Any]] = field(default_factory=dict)
    output: dict[str, Record] = field(default_factory=dict)
    prompts: dict[str, tuple[Record, Any]] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)


class Calls:
    """Records facts about calls; `stopped` holds the ids of calls that the user's stop surely hit."""

    def __init__(self, data: bytes, recorder: Recorder, signs: Signs, stopped: frozenset[str]) -> None:
        self.data = data
        self.recorder = recorder
        self.signs = signs
        self.stopped = stopped
        self.shown: set[str] = set()

    def show_starts(self, parts: tuple[Part, ...]) -> None:
        """Signs of a start and of an end that other lines hold about the calls of this reply."""
        for piece in parts:
            if piece.kind != "tool_call" or not piece.id:
                continue
            started = self.signs.started.pop(piece.id, None)
            if (
                started is None
                and self.signs.prompts
                and piece.arguments.valid
                and type(piece.arguments.value) is dict
            ):
                prompt = piece.arguments.value.get("prompt")
                started = self.signs.prompts.pop(prompt, None) if isinstance(prompt, str) else None
            if started is not None:
                self.shown.add(piece.id)
                self._about(StartPermitted, f"{started[0].place}:started:{piece.id}", piece.id, started[1])
            if (
                output := self.signs.output.pop(piece.id, None)
            ) is not None and piece.id not in self.signs.answered:
                detail = output.value(self.data)["data"]
                text = _string(detail.get("fullOutput")) or _string(detail.get("output")) or ""
                if text:
                    self._about(
                        OutputObserved, f"{output.place}:output:{piece.id}", piece.id, None, text=text
                    )
            if (stopped := self.signs.stopped.pop(piece.id, None)) is not None:
                self.shown.add(piece.id)
                self._about(CallTerminated, f"{stopped[0].place}:stopped:{piece.id}", piece.id, stopped[1])

    def _about(
        self, make: Callable[..., Fact], place: str, wire_id: str | None, at: Any, **more: Any
    ) -> str | None:
        return self.recorder.about(place, wire_id, make, at=_time(at), **more)

    def result(self, place: str, value: dict[str, Any], block: dict[str, Any]) -> None:
        """What a result block of this line proves about its call."""
        given = block.get("tool_use_id")
        wire_id = given if isinstance(given, str) else None if given is None else str(given)
        content, text = _content(block)
        is_error = block.get("is_error") is True
        known = wire_id in self.recorder.uses
        if text.startswith(MARK):
            self._completed(place, value, block, wire_id, content, None, known=known)
            return
        hit = wire_id in self.stopped
        verdict = prove(Told(text, is_error, value, started=wire_id in self.shown, hit=hit))
        if verdict.proof == "completed":
            self._completed(place, value, block, wire_id, content, verdict.exit_code, known=known)
        elif not known:
            self.recorder.finding(
                "orphan_result",
                f"a result names the call {named(wire_id)}, which is not in the history",
                place,
                wire_id,
            )
            self.recorder.leftover(place, "result without its call", block)
        elif verdict.proof == "unknown":
            self.recorder.attest(place, wire_id, "unknown", evidence=verdict.evidence, raw=Json.of(block),
                                 at=_time(value.get("timestamp")))  # fmt: skip
        else:
            self._told_otherwise(place, value, wire_id, verdict)
            self.recorder.leftover(place, f"a result as the client worded it ({verdict.evidence})", block)

    def _completed(
        self, place: str, value: dict[str, Any], block: dict[str, Any], wire_id: str | None, content: Any,
        exit_code: int | None, *, known: bool,
    ) -> None:  # fmt: skip
        plain = known and _RESULT_KEYS.issuperset(block) and isinstance(block.get("content"), (str, list))
        if plain and isinstance(content, tuple):
            plain = not any(isinstance(item, str) for item in block["content"])
        more = {"exit_code": exit_code} if exit_code is not None else {}
        self.recorder.result(
            place, wire_id, content, is_error=block.get("is_error") is True, raw=None if plain else Json.of(block),
            at=_time(value.get("timestamp")), **more,
        )  # fmt: skip

    def _told_otherwise(
        self, place: str, value: dict[str, Any], wire_id: str | None, verdict: Verdict
    ) -> None:
        """A result that is the client's word, as the fact that it proves."""
        at = value.get("timestamp")
        if verdict.proof == "stopped":
            if verdict.output.strip():
                self._about(OutputObserved, f"{place}:output", wire_id, at, text=verdict.output)
            self._about(
                CallTerminated, place, wire_id, at, ends=True, by=verdict.by, exit_code=verdict.exit_code
            )
        elif verdict.proof == "denied":
            self._about(ApprovalDenied, place, wire_id, at, ends=True, by=verdict.by, reason=verdict.reason)
        elif verdict.proof == "skipped":
            self._about(CallSkipped, place, wire_id, at, ends=True, by=verdict.by, reason=verdict.reason)
        else:
            self._about(ApprovalRequested, place, wire_id, at, ends=True)


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _time(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _content(block: dict[str, Any]) -> tuple[Any, str]:
    """A result's content as text or parts, and its words."""
    content = block.get("content")
    if isinstance(content, str):
        return content, content
    if isinstance(content, list):
        parts = tuple(_result_part(item) for item in content)
        return parts, "\n".join(piece.text for piece in parts if isinstance(piece, Text))
    if content is None:
        return "", ""
    text = Json.of(content).text
    return text, text


def _result_part(block: Any) -> Any:
    found = part(block)
    if found.kind in ("text", "media", "opaque"):
        return found
    return Opaque(str(block.get("type")), Json.of(block))
