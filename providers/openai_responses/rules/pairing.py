"""OAR-PAIR, OAR-ASYNC, OAR-CUSTOM: calls of the client's tools and their outputs.

Calls and outputs pair by `call_id` over the whole list, and over what the server holds before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from normalizer.providers.openai_responses import wire
from normalizer.providers.openai_responses.rules import view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Iterator

_RUNNER: Final = "SDK lib/responses_tool_runner.py"
_ITEMS: Final = "SDK types/responses/response_input_item_param.py"
_ASYNC: Final = "https://developers.openai.com/api/docs/guides/async-tool-calling"
_NO_OUTPUT: Final = "No tool output found for function call call_1."
_NO_CALL: Final = "No tool call found for function call output with call_id call_1."


def unanswered(request: Request, kind: str) -> Iterator[Violation]:
    """Calls of one type for which nothing of that type's outputs stands in the input."""
    answered = {output.call_id for output in view.of_calls(request, wire.ANSWERS[kind])}
    for call in view.of_calls(request, kind):
        if not call.call_id or call.call_id in answered:
            continue
        if not view.served(call.item) and call.item.get("async") is not True:
            yield Violation(call.pointer, f"call {named(call.call_id)} has no output")


def unanswered_function_call(request: Request, context: Context) -> Iterator[Violation]:
    """Every function call has its output in the input, unless it runs asynchronously.

    ## Why
    One output that got lost makes the API refuse the whole history.

    ## Repair
    Answer with the recorded result, or with a notice of the recorded outcome. No result is made up.
    """
    yield from unanswered(request, "function_call")


def _known_calls(request: Request, context: Context) -> dict[str, int]:
    """Call ids of everything that an output can answer, and where they stand; -1 is before the input."""
    found: dict[str, int] = {}
    for item in view.held(request, context) or ():
        if view.kind(item) in wire.ANSWERS:
            found[view.call_id(item)] = -1
    for call in view.calls(request):
        if call.call_id:
            found.setdefault(call.call_id, call.number)
    return found


def _held_elsewhere(request: Request, context: Context) -> bool:
    """Whether calls may stand where this check cannot look."""
    return view.continues(request) and view.held(request, context) is None


def orphan_output(request: Request, context: Context) -> Iterator[Violation]:
    """Every output has its call in the input, or in what the server holds.

    ## Why
    Cutting off old items leaves outputs without their calls.

    ## Repair
    Restore the call. If it is not on record, leave the output out and report it.
    """
    if _held_elsewhere(request, context):
        return
    known = _known_calls(request, context)
    answered = {
        view.call_id(item) for item in view.held(request, context) or () if view.kind(item) in wire.OUTPUTS
    }
    hosted = {view.text(item.get("id")) for _, item in view.of_kind(request, *wire.HOSTED)}
    for output in view.outputs(request):
        call_id = output.call_id
        if call_id and call_id not in known and call_id not in hosted and call_id not in answered:
            yield Violation(output.pointer, f"no call has the id {named(call_id)}")


def second_output(request: Request, context: Context) -> Iterator[Violation]:
    """A call has one output.

    ## Repair
    Keep the output that tells how the call ended; what was learnt later is told in a message.
    """
    for output in _repeated(view.outputs(request)):
        yield Violation(output.pointer, f"call {named(output.call_id)} has an output already")


def _repeated(halves: list[view.Half]) -> Iterator[view.Half]:
    """Those whose call id an earlier one has."""
    seen: set[str] = set()
    for half in halves:
        if half.call_id and half.call_id in seen:
            yield half
        seen.add(half.call_id)


def duplicate_call_id(request: Request, context: Context) -> Iterator[Violation]:
    """No two calls of a request share a `call_id`.

    ## Repair
    The same item twice is sent once. Of two calls the later one gets another id, in its output too.
    """
    for call in _repeated(view.calls(request)):
        yield Violation(f"{call.pointer}/call_id", f"an earlier call has the id {named(call.call_id)}")


def wrong_output_type(request: Request, context: Context) -> Iterator[Violation]:
    """An output is of the type that belongs to its call's type.

    ## Repair
    Tell the outcome in the form of the call's own output.
    """
    kinds = {call.call_id: call.kind for call in view.calls(request)}
    for output in view.outputs(request):
        call = kinds.get(output.call_id)
        if call is not None and wire.ANSWERS[call] != output.kind:
            yield Violation(f"{output.pointer}/type", f"a {call} is answered by a {wire.ANSWERS[call]}")


def output_before_call(request: Request, context: Context) -> Iterator[Violation]:
    """An output stands behind its call.

    ## Repair
    Put it there; with parallel calls, behind all of them.
    """
    known = _known_calls(request, context)
    for output in view.outputs(request):
        if known.get(output.call_id, -1) > output.number:
            yield Violation(output.pointer, f"its call {named(output.call_id)} comes later")


def nameless_output(request: Request, context: Context) -> Iterator[Violation]:
    """An output names its call; one without a call is a form that few models know.

    ## Repair
    Send it only where such an item was recorded. It stands in for no pair.
    """
    for at, item in view.of_kind(request, "function_call_output"):
        if item.get("call_id") is None:
            yield Violation(f"{at}/call_id", "the output names no call")


def untrue_output(request: Request, context: Context) -> Iterator[Violation]:
    """An output says the recorded result, or what is known of a call without one.

    ## Repair
    A completed call has its result, word for word; any other outcome its notice.
    """
    outcomes = view.mapped(context.get("outcomes"))
    told = view.of_kind(request, "function_call_output", "custom_tool_call_output") if outcomes else ()
    for at, item in told:
        known = outcomes.get(view.call_id(item))
        if not isinstance(known, dict):
            continue
        wanted = known.get("result") if known.get("kind") == "completed" else known.get("notice")
        if isinstance(wanted, str) and view.words(item.get("output")) != wanted:
            yield Violation(f"{at}/output", f"the outcome {known.get('kind')} is told in other words")


# ---------------------------------------------------------------- asynchronous calls


def _async_ids(request: Request) -> set[str]:
    return {view.call_id(item) for _, item in view.having(request, "async") if item["async"] is True} - {""}


def placeholder_for_async(request: Request, context: Context) -> Iterator[Violation]:
    """An asynchronous call stays open until its one output comes.

    ## Repair
    Leave it open while it runs. When it ends, its output or a notice is appended, once.
    """
    waiting = _async_ids(request)
    for output in _repeated(view.outputs(request)) if waiting else ():
        if output.call_id in waiting:
            yield Violation(
                output.pointer, f"the asynchronous call {named(output.call_id)} was closed before"
            )


def lost_async_mark(request: Request, context: Context) -> Iterator[Violation]:
    """A call that came with `async` goes back with it.

    ## Repair
    Replay the item as received.
    """
    for at, item, given in view.originals(request, context, "function_call", "custom_tool_call"):
        if given.get("async") is True and item.get("async") is not True:
            yield Violation(at, f"call {named(view.call_id(item))} came with the mark async")


def output_to_old_response(request: Request, context: Context) -> Iterator[Violation]:
    """A late output continues the newest response, not the one that made the call.

    ## Why
    The turns in between are lost otherwise.

    ## Repair
    Keep the newest response as a fact.
    """
    chain = view.listed(context.get("chain"))
    head = request.get("previous_response_id")
    if head in chain[:-1] and view.outputs(request):
        yield Violation("/previous_response_id", f"{chain[-1]!r} is the newest response")


# ---------------------------------------------------------------- custom tools


def custom_input_not_text(request: Request, context: Context) -> Iterator[Violation]:
    """The input of a custom tool is free text.

    ## Repair
    Replay it as received, without wrapping.
    """
    for at, item in view.of_kind(request, "custom_tool_call"):
        if "input" in item and not isinstance(item["input"], str):
            yield Violation(f"{at}/input", "the input is no text")


def unanswered_custom_call(request: Request, context: Context) -> Iterator[Violation]:
    """Every custom tool call has its output, unless it runs asynchronously.

    ## Repair
    The recorded result or a notice, as a `custom_tool_call_output`.
    """
    yield from unanswered(request, "custom_tool_call")


def custom_status(request: Request, context: Context) -> Iterator[Violation]:
    """Calls and outputs of custom tools have no status here.

    ## Repair
    Leave it out; of an output that did not complete, tell the recorded outcome.
    """
    for at, item in view.of_kind(request, "custom_tool_call", "custom_tool_call_output"):
        if "status" in item:
            yield Violation(f"{at}/status", "a custom tool's item has no status")


RULES: Final[Rulebook] = (
    Rule(
        "OAR-PAIR-001", "unanswered-function-call", "reject",
        "https://github.com/openai/codex/issues/620; https://github.com/router-for-me/CLIProxyAPI/issues/2368;"
        f" {_RUNNER}",
        _NO_OUTPUT, unanswered_function_call,
    ),
    Rule(
        "OAR-PAIR-002", "orphan-output", "reject",
        "https://github.com/continuedev/continue/issues/10092; https://github.com/can1357/oh-my-pi/issues/106",
        _NO_CALL, orphan_output,
    ),
    Rule("OAR-PAIR-003", "second-output", "reject", _RUNNER, None, second_output),
    Rule("OAR-PAIR-004", "duplicate-call-id", "reject", _RUNNER, None, duplicate_call_id),
    Rule(
        "OAR-PAIR-005", "wrong-output-type", "reject",
        f"{_RUNNER}; SDK types/responses/response_steer_required_input.py",
        "No tool output found for custom tool call call_1.", wrong_output_type,
    ),
    Rule("OAR-PAIR-006", "output-before-call", "reject", _RUNNER, _NO_CALL, output_before_call),
    Rule(
        "OAR-PAIR-007", "nameless-output", "degrades",
        f"{_ITEMS}; https://github.com/openai/codex/issues/42088; https://github.com/openai/codex/issues/46193",
        "Missing required parameter: 'input[1].call_id'", nameless_output, applies="all but the newest models",
    ),
    Rule("OAR-PAIR-008", "untrue-output", "policy", "the laws of this library", None, untrue_output, static=False),
    Rule(
        "OAR-ASYNC-001", "placeholder-for-async", "reject",
        f"{_ASYNC}; SDK types/responses/response_function_tool_call_param.py", None, placeholder_for_async,
        applies="calls with `async`, GPT-6 Astra and later",
    ),
    Rule("OAR-ASYNC-002", "lost-async-mark", "reject", _ASYNC, _NO_OUTPUT, lost_async_mark, static=False),
    Rule(
        "OAR-ASYNC-003", "output-to-old-response", "degrades", _ASYNC, None, output_to_old_response, static=False
    ),
    Rule(
        "OAR-CUSTOM-001", "custom-input-not-text", "reject",
        "SDK types/responses/response_custom_tool_call_param.py",
        "Invalid type for 'input[1].input': expected a string", custom_input_not_text,
    ),
    Rule(
        "OAR-CUSTOM-002", "unanswered-custom-call", "reject",
        f"https://github.com/openai/codex/issues/620; {_RUNNER}",
        "No tool output found for custom tool call call_1.", unanswered_custom_call,
    ),
    Rule(
        "OAR-CUSTOM-003", "custom-status", "reject",
        "SDK types/responses/response_custom_tool_call_output_param.py;"
        " openai/openai-node src/lib/responses/ResponseInputItems.ts",
        "Unknown parameter: 'input[2].status'", custom_status,
    ),
)  # fmt: skip
