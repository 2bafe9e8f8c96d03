"""What a block as received says beyond what a request says of it, so that it is reported and not lost.

A part has what every API has a place for; the block that it came in may say more: citations, a namespace, who speaks,
what a search result was found at. Where such a block is written anew for another API, the rest goes into the report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.parts import Json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from normalizer.parts import Part, ResultPart, Tool

_WIRE: Final = frozenset({"type", "role", "status", "cache_control", "prompt_cache_breakpoint"})
"""Keys that say how a block is sent, not what it says. Cache marks are of the API that they were set for."""
_TOP: Final = _WIRE | {"id", "object"}
"""Besides, the id of the block itself: it names it to the server that gave it. Calls have their own, in `ids`."""
_DEFAULT: Final = "auto"
_TOOL_KINDS: Final = ("function", "custom")
_RESPONSE: Final = frozenset({"response"})
"""Where a reader keeps what a response says beside its message."""


def remainder(raw: Json | None, *said: Any) -> str | None:
    """The JSON text of what stands in a block as received and in none of the values that are `said`; None if all does.

    A text is said where it is one of the texts in there, some whole lines of one, or the data of an address; a number
    or a switch where it stands under the same key.
    """
    if raw is None or not raw.valid or not isinstance(raw.value, (dict, list)):
        return None
    found = _Said(said)
    value = raw.value
    rest = _dict(value, found, _TOP) if isinstance(value, dict) else _rest(value, "", found)
    return Json.of(rest).text if rest is not None else None


def unmapped(raw: Json | None, consumed: Collection[str]) -> str | None:
    """The JSON text of what a block as received says under other keys than those that were `consumed`; None if nothing.

    A key inside an object is named by its path: of `{"type": "function", "function": {"name": "f", "strict": true}}`,
    with `function.name` consumed, `{"function": {"strict": true}}` is left. What says nothing (null, false, an empty
    text) and keys that say how a block is sent (its type, id, cache mark) are never left.
    """
    if raw is None or not raw.valid or not isinstance(raw.value, dict):
        return None
    rest = _unconsumed(raw.value, "", frozenset(consumed), _TOP)
    return Json.of(rest).text if rest is not None else None


def _unconsumed(
    value: dict[str, Any], path: str, consumed: frozenset[str], skipped: frozenset[str]
) -> dict[str, Any] | None:
    """What is left of the keys of an object that stands at a path (with its dot)."""
    kept: dict[str, Any] = {}
    for key, item in value.items():
        at = f"{path}{key}"
        if key in skipped or at in consumed:
            continue
        inside = isinstance(item, dict) and any(one.startswith(f"{at}.") for one in consumed)
        rest = _unconsumed(item, f"{at}.", consumed, _WIRE) if inside else _rest(item, key, _NOTHING)
        if rest is not None:
            kept[key] = rest
    if path and kept and "type" in value:
        kept = {"type": value["type"], **kept}
    return kept or None


def tool_keys(tool: Tool) -> frozenset[str]:
    """The keys of a declaration as received whose values the tool holds: its name, description and schema.

    APIs write them at the top, or inside an object that is named by the kind of tool.
    """
    raw = tool.raw.value if tool.raw is not None and tool.raw.valid else None
    schema = tool.schema.value if tool.schema is not None else None
    held = {"name": tool.name, "description": tool.description, "input_schema": schema, "parameters": schema}
    found: set[str] = set()
    for path in ("", *_TOOL_KINDS):
        declared = raw.get(path) if path and isinstance(raw, dict) else raw
        if isinstance(declared, dict):
            prefix = f"{path}." if path else ""
            found |= {f"{prefix}{key}" for key, value in held.items() if declared.get(key) == value}
    return frozenset(found)


class _Said:
    """All texts, and the numbers and switches with their keys, of some JSON values."""

    __slots__ = ("marks", "texts")

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.texts: set[str] = set()
        self.marks: set[tuple[str, Any]] = set()
        for value in values:
            for key, leaf in _leaves(value, ""):
                if isinstance(leaf, str):
                    self._text(leaf)
                elif leaf is not None:
                    self.marks.add((key, leaf))

    def _text(self, text: str) -> None:
        """A text, and what stands in it if it is JSON: some APIs hold as a text what others hold as a value."""
        self.texts.add(text)
        if text[:1] in ("{", "[") and (held := Json(text)).valid:
            for key, leaf in _leaves(held.value, ""):
                if isinstance(leaf, str):
                    self.texts.add(leaf)
                elif leaf is not None:
                    self.marks.add((key, leaf))

    def has(self, key: str, leaf: Any) -> bool:
        if not isinstance(leaf, str):
            return (key, leaf) in self.marks
        if leaf in self.texts or (leaf.startswith("data:") and leaf.partition(";base64,")[2] in self.texts):
            return True
        return any(
            f"\n{leaf}\n" in f"\n{text}\n" or text.endswith(f";base64,{leaf}")
            for text in self.texts
            if len(text) > len(leaf)
        )


def _leaves(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves(item, name)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item, key)
    else:
        yield key, value


def _rest(value: Any, key: str, said: _Said) -> Any:
    """What is left of a value; None if nothing is. An object of which nothing is said is left as it is."""
    if isinstance(value, dict):
        kept = _dict(value, said, _WIRE)
        if kept is None:
            return None
        if not any(said.has(name, leaf) for name, leaf in _leaves(value, "") if leaf and name not in _WIRE):
            return value
        return {"type": value["type"], **kept} if "type" in value else kept
    if isinstance(value, list):
        return [rest for item in value if (rest := _rest(item, key, said)) is not None] or None
    nothing = value is None or value is False or value in ("", _DEFAULT)
    return None if nothing or said.has(key, value) else value


def _dict(value: dict[str, Any], said: _Said, skipped: frozenset[str]) -> dict[str, Any] | None:
    """What is left of the keys of an object."""
    kept = {
        key: rest
        for key, item in value.items()
        if key not in skipped and (rest := _rest(item, key, said)) is not None
    }
    return kept or None


_NOTHING: Final = _Said(())
"""Of a value that stands under a key that was not consumed, nothing is said."""


def beside_content(fact: Any, consumed: Collection[str] = ()) -> str | None:
    """The JSON text of what a message says beside its content: above all, who speaks. None where that is nothing.

    A message is known by its role and the place of its content; what a whole response says of itself is none. What it
    says under keys that were `consumed`, and the model that the fact has, is left out.
    """
    raw = getattr(fact, "raw", None)
    value = raw.value if raw is not None else None
    if not isinstance(value, dict) or not {"role", "content"} <= value.keys():
        return None
    model = getattr(fact, "model", None)
    named = {"model"} if model is not None and value.get("model") == model else set()
    return unmapped(raw, {"content", *_RESPONSE, *named, *consumed})


def received(part: Any) -> Json | None:
    """What a part says: the block that it came in; of a medium of a host, what it holds."""
    if part.raw is not None or part.kind != "media":
        return part.raw  # type: ignore[no-any-return]
    held = {name: getattr(part, name) for name in ("data", "url", "file_id", "name")}
    return Json.of(held)


def of_one_piece(raw: Json) -> Json:
    """The message that a text was received in, without its further pieces, which are parts of their own."""
    value = raw.value
    held = value.get("content") if isinstance(value, dict) else None
    return Json.of({**value, "content": held[:1]}) if isinstance(held, list) and len(held) > 1 else raw


def whole(part: Part | ResultPart) -> str | None:
    """All of a part as text, for a report: as it was received, its words, or what it holds."""
    raw = getattr(part, "raw", None)
    if raw is not None:
        return str(raw.text)
    if part.kind in ("text", "reasoning"):
        return part.text
    shown: dict[str, Any] = {
        name: value
        for name in ("media", "media_type", "data", "url", "file_id", "name", "id")
        if (value := getattr(part, name, None)) is not None
    }
    if part.kind in ("tool_call", "server_tool_call"):
        shown["arguments"] = part.arguments.text
    return Json.of(shown).text
