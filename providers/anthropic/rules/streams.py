"""What of a stream may become history (ANT-STR).

A careless record mostly shows as a breach of another rule. These rules name the cause: they judge a request
by the `stream` of the context (the events, in order), beside `executed`, and are silent without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.anthropic import wire
from normalizer.providers.anthropic.rules import streamed, view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Iterator

_STREAMING: Final = "https://platform.claude.com/docs/en/build-with-claude/streaming"
_STOPS: Final = "https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons"
_EAGER: Final = "https://platform.claude.com/docs/en/agents-and-tools/tool-use/fine-grained-tool-streaming"
_SERVER: Final = "https://platform.claude.com/docs/en/agents-and-tools/tool-use/server-tools"
_THREADS: Final = "SDK:lib/threads/_thread_state.py"
_CLIENT_CALLS: Final = frozenset({"tool_use"})


def _calls(request: Request) -> list[view.Placed]:
    return view.of_type(request, _CLIENT_CALLS, "assistant")


def call_cut_in_its_input(request: Request, context: Context) -> Iterator[Violation]:
    """A call that never came whole is no call.

    It was not closed, or a limit or a refusal cut the reply inside its input: it is neither run nor kept.
    Whole calls of the same reply stay and are answered.
    """
    found = streamed.stream(context)
    half = streamed.unfinished_calls(found) if found else {}
    for pointer, block in _calls(request) if half else ():
        if view.text(block.get("id")) in half:
            yield Violation(pointer, f"the call {named(block['id'])} did not come whole")


def placeholder_taken_as_input(request: Request, context: Context) -> Iterator[Violation]:
    """The empty input with which a call starts is a placeholder.

    The input is what the deltas add up to when the block is closed. A cut call with `{}` looks valid and is a
    lie.
    """
    found = streamed.stream(context)
    calls = {block.id: block for block in found.of_type("tool_use")} if found else {}
    for pointer, block in _calls(request) if calls else ():
        call = calls.get(view.text(block.get("id")))
        if call is None or block.get("input") != {}:
            continue
        if not call.closed or call.text.strip() not in ("", "{}"):
            yield Violation(f"{pointer}/input", f"the input of {named(call.id)} came as {call.text!r}")


def half_text_at_the_end(request: Request, context: Context) -> Iterator[Violation]:
    """A text that was cut off may stay, but a user turn follows it where the model takes no prefill.

    Drop it and ask again, or keep it (without blanks at its end) and let the user's side ask to go on.
    """
    found, row, last = streamed.stream(context), view.model(request), view.last_turn(request)
    if not found or not found.cut or row.prefill or row.name == "unknown" or not last:
        return
    partial = [block.text.rstrip() for block in found.of_type("text") if not block.closed]
    if last.role == "assistant" and last.items:
        pointer, block = last.items[-1]
        if any(text and view.text(block.get("text")).rstrip() == text for text in partial):
            yield Violation(pointer, "the history ends in a text that was cut off")


def half_thinking(request: Request, context: Context) -> Iterator[Violation]:
    """Thinking that was not closed is left out.

    Without the end of the block it is not known to be whole, signed or not.
    """
    found = streamed.stream(context)
    half = [block for block in found.of_type("thinking") if not block.closed] if found else []
    for pointer, block in view.of_type(request, frozenset({"thinking"})) if half else ():
        if any(view.text(block.get("thinking")) == one.text for one in half):
            yield Violation(pointer, "this thinking was cut off")


def raw_input_that_does_not_parse(request: Request, context: Context) -> Iterator[Violation]:
    """Input of a closed call that does not parse is wrapped into an object.

    With eager streaming of inputs a model may write broken JSON. The call is kept as `{"INVALID_JSON":
    "..."}`, it is not run, and its result says that the input could not be parsed.
    """
    found = streamed.stream(context)
    if not found or found.cut:
        return
    cut = streamed.unfinished_calls(found)
    broken = {
        block.id
        for block in found.of_type("tool_use")
        if block.id not in cut and block.text.strip() and not block.parses
    }
    for pointer, block in _calls(request) if broken else ():
        if view.text(block.get("id")) in broken and not isinstance(block.get("input"), dict):
            yield Violation(
                f"{pointer}/input", f"the input of {named(block['id'])} is broken JSON and not wrapped"
            )


def call_cut_by_a_limit(request: Request, context: Context) -> Iterator[Violation]:
    """A call in whose input a limit stopped the reply is dropped, although its block was closed.

    Ask again with more room and without the cut reply, or keep its whole parts and tell the outcome of its
    whole calls: none of them is run by itself.
    """
    found = streamed.stream(context)
    last = streamed.truncated_call(found) if found and found.stop_reason in streamed.TRUNCATING else None
    for pointer, block in _calls(request) if last else ():
        if last is not None and view.text(block.get("id")) == last.id:
            yield Violation(pointer, f"the reply was cut inside the input of {named(last.id)}")


def server_call_cut_from_its_result(request: Request, context: Context) -> Iterator[Violation]:
    """A server call whose result got lost with the stream is dropped once the conversation goes on.

    Better drop the whole reply and ask again. Sending the open call back, as after a pause, has an accepted
    shape, but nobody promises it for a cut stream.
    """
    found = streamed.stream(context)
    if not found or not found.cut:
        return
    turns = view.turns(request)
    answered = streamed.answered_server_calls(found)
    lost = {block.id for block in found.of_type(*wire.SERVER_CALLS) if block.closed} - answered
    results = {view.text(block.get("tool_use_id")) for _, block in view.of_type(request, wire.SERVER_RESULTS)}
    for at, turn in enumerate(turns) if lost - results else ():
        if turn.role == "assistant" and any(map(_moves_on, turns[at + 1 :][:1])):
            for pointer, block in turn.of_type(*wire.SERVER_CALLS):
                if view.text(block.get("id")) in lost - results:
                    yield Violation(pointer, f"the result of {named(block['id'])} never came")


def _moves_on(turn: view.Turn) -> bool:
    """Whether a turn is more than results of client calls."""
    return any(view.kind(block) != "tool_result" for _, block in turn.items)


def result_of_unfinished_turn(request: Request, context: Context) -> Iterator[Violation]:
    """A reply without stop reason is cut, and its calls are not run by themselves.

    The model may have wanted more of them. Keep what came whole as a cut reply and tell the outcome that the
    facts give: a call that was not run has no result but an error that says so.
    """
    found = streamed.stream(context)
    if not found or not found.cut or context.get("executed") is not False:
        return
    calls = {block.id for block in found.of_type("tool_use")}
    for pointer, block in view.of_type(request, frozenset({"tool_result"})):
        if view.text(block.get("tool_use_id")) in calls and block.get("is_error") is not True:
            yield Violation(pointer, f"{named(block['tool_use_id'])} was not run and has a result")


def streamed_text_kept_empty(request: Request, context: Context) -> Iterator[Violation]:
    """A text block that ended empty is not sent back.

    Deltas belong to the block of their `index`, whatever its type; pings and unknown events change nothing.
    """
    found = streamed.stream(context)
    if not found or all(block.text for block in found.of_type("text")):
        return
    for pointer, block in view.of_type(request, frozenset({"text"}), "assistant"):
        if block.get("text") == "" and not pointer.endswith("/content"):
            yield Violation(f"{pointer}/text", "this text came without a character")


def empty_reply_kept(request: Request, context: Context) -> Iterator[Violation]:
    """A reply without content is no history.

    It mostly follows results with text behind them. Do not append it; ask again with a new user turn.
    """
    found = streamed.stream(context)
    if not found or found.blocks or found.stop_reason != "end_turn":
        return
    for index, message in view.messages(request):
        if message.get("role") == "assistant" and not message.get("content"):
            yield Violation(f"/messages/{index}", "the reply had no content")


def container_left_in_the_stream(request: Request, context: Context) -> Iterator[Violation]:
    """The container that a stream names goes along while code waits in it for results.

    It stands in `message_start` or in the delta of `message_delta`, and may be missing in both.
    """
    found, sent = streamed.stream(context), _container(request.get("container"))
    if not found or not found.container or sent == found.container:
        return
    turns = view.turns(request)
    waiting = {block.id for block in found.of_type("tool_use") if _calls_from_code(block.start)}
    last = next((turn for turn in reversed(turns) if turn.role == "assistant"), None)
    if last and any(view.text(block.get("id")) in waiting for _, block in last.of_type("tool_use")):
        yield Violation("/container", f"the code waits in {found.container!r}, the request names {sent!r}")


def _container(value: Any) -> str:
    return view.text(value) or view.text(view.member(value, "id"))


def _calls_from_code(call: view.Block) -> bool:
    return view.text(view.member(call, "caller", "type")).startswith("code_execution_")


RULES: Rulebook = (
    Rule(
        id="ANT-STR-001",
        name="call-cut-in-its-input",
        severity="reject",
        source=f"{_STREAMING}; {_STOPS}; {_THREADS}",
        error="input",
        check=call_cut_in_its_input,
        static=False,
    ),
    Rule(
        id="ANT-STR-002",
        name="placeholder-taken-as-input",
        severity="policy",
        source=f"{_STREAMING}; {_EAGER}",
        error=None,
        check=placeholder_taken_as_input,
        static=False,
    ),
    Rule(
        id="ANT-STR-003",
        name="half-text-at-the-end",
        severity="reject",
        source=f"{_STREAMING}; {_STOPS}; {_THREADS}",
        error="does not support assistant message prefill",
        check=half_text_at_the_end,
        static=False,
        applies="cut streams, models without prefill",
    ),
    Rule(
        id="ANT-STR-004",
        name="half-thinking",
        severity="reject",
        source=f"{_STREAMING}; {_THREADS}",
        error="Invalid `signature` in `thinking` block",
        check=half_thinking,
        static=False,
        applies="cut streams",
    ),
    Rule(
        id="ANT-STR-005",
        name="raw-input-that-does-not-parse",
        severity="reject",
        source=f"{_EAGER}; vercel/ai, packages/anthropic",
        error="Input should be a valid dictionary",
        check=raw_input_that_does_not_parse,
        static=False,
        applies="eager streaming of inputs",
    ),
    Rule(
        id="ANT-STR-006",
        name="call-cut-by-a-limit",
        severity="reject",
        source=f"{_STOPS}; SDK:lib/tools/_beta_runner.py",
        error="`tool_use` ids were found without `tool_result` blocks immediately after",
        check=call_cut_by_a_limit,
        static=False,
    ),
    Rule(
        id="ANT-STR-007",
        name="server-call-cut-from-its-result",
        severity="reject",
        source=f"{_SERVER}; {_STOPS}; {_STREAMING}",
        error="was found without a corresponding",
        check=server_call_cut_from_its_result,
        static=False,
        applies="cut streams",
    ),
    Rule(
        id="ANT-STR-008",
        name="result-of-unfinished-turn",
        severity="policy",
        source=f"{_STREAMING}; https://platform.claude.com/docs/en/api/errors",
        error=None,
        check=result_of_unfinished_turn,
        static=False,
    ),
    Rule(
        id="ANT-STR-009",
        name="streamed-text-kept-empty",
        severity="reject",
        source=_STREAMING,
        error="text content blocks must be non-empty",
        check=streamed_text_kept_empty,
        static=False,
    ),
    Rule(
        id="ANT-STR-010",
        name="empty-reply-kept",
        severity="reject",
        source=_STOPS,
        error="all messages must have non-empty content",
        check=empty_reply_kept,
        static=False,
    ),
    Rule(
        id="ANT-STR-011",
        name="container-left-in-the-stream",
        severity="reject",
        source="https://platform.claude.com/docs/en/agents-and-tools/tool-use/programmatic-tool-calling",
        error="container_id is required",
        check=container_left_in_the_stream,
        static=False,
        applies="code execution",
    ),
)
