"""ANT-RES: what a result of the client's tools may hold."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.anthropic import wire
from normalizer.providers.anthropic.rules import exchanges, view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation, remembered
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from normalizer.providers.anthropic.rules.view import Block, Placed
    from normalizer.rules.values import Form

_RESULT: Final = frozenset({"tool_result"})
_SEARCHED: Final = "tool_search_tool_result"
_TOOLSET_BLOCKS: Final = frozenset({"text", "image", "browser_state"})
_TOOLS: Final = "https://platform.claude.com/docs/en/agents-and-tools/tool-use"
_HANDLE: Final = f"{_TOOLS}/handle-tool-calls"
_BROWSER: Final = f"{_TOOLS}/browser-use-tool"


def _results(request: Request, *forms: Form) -> list[Placed]:
    """The results whose content is one of these."""
    return view.where(request, lambda sort, _: sort.kind == "tool_result" and sort.form in forms)


@remembered
def _made_of_parts(request: Request) -> list[tuple[str, Block, list[Placed]]]:
    """The results that are made of parts: pointer, result and parts."""
    found = (
        (at, result, list(view.objects(result["content"], f"{at}/content")))
        for at, result in _results(request, "parts")
    )
    return [(at, result, parts) for at, result, parts in found if parts]


def unknown_result_content(request: Request, context: Context) -> Iterator[Violation]:
    """A result holds text, images, documents, search results, and what tool search and the browser return.

    ## Why
    Calls, other results, audio and plain JSON are no content of a result.

    ## Repair
    Structured output becomes its JSON text; of what has no counterpart a text says that it was left out.
    """
    browser = any(view.kind(tool).startswith("browser_toolset_") for _, tool in view.tools(request))
    for _, result, parts in _made_of_parts(request):
        for place, part in parts:
            kind = view.kind(part)
            if kind not in wire.RESULT_BLOCKS:
                yield Violation(place, f"a result holds no {kind!r}" if kind else "the content has no type")
            elif kind == "browser_state" and not browser and not result.get("toolset_name"):
                yield Violation(place, "browser state stands in the result of a tool that is no browser")


def media_in_error(request: Request, context: Context) -> Iterator[Violation]:
    """A result that is an error holds text only.

    ## Repair
    Keep flag and text; media go behind the results of the same user turn, or are left out and reported.
    """
    for _, result, parts in _made_of_parts(request):
        if result.get("is_error") is True:
            for place, part in parts:
                if view.kind(part) != "text":
                    yield Violation(place, f"an error holds {view.kind(part) or 'content without type'!r}")


def empty_error(request: Request, context: Context) -> Iterator[Violation]:
    """A result that is an error says something.

    ## Repair
    Give the recorded text of the error. A tool that failed without a word is told as just that.
    """
    for at, result in view.where(
        request, lambda sort, keys: sort.kind == "tool_result" and "is_error" in keys
    ):
        if result["is_error"] is True and result.get("content") in (None, "", []):
            yield Violation(f"{at}/content", "the error says nothing")


def blank_result_text(request: Request, context: Context) -> Iterator[Violation]:
    """A text block inside a result is not blank.

    ## Repair
    An empty output is an empty string, or no `content` at all; blank blocks of a list are left out.
    """
    for _, _, parts in _made_of_parts(request):
        for place, part in parts:
            if view.kind(part) == "text" and not view.text(part.get("text")).strip():
                yield Violation(f"{place}/text", "the text block inside the result is blank")


def empty_result_list(request: Request, context: Context) -> Iterator[Violation]:
    """The content of a result is not an empty list.

    ## Why
    One public client reports that it was refused; nobody else says so.

    ## Repair
    Send an empty string, or leave `content` out.
    """
    for at, _ in _results(request, "no parts"):
        yield Violation(f"{at}/content", "the content of the result is an empty list")


def structured_result(request: Request, context: Context) -> Iterator[Violation]:
    """The content of a result is a string or a list of blocks.

    ## Why
    Objects, numbers, booleans and lists of strings are refused by the schema.

    ## Repair
    Write structured output as JSON text once, when it is recorded.
    """
    for at, result in _results(request, "parts", "null", "other"):
        content: Any = result["content"]
        if isinstance(content, list):
            for number, part in enumerate(content):
                if not isinstance(part, dict):
                    yield Violation(f"{at}/content/{number}", "the content of a result is a list of blocks")
        else:
            yield Violation(f"{at}/content", "the content of a result is a string or a list of blocks")


def mixed_search_results(request: Request, context: Context) -> Iterator[Violation]:
    """A result that holds a search result holds nothing but search results.

    ## Repair
    Other text goes behind the results of the user turn, in a block of its own.
    """
    for _, _, parts in _made_of_parts(request):
        if any(view.kind(part) == "search_result" for _, part in parts):
            for place, part in parts:
                if view.kind(part) != "search_result":
                    yield Violation(place, f"{view.kind(part) or 'content'!r} stands beside search results")


def dangling_tool_reference(request: Request, context: Context) -> Iterator[Violation]:
    """A tool reference names a tool that the request defines.

    ## Why
    A reference loads the definition of a deferred tool into the prompt.

    ## Repair
    Keep deferred tools as long as the history refers to them. Is the tool gone, the reference goes; it is not
    renamed.
    """
    if any("toolset" in view.kind(tool) for _, tool in view.tools(request)):
        return  # the names of a toolset's members are not in the request
    known = view.tool_names(request) | _added_tools(request)
    for place, reference in _references(request):
        name = view.text(reference.get("tool_name"))
        if name not in known:
            yield Violation(f"{place}/tool_name", f"tool reference {name!r} names no tool of the request")


def _references(request: Request) -> Iterator[Placed]:
    for at, block in view.where(
        request,
        lambda sort, _: sort.kind == _SEARCHED or (sort.kind == "tool_result" and sort.form == "parts"),
    ):
        if block["type"] == _SEARCHED:
            listed = view.member(block, "content", "tool_references")
            found = view.objects(listed, f"{at}/content/tool_references")
        else:
            found = view.objects(block["content"], f"{at}/content")
        yield from (placed for placed in found if view.kind(placed[1]) == "tool_reference")


def _added_tools(request: Request) -> frozenset[str]:
    """The names of tools that system messages define."""
    additions = view.of_type(request, frozenset({"tool_addition"}))
    names = (view.member(block, "tool", "definition", "name") for _, block in additions)
    return frozenset(view.text(name) for name in names)


def foreign_toolset_content(request: Request, context: Context) -> Iterator[Violation]:
    """The result of a toolset's member holds text and images; that of the browser, on success, one state.

    ## Repair
    Leave out what does not fit and report it.
    """
    if not view.standing(request).having("toolset_name"):
        return
    called = {at: call for (at, _), call in exchanges.answered(request)}
    for at, result, parts in _made_of_parts(request):
        toolset = result.get("toolset_name") or called.get(at, {}).get("toolset_name")
        if not toolset:
            continue
        states = 0
        for place, part in parts:
            kind = view.kind(part)
            states += kind == "browser_state"
            if kind not in _TOOLSET_BLOCKS:
                yield Violation(place, f"the result of a toolset's member holds {kind or 'content'!r}")
            elif kind == "browser_state" and (
                states > 1 or toolset != "browser" or result.get("is_error") is True
            ):
                yield Violation(place, "a browser's result holds one state, and an error none")


def inconsistent_browser_state(request: Request, context: Context) -> Iterator[Violation]:
    """Browser state has one active tab if it has tabs, tab ids that differ, and no empty list of changes.

    ## Repair
    The state is what the executor saw. If it contradicts itself, leave it out; do not correct it.
    """
    for _, _, parts in _made_of_parts(request):
        for place, state in parts:
            if view.kind(state) == "browser_state":
                yield from _inconsistent(place, state)


def _inconsistent(place: str, state: Block) -> Iterator[Violation]:
    tabs = [tab for _, tab in view.objects(state.get("tabs"), "")]
    if tabs and sum(tab.get("active") is True for tab in tabs) != 1:
        yield Violation(f"{place}/tabs", "not exactly one tab is active")
    ids = Counter(view.text(tab.get("tab_id")) for tab in tabs)
    for tab_id, times in ids.items():
        if tab_id and times > 1:
            yield Violation(f"{place}/tabs", f"the tab id {named(tab_id)} occurs {times} times")
    if state.get("state_changes") == []:
        yield Violation(f"{place}/state_changes", "the list of changes is empty; leave it out instead")


RULES: Final[Rulebook] = (
    Rule(
        id="ANT-RES-001",
        name="unknown-result-content",
        severity="reject",
        source=f"{_HANDLE}; https://github.com/anthropics/claude-code/issues/28870;"
        " SDK: types/tool_result_block_param.py",
        error="does not match any of the expected tags",
        check=unknown_result_content,
        applies="every model; `tool_reference` and `browser_state` only with their tools",
    ),
    Rule(
        id="ANT-RES-002",
        name="media-in-error",
        severity="reject",
        source="https://github.com/vellum-ai/vellum-assistant/pull/18387;"
        " SDK: lib/tools/_toolsets/_sanitize.py",
        error="all content must be type `text` if `is_error` is true",
        check=media_in_error,
        applies="every model",
    ),
    Rule(
        id="ANT-RES-003",
        name="empty-error",
        severity="reject",
        source="SDK: lib/tools/_toolsets/_runnable.py",
        error=None,
        check=empty_error,
        applies="every model",
    ),
    Rule(
        id="ANT-RES-004",
        name="blank-result-text",
        severity="reject",
        source="https://github.com/anthropics/claude-code/issues/59812",
        error="text content blocks must be non-empty",
        check=blank_result_text,
        applies="every model",
    ),
    Rule(
        id="ANT-RES-005",
        name="empty-result-list",
        severity="contested",
        source="a comment in pydantic-ai, pydantic_ai/models/anthropic.py",
        error=None,
        check=empty_result_list,
        applies="every model",
    ),
    Rule(
        id="ANT-RES-006",
        name="structured-result",
        severity="reject",
        source="SDK: types/tool_result_block_param.py",
        error="Input should be",
        check=structured_result,
        applies="every model",
    ),
    Rule(
        id="ANT-RES-007",
        name="mixed-search-results",
        severity="reject",
        source="https://platform.claude.com/docs/en/build-with-claude/search-results",
        error=None,
        check=mixed_search_results,
        applies="every model",
    ),
    Rule(
        id="ANT-RES-008",
        name="dangling-tool-reference",
        severity="reject",
        source=f"{_TOOLS}/tool-search-tool; SDK: types/tool_reference_block_param.py",
        error="not found in available tools",
        check=dangling_tool_reference,
        applies="tool search",
    ),
    Rule(
        id="ANT-RES-009",
        name="foreign-toolset-content",
        severity="reject",
        source=f"{_HANDLE}; {_BROWSER}; SDK: lib/tools/_toolsets/_runnable.py",
        error=None,
        check=foreign_toolset_content,
        applies="browser and computer toolsets",
    ),
    Rule(
        id="ANT-RES-010",
        name="inconsistent-browser-state",
        severity="reject",
        source=f"{_BROWSER}; SDK: types/browser_state_block_param.py",
        error=None,
        check=inconsistent_browser_state,
        applies="browser toolset",
    ),
)
