"""What is wrong with an input, and what of it is no fact, as a reader comes upon it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from normalizer.findings import Finding, Fragment, Leftover
from normalizer.parts import Json
from normalizer.util.redaction import named
from normalizer.util.text import excerpt

if TYPE_CHECKING:
    from normalizer.findings import FindingKind

_LONGEST_ERROR: Final = 200


class Finder:
    """Collects them. `place` arguments are JSON pointers into the input, or `L12` and a pointer, in files of lines."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.leftovers: list[Leftover] = []
        self.fragments: list[Fragment] = []

    def finding(
        self, kind: FindingKind, message: str, place: str | None = None, call_id: str | None = None
    ) -> None:
        """Something wrong, at a place."""
        line, pointer = _split(place)
        self.findings.append(Finding(kind, message, line, pointer, call_id, (place,) if place else ()))

    def leftover(self, place: str, reason: str, value: Any) -> None:
        """A piece of the input that is no fact, whole."""
        line, pointer = _split(place)
        text = value if isinstance(value, str) else value.text if isinstance(value, Json) else dump_any(value)
        self.leftovers.append(Leftover(reason, text, line, pointer))

    def bare_texts(self, place: str, content: Any) -> None:
        """The texts in the list at a place, where blocks belong: each is read as a block of text."""
        for number, block in enumerate(content if isinstance(content, list) else ()):
            if isinstance(block, str):
                message = "a text stands where a block belongs; it is read as a block of text"
                self.finding("unknown_block", message, f"{place}/{number}")

    def no_object(self, place: str, value: Any, what: str = "a message") -> None:
        """Something else than an object stands where a message (or `what` the API calls it) belongs."""
        self.finding("bad_line", f"{what} is not an object", place)
        self.leftover(place, f"{what} that is not an object", value)

    def no_content(self, place: str, value: Any) -> None:
        """A message's content is neither a text nor a list."""
        self.finding("bad_line", "the content of a message is neither text nor a list of blocks", place)
        self.leftover(place, "content that is neither text nor blocks", value)

    def unknown_role(self, place: str, message: dict[str, Any]) -> None:
        """A message of a role that no reader knows."""
        self.finding("unknown_block", f"a message of the unknown role {message.get('role')!r}", place)
        self.leftover(place, "a message of an unknown role", message)

    def foreign_result(self, place: str, message: dict[str, Any]) -> None:
        """A result in a message of its own, as another API writes it; the caller records it."""
        self.finding("displaced_result", f"a result in a message of role {message.get('role')!r}", place)

    def servers_result(self, place: str, call_id: str | None, value: Any) -> None:
        """A client's result for a call that the server runs: the client cannot know it."""
        message = "a client's result answers a call that the server runs"
        self.finding("orphan_result", message, place, call_id)
        self.leftover(place, "a client's result for a server's call", value)

    def fragment(
        self, place: str, call_id: str | None, text: str, reason: str, *, raw: Json | None = None, **more: Any
    ) -> None:
        """What was cut off. Never executed, never sent."""
        line, pointer = _split(place)
        self.fragments.append(
            Fragment(
                call_id, raw.text if raw is not None else text, reason, line=line, pointer=pointer, **more
            )
        )
        self.finding("fragment", only_the_beginning(f"call {named(call_id)}"), place, call_id)

    def orphan(self, fact: Any, wire_id: str) -> None:
        """A result whose call is not in the history: kept whole, never sent as a result."""
        self.finding(
            "orphan_result", f"a result names the call {named(wire_id)}, which is not in the history", fact.fact_id,
            wire_id or None,
        )  # fmt: skip
        self.leftover(fact.fact_id, "result without its call", _content_of(fact, wire_id))


def _content_of(fact: Any, wire_id: str) -> Any:
    """A result as it stood in the input, with the id that it names."""
    if fact.raw is not None:
        return fact.raw
    return {"call_id": wire_id, "content": _plain_content(fact)}


def _plain_content(fact: Any) -> Any:
    content = getattr(fact, "content", None)
    if content is None or isinstance(content, str):
        return content
    return [part.raw.value if part.raw else getattr(part, "text", "") for part in content]


def _split(place: str | None) -> tuple[int | None, str | None]:
    """`L12/message/content/0` -> (12, "/message/content/0"); a pointer alone has no line."""
    if not place:
        return None, None
    if place[0] == "L" and (digits := place[1:].split("/", 1)[0].split(":", 1)[0]).isdigit():
        return int(digits), place[1 + len(digits) :] or None
    return None, place


def only_the_beginning(what: str) -> str:
    """The sentence of a finding about a fragment: `what` is `call 'toolu_1'`, `a part of type 'text'`."""
    return f"only the beginning of {what} arrived"


def error_kind(error: Any, *keys: str) -> str:
    """The word by which an API names an error: the first of these keys that says something, else `error`."""
    held = error if isinstance(error, Mapping) else {}
    return str(next((held[key] for key in keys if held.get(key)), "error"))


def error_line(error: Any, *keys: str) -> str:
    """An API's error on one line, redacted: `overloaded_error: Overloaded`."""
    held = error if isinstance(error, Mapping) else {}
    kind, text = error_kind(held, *keys), excerpt(str(held.get("message") or ""), _LONGEST_ERROR)
    return f"{kind}: {text}" if text else kind


def dump_any(value: Any) -> str:
    """Any value as JSON text; what JSON cannot say is told by its name."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=repr)
    except (ValueError, TypeError, RecursionError) as error:
        return json.dumps(f"a {type(value).__name__} that no JSON text can hold: {error}")
