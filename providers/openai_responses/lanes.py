"""One response of a stream, as its events bring it: items that are done, and beginnings of items.

The item of `output_item.done` replaces what deltas built up, the final response replaces both. The order is that of
`output_index`, which is a key and may have gaps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.findings import Finding, Fragment, Leftover
from normalizer.parts import Json
from normalizer.providers.openai_responses import decoding, output_decoding
from normalizer.reading.diagnostics import dump_any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from normalizer.parts import Part
    from normalizer.providers.openai_responses.decoding import Item

# Errors by which the API refuses the request itself. https://developers.openai.com/api/docs/guides/error-codes
_REFUSING: Final = frozenset(
    {
        "invalid_request_error", "invalid_prompt", "invalid_api_key", "invalid_value", "invalid_type",
        "unknown_parameter", "missing_required_parameter", "context_length_exceeded", "model_not_found",
        "previous_response_not_found", "invalid_encrypted_content", "insufficient_quota", "array_above_max_length",
        "string_above_max_length",
    }
)  # fmt: skip
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


class Response:
    """One response. `ended`: how it ended is known, and it did not fail."""

    def __init__(self, about: dict[str, Any]) -> None:
        self.id = about.get("id")
        self._about = about
        self._begun: dict[int, _Begun] = {}
        self._items: dict[int, Item] = {}
        self._final = False
        self._kind: str | None = None
        self._error: Any = None
        self.refused = False

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
        self._error = response.get("error")
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

    def fail(self, event: Mapping[str, Any]) -> None:
        """An error ended it."""
        self._kind = "failed"
        held = event.get("error")
        self._error = (
            held if isinstance(held, dict) else {"code": event.get("code"), "message": event.get("message")}
        )
        code = {decoding.word(self._error, "code"), decoding.word(self._error, "type")}
        self.refused = bool(code & _REFUSING) and not self._begun and not self._items

    # ------------------------------------------------------------ what has come

    @property
    def ended(self) -> bool:
        """Whether it ended by itself, whole or not."""
        return self._kind in ("completed", "incomplete")

    @property
    def stop_reason(self) -> str | None:
        """How it ended."""
        return (output_decoding.stop_reason(self._about) or self._kind) if self._kind is not None else None

    @property
    def error(self) -> str | None:
        """What was reported, on one line."""
        return output_decoding.error_text(self._error)

    @property
    def model(self) -> str | None:
        """Who wrote it."""
        found = self._about.get("model")
        return found if isinstance(found, str) else None

    def beside(self) -> Json | None:
        """Everything but the items."""
        rest = {key: value for key, value in self._about.items() if key != "output"}
        return Json.of(rest) if rest else None

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

    def fragments(self) -> Iterator[Fragment]:
        """What is not whole."""
        for index, item, text, reason in self._broken():
            call_id, name = item.get("call_id"), item.get("name")
            yield Fragment(
                call_id if isinstance(call_id, str) else None, text, reason, decoding.kind(item), index,
                name if isinstance(name, str) else None,
            )  # fmt: skip

    def leftovers(self) -> Iterator[Leftover]:
        """The items that are not whole, as far as they came."""
        for _, item, _, _ in self._broken():
            yield Leftover("an item that is not whole", dump_any(item))

    def findings(self, fact_id: str) -> Iterator[Finding]:
        """One finding for each item that is not whole."""
        for _, item, _, reason in self._broken():
            call_id = item.get("call_id")
            yield Finding(
                "fragment", f"only the beginning of a {decoding.kind(item)} item arrived ({reason})",
                call_id=call_id if isinstance(call_id, str) else None, facts=(fact_id,),
            )  # fmt: skip
