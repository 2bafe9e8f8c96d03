"""One content block of a stream, as its start event and its deltas bring it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from normalizer.findings import Fragment, Leftover
from normalizer.parts import Json
from normalizer.providers.anthropic import decoding, wire
from normalizer.reading.diagnostics import dump_any
from normalizer.reading.stream_assembler import beginning
from normalizer.reading.stream_blocks import Block
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from normalizer.parts import Part
    from normalizer.reading.stream_assembler import Broken

CALLS: Final = frozenset({"tool_use"}) | wire.SERVER_CALLS


class ContentBlock(Block):
    """One content block."""

    def __init__(self, index: int | None, start: dict[str, Any]) -> None:
        super().__init__(index, start)
        self.type = _word(start.get("type")) or ""
        self._part: Part | None = None

    @property
    def is_call(self) -> bool:
        """Whether it is a call, the client's or the server's."""
        return self.type in CALLS

    def change(self, delta: dict[str, Any]) -> bool:
        """Take a delta; False if it is unknown or cannot be meant for such a block."""
        kind = delta.get("type")
        change, types = DELTAS.get(kind, (None, None)) if isinstance(kind, str) else (None, None)
        if change is None or types is None:
            return False
        known = self.type in wire.ASSISTANT_BLOCKS
        return (self.type in types or not known) and change(self, delta)

    def part(self) -> Part:
        """The part that the closed block is."""
        if self._part is None:
            block = self.value()
            if self.is_call or "input" in self.pieces:
                block["input"] = self._input()
            self._part = decoding.part(block)
        return self._part

    def _input(self) -> Any:
        """The parsed input; the text itself where it is no object. Nothing, and null, are no arguments."""
        text = self.input_text
        given = Json(text)
        if not text.strip() or (given.valid and given.value is None):
            return {}
        return given.value if given.valid and isinstance(given.value, dict) else text

    def broken(self) -> Broken:
        """What came of a block that is not whole, and the block where it says more than a fragment can (a signature,
        a caller, a whole result).
        """
        key, text = self._shown
        call_id = _word(self.start.get("id")) or _word(self.start.get("tool_use_id"))
        told = {"type", "name", "id", "tool_use_id", key}
        value, rest = self.value(), None
        if any(held for name, held in value.items() if name not in told):
            rest = Leftover("rest of a fragment", dump_any({"index": self.index, "content_block": value}))
        fragment = Fragment(
            call_id=call_id, text=text, reason="input_incomplete" if self.closed else "not_closed", type=self.type,
            index=self.index, name=_word(self.start.get("name")),
        )  # fmt: skip
        what = f"call {named(call_id)}" if self.is_call else f"a block of type {self.type!r}"
        return beginning(fragment, what, rest)

    @property
    def _shown(self) -> tuple[str, str]:
        """The key whose text the fragment shows, and the text."""
        if self.is_call or "input" in self.pieces:
            return "input", self.input_text
        block = self.value()
        for key in ("text", "thinking", "content"):
            if isinstance(block.get(key), str):
                return key, block[key]
        return "", ""


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) else None


Change: TypeAlias = Callable[[ContentBlock, dict[str, Any]], bool]


def _grow(field: str, key: str) -> Change:
    """Deltas that lengthen a text of the block."""
    return lambda block, delta: block.grow(key, delta.get(field))


def _put(*fields: str) -> Change:
    """Deltas that bring values whole; null is no value."""

    def change(block: ContentBlock, delta: dict[str, Any]) -> bool:
        block.start.update({field: delta[field] for field in fields if delta.get(field) is not None})
        return True

    return change


def _cite(block: ContentBlock, delta: dict[str, Any]) -> bool:
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
