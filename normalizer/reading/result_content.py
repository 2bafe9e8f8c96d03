"""The content of a tool's result, as facts hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.parts import Json, Opaque

if TYPE_CHECKING:
    from collections.abc import Callable

    from normalizer.parts import ResultPart

_FITTING: Final = frozenset({"text", "media", "opaque"})


def result_content(value: Any, part: Callable[[Any], Any]) -> str | tuple[ResultPart, ...]:
    """A text as it is, nothing as an empty one, a list piece by piece (`part` makes one), else the JSON text of it.

    A piece that no result can hold (a call, reasoning) is opaque and keeps its JSON.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return tuple(_piece(block, part(block)) for block in value)
    return Json.of(value).text


def _piece(block: Any, found: Any) -> ResultPart:
    if found.kind in _FITTING:
        fitting: ResultPart = found
        return fitting
    return Opaque(str(block.get("type")) if isinstance(block, dict) else "", Json.of(block))
