"""One response of a stream, as its events bring it: items that are done, and beginnings of items.

The item of `output_item.done` replaces what deltas built up, the final response replaces both. The order is that of
`output_index`, which is a key and may have gaps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.findings import Fragment, Leftover
from normalizer.providers.openai_responses import decoding, output_decoding
from normalizer.reading.diagnostics import dump_any, only_the_beginning
from normalizer.reading.stream_assembler import Broken, Failure, Reply

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from normalizer.parts import Part
    from normalizer.providers.openai_responses.decoding import Item

_TEXT_EVENTS: Final = ("delta", "text", "arguments", "input", "code", "refusal", "command")


class _Begun:
    """An item that was added: its first form, and the pieces of text that came since, by their place in it."""

    __slots__ = ("item", "pieces")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.pieces: dict[tuple[Any, ...], str] = {}

    def text(self) -> str:
        """All that can be read of it."""
        if not self.pieces:
            return decoding.text_of(self.item)
        if decoding.kind(self.item) == "shell_call":
            return "\n".join(self.pieces.values())
        return "".join(self.pieces.values())


class Response(Reply):
    """One response."""

    def __init__(self, about: dict[str, Any]) -> None:
        self.id = about.get("id")
        self._about = about
        self._begun: dict[int, _Begun] = {}
        self._items: dict[int, Item] = {}
        self._kind: str | None = None

    # ------------------------------------------------------------ events

    def begin(self, index: int, item: Item) -> None:
        """An item began."""
        self._begun[index] = _Begun(item)

    def finish(self, index: int, item: Item) -> None:
        """An item is done."""
        self._items[index] = item

    def add(self, event: Mapping[str, Any]) -> bool:
        """A piece of an item; False if no item of that place has begun."""
        index = event.get("output_index")
        begun = self._begun.get(index) if isinstance(index, int) else None
        if begun is None:
            return isinstance(index, int) and index in self._items
        kind = str(event["type"])
        stem, _, what = kind.rpartition(".")
        if stem.endswith("_part"):
            return True
        keys = ("content_index", "summary_index", "command_index")
        place = (stem.removesuffix("_text"), *(event[key] for key in keys if isinstance(event.get(key), int)))
        text = next((event[key] for key in _TEXT_EVENTS if isinstance(event.get(key), str)), "")
        begun.pieces[place] = begun.pieces.get(place, "") + text if what == "delta" else text
        return True

    def end(self, kind: str, response: dict[str, Any]) -> None:
        """The final response came; its output, if it has one, is the truth."""
        self._kind = kind
        self._about = response
        self.id = response.get("id", self.id)
        self.stop_reason = output_decoding.stop_reason(response) or kind
        refused = self.failure is not None and self.failure.refused
        self.failure = Failure(output_decoding.error_text(response.get("error")), refused)
        found = response.get("output")
        if not isinstance(found, list) or not found or kind in ("failed", "cancelled"):
            return
        by_id = {item.get("id"): n for n, item in self._items.items() if isinstance(item.get("id"), str)}
        begun = {b.item.get("id"): n for n, b in self._begun.items() if isinstance(b.item.get("id"), str)}
        taken: dict[int, Item] = {}
        for position, item in enumerate(found):
            if isinstance(item, dict):
                known = decoding.word(item, "id")
                index = by_id.get(known, begun.get(known)) if known is not None else None
                while index is None or index in taken:
                    index = position if index is None else index + 1
                taken[index] = item
        # what was done and is not repeated stays done
        self._items = {**{n: item for n, item in self._items.items() if n not in taken}, **taken}

    def fail(self, event: Mapping[str, Any], refusing: AbstractSet[str | None]) -> None:
        """An error ended it; one of the kinds in `refusing` refused the request itself, if nothing had come."""
        self._kind = "failed"
        self.stop_reason = output_decoding.stop_reason(self._about) or "failed"
        held = event.get("error")
        if not isinstance(held, dict):
            held = {"code": event.get("code"), "message": event.get("message")}
        codes = {decoding.word(held, "code"), decoding.word(held, "type")}
        refused = bool(codes & refusing) and not self._begun and not self._items
        self.failure = Failure(output_decoding.error_text(held), refused)

    # ------------------------------------------------------------ what has come

    @property
    def ended(self) -> bool:
        """Whether it ended by itself, whole or not."""
        return self._kind in ("completed", "incomplete")

    @property
    def beside(self) -> dict[str, Any]:
        """Everything but the items."""
        return {key: value for key, value in self._about.items() if key != "output"}

    def waiting(self, parts: tuple[Part, ...]) -> tuple[str, ...]:
        """The server's calls and questions, where the response will not go on by itself."""
        return super().waiting(parts) if self.ended else ()

    def _broken(self) -> Iterator[tuple[int, Item, str, str]]:
        """Index, item, text and reason of everything that is not whole."""
        for index in sorted({*self._items, *self._begun}):
            item = self._items.get(index)
            if item is not None:
                if (reason := decoding.fragment_reason(item)) is not None:
                    begun = self._begun.get(index)
                    yield index, item, decoding.text_of(item) or (begun.text() if begun else ""), reason
            else:
                begun = self._begun[index]
                reason = "failed" if self._kind == "failed" else self._kind or "cut"
                yield index, begun.item, begun.text(), "incomplete" if reason == "completed" else reason

    def parts(self) -> tuple[Part, ...]:
        """The parts of all whole items, in order."""
        pairing = decoding.Pairing()
        found: list[Part] = []
        broken = {index for index, *_ in self._broken()}
        for index in sorted({*self._items, *self._begun}):
            if index in broken:
                output_decoding.leave_alone(found)
            else:
                found.extend(pairing.parts(self._items[index], str(index)))
        return tuple(found)

    def broken(self) -> Iterator[Broken]:
        """What is not whole, with the item as far as it came."""
        for index, item, text, reason in self._broken():
            kind, call_id, name = decoding.kind(item), item.get("call_id"), item.get("name")
            fragment = Fragment(
                call_id if isinstance(call_id, str) else None, text, reason, kind, index,
                name if isinstance(name, str) else None,
            )  # fmt: skip
            rest = Leftover("an item that is not whole", dump_any(item))
            yield Broken(fragment, f"{only_the_beginning(f'a {kind} item')} ({reason})", rest)
