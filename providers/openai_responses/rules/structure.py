"""OAR-STRUCT: the list of items, their types and keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.openai_responses import wire
from normalizer.providers.openai_responses.rules import view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ITEMS: Final = "SDK types/responses/response_input_item_param.py"
_CREATE: Final = "SDK types/responses/response_create_params.py"
_CHAT_KEYS: Final = (
    "tool_calls", "tool_call_id", "function_call", "refusal", "name", "reasoning_content", "audio",
)  # fmt: skip
_SETTINGS: Final = {"reasoning": frozenset({"effort"}), "text": frozenset({"format"})}
_ACTIONS: Final[dict[str, frozenset[str]]] = {
    "search": frozenset(),
    "open_page": frozenset(),
    "find_in_page": frozenset({"url", "pattern"}),
}
_OFTEN_NULL: Final = ("content", "type")
"""Null in these keys is judged elsewhere, or taken."""
_OUTPUT: Final = ("function_call_output", "custom_tool_call_output")


def empty_input(request: Request, context: Context) -> Iterator[Violation]:
    """A request says something, unless a stored prompt, a conversation or an earlier response does.

    ## Repair
    There is no request to make from an empty history.
    """
    if "items" in request or request.get("prompt") or view.continues(request):
        return
    if not request.get("input"):
        yield Violation("/input", "the request holds no input")


def unknown_role(request: Request, context: Context) -> Iterator[Violation]:
    """The role of a message is user, assistant, system or developer.

    ## Why
    Results are items of their own here; no message carries them.

    ## Repair
    A result becomes the output item of its call.
    """
    for at, item in view.history(request).where(
        lambda sort, _: sort.kind == "message" and sort.role not in wire.ROLES
    ):
        yield Violation(f"{at}/role", f"there is no role {item.get('role')!r}")


def chat_key(request: Request, context: Context) -> Iterator[Violation]:
    """A message has no keys of Chat Completions: calls, names, refusals and audio are no part of it.

    ## Repair
    Each call becomes an item behind the message.
    """
    for at, item in view.history(request).where(
        lambda sort, keys: sort.kind == "message" and any(key in keys for key in _CHAT_KEYS)
    ):
        for key in _CHAT_KEYS:
            if key in item:
                yield Violation(f"{at}/{key}", f"a message has no key {key!r}")


def no_content(request: Request, context: Context) -> Iterator[Violation]:
    """The content of a message is a text or a list of parts.

    ## Repair
    A message that says nothing is left out; the calls beside it stand by themselves.
    """
    for at, item in view.messages(request):
        if not isinstance(item.get("content"), str | list):
            yield Violation(f"{at}/content", "the content is neither text nor parts")


def unknown_item_type(request: Request, context: Context) -> Iterator[Violation]:
    """Every item is of a type that the API takes as input.

    ## Repair
    What another provider calls its own is left out and reported. A type that no API is known to have may be newer than
    this rule, which then is no more than a warning (contested).
    """
    received = frozenset(name for name in context.get("received_types") or () if isinstance(name, str))
    for at, item in view.history(request).where(lambda sort, _: sort.kind not in wire.ITEMS):
        found = view.kind(item)
        if found in wire.FOREIGN:
            yield Violation(f"{at}/type", f"there is no item type {item.get('type')!r}")
        elif found not in received:
            message = f"no item type {found!r} is known to this release"
            yield Violation(f"{at}/type", message, severity="contested")


def output_only_key(request: Request, context: Context) -> Iterator[Violation]:
    """Keys that only responses have do not go back.

    ## Why
    They get in where response objects are dumped as they are.

    ## Repair
    Leave them out.
    """
    for at, item in view.having(request, *wire.OUTPUT_ONLY):
        for key in sorted(wire.OUTPUT_ONLY & item.keys()):
            yield Violation(f"{at}/{key}", f"{key!r} is no key of an input item")


def null_key(request: Request, context: Context) -> Iterator[Violation]:
    """A key is left out rather than null, where its type knows no null.

    ## Why
    Dumps of SDK objects write null for everything that was never set.

    ## Repair
    Leave the key out. Some keys need their null: code and outputs of a code run, the result of a picture.
    """
    searches = dict(view.of_kind(request, "web_search_call"))
    for at, item in view.items(request):
        if None not in item.values() and at not in searches:
            continue
        known = wire.ITEMS.get(view.kind(item))
        for key, value in item.items() if known is not None else ():
            if value is None and known is not None and key not in known.nullable and key not in _OFTEN_NULL:
                yield Violation(f"{at}/{key}", f"{key!r} may not be null")
        if at in searches:
            action = view.mapped(item.get("action"))
            for key, value in action.items():
                if value is None and not (key == "url" and action.get("type") == "open_page"):
                    yield Violation(f"{at}/action/{key}", f"{key!r} may not be null")


def missing_key(request: Request, context: Context) -> Iterator[Violation]:
    """Every item has the keys that its type demands.

    ## Repair
    A whole item has them. What lacks one is a fragment and is left out with all that depends on it.
    """
    for at, item in view.history(request).where(lambda sort, keys: bool(_lacking(sort.kind, keys))):
        found = view.kind(item)
        for key in sorted(_lacking(found, item)):
            yield Violation(f"{at}/{key}", f"a {found} item needs {key!r}")


def _lacking(found: str, keys: Iterable[str]) -> frozenset[str]:
    """The keys that an item of this type needs and has not."""
    known = wire.ITEMS.get(found)
    return known.required.difference(keys) if known is not None else frozenset()


def arguments_not_text(request: Request, context: Context) -> Iterator[Violation]:
    """Arguments are a JSON text, not the value itself.

    ## Repair
    Send the text as it was recorded.
    """
    for at, item in view.of_kind(request, "function_call", "mcp_call", "mcp_approval_request"):
        if "arguments" in item and not isinstance(item["arguments"], str):
            yield Violation(f"{at}/arguments", "the arguments are no text")


def output_not_text(request: Request, context: Context) -> Iterator[Violation]:
    """The output of a function or custom tool is a text or a list of parts.

    ## Repair
    Another value is written as its JSON text, an empty result as an empty text.
    """
    for at, item in view.of_kind(request, *_OUTPUT):
        if "output" in item and not isinstance(item["output"], str | list):
            yield Violation(f"{at}/output", "the output is neither text nor parts")


def bad_search_action(request: Request, context: Context) -> Iterator[Violation]:
    """A web search says whether it searched, opened a page or looked in one, and for what.

    ## Repair
    Replay it as received; half an action is a fragment.
    """
    for at, item in view.of_kind(request, "web_search_call"):
        if "action" not in item:
            continue
        action = view.mapped(item["action"])
        wanted = _ACTIONS.get(view.text(action.get("type")))
        if wanted is None:
            yield Violation(f"{at}/action", f"there is no search action {action.get('type')!r}")
        else:
            for key in sorted(wanted - action.keys()):
                yield Violation(f"{at}/action", f"the action needs {key!r}")


def tools_of_another_role(request: Request, context: Context) -> Iterator[Violation]:
    """Tools are added in mid-conversation by the developer only.

    ## Repair
    Echoes under another role are left out.
    """
    for at, item in view.of_kind(request, "additional_tools"):
        if item.get("role") != "developer":
            yield Violation(f"{at}/role", "additional tools come from the developer")


def trigger_not_last(request: Request, context: Context) -> Iterator[Violation]:
    """A compaction trigger is the last item.

    ## Repair
    Leave it out when something follows.
    """
    found = view.items(request)
    for at, _ in view.of_kind(request, "compaction_trigger"):
        if at != found[-1][0]:
            yield Violation(at, "items stand behind the compaction trigger")


def bad_configuration_update(request: Request, context: Context) -> Iterator[Violation]:
    """A configuration update changes the reasoning effort, the text format, or both, and nothing else.

    ## Repair
    Keep the recorded update in its place; other settings are parameters of the request.
    """
    for at, item in view.of_kind(request, "configuration_update"):
        changes = {key: item[key] for key in _SETTINGS if item.get(key) is not None}
        if not changes:
            yield Violation(at, "the update changes nothing")
        for key, change in changes.items():
            for extra in sorted(set(view.mapped(change)) - _SETTINGS[key], key=str):
                yield Violation(f"{at}/{key}/{extra}", f"{extra!r} cannot be changed this way")
        for extra in sorted(item.keys() - wire.ITEMS["configuration_update"].keys, key=str):
            yield Violation(f"{at}/{extra}", f"{extra!r} cannot be changed this way")


def _rule(number: int, name: str, error: str, check: Any, source: str, applies: str | None = None) -> Rule:
    return Rule(f"OAR-STRUCT-{number:03}", name, "reject", source, error, check, applies=applies)


RULES: Final[Rulebook] = (
    _rule(1, "empty-input", "must be provided", empty_input, _CREATE),
    _rule(
        2, "unknown-role", "Supported values are: 'assistant', 'system', 'developer', and 'user'.", unknown_role,
        "https://github.com/openai/openai-python/issues/2677; SDK types/responses/easy_input_message_param.py",
    ),
    _rule(
        3, "chat-key", "Unknown parameter: 'input[1].tool_calls'.", chat_key,
        "https://github.com/openai/openai-python/issues/2677", "histories that were written for Chat Completions",
    ),
    _rule(
        4, "no-content", "expected one of an array of objects or string, but got null instead.", no_content,
        "https://github.com/QuantumNous/new-api/issues/4776",
    ),
    _rule(5, "unknown-item-type", "Supported values are:", unknown_item_type, _ITEMS),
    _rule(
        6, "output-only-key", "Unknown parameter: 'input[1].parsed_arguments'", output_only_key,
        "SDK types/responses/parsed_response.py; openai/openai-node src/lib/responses/ResponseInputItems.ts",
    ),
    _rule(
        7, "null-key", "Unknown parameter: 'input[1].status'", null_key,
        "https://github.com/BerriAI/litellm/issues/13420; https://github.com/openai/openai-python/issues/3053;"
        " https://github.com/pydantic/pydantic-ai/issues/3653",
    ),
    _rule(
        8, "missing-key", "Missing required parameter: 'input[", missing_key,
        f"{_ITEMS}; https://github.com/pydantic/pydantic-ai/issues/3653",
    ),
    _rule(
        9, "arguments-not-text", "Invalid type for 'input[1].arguments': expected a string", arguments_not_text,
        "SDK types/responses/response_function_tool_call_param.py",
    ),
    _rule(
        10, "output-not-text", "expected one of an array of objects or string", output_not_text, _ITEMS,
    ),
    _rule(
        11, "bad-search-action", "Missing required parameter: 'input[1].action.type'", bad_search_action,
        "SDK types/responses/response_function_web_search_param.py;"
        " https://github.com/pydantic/pydantic-ai/issues/3653",
    ),
    _rule(
        12, "tools-of-another-role", "Invalid value: '", tools_of_another_role,
        f"{_ITEMS}; openai/openai-node src/lib/responses/ResponseInputItems.ts",
    ),
    _rule(13, "trigger-not-last", "compaction_trigger", trigger_not_last, f"{_ITEMS} (CompactionTrigger)"),
    _rule(
        14, "bad-configuration-update", "Unknown parameter: 'input[0].reasoning.summary'", bad_configuration_update,
        "SDK types/responses/response_configuration_update_item_param_param.py;"
        " https://developers.openai.com/api/docs/guides/latest-model", "the GPT-6 family, with one agent",
    ),
)  # fmt: skip
