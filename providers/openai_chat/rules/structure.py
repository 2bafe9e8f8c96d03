"""OAC-STRUCT: the shape of messages and calls."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.openai_chat import schema_keys, wire
from normalizer.providers.openai_chat.rules import view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation, pointer

if TYPE_CHECKING:
    from collections.abc import Iterator

_SDK: Final = "openai SDK, types/chat"
_NEED_CONTENT: Final = ("system", "developer", "user", "tool")
_NEITHER: Final = ("null", "none", "other")
"""A content that is neither text nor an array."""
_SPEC: Final = "OpenAPI description in openai/openai-python, CreateChatCompletionRequest"


def no_messages(request: Request, context: Context) -> Iterator[Violation]:
    """A request has at least one message.

    ## Repair
    With nothing on record there is nothing to ask; a message is never made up.
    """
    if not view.listed(request.get("messages")):
        yield Violation("/messages", "there are no messages")


def unknown_role(request: Request, context: Context) -> Iterator[Violation]:
    """Every message has one of the roles developer, system, user, assistant, tool, or the legacy role function.

    ## Repair
    A foreign word for a role (human, ai, model) is mapped to who spoke; a message of nobody's is left out and reported.
    """
    messages = view.listed(request.get("messages"))
    known = view.where(request, lambda sort: sort.role in wire.ROLES)
    for index, message in enumerate(messages) if len(known) < len(messages) else ():
        role = view.member(message, "role")
        if not isinstance(role, str) or role not in wire.ROLES:
            at = f"/messages/{index}/role" if isinstance(message, dict) else f"/messages/{index}"
            yield Violation(at, f"{role!r} is no role")


def missing_content(request: Request, context: Context) -> Iterator[Violation]:
    """Messages of system, developer, user and tool have a content: a text or an array of parts, never null.

    ## Repair
    A tool message gets its recorded result, which may be the empty text, or the notice of its outcome. Another message
    with nothing in it is left out.
    """
    for at, message in view.where(request, lambda sort: sort.role in _NEED_CONTENT and sort.form in _NEITHER):
        yield Violation(f"{at}/content", f"a message of role {message['role']!r} without text or parts")


def empty_reply(request: Request, context: Context) -> Iterator[Violation]:
    """An assistant message has a content, calls, or a reference to stored audio.

    ## Why
    What is left of a reply whose only call was cut off is such a message. An empty text is a content.

    ## Repair
    Leave the message out and report it.
    """
    for at, message in view.where(request, lambda sort: sort.role == "assistant" and sort.form in _NEITHER):
        if message.get("content") is not None:
            yield Violation(f"{at}/content", "the content is neither text nor parts")
        elif not (
            message.get("tool_calls") or message.get("function_call") or view.member(message, "audio", "id")
        ):
            yield Violation(f"{at}/content", "an assistant message with nothing in it")


def empty_parts(request: Request, context: Context) -> Iterator[Violation]:
    """A content that is an array has at least one part.

    ## Repair
    A tool message gets the empty text; another message without parts is left out.
    """
    for at, _ in view.where(request, lambda sort: sort.form == "no parts"):
        yield Violation(f"{at}/content", "an empty array of parts")


def foreign_key(request: Request, context: Context) -> Iterator[Violation]:
    """Messages, calls and parts have the keys of the request's schema and no others.

    ## Why
    Keys of responses (`parsed`, `annotations`, `index`) and of other servers (`reasoning_content`) are ignored, refused
    or misread, depending on the server.

    ## Repair
    Only keys of the schema are written. Reasoning goes back to a server that asks for it.
    """
    profile = view.profile(context)
    allowed = {
        **schema_keys.MESSAGE_KEYS,
        "assistant": schema_keys.MESSAGE_KEYS["assistant"] | profile.reasoning_keys,
    }
    for at, message in view.history(request).where(
        lambda sort, held: sort.role in allowed and not allowed[sort.role].issuperset(held)
    ):
        for key in message:
            if key not in allowed[message["role"]]:
                yield Violation(
                    at + pointer(key), f"{key!r} is no key of a message of role {message['role']!r}"
                )
    yield from _in_calls(request)
    known = {kind: schema | profile.part_keys for kind, schema in schema_keys.PART_KEYS.items()}
    for at, part in view.sorted_parts(request).where(
        lambda sort, held: sort.kind in known and not known[sort.kind].issuperset(held)
    ):
        for key in part:
            if key not in known[part["type"]]:
                yield Violation(at + pointer(key), f"{key!r} is no key of a part")


def _in_calls(request: Request) -> Iterator[Violation]:
    for at, call in view.calls(request, *schema_keys.CALL_KEYS):
        kind = call["type"]
        if (
            call.keys() <= schema_keys.CALL_KEYS[kind]
            and view.payload(call).keys() <= schema_keys.PAYLOAD_KEYS[kind]
        ):
            continue
        for key in call:
            if key not in schema_keys.CALL_KEYS[kind] and key not in wire.CALL_TYPES:
                yield Violation(at + pointer(key), f"{key!r} is no key of a call")
        for key in view.payload(call):
            if key not in schema_keys.PAYLOAD_KEYS[kind]:
                yield Violation(f"{at}/{kind}{pointer(key)}", f"{key!r} is no key of a {kind}")


def empty_calls(request: Request, context: Context) -> Iterator[Violation]:
    """`tool_calls`, where it is given, is an array with at least one call.

    ## Repair
    Leave the key out.
    """
    for at, message in view.having(request, "tool_calls", "assistant"):
        if not (isinstance(message["tool_calls"], list) and message["tool_calls"]):
            yield Violation(f"{at}/tool_calls", "no calls under the key of calls")


def shapeless_call(request: Request, context: Context) -> Iterator[Violation]:
    """A call has an id, the type function or custom, and the object of that type.

    ## Repair
    A complete call has all three. One without a name is a fragment: it is not sent, and nothing answers it.
    """
    for at, message in view.having(request, "tool_calls", "assistant"):
        for number, call in enumerate(view.listed(message["tool_calls"])):
            if isinstance(call, dict) and _is_whole(call):
                continue
            place = f"{at}/tool_calls/{number}"
            kind = view.member(call, "type")
            if not isinstance(call, dict):
                yield Violation(place, "a call is no object")
            elif kind not in wire.CALL_TYPES:
                yield Violation(f"{place}/type", f"{kind!r} is no type of a call")
            elif not isinstance(call.get(kind), dict):
                yield Violation(f"{place}/{kind}", f"a call of type {kind} has no {kind}")
            if isinstance(call, dict) and not isinstance(call.get("id"), str):
                yield Violation(f"{place}/id", "the call has no id")


def _is_whole(call: dict[str, Any]) -> bool:
    kind = call.get("type")
    return kind in wire.CALL_TYPES and isinstance(call.get(kind), dict) and isinstance(call.get("id"), str)


def arguments_no_text(request: Request, context: Context) -> Iterator[Violation]:
    """The arguments of a function call are a string that holds JSON, not an object.

    ## Repair
    The recorded text is sent; an object is written as text once, with its keys in recorded order.
    """
    for at, function in view.functions(request):
        if not isinstance(function.get("arguments"), str):
            yield Violation(f"{at}/arguments", "the arguments are not a string")


def nameless_call(request: Request, context: Context) -> Iterator[Violation]:
    """The name of a called function is a string that is not empty.

    ## Repair
    A call without a name never arrived whole: it is kept as a fragment, and what answers it is left out with it.
    """
    for at, function in view.functions(request):
        if not view.text(function.get("name")):
            yield Violation(f"{at}/name", "a call without a name")


def nameless_function_message(request: Request, context: Context) -> Iterator[Violation]:
    """A message of the legacy role function has a name and the key content (a text or null).

    ## Repair
    The name is that of the call that it answers.
    """
    for at, message in view.of_role(request, "function"):
        if not view.text(message.get("name")):
            yield Violation(f"{at}/name", "a function message without a name")
        if "content" not in message or not isinstance(message["content"], str | None):
            yield Violation(f"{at}/content", "the content is neither text nor null")


def arguments_no_object(request: Request, context: Context) -> Iterator[Violation]:
    """The arguments of a call parse as a JSON object.

    ## Why
    Templates and compatible servers parse them again. OpenAI takes any text.

    ## Repair
    OpenAI gets the whole recorded text. Where an object is demanded, a text that is none is carried as its one value. A
    text that was cut off is a fragment and is not sent.
    """
    for at, function in view.functions(request):
        given = function.get("arguments")
        if isinstance(given, str) and given.strip() and not isinstance(parsed(given), dict):
            yield Violation(f"{at}/arguments", "the arguments are no JSON object")


def parsed(given: str) -> Any:
    """The value of a JSON text; None where it is none."""
    try:
        return json.loads(given)
    except (ValueError, RecursionError):
        return None


RULES: Final[Rulebook] = (
    Rule(
        id="OAC-STRUCT-001",
        name="no-messages",
        severity="reject",
        source=f"{_SPEC}; https://github.com/danny-avila/LibreChat/issues/10408",
        error="Invalid 'messages': empty array. Expected an array with minimum length 1",
        check=no_messages,
    ),
    Rule(
        id="OAC-STRUCT-002",
        name="unknown-role",
        severity="reject",
        source=f"{_SDK}/chat_completion_message_param.py",
        error="Invalid value: '",
        check=unknown_role,
    ),
    Rule(
        id="OAC-STRUCT-003",
        name="missing-content",
        severity="reject",
        source=f"{_SDK}; https://github.com/docker/docker-agent/issues/63;"
        " https://github.com/run-llama/llama_index/issues/17555",
        error="Invalid value for 'content': expected a string, got null.",
        check=missing_content,
    ),
    Rule(
        id="OAC-STRUCT-004",
        name="empty-reply",
        severity="reject",
        source=f"{_SDK}/chat_completion_assistant_message_param.py; https://github.com/docker/docker-agent/issues/63",
        error="Invalid value for 'content': expected a string, got null.",
        check=empty_reply,
    ),
    Rule(
        id="OAC-STRUCT-005",
        name="empty-parts",
        severity="reject",
        source=_SPEC,
        error="empty array. Expected an array with minimum length 1",
        check=empty_parts,
    ),
    Rule(
        id="OAC-STRUCT-006",
        name="foreign-key",
        severity="degrades",
        source=f"{_SDK}/chat_completion_assistant_message_param.py",
        error="Unknown parameter: 'messages[",
        check=foreign_key,
        applies="messages that were copied from responses, SDK objects or other servers",
    ),
    Rule(
        id="OAC-STRUCT-007",
        name="empty-calls",
        severity="reject",
        source="https://github.com/openai/openai-node/issues/1341; https://github.com/SynaLinks/synalinks/issues/31",
        error="Invalid 'messages[1].tool_calls': empty array. Expected an array with minimum length 1",
        check=empty_calls,
    ),
    Rule(
        id="OAC-STRUCT-008",
        name="shapeless-call",
        severity="reject",
        source=f"{_SDK}/chat_completion_message_function_tool_call_param.py",
        error="Missing required parameter: 'messages[1].tool_calls[0].type'",
        check=shapeless_call,
    ),
    Rule(
        id="OAC-STRUCT-009",
        name="arguments-no-text",
        severity="reject",
        source=f"{_SDK}/chat_completion_message_function_tool_call_param.py",
        error="Invalid type for 'messages[1].tool_calls[0].function.arguments': expected a string",
        check=arguments_no_text,
    ),
    Rule(
        id="OAC-STRUCT-010",
        name="nameless-call",
        severity="reject",
        source="https://github.com/continuedev/continue/issues/11645",
        error="Invalid 'messages[1].tool_calls[0].function.name': empty string. Expected a string with minimum"
        " length 1",
        check=nameless_call,
    ),
    Rule(
        id="OAC-STRUCT-011",
        name="nameless-function-message",
        severity="reject",
        source=f"{_SDK}/chat_completion_function_message_param.py",
        error="Missing required parameter: 'messages[2].name'",
        check=nameless_function_message,
        applies="the form before tool calls",
    ),
    Rule(
        id="OAC-STRUCT-012",
        name="arguments-no-object",
        severity="degrades",
        source="https://github.com/vllm-project/vllm/issues/47761; ollama/ollama openai/openai.go",
        error="invalid tool call arguments",
        check=arguments_no_object,
        applies="servers other than OpenAI's",
    ),
)
