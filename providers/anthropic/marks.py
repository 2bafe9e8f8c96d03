"""Cache marks: where they stand in a request, and which of them stay.

Source: https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from normalizer.parts import Json
from normalizer.providers.anthropic import wire

if TYPE_CHECKING:
    from collections.abc import Iterator

    from normalizer.projecting.draft import Value
    from normalizer.projecting.reports import Reports


def count(blocks: Any) -> int:
    """How many of these blocks, and of the blocks nested in them, carry a mark."""
    found = 0
    if isinstance(blocks, list):
        for block in blocks:
            if isinstance(block, dict):
                found += "cache_control" in block
                found += count(block.get("content"))
    return found


def in_messages(messages: list[Value]) -> int:
    """How many blocks of these messages carry a mark."""
    found = 0
    for message in messages:
        content = message["content"]
        if type(content) is list:
            for block in content:
                if (
                    "cache_control" in block or type(block.get("content")) is list
                ):  # else there is none to count
                    found += count([block])
    return found


def tidy(request: dict[str, Any], reports: Reports) -> None:
    """Leave out marks that the API refuses, then all but the last four of tools, system and messages.

    Marked blocks are copied, never edited. No digest sees a mark.
    """
    places = []
    for path in list(_places(request)):
        block = _at(request, path)
        why = _refused(block, path)
        if why is None:
            if block["cache_control"] is not None:  # null is how a client says that there is no mark
                places.append(path)
        else:
            _leave_out(request, path, reports, *why)
    room = wire.MAX_CACHE_MARKS
    for path in places[: max(len(places) - room, 0)]:
        _leave_out(request, path, reports, "at most four are accepted", "ANT-CACHE-001")
    short = False
    for path in places[max(len(places) - room, 0) :]:
        long = _at(request, path)["cache_control"].get("ttl") == "1h"
        if long and short:
            _leave_out(
                request, path, reports, "one of an hour may not follow one of five minutes", "ANT-CACHE-003"
            )
        short = short or not long


def _refused(block: dict[str, Any], path: tuple[Any, ...]) -> tuple[str, str] | None:
    mark = block["cache_control"]
    if mark is None:
        return None
    if (
        not isinstance(mark, dict)
        or mark.get("type") != "ephemeral"
        or mark.get("ttl", "5m") not in ("5m", "1h")
    ):
        return "it is of no known form", "ANT-CACHE-007"
    if path[0] == "tools" and block.get("defer_loading"):
        return "a deferred tool carries none", "ANT-CACHE-005"
    return None


def _at(request: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    found: Any = request
    for step in path:
        found = found[step]
    return found  # type: ignore[no-any-return]


def _leave_out(
    request: dict[str, Any], path: tuple[Any, ...], reports: Reports, why: str, because: str
) -> None:
    dropped = _unmark(request, path)
    message = f"the cache mark at /{'/'.join(map(str, path))} is left out: {why}"
    reports.add("trimmed", message, because, content=Json.of(dropped).text)


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
