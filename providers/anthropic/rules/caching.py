"""Cache marks: how many, where, and for how long (ANT-CACHE)."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.anthropic import wire
from normalizer.providers.anthropic.rules import view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation, remembered

if TYPE_CHECKING:
    from collections.abc import Iterator

_CACHING: Final = "https://platform.claude.com/docs/en/build-with-claude/prompt-caching"
_DEFAULT_TTL: Final = "5m"
_TTLS: Final = frozenset({"5m", "1h"})


@remembered
def marked(request: Request) -> list[view.Placed]:
    """What carries a cache mark, in the order that the cache sees: tools, system, messages."""
    top = (*view.tools(request), *view.objects(request.get("system"), "/system"))
    holders = chain(top, view.walked(request).having("cache_control"))
    return [(pointer, holder) for pointer, holder in holders if holder.get("cache_control") is not None]


def ttl(holder: Any) -> str:
    """How long the mark of this block is to last."""
    return view.text(view.member(holder, "cache_control", "ttl")) or _DEFAULT_TTL


def too_many_cache_marks(request: Request, _context: Context) -> Iterator[Violation]:
    """A request carries four cache marks at the most, the automatic one at its top included.

    Tools, system, messages and the blocks inside tool results share the four. Keep the last ones that pay:
    the end of the tools, the end of the instructions and the newest turns. Moving a mark leaves the cached
    text as it is.
    """
    spare = wire.MAX_CACHE_MARKS - (request.get("cache_control") is not None)
    for count, (pointer, _) in enumerate(marked(request), start=1):
        if count > spare:
            yield Violation(
                f"{pointer}/cache_control", f"this is cache mark {count} of {spare} that are free"
            )


def cache_mark_on_empty_text(request: Request, _context: Context) -> Iterator[Violation]:
    """A text block without a character carries no cache mark.

    Leave the block out and mark the one before it.
    """
    for pointer, holder in marked(request):
        if holder.get("type") == "text" and holder.get("text") == "":
            yield Violation(f"{pointer}/cache_control", "the marked text block is empty")


def longer_cache_after_shorter(request: Request, _context: Context) -> Iterator[Violation]:
    """Marks of one hour stand before all marks of five minutes.

    The order is that of the cache: tools, system, messages. A mark that names no time lasts five minutes; the
    automatic one stands at the end. Lower the late mark, or raise the early ones.
    """
    automatic = [("", request)] if request.get("cache_control") is not None else []
    short = False
    for pointer, holder in (*marked(request), *automatic):
        if ttl(holder) == _DEFAULT_TTL:
            short = True
        elif short:
            yield Violation(f"{pointer}/cache_control", "a mark of one hour follows one of five minutes")


def unfit_automatic_cache_mark(request: Request, _context: Context) -> Iterator[Violation]:
    """An automatic cache mark finds a free slot, and no other duration on the block where it lands.

    The mark at the top of a request goes on the last block of the history. Leave it out, or make the times
    equal.
    """
    if request.get("cache_control") is None:
        return
    if len(marked(request)) >= wire.MAX_CACHE_MARKS:
        yield Violation("/cache_control", "all four cache marks are taken")
    target = _last_block(request)
    if target is not None and target.get("cache_control") is not None and ttl(target) != ttl(request):
        yield Violation("/cache_control", f"the last block is already marked for {ttl(target)!r}")


def _last_block(request: Request) -> view.Block | None:
    """The last block of the history that can carry a mark."""
    for index, message in reversed(view.messages(request)):
        for _, block in reversed(view.blocks(index, message)):
            if view.kind(block) not in wire.THINKING:
                return block
    return None


def cache_mark_on_deferred_tool(request: Request, _context: Context) -> Iterator[Violation]:
    """A tool that is loaded later carries no cache mark.

    Put the mark on the last tool that is not deferred.
    """
    for pointer, tool in view.tools(request):
        if tool.get("defer_loading") is True and tool.get("cache_control") is not None:
            yield Violation(f"{pointer}/cache_control", f"tool {tool.get('name')!r} has defer_loading")


def loaded_cache_warming(request: Request, _context: Context) -> Iterator[Violation]:
    """A request that only warms the cache neither streams nor thinks, formats no output and forces no tool.

    `max_tokens: 0` means warming. Warm with a plain request and ask with the next one.
    """
    if request.get("max_tokens") != 0 or isinstance(request.get("max_tokens"), bool):
        return
    if request.get("stream") is True:
        yield Violation("/stream", "cache warming does not stream")
    if view.thinking(request) not in ("", "disabled"):
        yield Violation("/thinking", "cache warming does not think")
    for pointer in output_formats(request):
        yield Violation(pointer, "cache warming has no output to format")
    if forces_tool(request):
        yield Violation("/tool_choice", "cache warming cannot force a tool")


def output_formats(request: Request) -> Iterator[str]:
    """Where the request asks for structured output."""
    if view.member(request.get("output_config"), "format") is not None:
        yield "/output_config/format"
    if request.get("output_format") is not None:
        yield "/output_format"


def forces_tool(request: Request) -> bool:
    """Whether the model has to call a tool."""
    return view.text(view.member(request.get("tool_choice"), "type")) in ("any", "tool")


def unknown_cache_mark(request: Request, _context: Context) -> Iterator[Violation]:
    """A cache mark is of type `ephemeral` and lasts `5m` or `1h`.

    Leave `ttl` out for five minutes.
    """
    automatic = [("", request)] if request.get("cache_control") is not None else []
    for pointer, holder in (*automatic, *marked(request)):
        mark = holder["cache_control"]
        if view.text(view.member(mark, "type")) != "ephemeral":
            yield Violation(f"{pointer}/cache_control", "a cache mark is an object of type 'ephemeral'")
        elif mark.get("ttl") is not None and view.text(mark["ttl"]) not in _TTLS:
            yield Violation(f"{pointer}/cache_control/ttl", f"{mark['ttl']!r} is neither '5m' nor '1h'")


RULES: Rulebook = (
    Rule(
        id="ANT-CACHE-001",
        name="too-many-cache-marks",
        severity="reject",
        source=f"{_CACHING}; continuedev/continue",
        error="A maximum of 4 blocks with cache_control may be provided",
        check=too_many_cache_marks,
    ),
    Rule(
        id="ANT-CACHE-002",
        name="cache-mark-on-empty-text",
        severity="reject",
        source=_CACHING,
        error="cache_control cannot be set for empty text blocks",
        check=cache_mark_on_empty_text,
    ),
    Rule(
        id="ANT-CACHE-003",
        name="longer-cache-after-shorter",
        severity="reject",
        source=_CACHING,
        error="a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block",
        check=longer_cache_after_shorter,
    ),
    Rule(
        id="ANT-CACHE-004",
        name="unfit-automatic-cache-mark",
        severity="reject",
        source=_CACHING,
        error="but the target block already has cache_control with",
        check=unfit_automatic_cache_mark,
        applies="automatic caching",
    ),
    Rule(
        id="ANT-CACHE-005",
        name="cache-mark-on-deferred-tool",
        severity="reject",
        source="https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool",
        error="Tools with defer_loading cannot use prompt caching",
        check=cache_mark_on_deferred_tool,
        applies="tool search",
    ),
    Rule(
        id="ANT-CACHE-006",
        name="loaded-cache-warming",
        severity="reject",
        source=_CACHING,
        error="max_tokens",
        check=loaded_cache_warming,
        applies="requests that warm the cache",
    ),
    Rule(
        id="ANT-CACHE-007",
        name="unknown-cache-mark",
        severity="reject",
        source="SDK:types/cache_control_ephemeral_param.py",
        error="Input should be '5m' or '1h'",
        check=unknown_cache_mark,
    ),
)
