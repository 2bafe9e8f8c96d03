"""ANT-PAIR: calls of the client's tools and their results, over merged turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from normalizer.providers.anthropic import wire
from normalizer.providers.anthropic.rules import exchanges, view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from normalizer.providers.anthropic.rules.view import Turn

_UNANSWERED: Final = "`tool_use` ids were found without `tool_result` blocks immediately after"
_HANDLE: Final = "https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls"
_SERVER: Final = "https://platform.claude.com/docs/en/agents-and-tools/tool-use/server-tools"


def _result_ids(turn: Turn | None) -> set[str]:
    found = turn.of_type("tool_result") if turn is not None else ()
    return {view.text(result.get("tool_use_id")) for _, result in found} - {""}


def unanswered_tool_call(request: Request, context: Context) -> Iterator[Violation]:
    """Every tool call is answered in the next user turn.

    ## Why
    The API refuses the whole request, so one lost result ends the conversation.

    ## Repair
    Answer with the recorded outcome: denied, never run, cancelled, unknown. A call that was streamed only in
    part is dropped. A result is never made up.
    """
    turns = [] if exchanges.order(request).paired else view.turns(request)
    for turn, behind in exchanges.answers(turns):
        answered = _result_ids(behind)
        for at, call in turn.of_type("tool_use"):
            if view.text(call.get("id")) not in answered:
                yield Violation(at, f"tool call {named(call.get('id'))} has no result in the next user turn")


def orphan_result(request: Request, context: Context) -> Iterator[Violation]:
    """Every result names a call of the assistant turn right before it.

    ## Why
    Cutting off old messages, and putting a late result where it arrived, leave results without their calls.

    ## Repair
    Move the result to its call. If the call is not on record, leave the result out and report it.
    """
    turns = [] if exchanges.all_paired(request) else view.turns(request)
    for turn, before in exchanges.asked(turns):
        if turn is turns[0] and view.continues_thread(request):
            continue
        known = exchanges.calls(before).keys() | _server_ids(before)
        for at, result in turn.of_type("tool_result"):
            call_id = view.text(result.get("tool_use_id"))
            if call_id and call_id not in known and not call_id.startswith(exchanges.SERVER_ID):
                yield Violation(at, f"result of {named(call_id)} has no such call in the turn before it")


def _server_ids(turn: Turn | None) -> set[str]:
    found = turn.of_type(*wire.SERVER_CALLS) if turn is not None else ()
    return {view.text(call.get("id")) for _, call in found} - {""}


def late_result(request: Request, context: Context) -> Iterator[Violation]:
    """The results are at the front of the user turn, one behind the other; text and media follow them.

    ## Why
    The API looks for them there and reports the calls as unanswered otherwise. Their own order is free.

    ## Repair
    Results first, everything else behind them in its own order.
    """
    for turn in () if exchanges.order(request).results_first else view.turns(request):
        if turn.role != "user":
            continue
        other = False
        for at, block in turn.items:
            if block.get("type") != "tool_result":
                other = True
            elif other:
                yield Violation(
                    at, f"the result of {named(block.get('tool_use_id'))} stands behind other content"
                )


def interrupted_tool_call(request: Request, context: Context) -> Iterator[Violation]:
    """Nothing stands between an assistant turn with calls and the user turn with their results.

    ## Why
    A system message or a later reply in between makes the calls unanswered, although the results are there.

    ## Repair
    Move what stands between behind the results.
    """
    turns = [] if exchanges.all_paired(request) else view.turns(request)
    waiting: dict[str, int] = {}
    told: set[int] = set()
    for number, turn in enumerate(turns):
        if turn.role == "assistant":
            waiting.update(dict.fromkeys(exchanges.calls(turn), number))
        elif turn.role == "user":
            for call_id in sorted(_result_ids(turn) & waiting.keys()):
                between = waiting.pop(call_id) + 1
                if between < number and between not in told:
                    told.add(between)
                    yield Violation(
                        turns[between].pointer, f"stands between call {named(call_id)} and its result"
                    )


def duplicate_call_id(request: Request, context: Context) -> Iterator[Violation]:
    """No two tool calls of the history have the same id.

    ## Why
    Counters that start again in every turn produce such ids. The reports read as if the whole history
    counted.

    ## Repair
    One call recorded twice is kept once. Of two calls the later one gets another id, in its result too.
    """
    seen: set[str] = set()
    found = [] if exchanges.order(request).paired else view.of_type(request, frozenset({"tool_use"}))
    for at, call in found:
        call_id = view.text(call.get("id"))
        if call_id and call_id in seen:
            yield Violation(f"{at}/id", f"an earlier call has the id {named(call_id)}")
        seen.add(call_id)


def duplicate_result(request: Request, context: Context) -> Iterator[Violation]:
    """A call has one result and no more.

    ## Why
    A real result beside the placeholder that was written for it is the usual cause.

    ## Repair
    Keep the result that tells how the call ended. Never join the two.
    """
    for turn in () if exchanges.order(request).paired else view.turns(request):
        if turn.role != "user":
            continue
        seen: set[str] = set()
        for at, result in turn.of_type("tool_result"):
            call_id = view.text(result.get("tool_use_id"))
            if call_id and call_id in seen:
                yield Violation(at, f"call {named(call_id)} already has a result")
            seen.add(call_id)


def content_after_call(request: Request, context: Context) -> Iterator[Violation]:
    """In an assistant turn nothing but calls follows the first tool call.

    ## Why
    Some endpoints refuse what follows, others take it; live probes differ.

    ## Repair
    Replay what the API sent as it came. In a turn that was put together, and that holds no thinking, put
    calls last.
    """
    for turn in () if exchanges.order(request).calls_last else view.turns(request):
        if turn.role != "assistant":
            continue
        called = False
        for at, block in turn.items if any(True for _ in turn.of_type("tool_use")) else ():
            kind = view.kind(block)
            called = called or kind == "tool_use"
            if called and kind not in exchanges.CALLS:
                yield Violation(at, f"{kind or 'content'} follows a tool call in the same turn")


def client_answers_server_call(request: Request, context: Context) -> Iterator[Violation]:
    """No result of the client names a call that the server runs.

    ## Why
    The server writes the results of its own tools; to the client's result it finds no call.

    ## Repair
    Remove the result. If its call is open and the conversation went on, the call goes too.
    """
    for turn, before in exchanges.asked(view.turns(request)) if _may_name_server(request) else ():
        served = _server_ids(before)
        served -= exchanges.calls(before).keys() if served else set()
        for at, result in turn.of_type("tool_result"):
            call_id = view.text(result.get("tool_use_id"))
            if call_id.startswith(exchanges.SERVER_ID) or call_id in served:
                yield Violation(at, f"{named(call_id)} is a call of the server's, not of the client's")


def _may_name_server(request: Request) -> bool:
    """Whether the server runs calls in this history, or ran some that are no longer there."""
    if view.of_type(request, wire.SERVER_CALLS):
        return True
    results = view.of_type(request, frozenset({"tool_result"}))
    return any(view.text(result.get("tool_use_id")).startswith(exchanges.SERVER_ID) for _, result in results)


def nameless_result(request: Request, context: Context) -> Iterator[Violation]:
    """Every result says which call it answers.

    ## Repair
    Pair it by the record. One open call and one such result belong together; else leave the result out.
    """
    for at, result in view.of_type(request, frozenset({"tool_result"})):
        if not view.text(result.get("tool_use_id")):
            yield Violation(f"{at}/tool_use_id", "the result names no call")


def toolset_not_echoed(request: Request, context: Context) -> Iterator[Violation]:
    """A result carries the `toolset_name` of its call, and none where the call has none.

    ## Why
    Tools of a toolset are known to the API under the name of their set.

    ## Repair
    Copy the name from the recorded call, in notices too.
    """
    of_sets = view.standing(request).having("toolset_name")
    for (at, result), call in exchanges.answered(request) if of_sets else ():
        name = call.get("toolset_name")
        if result.get("toolset_name") != name:
            yield Violation(f"{at}/toolset_name", f"the call has the toolset {name!r}")


RULES: Final[Rulebook] = (
    Rule(
        id="ANT-PAIR-001",
        name="unanswered-tool-call",
        severity="reject",
        source=f"{_HANDLE}; https://github.com/anthropics/claude-code/issues/3632;"
        " https://github.com/anthropics/claude-code/issues/5989",
        error=_UNANSWERED,
        check=unanswered_tool_call,
        applies="every model",
    ),
    Rule(
        id="ANT-PAIR-002",
        name="orphan-result",
        severity="reject",
        source=f"{_HANDLE}; https://github.com/anthropics/claude-code/issues/13460;"
        " https://github.com/decocms/studio/issues/1803",
        error="unexpected `tool_use_id` found in `tool_result` blocks",
        check=orphan_result,
        applies="every model; not for calls that a thread on the server holds",
    ),
    Rule(
        id="ANT-PAIR-003",
        name="late-result",
        severity="reject",
        source=f"{_HANDLE}; https://github.com/V1ki/dsh-plugin-subscriptions/issues/22;"
        " https://github.com/langchain-ai/langchain-aws/issues/398",
        error=_UNANSWERED,
        check=late_result,
        applies="every model",
    ),
    Rule(
        id="ANT-PAIR-004",
        name="interrupted-tool-call",
        severity="reject",
        source=f"{_HANDLE};"
        " https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages",
        error=_UNANSWERED,
        check=interrupted_tool_call,
        applies="every model; system messages on models that have them",
    ),
    Rule(
        id="ANT-PAIR-005",
        name="duplicate-call-id",
        severity="reject",
        source="https://github.com/BerriAI/litellm/issues/23510;"
        " https://github.com/anthropics/claude-code/issues/20901",
        error="`tool_use` ids must be unique",
        check=duplicate_call_id,
        applies="every model",
    ),
    Rule(
        id="ANT-PAIR-006",
        name="duplicate-result",
        severity="reject",
        source="https://github.com/anthropics/claude-code/issues/14110",
        error="each tool_use must have a single result",
        check=duplicate_result,
        applies="every model",
    ),
    Rule(
        id="ANT-PAIR-007",
        name="content-after-call",
        severity="contested",
        source="https://github.com/NanmiCoder/cc-haha/issues/582;"
        " https://github.com/can1357/oh-my-pi/issues/4782;"
        " https://github.com/stacklok/mecatl/issues/1481;"
        " https://github.com/gotgenes/pi-anthropic-auth/issues/66;"
        " https://github.com/anthropics/claude-code/issues/473",
        error=_UNANSWERED,
        check=content_after_call,
        applies="refused: claude-haiku-4-5 in a probe of 2026-05-13, routes over Bedrock;"
        " accepted: five models in a probe of 2026-09-20",
    ),
    Rule(
        id="ANT-PAIR-008",
        name="client-answers-server-call",
        severity="reject",
        source=f"{_SERVER}; {_HANDLE};"
        " https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool",
        error="unexpected `tool_use_id` found in `tool_result` blocks",
        check=client_answers_server_call,
        applies="every model",
    ),
    Rule(
        id="ANT-PAIR-009",
        name="nameless-result",
        severity="reject",
        source="live probe of claude-haiku-4-5 in a public repository, 2026-08-28",
        error="tool_use_id: Field required",
        check=nameless_result,
        applies="every model",
    ),
    Rule(
        id="ANT-PAIR-010",
        name="toolset-not-echoed",
        severity="reject",
        source=f"{_HANDLE}; https://platform.claude.com/docs/en/agents-and-tools/tool-use/browser-use-tool;"
        " https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-reference",
        error=None,
        check=toolset_not_echoed,
        applies="browser and computer toolsets (`*_toolset_20260801`)",
    ),
)
