"""OAR-HOST, OAR-MCP: calls that the server runs, and its questions whether it may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.openai_responses import wire
from normalizer.providers.openai_responses.rules import view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Iterator

_ITEMS: Final = "SDK types/responses/response_input_item_param.py"
_RUNNER: Final = "SDK lib/responses_tool_runner.py"
_KEPT: Final = ("status", "action", "queries", "results", "code", "outputs", "result", "output", "error")


def client_answers_hosted_call(request: Request, context: Context) -> Iterator[Violation]:
    """No output of the client's names a hosted call; its result is inside the item.

    ## Repair
    Remove the output. The call is replayed as it came, or left out if the server never ended it.
    """
    hosted = {view.text(item.get("id")) for _, item in view.of_kind(request, *wire.HOSTED)} - {""}
    for output in view.outputs(request) if hosted else ():
        if output.call_id in hosted:
            yield Violation(output.pointer, f"{named(output.call_id)} is a call of the server's")


def unfinished_hosted_call(request: Request, context: Context) -> Iterator[Violation]:
    """A hosted call that the server has not ended is not sent.

    ## Why
    Its result is not known, and nobody but the server has it.

    ## Repair
    Retrieve the response, if it was stored. Else leave the call out with the reasoning in front of it, and what
    follows in that response goes without ids. Never add a result or write another status.
    """
    for at, item in view.of_kind(request, *wire.HOSTED):
        status = item.get("status")
        if status is not None and view.text(status) not in wire.TERMINAL:
            yield Violation(f"{at}/status", f"the server left the call {status!r}")


def changed_hosted_call(request: Request, context: Context) -> Iterator[Violation]:
    """Status, results and error of a hosted call are those that the server gave.

    ## Repair
    Replay the item unchanged.
    """
    for at, item, given in view.originals(request, context, *wire.HOSTED):
        for key in _KEPT:
            if item.get(key) != given.get(key):
                yield Violation(f"{at}/{key}", f"the server gave another {key}")


def hosted_call_without_keys(request: Request, context: Context) -> Iterator[Violation]:
    """A code run names its code, container and outputs, a picture its result, even if they are null.

    ## Repair
    Replay the keys as received. Null says that something was not included.
    """
    for at, item in view.of_kind(request, "code_interpreter_call", "image_generation_call"):
        wanted = (
            ("container_id", "code", "outputs") if view.kind(item) == "code_interpreter_call" else ("result",)
        )
        for key in wanted:
            if key not in item:
                yield Violation(f"{at}/{key}", f"a {view.kind(item)} item needs {key!r}")


def picture_without_data(request: Request, context: Context) -> Iterator[Violation]:
    """A generated picture without its data lives on the server only.

    ## Repair
    Send the recorded data where nothing is stored, or leave the call out. A preview is no result.
    """
    if view.stateless(request):
        for at, item in view.of_kind(request, "image_generation_call"):
            if not item.get("result"):
                yield Violation(f"{at}/result", "nothing is stored, and the picture is not here")


def hidden_failure(request: Request, context: Context) -> Iterator[Violation]:
    """A hosted call that the server ended as failed or incomplete stays as it is, with its error.

    ## Why
    The model would not know that it tried.

    ## Repair
    Replay it.
    """
    for at, item, given in view.originals(request, context, *wire.HOSTED):
        if given.get("status") in ("failed", "incomplete") and (
            item.get("status") != given["status"] or item.get("error") != given.get("error")
        ):
            yield Violation(at, f"the server ended the call as {given['status']}")


# ---------------------------------------------------------------- MCP


def _requests(request: Request, context: Context) -> set[str]:
    """The approval requests that a response can name."""
    found = [item for _, item in view.of_kind(request, "mcp_approval_request")]
    found += [item for item in view.held(request, context) or () if view.kind(item) == "mcp_approval_request"]
    return {view.text(item.get("id")) for item in found}


def approval_without_request(request: Request, context: Context) -> Iterator[Violation]:
    """An approval names a request in the input, or in what the server holds.

    ## Repair
    Restore the request. Whether a function of the client's may run is no matter of these items.
    """
    if view.continues(request) and view.held(request, context) is None:
        return
    known = _requests(request, context)
    for at, item in view.of_kind(request, "mcp_approval_response"):
        if view.text(item.get("approval_request_id")) not in known:
            yield Violation(at, f"nothing asked for {named(item.get('approval_request_id'))}")


def second_approval(request: Request, context: Context) -> Iterator[Violation]:
    """An approval request is answered once.

    ## Repair
    The first recorded decision stays; a contrary one is a conflict.
    """
    seen: set[str] = set()
    for at, item in view.of_kind(request, "mcp_approval_response"):
        found = view.text(item.get("approval_request_id"))
        if found in seen:
            yield Violation(at, f"{found!r} has been answered")
        seen.add(found)


def repeated_approval_request(request: Request, context: Context) -> Iterator[Violation]:
    """A request that the server holds is not sent again beside its answer.

    ## Repair
    Send the answer alone.
    """
    before = {view.text(item.get("id")) for item in view.held(request, context) or ()}
    for at, item in view.of_kind(request, "mcp_approval_request"):
        if view.text(item.get("id")) in before - {""}:
            yield Violation(at, f"the server holds {named(item['id'])}")


def invented_approval(request: Request, context: Context) -> Iterator[Violation]:
    """An approval is a recorded decision.

    ## Repair
    Undecided: wait, or leave the request out with its reasoning. Denied: `approve` is false.
    """
    decided = context.get("approvals")
    if isinstance(decided, dict):
        for at, item in view.of_kind(request, "mcp_approval_response"):
            if decided.get(view.text(item.get("approval_request_id"))) is not item.get("approve"):
                yield Violation(at, "nobody decided so")


def call_without_approval(request: Request, context: Context) -> Iterator[Violation]:
    """A call that was asked for stands behind the request and its approval.

    ## Repair
    Replay request, answer and call in their order.
    """
    if view.continues(request):
        return
    asked: set[str] = set()
    approved: set[str] = set()
    for at, item in view.of_kind(request, "mcp_approval_request", "mcp_approval_response", "mcp_call"):
        if view.kind(item) == "mcp_approval_request":
            asked.add(view.text(item.get("id")))
        elif view.kind(item) == "mcp_approval_response":
            if item.get("approve") is True:
                approved.add(view.text(item.get("approval_request_id")))
        else:
            found = view.text(item.get("approval_request_id"))
            if found and found not in asked & approved:
                yield Violation(f"{at}/approval_request_id", f"{found!r} was not approved before it")


def lost_tool_list(request: Request, context: Context) -> Iterator[Violation]:
    """The list of an MCP server's tools stays in the history.

    ## Why
    The server asks for it again in every request otherwise.

    ## Repair
    Replay the item.
    """
    if view.continues(request):
        return
    there = {
        view.text(item.get("id")) for _, item in view.of_kind(request, "mcp_list_tools", "item_reference")
    }
    for item in view.native(context):
        if view.kind(item) == "mcp_list_tools" and view.text(item.get("id")) not in there:
            yield Violation("/input", f"the list of tools {named(item.get('id'))} is missing")


def _rule(rule_id: str, name: str, error: str | None, check: Any, source: str, severity: Any = "reject",
          *, static: bool = True, applies: str | None = None) -> Rule:  # fmt: skip
    return Rule(f"OAR-{rule_id}", name, severity, source, error, check, static, applies)


RULES: Final[Rulebook] = (
    _rule(
        "HOST-001", "client-answers-hosted-call", "No tool call found for function call output with call_id ws_1.",
        client_answers_hosted_call, f"{_ITEMS}; {_RUNNER}",
    ),
    _rule("HOST-002", "unfinished-hosted-call", None, unfinished_hosted_call, _RUNNER, "policy"),
    _rule(
        "HOST-003", "changed-hosted-call", None, changed_hosted_call,
        "openai/openai-agents-python src/agents/run_internal/items.py", "policy", static=False,
    ),
    _rule(
        "HOST-004", "hosted-call-without-keys", "Missing required parameter: 'input[1].container_id'",
        hosted_call_without_keys, f"SDK types/responses/response_code_interpreter_tool_call_param.py; {_ITEMS}",
    ),
    _rule(
        "HOST-005", "picture-without-data", "Item with id 'ig_1' not found.", picture_without_data,
        "https://developers.openai.com/api/docs/guides/image-generation; vercel/ai packages/openai",
        applies="`store` is false",
    ),
    _rule("HOST-006", "hidden-failure", None, hidden_failure, _ITEMS, "policy", static=False),
    _rule(
        "MCP-001", "approval-without-request", "mcp_approval", approval_without_request,
        f"https://github.com/microsoft/agent-framework/issues/7452; {_RUNNER}",
    ),
    _rule("MCP-002", "second-approval", None, second_approval, _RUNNER),
    _rule(
        "MCP-003", "repeated-approval-request", "Duplicate item found with id mcpr_1.", repeated_approval_request,
        "https://github.com/vercel/ai/issues/18605", static=False,
    ),
    _rule("MCP-004", "invented-approval", None, invented_approval, "the laws of this library", "policy", static=False),
    _rule(
        "MCP-005", "call-without-approval", "approval_request_id", call_without_approval,
        f"https://github.com/openai/openai-openapi/issues/470; {_RUNNER}", "degrades",
    ),
    _rule(
        "MCP-006", "lost-tool-list", None, lost_tool_list,
        "https://developers.openai.com/api/docs/guides/tools-connectors-mcp", "degrades", static=False,
    ),
)  # fmt: skip
