"""OAC-ROLE, OAC-ID, OAC-NAME, OAC-CUSTOM: roles of instructions, names and ids."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from normalizer.providers.openai_chat import wire
from normalizer.providers.openai_chat.rules import view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation, remembered
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Iterator

_SDK: Final = "openai SDK, types/chat"


def instructions_refused(request: Request, context: Context) -> Iterator[Violation]:
    """The first reasoning models of Chat (o1-mini, o1-preview) take neither system nor developer messages.

    ## Repair
    The instructions open the conversation as a user message.
    """
    if not wire.takes_instructions(view.model(request)):
        for at, message in view.of_role(request, "system", "developer"):
            yield Violation(f"{at}/role", f"this model takes no {message['role']} message")


def mixed_instructions(request: Request, context: Context) -> Iterator[Violation]:
    """A request has developer messages or system messages, not both.

    ## Repair
    All instructions are sent in one role.
    """
    found = view.of_role(request, "system", "developer")
    if found:
        for at, message in found:
            if message["role"] != found[0][1]["role"]:
                yield Violation(f"{at}/role", f"other instructions have the role {found[0][1]['role']!r}")


def bad_speaker(request: Request, context: Context) -> Iterator[Violation]:
    """The name of a participant has letters, digits, underscores and hyphens, and at most 64 of them.

    ## Repair
    The key is left out; the message stays.
    """
    for at, message in view.having(request, "name"):
        name = message["name"]
        if name is not None and not (isinstance(name, str) and wire.SPEAKER.fullmatch(name)):
            yield Violation(f"{at}/name", f"{named(name)} is no name that the API takes")


def long_call_id(request: Request, context: Context) -> Iterator[Violation]:
    """The id of a call has at most 40 characters.

    ## Why
    Ids of other APIs, and hashes, are longer.

    ## Repair
    Longer ids are mapped by a hash, on the call and on its answer.
    """
    for at, given in _ids(request):
        if len(given) > wire.CALL_ID_LIMIT:
            yield Violation(at, f"an id of {len(given)} characters")


@remembered
def _ids(request: Request) -> list[tuple[str, str]]:
    """The ids of calls, and those that tool messages name, each with its pointer; empty where there is none."""
    found: list[tuple[str, str]] = []
    for pointer, message in view.history(request).where(
        lambda sort, keys: sort.role == "tool" or "tool_calls" in keys
    ):
        for at, call in view.objects(message.get("tool_calls"), f"{pointer}/tool_calls"):
            found.append((f"{at}/id", view.text(call.get("id"))))
        if message.get("role") == "tool":
            found.append((f"{pointer}/tool_call_id", view.text(message.get("tool_call_id"))))
    return found


def torn_id_map(request: Request, context: Context) -> Iterator[Violation]:
    """A rewritten id is the same on the call and on its answer, and no two calls get the same one."""
    known = context.get("id_map") or {}
    shared = {wire_id for wire_id, count in Counter(known.values()).items() if count > 1}
    for at, given in _ids(request) if known else ():
        if given in shared:
            yield Violation(at, f"{named(given)} stands for more than one recorded id")
        elif given in known and known[given] != given:
            yield Violation(at, f"the recorded id {named(given)} is sent as {named(known[given])} elsewhere")


def empty_call_id(request: Request, context: Context) -> Iterator[Violation]:
    """Ids of calls, and those that tool messages name, are not empty.

    ## Repair
    Where a server gives no ids, they are made from the place of the call.
    """
    for at, given in _ids(request):
        if not given:
            yield Violation(at, "the id is empty or missing")


def bad_tool_name(request: Request, context: Context) -> Iterator[Violation]:
    """Names of tools, declared or called, have letters, digits, underscores and hyphens, and at most 64 of them.

    ## Repair
    Other names are mapped, in declarations and history alike, so that new calls find their way back.
    """
    for at, call in (*view.calls(request), *view.objects(request.get("tools"), "/tools")):
        kind = view.text(call.get("type"))
        name = view.text(view.payload(call).get("name"))
        if name and not wire.TOOL_NAME.fullmatch(name):
            yield Violation(f"{at}/{kind}/name", f"{name[:80]!r} is no name that the API takes")
    for at, message in view.having(request, "function_call", "assistant"):
        name = view.text(view.member(message, "function_call", "name"))
        if name and not wire.TOOL_NAME.fullmatch(name):
            yield Violation(f"{at}/function_call/name", f"{name[:80]!r} is no name that the API takes")


def custom_input_no_text(request: Request, context: Context) -> Iterator[Violation]:
    """A custom call has a name and its free text as a string in `input`.

    ## Repair
    The raw text is sent again, not parsed and not wrapped.
    """
    for at, call in view.calls(request, "custom"):
        if isinstance(call.get("custom"), dict):
            if not isinstance(call["custom"].get("input"), str):
                yield Violation(f"{at}/custom/input", "the input is not a string")
            if not view.text(call["custom"].get("name")):
                yield Violation(f"{at}/custom/name", "a custom call without a name")


def unanswered_custom_call(request: Request, context: Context) -> Iterator[Violation]:
    """A custom call is answered like a function call, by a tool message with its id."""
    custom = {at for at, _ in view.calls(request, "custom")}
    for block in view.blocks(request) if custom else ():
        for at, call_id in block.open:
            if at in custom:
                yield Violation(at, f"custom call {named(call_id)} has no tool message behind its message")


RULES: Final[Rulebook] = (
    Rule(
        id="OAC-ROLE-001",
        name="instructions-refused",
        severity="reject",
        source="https://github.com/openai/openai-python/issues/2047",
        error="Unsupported value: 'messages[0].role' does not support 'system' with this model.",
        check=instructions_refused,
        applies="o1-mini, o1-preview",
    ),
    Rule(
        id="OAC-ROLE-002",
        name="mixed-instructions",
        severity="degrades",
        source="https://learn.microsoft.com/azure/ai-foundry/openai/how-to/reasoning",
        error=None,
        check=mixed_instructions,
        applies="reasoning models",
    ),
    Rule(
        id="OAC-ROLE-003",
        name="bad-speaker",
        severity="reject",
        source="https://github.com/FlowiseAI/Flowise/issues/2948",
        error="Invalid 'messages[0].name': string does not match pattern",
        check=bad_speaker,
    ),
    Rule(
        id="OAC-ID-001",
        name="long-call-id",
        severity="reject",
        source="https://github.com/microsoft/autogen/issues/6377; https://github.com/vercel/ai/issues/8132",
        error="Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40",
        check=long_call_id,
    ),
    Rule(
        id="OAC-ID-002",
        name="torn-id-map",
        severity="reject",
        source="https://github.com/dapr/dapr-agents/issues/145",
        error="'tool_call_id' of '",
        check=torn_id_map,
        static=False,
        applies="with `id_map` in the context: recorded id to id in the request",
    ),
    Rule(
        id="OAC-ID-003",
        name="empty-call-id",
        severity="reject",
        source=f"{_SDK}/chat_completion_tool_message_param.py",
        error="empty string. Expected a string with minimum length 1",
        check=empty_call_id,
    ),
    Rule(
        id="OAC-NAME-001",
        name="bad-tool-name",
        severity="reject",
        source="openai SDK, types/shared_params/function_definition.py; https://github.com/mcp-use/mcp-use/issues/90",
        error="Invalid 'messages[1].tool_calls[0].function.name': string does not match pattern. Expected a string that"
        " matches the pattern '^[a-zA-Z0-9_-]+$'.",
        check=bad_tool_name,
    ),
    Rule(
        id="OAC-CUSTOM-001",
        name="custom-input-no-text",
        severity="reject",
        source=f"{_SDK}/chat_completion_message_custom_tool_call_param.py",
        error="Invalid type for 'messages[1].tool_calls[0].custom.input': expected a string",
        check=custom_input_no_text,
        applies="custom tools",
    ),
    Rule(
        id="OAC-CUSTOM-002",
        name="unanswered-custom-call",
        severity="reject",
        source=f"{_SDK}/chat_completion_message_tool_call_union_param.py",
        error="An assistant message with 'tool_calls' must be followed by tool messages responding to each"
        " 'tool_call_id'. The following tool_call_ids did not have response messages: call_",
        check=unanswered_custom_call,
        applies="custom tools",
    ),
)
