"""OAC-TOOLS, OAC-LIMIT, OAC-STATE: tools, sizes, and what belongs to other APIs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.openai_chat import schema_keys, wire
from normalizer.providers.openai_chat.rules import view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Iterator

_SDK: Final = "openai SDK, types/chat"


def choice_without_tools(request: Request, context: Context) -> Iterator[Violation]:
    """`tool_choice` is sent only together with `tools`.

    ## Repair
    It is left out where no tool is declared; calls in the history need no declaration.
    """
    if request.get("tool_choice") is not None and not request.get("tools"):
        yield Violation("/tool_choice", "a choice among no tools")


def no_tools(request: Request, context: Context) -> Iterator[Violation]:
    """`tools`, where it is given, is not empty.

    ## Repair
    Leave the key out.
    """
    if request.get("tools") == []:
        yield Violation("/tools", "an empty array of tools")


def too_many_tools(request: Request, context: Context) -> Iterator[Violation]:
    """At most 128 tools are declared.

    ## Repair
    None: which tools are offered is the caller's choice.
    """
    for key in ("tools", "functions"):
        if (count := len(view.listed(request.get(key)))) > wire.MAX_TOOLS:
            yield Violation(f"/{key}", f"{count} tools are declared")


def parallel_without_tools(request: Request, context: Context) -> Iterator[Violation]:
    """`parallel_tool_calls` is sent only together with `tools`.

    ## Repair
    Leave the key out.
    """
    if request.get("parallel_tool_calls") is not None and not request.get("tools"):
        yield Violation("/parallel_tool_calls", "it says something about no tools")


def undeclared_choice(request: Request, context: Context) -> Iterator[Violation]:
    """A `tool_choice` that names tools names declared ones.

    ## Repair
    Names are mapped there too; else the choice is left to the model.
    """
    choice: Any = request.get("tool_choice")
    if not isinstance(choice, dict):
        return
    allowed = view.member(choice, "allowed_tools", "tools")
    named = [("/tool_choice/allowed_tools/tools", tool) for tool in view.listed(allowed)]
    for at, one in [("/tool_choice", choice), *named]:
        name = view.text(view.member(one, view.text(view.member(one, "type")), "name"))
        if name and name not in view.tool_names(request):
            yield Violation(at, f"no tool {name!r} is declared")


def effort_with_tools(request: Request, context: Context) -> Iterator[Violation]:
    """From GPT-5.4 on, function tools and a reasoning effort do not go together in Chat.

    ## Repair
    The same history goes through Responses; or the effort is `none`, if the caller agrees. Tools are never taken away
    in silence.
    """
    version = wire.version(view.model(request))
    effort = request.get("reasoning_effort")
    if version is None or version < wire.NO_EFFORT_WITH_TOOLS or effort in (None, "none"):
        return
    if any(tool.get("type") == "function" for _, tool in view.objects(request.get("tools"), "/tools")):
        yield Violation("/reasoning_effort", "with function tools, only none is taken here")


def long_text(request: Request, context: Context) -> Iterator[Violation]:
    """A content string has at most 10,485,760 characters.

    ## Repair
    A longer text is cut with a visible mark; the fact keeps all of it.
    """
    limit = view.profile(context).max_string
    yield from longer_than(request, limit)


def longer_than(request: Request, limit: int) -> Iterator[Violation]:
    """The content strings with more characters than that."""
    for at, message in view.where(request, lambda sort: sort.form == "text"):
        if len(message["content"]) > limit:
            yield Violation(f"{at}/content", f"a text of {len(message['content'])} characters")
    for at, part in view.sorted_parts(request).having("text"):
        if len(view.text(part["text"])) > limit:
            yield Violation(f"{at}/text", f"a text of {len(part['text'])} characters")


def too_many_calls(request: Request, context: Context) -> Iterator[Violation]:
    """An assistant message has at most 128 calls.

    ## Repair
    Further calls go into messages of their own, each with its answers behind it.
    """
    for at, message in view.having(request, "tool_calls", "assistant"):
        if (count := len(view.listed(message["tool_calls"]))) > wire.MAX_CALLS:
            yield Violation(f"{at}/tool_calls", f"{count} calls in one message")


def too_many_messages(request: Request, context: Context) -> Iterator[Violation]:
    """A request has at most 2048 messages.

    ## Repair
    A window ends between turns, so that no block is torn.
    """
    if (count := len(view.listed(request.get("messages")))) > wire.MAX_MESSAGES:
        yield Violation("/messages", f"{count} messages")


def state_of_responses(request: Request, context: Context) -> Iterator[Violation]:
    """Chat keeps no conversation: `previous_response_id` and `conversation` are none of its parameters.

    ## Repair
    The whole history is sent.
    """
    for key in schema_keys.STATE_KEYS:
        if request.get(key) is not None:
            yield Violation(f"/{key}", f"{key!r} belongs to the Responses API")


def item_of_responses(request: Request, context: Context) -> Iterator[Violation]:
    """Items of the Responses API (function_call, function_call_output, reasoning, item_reference) are no messages.

    ## Repair
    Calls and outputs become calls and tool messages. Reasoning and ciphertext have no place here and are reported.
    """
    for at, message in view.history(request).where(lambda _, keys: "role" not in keys and "type" in keys):
        if isinstance(message["type"], str):
            yield Violation(at, f"an item of type {message['type']!r}")


def disguised_hosted_call(request: Request, context: Context) -> Iterator[Violation]:
    """A call that another provider's server ran is not disguised as a function call with a made-up result.

    ## Repair
    It is left out and reported; the words that use what it found stay.
    """
    hosted = context.get("hosted_calls") or ()
    for at, call in view.calls(request) if hosted else ():
        if view.text(call.get("id")) in hosted:
            yield Violation(f"{at}/id", f"{named(call['id'])} was run by its provider's server")
    for at, message in view.of_role(request, "tool") if hosted else ():
        if view.text(message.get("tool_call_id")) in hosted:
            yield Violation(f"{at}/tool_call_id", "an answer to a call that a server ran")


RULES: Final[Rulebook] = (
    Rule(
        id="OAC-TOOLS-001",
        name="choice-without-tools",
        severity="reject",
        source="https://github.com/dapr/dapr-agents/issues/248; https://github.com/writer/writer-framework/issues/1013",
        error="'tool_choice' is only allowed when 'tools' are specified.",
        check=choice_without_tools,
    ),
    Rule(
        id="OAC-TOOLS-002",
        name="no-tools",
        severity="reject",
        source="https://github.com/JetBrains/koog/issues/786",
        error="[] is too short - 'tools'",
        check=no_tools,
    ),
    Rule(
        id="OAC-TOOLS-003",
        name="too-many-tools",
        severity="reject",
        source="https://github.com/vishalmysore/Tools4AI/issues/16; OpenAPI description in openai/openai-python",
        error="Invalid 'tools': array too long. Expected an array with maximum length 128",
        check=too_many_tools,
    ),
    Rule(
        id="OAC-TOOLS-004",
        name="parallel-without-tools",
        severity="reject",
        source="https://github.com/openai/swarm/issues/30; https://github.com/Upsonic/Upsonic/issues/323",
        error="'parallel_tool_calls' is only allowed when 'tools' are specified.",
        check=parallel_without_tools,
    ),
    Rule(
        id="OAC-TOOLS-005",
        name="undeclared-choice",
        severity="reject",
        source=f"{_SDK}/chat_completion_named_tool_choice_param.py",
        error="tool_choice",
        check=undeclared_choice,
    ),
    Rule(
        id="OAC-TOOLS-006",
        name="effort-with-tools",
        severity="reject",
        source="https://github.com/pipecat-ai/pipecat/issues/4043;"
        " https://developers.openai.com/api/docs/guides/migrate-to-responses",
        error="Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions. Please use"
        " /v1/responses instead.",
        check=effort_with_tools,
        applies="gpt-5.4 and later, an effort other than none",
    ),
    Rule(
        id="OAC-LIMIT-001",
        name="long-text",
        severity="reject",
        source="https://github.com/Shopify/roast/issues/52",
        error="string too long. Expected a string with maximum length 10485760",
        check=long_text,
        applies="servers with another limit have that",
    ),
    Rule(
        id="OAC-LIMIT-002",
        name="too-many-calls",
        severity="reject",
        source="https://github.com/openai/openai-dotnet/issues/317",
        error="Invalid 'messages[1].tool_calls': array too long. Expected an array with maximum length 128",
        check=too_many_calls,
    ),
    Rule(
        id="OAC-LIMIT-003",
        name="too-many-messages",
        severity="degrades",
        source="public client code; no limit is in the OpenAPI description",
        error="Invalid 'messages': array too long. Expected an array with maximum length 2048",
        check=too_many_messages,
    ),
    Rule(
        id="OAC-STATE-001",
        name="state-of-responses",
        severity="reject",
        source=f"{_SDK}/completion_create_params.py; https://github.com/AAswordman/Operit/issues/1048",
        error="Unrecognized request argument supplied: previous_response_id",
        check=state_of_responses,
    ),
    Rule(
        id="OAC-STATE-002",
        name="item-of-responses",
        severity="reject",
        source=f"{_SDK}/chat_completion_message_param.py",
        error="Missing required parameter: 'messages[1].role'",
        check=item_of_responses,
    ),
    Rule(
        id="OAC-STATE-003",
        name="disguised-hosted-call",
        severity="policy",
        source="a server's result is the server's",
        error=None,
        check=disguised_hosted_call,
        static=False,
        applies="with `hosted_calls` in the context: the ids of calls that a server ran",
    ),
)
