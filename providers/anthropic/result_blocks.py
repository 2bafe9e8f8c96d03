"""The blocks of a result: what the API takes in this one, what stands behind it, and what is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from normalizer.parts import Json
from normalizer.providers.anthropic import calls, encoding, pictures, schema_keys, soundness, wire
from normalizer.providers.anthropic.context import Displaced, notes_of

if TYPE_CHECKING:
    from normalizer.facts import CallFact
    from normalizer.projecting.draft import Draft, Value
    from normalizer.projecting.user_turn import UserTurn
    from normalizer.projection import AdjustmentKind
    from normalizer.providers.anthropic.context import ClaudeContext
    from normalizer.transcript import Call

_TEXT_ONLY: Final = frozenset({"text"})
_TOOLSET: Final = frozenset({"text", "image"})
_BROWSER: Final = "browser"

_MOVABLE: Final = frozenset({"image", "document", "search_result", "text"})
"""What may stand behind the results, as a block of the user's."""
_LEFT_OUT: Final = frozenset({"image", "document", "search_result", "browser_state", "tool_reference"})


def fitting(claude: ClaudeContext, call: Call, fact: CallFact, block: Value, draft: Draft) -> Value:
    """A result's list of blocks, as far as the API takes it in this result; the rest is moved behind or left out."""
    given: list[Value] = block["content"]
    fit = _Fitting(claude, call, fact, draft, *_taken(claude, call, block))
    for inner in given:
        fit.put(inner)
    kept = fit.kept
    if len(kept) == len(given) and all(a is b for a, b in zip(kept, given, strict=True)) and kept:
        return block
    draft.changed = True
    return {**block, "content": kept or ""}


def _taken(claude: ClaudeContext, call: Call, block: Value) -> tuple[frozenset[str], str, bool]:
    """The types that this result may hold, the rule that says so, and whether code made the call."""
    programmatic = calls.caller(call.part) is not None
    if block.get("is_error") or programmatic:
        return _TEXT_ONLY, "ANT-PTC-003" if programmatic else "ANT-RES-002", programmatic
    if own := calls.toolset(call.part):
        return _TOOLSET | ({"browser_state"} if own == _BROWSER else set()), "ANT-RES-009", False
    given = block["content"]
    hits = sum(b.get("type") == "search_result" and encoding.usable(b) for b in given)
    if 0 < hits < len(given):
        return frozenset({"search_result"}), "ANT-RES-007", False
    return _allowed(claude), "ANT-RES-001", False


class _Fitting:
    """The blocks of one result while they are looked at. `kept` are those that stay in it."""

    def __init__(
        self, claude: ClaudeContext, call: Call, fact: CallFact, draft: Draft, allowed: frozenset[str],
        because: str, programmatic: bool,
    ) -> None:  # fmt: skip
        self.claude, self.call, self.fact, self.draft = claude, call, fact, draft
        self.allowed, self.because, self.programmatic = allowed, because, programmatic
        self.kept: list[Value] = []

    def put(self, inner: Value) -> None:
        """One block: into the result, behind it, or out."""
        kind = wire.word(inner, "type")
        if kind == "text" and not str(inner.get("text") or "").strip():
            self._note("dropped_empty", "a blank text in a result is left out", "ANT-RES-004", inner)
            return
        shown = inner
        if kind in ("image", "document"):
            found = pictures.honest(inner, self.draft.reports, self.fact.fact_id)
            if found is None:
                message = f"a {kind} that the API cannot take is left out"
                self._note("media_moved", message, "ANT-BLK-006", inner)
                return
            shown = found
        if not soundness.sound(self.claude.head, shown, self.kept):
            if kind == "text":
                self._as_json(kind, inner)
            else:
                message = f"a {kind} block that the API cannot take is left out"
                self._note("media_moved", message, soundness.UNSOUND[str(kind)], inner)
        elif kind in self.allowed:
            self._keep(kind, shown)
        elif kind in _MOVABLE and not self.programmatic:
            message = f"a {kind} block may not stand in this result"
            moved = Displaced(shown, "media_moved", message, self.because, self.call, self.fact)
            notes_of(self.draft).displaced.append(moved)
        elif kind in _LEFT_OUT:
            message = f"a {kind} block may not stand in this result and is left out"
            self._note("media_moved", message, self.because, inner)
        else:
            self._as_json(kind, inner)

    def _keep(self, kind: str | None, inner: Value) -> None:
        trimmed = {k: v for k, v in inner.items() if k in schema_keys.BLOCK_KEYS.get(str(kind), inner)}
        if trimmed != inner:
            message = "a block in a result has keys that the API does not know"
            self._note("trimmed", message, "unmapped", inner)
        self.kept.append(inner if trimmed == inner else trimmed)

    def _as_json(self, kind: str | None, inner: Value) -> None:
        self.kept.append({"type": "text", "text": Json.of(inner).text})
        self._note(
            "told_as_text", f"a {kind!r} block in a result is sent as its JSON text", self.because, None
        )

    def _note(self, kind: AdjustmentKind, message: str, cause: str, inner: Value | None) -> None:
        content = Json.of(inner).text if inner is not None else None
        self.draft.reports.result(self.call, self.fact, kind, message, cause, content)


def put_behind(moved: Displaced, turn: UserTurn, draft: Draft) -> None:
    """A block that may not stand in its result comes behind all results, unless nothing may stand there."""
    closed = bool(draft.held)
    if not closed:
        turn.add([moved.block])
    message = f"{moved.message}{' and is left out' if closed else ': it is sent behind it'}"
    content = Json.of(moved.block).text if closed else None
    draft.reports.result(moved.call, moved.fact, moved.kind, message, moved.because, content)


def _allowed(claude: ClaudeContext) -> frozenset[str]:
    """What the result of a tool of no toolset may hold: the state of a browser only where there is one."""
    browser = any(
        (wire.word(t, "type") or "").startswith(wire.BROWSER_TOOLSET) for t in claude.head.tools_at(None)
    )
    return wire.RESULT_BLOCKS if browser else wire.RESULT_BLOCKS - {"browser_state"}
