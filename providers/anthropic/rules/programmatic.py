"""ANT-PTC: client tools that are called by code which runs in the server's container."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from normalizer.providers.anthropic.rules import exchanges, view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from normalizer.providers.anthropic.rules.view import Placed

_PTC: Final = "https://platform.claude.com/docs/en/agents-and-tools/tool-use/programmatic-tool-calling"
_TOOLS: Final = "https://platform.claude.com/docs/en/agents-and-tools/tool-use"


def _container(request: Request) -> str:
    """The id of the container that the request names; empty if it names none."""
    container = request.get("container")
    return view.text(container) or view.text(view.member(container, "id"))


def missing_container(request: Request, context: Context) -> Iterator[Violation]:
    """While code waits for results of the client's tools, the request names its container.

    ## Why
    The code is suspended in that container and nowhere else.

    ## Repair
    Record the container's id with the reply and send it until the code has returned. If it is lost, drop the
    turn.
    """
    if not _container(request) and exchanges.server_calls(request).pending:
        yield Violation("/container", "code waits in a container that the request does not name")


def text_while_code_waits(request: Request, context: Context) -> Iterator[Violation]:
    """The user turn that answers calls of running code holds results and nothing else.

    ## Why
    The results go to the code, not to the model; nothing can be said to it in between.

    ## Repair
    Hold the text back until the code has returned.
    """
    found = exchanges.server_calls(request)
    called = found.inner or found.strays  # every call that code made is in one of the two
    for turn, behind in exchanges.answers(view.turns(request)) if called else ():
        if behind is None or not any(exchanges.code_run(call) for call in exchanges.calls(turn).values()):
            continue
        for at, block in behind.items:
            if view.kind(block) != "tool_result":
                yield Violation(at, f"{view.kind(block) or 'content'} stands beside results for running code")


def media_for_code(request: Request, context: Context) -> Iterator[Violation]:
    """A result for running code is text.

    ## Repair
    Send the text form, and report the media that was left out.
    """
    by_code = view.standing(request).having("caller")
    for (at, result), call in exchanges.answered(request) if by_code else ():
        if exchanges.code_run(call):
            for place, part in view.objects(result.get("content"), f"{at}/content"):
                if view.kind(part) != "text":
                    yield Violation(
                        place, f"the result for running code holds {view.kind(part) or 'content'!r}"
                    )


def code_tool_gone(request: Request, context: Context) -> Iterator[Violation]:
    """While code waits, the request defines code execution and the tools that the code called.

    ## Repair
    Send the same tools as in the request that led to the calls.
    """
    found = exchanges.server_calls(request)
    known = {view.text(tool.get("name")) for tool in exchanges.available(request)}
    for run, calls in found.pending.items():
        if not exchanges.offers(request, found.open[run][1]):
            yield Violation("/tools", f"code run {run!r} waits, but no code execution tool is offered")
        for at, call in calls:
            if not call.get("toolset_name") and view.text(call.get("name")) not in known:
                yield Violation(
                    f"{at}/name", f"running code called {call.get('name')!r}, which is not defined"
                )


def forced_code_tool(request: Request, context: Context) -> Iterator[Violation]:
    """A forced tool is one that the model may call directly.

    ## Repair
    Let the model choose.
    """
    choice = request.get("tool_choice")
    if view.member(choice, "type") != "tool":
        return
    name = view.member(choice, "name")
    for _, tool in view.tools(request):
        callers = view.listed(tool.get("allowed_callers"))
        if tool.get("name") == name and callers and "direct" not in callers:
            yield Violation("/tool_choice/name", f"{name!r} can be called by code only")


def unsupported_code_switch(request: Request, context: Context) -> Iterator[Violation]:
    """Tools that code may call are neither strict nor limited to one call at a time.

    ## Repair
    Remove the switch.
    """
    found = [placed for placed in view.tools(request) if _for_code(placed)]
    for at, tool in found:
        if tool.get("strict") is True:
            yield Violation(f"{at}/strict", f"{tool.get('name')!r} is called by code and cannot be strict")
    if found and view.member(request.get("tool_choice"), "disable_parallel_tool_use") is True:
        yield Violation("/tool_choice/disable_parallel_tool_use", "tools called by code run in parallel")


def _for_code(placed: Placed) -> bool:
    callers = view.listed(placed[1].get("allowed_callers"))
    return any(view.text(caller).startswith("code_execution") for caller in callers)


def unknown_code_run(request: Request, context: Context) -> Iterator[Violation]:
    """The code run that made a call stands before the call, in the same open turn.

    ## Why
    The result has to reach the code that waits for it.

    ## Repair
    Code call, inner calls, their results and the code's result are one unit. Without the code call the others
    go.
    """
    for at, call in exchanges.server_calls(request).strays:
        yield Violation(f"{at}/caller", f"the open turn holds no code run {exchanges.code_run(call)!r}")


def expired_container(request: Request, context: Context) -> Iterator[Violation]:
    """A container that the request names still exists.

    ## Why
    Containers expire, and waiting code times out after some minutes.

    ## Repair
    Leave `container` out: finished code runs need none. A turn with waiting code is lost; drop it.
    """
    if not _container(request):
        return
    expires, now = _time(context.get("container_expires_at")), _time(context.get("now"))
    if context.get("container_expired") is True or (expires and now and expires <= now):
        yield Violation("/container", f"container {_container(request)!r} has expired")


def _time(value: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(view.text(value))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


RULES: Final[Rulebook] = (
    Rule(
        id="ANT-PTC-001",
        name="missing-container",
        severity="reject",
        source=f"{_PTC}; https://github.com/anthropics/anthropic-sdk-python/issues/1801;"
        " https://github.com/anthropics/anthropic-sdk-typescript/issues/1114",
        error="container_id is required when there are pending tool uses generated by code execution",
        check=missing_container,
        applies="programmatic calls whose code has no result yet",
    ),
    Rule(
        id="ANT-PTC-002",
        name="text-while-code-waits",
        severity="reject",
        source=_PTC,
        error="was found without a corresponding",
        check=text_while_code_waits,
        applies="programmatic calls whose code has no result yet",
    ),
    Rule(
        id="ANT-PTC-003",
        name="media-for-code",
        severity="reject",
        source=_PTC,
        error=None,
        check=media_for_code,
        applies="programmatic calls",
    ),
    Rule(
        id="ANT-PTC-004",
        name="code-tool-gone",
        severity="reject",
        source=f"{_PTC}; {_TOOLS}/server-tools",
        error="but no `code_execution` tool was provided",
        check=code_tool_gone,
        applies="programmatic calls whose code has no result yet",
    ),
    Rule(
        id="ANT-PTC-005",
        name="forced-code-tool",
        severity="reject",
        source=_PTC,
        error=None,
        check=forced_code_tool,
        applies="tools with `allowed_callers`",
    ),
    Rule(
        id="ANT-PTC-006",
        name="unsupported-code-switch",
        severity="reject",
        source=_PTC,
        error=None,
        check=unsupported_code_switch,
        applies="tools that code may call",
    ),
    Rule(
        id="ANT-PTC-007",
        name="unknown-code-run",
        severity="reject",
        source=f"{_PTC}; SDK: types/server_tool_caller_20260120_param.py",
        error=None,
        check=unknown_code_run,
        applies="programmatic calls",
    ),
    Rule(
        id="ANT-PTC-008",
        name="expired-container",
        severity="reject",
        source=f"{_PTC}; {_TOOLS}/code-execution-tool",
        error="container",
        check=expired_container,
        static=False,
        applies="containers expire, and waiting code times out",
    ),
)
