"""ANT-SRV: tools that the API runs itself, and the results that it returned for them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.anthropic import wire
from normalizer.providers.anthropic.rules import exchanges, recorded, view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from normalizer.providers.anthropic.rules.view import Block, Placed

_ADVISOR: Final = "advisor-tool-"
_TOOLS: Final = "https://platform.claude.com/docs/en/agents-and-tools/tool-use"
_SERVER: Final = f"{_TOOLS}/server-tools"
_STOPS: Final = "https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons"

# Where the server seals what it returned: the type of the object, and its sealed field.
# SDK: types/web_search_result_block_param.py, types/citation_web_search_result_location_param.py,
# types/encrypted_code_execution_result_block_param.py, types/beta/beta_advisor_redacted_result_block_param.py
_SEALS: Final = {
    "web_search_result": "encrypted_content",
    "web_search_result_location": "encrypted_index",
    "encrypted_code_execution_result": "encrypted_stdout",
    "advisor_redacted_result": "encrypted_content",
}
_SEALED: Final = wire.SERVER_RESULTS | {"text"}
_SEAL: Final = re.compile(r"[A-Za-z0-9+/=_-]+")
_STAND_INS: Final = frozenset({"encrypted", "none", "null", "omitted", "placeholder", "redacted", "removed"})


def _name(call: Block) -> str:
    return view.text(call.get("name")) or view.kind(call)


def unanswered_server_call(request: Request, context: Context) -> Iterator[Violation]:
    """Once the conversation has moved on, every server call has its result behind it.

    ## Why
    The result stands in the same assistant turn, or in the next one if nothing but client results came
    between. After that the server does not run the call any more.

    ## Repair
    Drop the call, and report it. Its result is never written by the client, not even as an error.
    """
    for at, call in exchanges.server_calls(request).abandoned:
        if view.kind(call) == "server_tool_use":
            yield Violation(at, f"{_name(call)} call {named(call.get('id'))} has no result")


def open_call_without_tool(request: Request, context: Context) -> Iterator[Violation]:
    """A paused turn goes back as it is, in last place, with the tool that the server waits to run.

    ## Why
    The server goes on with the open call, so it needs the tool's definition again.

    ## Repair
    Same tools, same container, no text of the user. If the tool cannot be offered, drop the call.
    """
    last = view.last_turn(request)
    if last is not None and last.role == "assistant":
        yield from _not_offered(request)


def _not_offered(request: Request) -> Iterator[Violation]:
    """Calls that wait for their tool; code that called tools of the client is judged by the PTC rules."""
    found = exchanges.server_calls(request)
    for at, call in found.open.values():
        if view.text(call.get("id")) not in found.inner and not exchanges.offers(request, call):
            yield Violation(at, f"call {named(call.get('id'))} is open, but no {_name(call)} tool is offered")


def text_beside_open_call(request: Request, context: Context) -> Iterator[Violation]:
    """While a server call is open, the client's calls are answered by results alone, with the same tools.

    ## Why
    The server resumes its own call when the client's results arrive; any other content ends the turn.

    ## Repair
    Hold text and system messages back until the turn is over. If they cannot wait, drop the open server call.
    """
    found = exchanges.server_calls(request)
    given_up = {at for at, call in found.abandoned if view.text(call.get("id")) not in found.inner}
    for turn, behind in exchanges.answers(view.turns(request) if given_up else []):
        if behind is None or not exchanges.calls(turn) or given_up.isdisjoint(at for at, _ in turn.items):
            continue
        for at, block in behind.items:
            if view.kind(block) != "tool_result":
                yield Violation(
                    at, f"{view.kind(block) or 'content'} stands beside results while a call is open"
                )
    last = view.last_turn(request)
    if last is not None and last.role == "user":
        yield from _not_offered(request)


def orphan_server_result(request: Request, context: Context) -> Iterator[Violation]:
    """Every result of a server tool has its call before it.

    ## Why
    The call stands in the same assistant turn, or in the one before a user turn of results alone.

    ## Repair
    Call and result are one unit when history is cut. A result without call is left out and reported.
    """
    for at, result in exchanges.server_calls(request).orphans:
        if view.kind(result) != "mcp_tool_result":
            yield Violation(
                at, f"{view.kind(result)} of {result.get('tool_use_id')!r} has no call that waits for it"
            )


def mismatched_server_result(request: Request, context: Context) -> Iterator[Violation]:
    """The result of a server tool is of the type that belongs to the tool.

    ## Why
    The API looks for the result by type and id, so a wrong type leaves the call unanswered.

    ## Repair
    Leave call and result out. Giving the result another type would be making one up.
    """
    for (_, call), (at, result) in exchanges.server_calls(request).pairs:
        expected = exchanges.result_type(call)
        if expected is not None and view.kind(result) != expected:
            yield Violation(
                f"{at}/type", f"{_name(call)} call {named(call.get('id'))} is answered by {expected}"
            )


def broken_seal(request: Request, context: Context) -> Iterator[Violation]:
    """Fields that the server encrypted come back exactly as they were.

    ## Why
    The server reads its own results from them; missing, empty and stand-in values are refused.

    ## Repair
    Replay the block as received. If the seal is lost, call and result go together; the model's text stays.
    """
    for at, block in view.where(
        request,
        lambda sort, keys: sort.role == "assistant" and sort.kind in _SEALED
        and (sort.kind != "text" or "citations" in keys),
    ):  # fmt: skip
        field = "citations" if block["type"] == "text" else "content"
        for place, value in _objects(block.get(field), f"{at}/{field}"):
            key = _SEALS.get(view.kind(value))
            if key is not None and not _sealed(value.get(key)):
                yield Violation(f"{place}/{key}", f"{key} is not what the server sent")


def _objects(value: Any, at: str) -> Iterator[Placed]:
    if isinstance(value, dict):
        yield at, value
    else:
        yield from view.objects(value, at)


def _sealed(value: object) -> bool:
    return isinstance(value, str) and bool(_SEAL.fullmatch(value)) and value.lower() not in _STAND_INS


def invented_server_result(request: Request, context: Context) -> Iterator[Violation]:
    """A result of a server tool is one that the API returned.

    ## Why
    A made-up error may be accepted, and then tells the model that the tool failed, which nobody knows.

    ## Repair
    Drop the call.
    """
    received = _received(context)
    calls = {view.text(block.get("id")) for block in received if view.kind(block) in wire.SERVER_CALLS}
    results = {
        view.text(block.get("tool_use_id")): block.get("content")
        for block in received
        if view.kind(block) in wire.SERVER_RESULTS
    }
    for at, result in view.of_type(request, wire.SERVER_RESULTS):
        call_id = view.text(result.get("tool_use_id"))
        if call_id in results:
            if not recorded.same(results[call_id], result.get("content")):
                yield Violation(f"{at}/content", f"the server returned something else for {named(call_id)}")
        elif call_id in calls:
            yield Violation(at, f"the server returned no result for {named(call_id)}")


def _received(context: Context) -> list[Block]:
    """The blocks of the reply as the API sent them: as recorded, or those that its stream started."""
    events = [event for _, event in view.objects(context.get("stream"), "")]
    started = [event.get("content_block") for event in events if view.kind(event) == "content_block_start"]
    return recorded.blocks(context) + [block for block in started if isinstance(block, dict)]


def repeated_server_call(request: Request, context: Context) -> Iterator[Violation]:
    """A server call stands in the history once, also when its result comes in a later message.

    ## Repair
    The call stays where the first reply had it; the message with the result does not repeat it.
    """
    for at, call in exchanges.server_calls(request).repeated:
        yield Violation(f"{at}/id", f"call {named(call.get('id'))} already stands in the history")


def undeclared_server_tool(request: Request, context: Context) -> Iterator[Violation]:
    """The server tools that the history used are still offered.

    ## Why
    Some routes refuse finished calls of a tool that is gone. Of the advisor the documentation says otherwise.

    ## Repair
    Go on declaring them, with `tool_choice` `none` if they are not to be used.
    """
    told: set[str] = set()
    for (at, call), _ in exchanges.server_calls(request).pairs:
        if (
            view.kind(call) == "server_tool_use"
            and _name(call) not in told
            and not exchanges.offers(request, call)
        ):
            told.add(_name(call))
            yield Violation(at, f"the history used {_name(call)}, which the request does not offer")


def advisor_without_beta(request: Request, context: Context) -> Iterator[Violation]:
    """Calls of the advisor and its advice need the advisor's beta.

    ## Repair
    Ask for the beta while such blocks are in the history, or drop call and result together.
    """
    if view.has_beta(request, _ADVISOR):
        return
    for at, block in view.of_type(request, frozenset({"server_tool_use", "advisor_tool_result"})):
        if view.kind(block) == "advisor_tool_result" or block.get("name") == "advisor":
            yield Violation(
                at, f"{view.kind(block)} of the advisor needs the beta {wire.BETAS['advisor_tool_result'][1]}"
            )


RULES: Final[Rulebook] = (
    Rule(
        id="ANT-SRV-001",
        name="unanswered-server-call",
        severity="reject",
        source=f"{_SERVER}; {_STOPS}; pydantic-ai, tests/models/anthropic/test_unpaired_native_tool_calls.py",
        error="was found without a corresponding",
        check=unanswered_server_call,
        applies="every model, once a message follows that does not go on with the call",
    ),
    Rule(
        id="ANT-SRV-002",
        name="open-call-without-tool",
        severity="reject",
        source=f"{_SERVER}; {_STOPS}",
        error="tool was provided",
        check=open_call_without_tool,
        applies="`stop_reason: pause_turn`",
    ),
    Rule(
        id="ANT-SRV-003",
        name="text-beside-open-call",
        severity="reject",
        source=f"{_SERVER}; {_TOOLS}/handle-tool-calls",
        error="was found without a corresponding",
        check=text_beside_open_call,
        applies="`stop_reason: tool_use` with an open server call",
    ),
    Rule(
        id="ANT-SRV-004",
        name="orphan-server-result",
        severity="reject",
        source="https://github.com/anthropics/claude-code/issues/64383;"
        " https://github.com/anthropics/claude-code/issues/80439;"
        " https://github.com/anthropics/claude-code/issues/62885",
        error="unexpected `tool_use_id` found in",
        check=orphan_server_result,
        applies="every model",
    ),
    Rule(
        id="ANT-SRV-005",
        name="mismatched-server-result",
        severity="reject",
        source=f"{_SERVER}; SDK: types/content_block_param.py",
        error="was found without a corresponding",
        check=mismatched_server_result,
        applies="every model",
    ),
    Rule(
        id="ANT-SRV-006",
        name="broken-seal",
        severity="reject",
        source=f"{_TOOLS}/web-search-tool; public reports on replayed search results (claude-opus-4.8, 2026)",
        error="Invalid `encrypted_content` in `search_result` block",
        check=broken_seal,
        applies="web search, advisor, code execution",
    ),
    Rule(
        id="ANT-SRV-007",
        name="invented-server-result",
        severity="policy",
        source=_SERVER,
        error=None,
        check=invented_server_result,
        static=False,
        applies="always: the API may accept an invention that is well formed",
    ),
    Rule(
        id="ANT-SRV-008",
        name="repeated-server-call",
        severity="reject",
        source=_SERVER,
        error="`tool_use` ids must be unique",
        check=repeated_server_call,
        applies="after a pause or a mixed turn",
    ),
    Rule(
        id="ANT-SRV-009",
        name="undeclared-server-tool",
        severity="contested",
        source=f"public proxies that learn this refusal; {_TOOLS}/advisor-tool",
        error="not found in provided tools",
        check=undeclared_server_tool,
        applies="GitHub Copilot's route and other resellers",
    ),
    Rule(
        id="ANT-SRV-010",
        name="advisor-without-beta",
        severity="reject",
        source=f"{_TOOLS}/advisor-tool; SDK: types/beta/beta_advisor_tool_result_block_param.py",
        error="does not match any of the expected tags",
        check=advisor_without_beta,
        applies="advisor tool (beta)",
    ),
)
