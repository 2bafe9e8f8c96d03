"""Replies whose parts begin, grow and end one by one, each under an index: Anthropic's content blocks and their like.

What came of a block stays apart until it is asked for: texts are joined, and an input is parsed, only as a whole.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from normalizer.parts import Json
from normalizer.reading.stream_assembler import Reply
from normalizer.reading.truncation import CUT_SHORT, begins_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from normalizer.parts import Part
    from normalizer.reading.stream_assembler import Broken


class Block(ABC):
    """One block: its start, and the pieces of text that came since, by the key that they belong to.

    `pieces["input"]` are those of a call's arguments, a JSON text.
    """

    def __init__(self, index: int | None, start: dict[str, Any]) -> None:
        self.index = index
        self.start = start
        self.pieces: dict[str, list[str]] = {}
        self.closed = False

    @property
    @abstractmethod
    def is_call(self) -> bool:
        """Whether it has arguments."""

    @abstractmethod
    def part(self) -> Part:
        """The part that the closed block is."""

    @abstractmethod
    def broken(self) -> Broken:
        """What there is of a block that is not whole."""

    def grow(self, key: str, piece: Any) -> bool:
        """Lengthen a text of the block; False for a piece that is no text."""
        if not isinstance(piece, str):
            return False
        self.pieces.setdefault(key, []).append(piece)
        return True

    def value(self) -> dict[str, Any]:
        """The block as received, with the texts that its pieces add up to; the input stays as it was at the start."""
        block = dict(self.start)
        for key, pieces in self.pieces.items():
            if key != "input":
                begun = block.get(key)
                block[key] = (begun if isinstance(begun, str) else "") + "".join(pieces)
        return block

    @property
    def input_text(self) -> str:
        """The input as far as it came. A start's `{}` only holds the place; a filled one is whole."""
        begun = self.start.get("input")
        return "".join(self.pieces.get("input", ())) or (Json.of(begun).text if begun else "")

    @property
    def has_input(self) -> bool:
        """Whether an input came that parses."""
        return Json(self.input_text).valid


B = TypeVar("B", bound=Block)


class Blocks(Reply, Generic[B]):
    """A reply of blocks. What was closed is whole, unless the reply's end cut it off all the same."""

    def __init__(self) -> None:
        self._beside: dict[str, Any] = {}
        self._blocks: list[B] = []
        self._open: dict[int | None, B] = {}

    @property
    def beside(self) -> dict[str, Any]:
        """What stands beside the content."""
        return self._beside

    def begin(self, block: B) -> None:
        """A block begins; deltas of its index are for it from here on."""
        self._blocks.append(block)
        self._open[block.index] = block

    def at(self, index: int | None) -> B | None:
        """The open block of an index."""
        return self._open.get(index)

    def close(self, index: int | None) -> bool:
        """A block ends; False if none of this index is open."""
        block = self._open.pop(index, None)
        if block is None:
            return False
        block.closed = True
        return True

    def whole(self) -> Sequence[B]:
        """The blocks that are whole."""
        return [block for block in self._blocks if block.closed and not self._cut_inside(block)]

    def parts(self) -> tuple[Part, ...]:
        """The parts that they are."""
        return tuple(block.part() for block in self.whole())

    def broken(self) -> Iterator[Broken]:
        """The other blocks."""
        return (block.broken() for block in self._blocks if not block.closed or self._cut_inside(block))

    def _cut_inside(self, block: B) -> bool:
        """Whether the reply's end cut off the input of a closed call. Only the last block can be hit.

        A limit or a refusal closes the call that it cuts, and then even an empty input is not whole. Where
        no stop reason came, that may be on its way: the beginning of a JSON text is not taken for all of it.
        """
        if not block.closed or not block.is_call or block is not self._blocks[-1]:
            return False
        if self.stop_reason in CUT_SHORT:
            return not block.has_input
        return not self.ended and not block.has_input and begins_json(block.input_text)
