"""OAR-ID: ids of items and calls, and names of tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.openai_responses import wire
from normalizer.providers.openai_responses.rules import view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation, remembered
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPENAPI: Final = "OpenAPI description in openai/openai-python (api_reference/openapi.transformed.yml)"


@remembered
def _named(request: Request) -> list[tuple[str, view.Item, str]]:
    """The items with an id, and their ids; that of a local shell's output names a call."""
    return [
        (at, item, item["id"]) for at, item in view.having(request, "id")
        if view.text(item["id"]) and view.kind(item) != "local_shell_call_output"
    ]  # fmt: skip


@remembered
def _ids(request: Request) -> list[tuple[str, str, str]]:
    """The ids that items have themselves, with pointers and types; that of a reference is another item's."""
    found = ((at, view.kind(item), own) for at, item, own in _named(request))
    return [(at, kind, own) for at, kind, own in found if kind != "item_reference"]


def wrong_id_prefix(request: Request, context: Context) -> Iterator[Violation]:
    """An item's id begins with the letters of its type, such as fc, msg or rs.

    ## Repair
    Leave a foreign id out. Do not put the letters in front of it.
    """
    for at, kind, found in _ids(request):
        known = wire.ITEMS.get(kind)
        if known is not None and known.prefix is not None and not found.startswith(known.prefix):
            yield Violation(f"{at}/id", f"the id {named(found)} is none of a {kind} item")


def invented_id(request: Request, context: Context) -> Iterator[Violation]:
    """Item ids come from the server; nobody else makes one.

    ## Repair
    Without a recorded id the key is left out. An item whose type needs one cannot be built.
    """
    issued = context.get("native_ids")
    if not isinstance(issued, list):
        return
    for at, kind, found in _ids(request):
        if found not in issued and kind not in wire.OUTPUTS:
            yield Violation(f"{at}/id", f"the server never gave the id {named(found)}")


def long_id(request: Request, context: Context) -> Iterator[Violation]:
    """An item's id has at most 64 characters.

    ## Repair
    A longer one did not come from this API: leave it out.
    """
    for at, _, found in _ids(request):
        if len(found) > wire.MAX_ID:
            yield Violation(f"{at}/id", "the id is longer than 64 characters")


def bad_call_id_length(request: Request, context: Context) -> Iterator[Violation]:
    """A `call_id` has 1 to 64 characters.

    ## Repair
    Map it by a stable digest, on call and output.
    """
    for at, item in view.having(request, view.CALL_KEY):
        found = item[view.CALL_KEY]
        if isinstance(found, str) and not 1 <= len(found) <= wire.MAX_ID:
            yield Violation(f"{at}/call_id", "the call_id is empty or longer than 64 characters")


def bad_id_characters(request: Request, context: Context) -> Iterator[Violation]:
    """Item ids consist of letters, digits, underscores and dashes.

    ## Repair
    Leave a foreign id out.
    """
    for at, _, found in _ids(request):
        if len(found) <= wire.MAX_ID and not wire.ITEM_ID.fullmatch(found):
            yield Violation(f"{at}/id", f"the id {named(found)} holds other characters")


def duplicate_item_id(request: Request, context: Context) -> Iterator[Violation]:
    """An item's id occurs once in the input.

    ## Repair
    Of two equal items keep the first. If they differ, the later one goes without its id.
    """
    seen: set[str] = set()
    for at, _, found in _named(request):
        if found in seen:
            yield Violation(f"{at}/id", f"another item has the id {named(found)}")
        seen.add(found)


def output_names_item(request: Request, context: Context) -> Iterator[Violation]:
    """An output points to the `call_id` of its call, not to the id of the call's item.

    ## Repair
    Use the recorded `call_id`.
    """
    by_item = {
        call.item["id"]: call.call_id
        for call in view.calls(request)
        if view.text(call.item.get("id")) and not view.served(call.item)
    }
    known = set(by_item.values())
    for output in view.outputs(request):
        found = view.text(output.item.get("call_id"))
        if found in by_item and found not in known:
            yield Violation(
                f"{output.pointer}/call_id",
                f"{named(found)} is the id of an item; the call is {named(by_item[found])}",
            )


def bad_tool_name(request: Request, context: Context) -> Iterator[Violation]:
    """Names of functions consist of letters, digits, underscores and hyphens, 128 of them at most.

    ## Repair
    Map the name by a stable function in tools, history and `tool_choice`.
    """
    for at, item in view.of_kind(request, "function_call"):
        if isinstance(item.get("name"), str) and not wire.TOOL_NAME.fullmatch(item["name"]):
            yield Violation(f"{at}/name", f"the name {named(item['name'])} is not allowed")
    for number, tool in enumerate(view.listed(request.get("tools"))):
        found: Any = view.mapped(tool).get("name")
        function = view.mapped(tool).get("type") == "function" and isinstance(found, str)
        if function and not wire.TOOL_NAME.fullmatch(found):
            yield Violation(f"/tools/{number}/name", f"the name {named(found)} is not allowed")


def half_mapped_id(request: Request, context: Context) -> Iterator[Violation]:
    """A call whose id was mapped has the mapped id on both sides, and no other call has it.

    ## Repair
    One map for the whole request, by digest, not by cutting.
    """
    given = view.mapped(context.get("id_map"))
    for at, item in view.items(request) if given else ():
        found = view.text(item.get(view.CALL_KEY))
        if found in given and given[found] != found:
            yield Violation(f"{at}/call_id", f"{named(found)} is sent as {named(given[found])} elsewhere")
    if len({view.text(mapped) for mapped in given.values()}) < len(given):
        yield Violation("", "two calls are mapped to one id")


RULES: Final[Rulebook] = (
    Rule(
        "OAR-ID-001", "wrong-id-prefix", "reject",
        "https://github.com/openai/openai-cs-agents-demo/issues/34; https://github.com/openai/codex/issues/33176;"
        " https://github.com/mastra-ai/mastra/issues/10815; https://github.com/Wei-Shaw/sub2api/issues/954",
        "Expected an ID that begins with 'fc'.", wrong_id_prefix,
    ),
    Rule(
        "OAR-ID-002", "invented-id", "policy",
        "openai/openai-agents-python .agents/references/run-item-lifecycle.md", None, invented_id, static=False,
    ),
    Rule(
        "OAR-ID-003", "long-id", "reject", "https://github.com/can1357/oh-my-pi/issues/457",
        "Invalid 'input[1].id': string too long. Expected a string with maximum length 64", long_id,
    ),
    Rule(
        "OAR-ID-004", "bad-call-id-length", "reject",
        f"{_OPENAPI}; https://github.com/AnswerDotAI/fastllm/issues/45",
        "Invalid 'input[1].call_id': string too long. Expected a string with maximum length 64", bad_call_id_length,
    ),
    Rule(
        "OAR-ID-005", "bad-id-characters", "reject", "https://github.com/Wei-Shaw/sub2api/issues/954",
        "Expected an ID that contains letters, numbers, underscores, or dashes", bad_id_characters,
    ),
    Rule(
        "OAR-ID-006", "duplicate-item-id", "reject",
        "https://github.com/OpenRouterTeam/ai-sdk-provider/issues/254; SDK lib/responses_tool_runner.py",
        "Duplicate item found with id fc_1.", duplicate_item_id,
    ),
    Rule(
        "OAR-ID-007", "output-names-item", "reject",
        "https://github.com/openai/openai-python/issues/2677;"
        " https://developers.openai.com/api/docs/guides/migrate-to-responses",
        "No tool call found for function call output with call_id fc_1.", output_names_item,
    ),
    Rule(
        "OAR-ID-008", "bad-tool-name", "reject", _OPENAPI,
        "Invalid 'input[1].name': string does not match pattern", bad_tool_name,
    ),
    Rule(
        "OAR-ID-009", "half-mapped-id", "reject", "https://github.com/continuedev/continue/issues/10092",
        "No tool call found for function call output with call_id call_1.", half_mapped_id, static=False,
    ),
)  # fmt: skip
