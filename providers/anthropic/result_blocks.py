"""The blocks of a result: what the API takes in this one, what stands behind it, and what is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.parts import Json
from normalizer.projection import Adjustment
from normalizer.providers.anthropic import encoding, pictures, schema_keys, soundness, wire

if TYPE_CHECKING:
    from normalizer.facts import CallFact
    from normalizer.projecting.incremental import Rendered
    from normalizer.providers.anthropic.render import Out, Renderer
    from normalizer.providers.anthropic.user_turn import Side
    from normalizer.transcript import Call

_TEXT_ONLY: Final = frozenset({"text"})
_TOOLSET: Final = frozenset({"text", "image"})
_BROWSER: Final = "browser"

_MOVABLE: Final = frozenset({"image", "document", "search_result", "text"})
"""What may stand behind the results, as a block of the user's."""


def fitting(
    renderer: Renderer,
    call: Call,
    fact: CallFact,
    block: dict[str, Any],
    side: Side,
    rendered: Rendered[Any],
    out: Out,
) -> dict[str, Any]:
    """A result's list of blocks, as far as the API takes it in this result; the rest is moved behind or left out."""
    given: list[dict[str, Any]] = block["content"]
    raw = call.part.raw.value if call.part.raw is not None else {}
    made_by = raw.get("caller") if isinstance(raw, dict) else None
    programmatic = isinstance(made_by, dict) and made_by.get("type", "direct") != "direct"
    if block.get("is_error") or programmatic:
        allowed, because = _TEXT_ONLY, "ANT-PTC-003" if programmatic else "ANT-RES-002"
    elif own := toolset(call):
        allowed, because = _TOOLSET | ({"browser_state"} if own == _BROWSER else set()), "ANT-RES-009"
    else:
        allowed, because = _allowed(renderer), "ANT-RES-001"
        hits = sum(b.get("type") == "search_result" and encoding.usable(b) for b in given)
        if 0 < hits < len(given):
            allowed, because = frozenset({"search_result"}), "ANT-RES-007"
    kept: list[dict[str, Any]] = []
    for inner in given:
        kind = wire.word(inner, "type")
        if kind == "text" and not str(inner.get("text") or "").strip():
            _note(rendered, "dropped_empty", "a blank text in a result is left out", "ANT-RES-004", call, fact,
                  inner)  # fmt: skip
        elif (
            kind in ("image", "document")
            and (shown := pictures.honest(inner, rendered.adjustments, fact.fact_id)) is not inner
        ):
            if shown is None:
                _note(rendered, "media_moved", f"a {kind} that the API cannot take is left out", "ANT-BLK-006", call,
                      fact, inner)  # fmt: skip
            elif kind in allowed:
                kept.append(shown)
            else:
                side.later.append(shown)
        elif kind != "text" and not soundness.sound(renderer, inner, kept):
            message = f"a {kind} block that the API cannot take is left out"
            _note(rendered, "media_moved", message, soundness.UNSOUND[str(kind)], call, fact, inner)
        elif kind in allowed and soundness.sound(renderer, inner, kept):
            trimmed = {k: v for k, v in inner.items() if k in schema_keys.BLOCK_KEYS.get(str(kind), inner)}
            if trimmed != inner:
                _note(rendered, "trimmed", "a block in a result has keys that the API does not know", "ANT-MSG-004",
                      call, fact, inner)  # fmt: skip
            kept.append(inner if trimmed == inner else trimmed)
        elif kind in _MOVABLE and not programmatic and soundness.sound(renderer, inner, kept):
            side.later.append(inner)
            _note(rendered, "media_moved", f"a {kind} block may not stand in this result: it is sent behind it",
                  because, call, fact, None)  # fmt: skip
        elif kind in ("image", "document", "search_result", "browser_state", "tool_reference"):
            _note(rendered, "media_moved", f"a {kind} block may not stand in this result and is left out", because,
                  call, fact, inner)  # fmt: skip
        else:
            kept.append({"type": "text", "text": Json.of(inner).text})
            _note(rendered, "told_as_text", f"a {kind!r} block in a result is sent as its JSON text", because, call,
                  fact, None)  # fmt: skip
    if len(kept) == len(given) and all(a is b for a, b in zip(kept, given, strict=True)) and kept:
        return block
    out.changed = True
    return {**block, "content": kept or ""}


def _allowed(renderer: Renderer) -> frozenset[str]:
    """What the result of a tool of no toolset may hold: the state of a browser only where there is one."""
    browser = any(
        (wire.word(t, "type") or "").startswith(wire.BROWSER_TOOLSET) for t in renderer.head.tools_at(None)
    )
    return wire.RESULT_BLOCKS if browser else wire.RESULT_BLOCKS - {"browser_state"}


def toolset(call: Call) -> str | None:
    """The toolset that a call names, under which it is answered."""
    raw = call.part.raw.value if call.part.raw is not None else None
    return wire.word(raw, "toolset_name") or None


def _note(
    rendered: Rendered[Any], kind: Any, message: str, because: str, call: Call, fact: CallFact, inner: Any
) -> None:
    content = Json.of(inner).text if inner is not None else None
    rendered.adjustments.append(Adjustment(kind, message, because, call.key, (fact.fact_id,), content))
