"""Cache marks: where they stand in a request, and how the last four are kept.

Source: https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from normalizer.parts import Json
from normalizer.projection import Adjustment
from normalizer.providers.anthropic import wire

if TYPE_CHECKING:
    from collections.abc import Iterator


def count(blocks: Any) -> int:
    """How many of these blocks, and of the blocks nested in them, carry a mark."""
    found = 0
    if isinstance(blocks, list):
        for block in blocks:
            if isinstance(block, dict):
                found += "cache_control" in block
                found += count(block.get("content"))
    return found


def keep_last(request: dict[str, Any], notes: list[Adjustment]) -> None:
    """Leave only the last four marks of tools, system and messages. Marked blocks are copied, never edited."""
    places = list(_places(request))
    surplus = len(places) - wire.MAX_CACHE_MARKS
    for path in places[: max(surplus, 0)]:
        dropped = _unmark(request, path)
        notes.append(
            Adjustment(
                "trimmed",
                f"a cache mark at /{'/'.join(map(str, path))} is left out: at most four are accepted",
                "ANT-CACHE-001",
                content=Json.of(dropped).text,
            )
        )


def _places(request: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    for key in ("tools", "system"):
        yield from _in_blocks(request.get(key), (key,))
    for number, message in enumerate(request.get("messages", ())):
        yield from _in_blocks(message.get("content"), ("messages", number, "content"))


def _in_blocks(blocks: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if isinstance(blocks, list):
        for number, block in enumerate(blocks):
            if isinstance(block, dict):
                yield from _in_blocks(block.get("content"), (*path, number, "content"))
                if "cache_control" in block:
                    yield (*path, number)


def _unmark(request: dict[str, Any], path: tuple[Any, ...]) -> Any:
    """Copy everything on the way to the block, and leave its mark out of the copy."""
    holder: Any = request
    for step in path[:-1]:
        child = holder[step]
        child = child.copy()
        holder[step] = child
        holder = child
    block = dict(holder[path[-1]])
    mark = block.pop("cache_control")
    holder[path[-1]] = block
    return mark
