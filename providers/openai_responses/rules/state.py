"""OAR-STATE: histories that the server holds, and what is sent beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.openai_responses import wire
from normalizer.providers.openai_responses.rules import view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Iterator

_CREATE: Final = "SDK types/responses/response_create_params.py"
_SOCKET: Final = "https://developers.openai.com/api/docs/guides/websocket-mode"
_STEERING: Final = "https://developers.openai.com/api/docs/guides/steering"
_CONVERSATIONS: Final = "https://developers.openai.com/api/docs/guides/conversation-state"
_STEER_KEYS: Final = frozenset({"type", "previous_response_id", "input"})
_STEER_MESSAGE: Final = frozenset({"type", "role", "content"})


def two_parents(request: Request, context: Context) -> Iterator[Violation]:
    """A request continues a response or a conversation, not both.

    ## Repair
    Take the one that the history was recorded with.
    """
    if request.get("previous_response_id") and request.get("conversation"):
        yield Violation("/conversation", "previous_response_id is given too")


def _repeated(request: Request, before: list[view.Item]) -> Iterator[Violation]:
    ids = {view.text(item.get("id")) for item in before} - {""}
    for at, item in view.having(request, "id") if ids else ():
        if view.text(item["id"]) in ids:
            yield Violation(at, f"the server holds {named(item['id'])}")


def repeated_chain(request: Request, context: Context) -> Iterator[Violation]:
    """Beside `previous_response_id` only what is newer is sent.

    ## Repair
    The outputs of its calls, then messages. Or everything, without the id.
    """
    if request.get("previous_response_id"):
        yield from _repeated(request, view.held(request, context) or [])


def repeated_conversation(request: Request, context: Context) -> Iterator[Violation]:
    """Beside `conversation` only what is newer is sent.

    ## Repair
    As for an earlier response.
    """
    if request.get("conversation"):
        yield from _repeated(request, view.held(request, context) or [])


def call_left_open(request: Request, context: Context) -> Iterator[Violation]:
    """Calls that the earlier response left open are answered in the next request.

    ## Repair
    An output for each, before any message. To be rid of a call, begin anew with the whole history.
    """
    before = view.held(request, context) or []
    answered = {view.call_id(item) for item in before if view.kind(item) in wire.OUTPUTS}
    answered |= view.answered_ids(request) if before else set()
    for item in before:
        waits = view.kind(item) in wire.ANSWERS and not view.served(item) and item.get("async") is not True
        if waits and view.call_id(item) not in answered:
            yield Violation("/input", f"call {named(view.call_id(item))} has no output")


def unreadable_parent(request: Request, context: Context) -> Iterator[Violation]:
    """`previous_response_id` names a response that is finished, stored and still readable.

    ## Repair
    Send the whole history without the id.
    """
    if request.get("previous_response_id") in view.listed(context.get("unavailable_responses")):
        yield Violation("/previous_response_id", "this response cannot be read")


def lost_reference(request: Request, context: Context) -> Iterator[Violation]:
    """A reference points to an item that the server has stored.

    ## Repair
    Write the recorded item instead; if it was never recorded, leave the reference out.
    """
    stored = context.get("stored")
    for at, item in view.of_kind(request, "item_reference"):
        if view.stateless(request):
            yield Violation(at, "nothing is stored")
        elif isinstance(stored, list) and item.get("id") not in stored:
            yield Violation(f"{at}/id", f"the server does not have {named(item.get('id'))}")


def call_by_reference(request: Request, context: Context) -> Iterator[Violation]:
    """A call whose output is in the input stands there itself, not as a reference.

    ## Repair
    Write the call out, with its id and its reasoning.
    """
    known = view.mapped(context.get("refs"))
    for at, item in view.of_kind(request, "item_reference"):
        if known.get(view.text(item.get("id"))) in view.answered_ids(request):
            yield Violation(at, f"the call {named(known[item['id']])} is answered here")


def many_conversation_items(request: Request, context: Context) -> Iterator[Violation]:
    """At most 20 items are added to a conversation at once.

    ## Repair
    Several batches, in order.
    """
    found = view.listed(request.get("items"))
    if len(found) > wire.MAX_CONVERSATION_ITEMS:
        yield Violation("/items", f"there are {len(found)} items")


def instructions_not_repeated(request: Request, context: Context) -> Iterator[Violation]:
    """Instructions are sent with each request; an earlier response does not hand them on.

    ## Repair
    Send those in force.
    """
    before = view.mapped(context.get("previous_response")).get("instructions")
    if request.get("previous_response_id") and before and not request.get("instructions"):
        yield Violation("/instructions", "the earlier response had instructions")


def changed_compaction(request: Request, context: Context) -> Iterator[Violation]:
    """A compaction goes back whole, in the place of what it stands for, and begins a new chain.

    ## Repair
    Replay it as received. If it cannot be read, project the facts behind it.
    """
    for at, item in view.of_kind(request, "compaction"):
        if not isinstance(item.get("encrypted_content"), str) or not item["encrypted_content"]:
            yield Violation(f"{at}/encrypted_content", "the compaction has no ciphertext")
    for at, item, given in view.originals(request, context, "compaction"):
        if item.get("encrypted_content") != given.get("encrypted_content"):
            yield Violation(f"{at}/encrypted_content", "the ciphertext is not as it was received")
    compacted = context.get("compacted_from")
    if compacted is not None and request.get("previous_response_id") == compacted:
        yield Violation("/previous_response_id", "this response was compacted")


def socket_stream(request: Request, context: Context) -> Iterator[Violation]:
    """Over WebSocket a request has neither `stream` nor `background`.

    ## Repair
    Leave both out.
    """
    if request.get("type") == "response.create":
        for key in ("stream", "background"):
            if key in request:
                yield Violation(f"/{key}", f"{key!r} is not for WebSocket")


def bad_steering(request: Request, context: Context) -> Iterator[Violation]:
    """Steering brings user messages and names the response that it steers, and nothing more.

    ## Repair
    Outputs wait for the ordinary continuation.
    """
    if request.get("type") != "response.steer":
        return
    for key in sorted(request.keys() - _STEER_KEYS, key=str):
        yield Violation(f"/{key}", f"steering has no key {key!r}")
    if not request.get("previous_response_id"):
        yield Violation("/previous_response_id", "steering names no response")
    if not request.get("input"):
        yield Violation("/input", "steering says nothing")
    for at, item in view.items(request):
        if view.kind(item) != "message" or item.get("role") != "user" or item.keys() - _STEER_MESSAGE:
            yield Violation(at, "steering holds user messages with type, role and content")


def repeated_steering(request: Request, context: Context) -> Iterator[Violation]:
    """Steering that the server has accepted is not sent again.

    ## Repair
    Send the outputs that the server waits for. Only a failure gives the text back.
    """
    queued = set(view.names(context.get("queued_steering")))
    for at, item in view.messages(request, "user") if queued else ():
        if view.words(item.get("content")) in queued:
            yield Violation(at, "the server holds this steering")


def locked_conversation(request: Request, context: Context) -> Iterator[Violation]:
    """A conversation serves one response at a time.

    ## Repair
    Wait for the one that runs.
    """
    found = request.get("conversation")
    name = found.get("id") if isinstance(found, dict) else found
    if name and name in view.listed(context.get("active_conversations")):
        yield Violation("/conversation", f"a response is running in {name!r}")


def _rule(number: int, name: str, error: str | None, check: Any, source: str, severity: Any = "reject",
          *, static: bool = False, applies: str | None = None) -> Rule:  # fmt: skip
    return Rule(f"OAR-STATE-{number:03}", name, severity, source, error, check, static, applies)


RULES: Final[Rulebook] = (
    _rule(1, "two-parents", "conversation", two_parents, _CREATE, static=True),
    _rule(
        2, "repeated-chain", "Duplicate item found with id msg_1.", repeated_chain,
        "https://github.com/vercel/ai/issues/18605; https://github.com/OpenRouterTeam/ai-sdk-provider/issues/254",
    ),
    _rule(3, "repeated-conversation", "Duplicate item found with id msg_1.", repeated_conversation, _CONVERSATIONS),
    _rule(
        4, "call-left-open", "No tool output found for function call call_1.", call_left_open,
        "https://github.com/openai/codex/issues/620; SDK types/responses/response_steer_pending_event.py",
    ),
    _rule(
        5, "unreadable-parent", "Previous response with id 'resp_1' not found.", unreadable_parent,
        f"{_SOCKET}; {_CONVERSATIONS}",
    ),
    _rule(
        6, "lost-reference", "Items are not persisted when `store` is set to false.", lost_reference,
        "https://github.com/sst/opencode/issues/7724; https://github.com/can1357/oh-my-pi/issues/41",
    ),
    _rule(
        7, "call-by-reference", "No tool call found for function call output with call_id call_1.", call_by_reference,
        "vercel/ai packages/openai/src/responses/convert-to-openai-responses-input.ts",
    ),
    _rule(
        8, "many-conversation-items", "array too long. Expected an array with maximum length 20",
        many_conversation_items,
        "OpenAPI description in openai/openai-python (api_reference/openapi.transformed.yml)", static=True,
        applies="`conversations.items.create`",
    ),
    _rule(9, "instructions-not-repeated", None, instructions_not_repeated, _CREATE, "degrades"),
    _rule(
        10, "changed-compaction", "Missing required parameter: 'input[0].encrypted_content'", changed_compaction,
        "SDK types/responses/response_compaction_item_param_param.py;"
        f" {_SOCKET}; https://github.com/openai/codex/issues/35334",
    ),
    _rule(
        11, "socket-stream", "stream", socket_stream,
        f"SDK types/responses/responses_client_event_param.py; {_SOCKET}", static=True, applies="WebSocket",
    ),
    _rule(
        12, "bad-steering", "invalid_input", bad_steering,
        f"SDK types/responses/response_steer_event_param.py; {_STEERING}", static=True, applies="`response.steer`",
    ),
    _rule(
        13, "repeated-steering", None, repeated_steering,
        "SDK types/responses/response_steer_event_param.py; SDK types/responses/response_steer_pending_event.py",
        "degrades",
    ),
    _rule(
        14, "locked-conversation", "conversation_locked", locked_conversation, "openai/openai-agents-python",
    ),
)  # fmt: skip
