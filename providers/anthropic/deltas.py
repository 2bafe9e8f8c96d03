"""One content block of a stream, as its start event and its deltas bring it.

What came stays apart until it is asked for: texts are joined, and an input is parsed, only as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from normalizer.findings import Finding, Fragment
from normalizer.parts import Json
from normalizer.providers.anthropic import decoding, wire
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from normalizer.parts import Part

CALLS: Final = frozenset({"tool_use"}) | wire.SERVER_CALLS


class Block:
    """One content block: its start, and the pieces that its deltas brought."""

    __slots__ = ("_part", "closed", "index", "pieces", "start", "type")

    def __init__(self, index: int | None, start: dict[str, Any]) -> None:
        self.index = index
        self.start = start
        self.type = _word(start.get("type")) or ""
        self.pieces: dict[str, list[str]] = {}
        self.closed = False
        self._part: Part | None = None

    def change(self, delta: dict[str, Any]) -> bool:
        """Take a delta; False if it is unknown or cannot be meant for such a block."""
        kind = delta.get("type")
        change, types = DELTAS.get(kind, (None, None)) if isinstance(kind, str) else (None, None)
        if change is None or types is None:
            return False
        known = self.type in wire.ASSISTANT_BLOCKS
        return (self.type in types or not known) and change(self, delta)

    def value(self) -> dict[str, Any]:
        """The block as received plus its deltas; an input stays as it was in the start event."""
        block = dict(self.start)
        for key, pieces in self.pieces.items():
            if key != "input":
                begun = block.get(key)
                block[key] = (begun if isinstance(begun, str) else "") + "".join(pieces)
        return block

    def part(self) -> Part:
        """The part that the closed block is."""
        if self._part is None:
            block = self.value()
            if self.type in CALLS or "input" in self.pieces:
                block["input"] = self._input()
            self._part = decoding.part(block)
        return self._part

    @property
    def input_text(self) -> str:
        """The input as far as it came. The start event's `{}` only holds the place; a filled one is whole."""
        begun = self.start.get("input")
        return "".join(self.pieces.get("input", ())) or (Json.of(begun).text if begun else "")

    @property
    def has_input(self) -> bool:
        """Whether an input came that parses."""
        return Json(self.input_text).valid

    def _input(self) -> Any:
        """The parsed input; the text itself where it is no object. Nothing, and null, are no arguments."""
        text = self.input_text
        given = Json(text)
        if not text.strip() or (given.valid and given.value is None):
            return {}
        return given.value if given.valid and isinstance(given.value, dict) else text

    def fragment(self) -> Fragment:
        """What came of a block that is not whole."""
        return Fragment(
            call_id=self._call_id,
            text=self._shown[1],
            reason="input_incomplete" if self.closed else "not_closed",
            type=self.type,
            index=self.index,
            name=_word(self.start.get("name")),
        )

    def finding(self, fact_id: str) -> Finding:
        """That only a beginning came."""
        what = f"call {named(self._call_id)}" if self.type in CALLS else f"a block of type {self.type!r}"
        return Finding(
            "fragment", f"only the beginning of {what} arrived", call_id=self._call_id, facts=(fact_id,)
        )

    @property
    def says_more_than_fragment(self) -> bool:
        """Whether something came that a fragment has no field for (a seal, a caller, a whole result)."""
        told = {"type", "name", "id", "tool_use_id", self._shown[0]}
        return any(value for key, value in self.value().items() if key not in told)

    @property
    def _call_id(self) -> str | None:
        return _word(self.start.get("id")) or _word(self.start.get("tool_use_id"))

    @property
    def _shown(self) -> tuple[str, str]:
        """The key whose text the fragment shows, and the text."""
        if self.type in CALLS or "input" in self.pieces:
            return "input", self.input_text
        block = self.value()
        for key in ("text", "thinking", "content"):
            if isinstance(block.get(key), str):
                return key, block[key]
        return "", ""


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) else None


Change: TypeAlias = Callable[[Block, dict[str, Any]], bool]


def _grow(field: str, key: str) -> Change:
    """Deltas that lengthen a text of the block."""

    def change(block: Block, delta: dict[str, Any]) -> bool:
        piece = delta.get(field)
        if not isinstance(piece, str):
            return False
        block.pieces.setdefault(key, []).append(piece)
        return True

    return change


def _put(*fields: str) -> Change:
    """Deltas that bring values whole; null is no value."""

    def change(block: Block, delta: dict[str, Any]) -> bool:
        block.start.update({field: delta[field] for field in fields if delta.get(field) is not None})
        return True

    return change


def _cite(block: Block, delta: dict[str, Any]) -> bool:
    """One more citation."""
    citation, cited = delta.get("citation"), block.start.get("citations")
    if citation is None:
        return False
    block.start["citations"] = [*(cited if isinstance(cited, list) else ()), citation]
    return True


# How each delta changes its block, and which blocks it is for. A block of an unknown type takes any delta.
# Their list is in the SDK, types/beta/beta_raw_content_block_delta.py
DELTAS: Final[dict[str, tuple[Change, frozenset[str]]]] = {
    "text_delta": (_grow("text", "text"), frozenset({"text", "connector_text"})),
    "thinking_delta": (_grow("thinking", "thinking"), frozenset({"thinking"})),
    "input_json_delta": (_grow("partial_json", "input"), CALLS),
    "signature_delta": (_put("signature"), frozenset({"thinking", "connector_text"})),
    "compaction_delta": (_put("content", "encrypted_content"), frozenset({"compaction"})),
    "citations_delta": (_cite, frozenset({"text"})),
}
