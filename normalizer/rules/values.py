"""Raw JSON as rules look at it: what is not of the shape that is asked for counts as empty, and nothing raises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from normalizer.rules.index import Placed

Form: TypeAlias = Literal["text", "parts", "no parts", "null", "none", "other"]
"""What a content is: a string, a list (empty or not), null, not there, or a value that no content can be."""


def form(holder: dict[str, Any]) -> Form:
    """What the `content` of this object is."""
    content = holder.get("content")
    if isinstance(content, str):
        return "text"
    if isinstance(content, list):
        return "parts" if content else "no parts"
    if content is None:
        return "null" if "content" in holder else "none"
    return "other"


def text(value: object) -> str:
    """The value if it is a string, else an empty one (safe to look up in a set)."""
    return value if isinstance(value, str) else ""


def listed(value: object) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def mapped(value: object) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def names(value: object) -> list[str]:
    """The strings in a list."""
    return [item for item in listed(value) if isinstance(item, str)]


def member(value: object, *steps: str) -> Any:
    """What stands under these keys, None where the way ends."""
    for step in steps:
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


def objects(value: object, pointer: str) -> Iterator[Placed]:
    """The objects of a list that stands at this pointer."""
    for index, item in enumerate(listed(value)):
        if isinstance(item, dict):
            yield f"{pointer}/{index}", item
