"""ANT-MSG: the request and its messages as such, before anything is paired."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.anthropic import schema_keys, wire
from normalizer.providers.anthropic.rules import texts, view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation, pointer

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCKS: Final = wire.USER_BLOCKS | wire.ASSISTANT_BLOCKS | wire.SYSTEM_BLOCKS
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_REQUIRED: Final = ("model", "max_tokens", "messages")


def empty_conversation(request: Request, context: Context) -> Iterator[Violation]:
    """A request holds at least one message.

    ## Why
    There is nothing to answer. Only a thread that the server goes on with after a pause needs no message.

    ## Repair
    None: there is no history to send yet.
    """
    if request.get("messages") in (None, []) and not view.continues_thread(request):
        yield Violation("/messages", "the conversation has no messages")


def empty_message(request: Request, context: Context) -> Iterator[Violation]:
    """Every message has content; only an assistant message that is the last one may be empty.

    ## Why
    Empty messages are what remains after parts were dropped, or of a reply that had none.

    ## Repair
    Leave the message out. Never fill it with words that nobody said.
    """
    index = view.history(request)
    for at, message in index.where(
        lambda sort, _: sort.role != "system" and sort.form in ("text", "no parts")
    ):
        if message["content"]:
            continue
        speaker = view.role(message)
        if speaker == "assistant" and at == index.entries[-1][0] and not context.get("history"):
            continue
        yield Violation(f"{at}/content", f"the {speaker or 'message'} turn is empty")


def unknown_block(request: Request, context: Context) -> Iterator[Violation]:
    """The content of a message is a string or a list of blocks of types that this API takes.

    ## Why
    The block types are a closed union; those of a beta are only in it when the request asks for the beta.

    ## Repair
    Translate blocks of other APIs, or leave them out and report them. A type that the API itself sent is
    replayed. One that no API is known to have may be newer than this rule, which then is no more than a warning
    (contested).
    """
    messages = request.get("messages")
    if messages is not None and not isinstance(messages, list):
        yield Violation("/messages", "the messages are not a list")
    received = frozenset(
        name for name in view.listed(_as_list(context.get("received_types"))) if view.text(name)
    )
    taken = (BLOCKS | (received - wire.ELSEWHERE)) - _short_of_beta(request)
    for index, message in () if _holds_only(request, taken) else enumerate(view.listed(messages)):
        if not isinstance(message, dict):
            yield Violation(pointer("messages", index), "the message is not an object")
            continue
        content = message.get("content")
        at = f"/messages/{index}/content"
        if isinstance(content, list):
            yield from _unknown_blocks(at, content, taken)
        elif not isinstance(content, str) and not _needs_no_content(message):
            yield Violation(at, "the content is neither a string nor a list of blocks")


def _holds_only(request: Request, kinds: frozenset[str]) -> bool:
    """Whether all messages are objects with a content, and all in these contents are blocks of these types."""
    history = view.history(request)
    texts = history.numbers(lambda sort, _: sort.form == "text")
    lists = [
        message["content"] for _, message in history.where(lambda sort, _: sort.form in ("parts", "no parts"))
    ]
    return (
        len(texts) + len(lists) == len(view.listed(request.get("messages")))
        and len(texts) + sum(map(len, lists)) == len(view.standing(request).numbers(lambda sort, _: sort.kind in kinds))
    )  # fmt: skip


def _as_list(value: object) -> object:
    return list(value) if isinstance(value, (tuple, set, frozenset)) else value


def _needs_no_content(message: dict[str, Any]) -> bool:
    """A system message may only set options for the turns behind it."""
    return message.get("role") == "system" and "content" not in message


def _short_of_beta(request: Request) -> set[str]:
    """The block types whose beta the request does not ask for."""
    return {kind for kind, (start, _) in wire.BETAS.items() if not view.has_beta(request, start)}


def _unknown_blocks(at: str, content: list[Any], taken: frozenset[str]) -> Iterator[Violation]:
    for number, block in enumerate(content):
        if not isinstance(block, dict):
            yield Violation(f"{at}/{number}", "the block is not an object")
            continue
        kind = view.kind(block)
        if kind in taken:
            continue
        if not kind or kind in BLOCKS or kind in wire.ELSEWHERE or kind in wire.BETAS:
            yield Violation(f"{at}/{number}", _unknown(kind))
        else:
            message = f"no block type {kind!r} is known to this release"
            yield Violation(f"{at}/{number}", message, severity="contested")


def _unknown(kind: str) -> str:
    """Why no block of this type is taken."""
    if kind in wire.BETAS:
        return f"{kind} blocks need the beta {wire.BETAS[kind][1]}"
    return f"the API has no block type {kind!r}" if kind else "the block has no type"


def unknown_key(request: Request, context: Context) -> Iterator[Violation]:
    """Requests, messages and blocks carry only keys that the schema knows.

    ## Why
    The API refuses extra keys by name: ids, usage, time stamps, buffers of a stream.

    ## Repair
    Serialise from a list of allowed keys for each block type; what is kept for the record stays in the
    record.
    """
    yield from _unknown_request_keys(request)
    for at, block in view.objects(request.get("system"), "/system"):
        if view.kind(block) == "text":  # another type is a fault of its own
            yield from _extra(at, block, schema_keys.BLOCK_KEYS["text"])
    for at, message in view.history(request).where(
        lambda sort, held: not _known_keys(sort.role).issuperset(held)
    ):
        yield from _extra(at, message, _known_keys(view.role(message)))
    for at, block in view.walked(request).where(
        lambda sort, held: (
            sort.kind in schema_keys.BLOCK_KEYS and not schema_keys.BLOCK_KEYS[sort.kind].issuperset(held)
        )
    ):
        yield from _extra(at, block, schema_keys.BLOCK_KEYS[view.kind(block)])


def _known_keys(role: str) -> frozenset[str]:
    return schema_keys.SYSTEM_KEYS if role == "system" else schema_keys.MESSAGE_KEYS


def _unknown_request_keys(request: Request) -> Iterator[Violation]:
    betas = view.betas(request)
    for key in request:
        prefixes = schema_keys.BETA_KEYS.get(key)
        if prefixes is None and key not in schema_keys.REQUEST_KEYS:
            yield Violation(pointer(key), f"a request has no key {key!r}")
        elif prefixes is not None and not any(beta.startswith(prefixes) for beta in betas):
            yield Violation(pointer(key), f"{key!r} needs a beta {' or '.join(p + '...' for p in prefixes)}")


def _extra(at: str, value: dict[str, Any], allowed: frozenset[str]) -> Iterator[Violation]:
    for key in value:
        if key not in allowed:
            what = view.kind(value) or view.role(value) or "text"
            yield Violation(at + pointer(key), f"{what} has no key {key!r}")


def lone_surrogate(request: Request, context: Context) -> Iterator[Violation]:
    """No string of the request holds a lone half of a surrogate pair.

    ## Why
    Such text cannot be written as UTF-8, so the body is not valid JSON. Cutting a string inside an emoji
    causes it.

    ## Repair
    Put U+FFFD in its place when the text is recorded. In signed thinking leave the whole block out: a changed
    text no longer fits its signature.
    """
    weights = texts.weights(request)
    pending: list[tuple[tuple[str | int, ...], Any]] = [
        ((key,), request[key]) for key in reversed(list(request)) if weights[key].torn
    ]
    while pending:
        steps, value = pending.pop()
        if isinstance(value, str):
            if not value.isascii() and _SURROGATE.search(value):
                yield Violation(pointer(*steps), "the text holds a lone surrogate")
        elif isinstance(value, dict):
            if any(isinstance(key, str) and _SURROGATE.search(key) for key in value):
                yield Violation(pointer(*steps), "a key holds a lone surrogate")
            pending.extend(((*steps, key), value[key]) for key in reversed(list(value)))
        elif isinstance(value, list):
            pending.extend(((*steps, at), value[at]) for at in reversed(range(len(value))))


def trailing_whitespace(request: Request, context: Context) -> Iterator[Violation]:
    """A last message that the model is to go on writing does not end in whitespace.

    ## Why
    The model continues behind the last character, and the API refuses to let it continue behind whitespace.

    ## Repair
    Strip the end of the last text of the last message, and of no other. What is empty then goes.
    """
    last = view.last_turn(request)
    if last is None or last.role != "assistant" or context.get("history"):
        return
    # the text that a refused model left may stand before server results, and is stripped all the same
    anywhere = request.get("fallback_credit_token") is not None
    texts = (
        list(last.of_type("text")) if anywhere else [p for p in last.items[-1:] if view.kind(p[1]) == "text"]
    )
    for at, block in texts[-1:]:
        text = view.text(block.get("text"))
        if text != text.rstrip():
            place = at if at.endswith("/content") else f"{at}/text"
            yield Violation(place, "the text of the unfinished reply ends in whitespace")


def missing_field(request: Request, context: Context) -> Iterator[Violation]:
    """A request names its model, its `max_tokens` and its messages.

    ## Why
    The three have no default. Where only a history is judged, the caller still adds the first two.
    """
    for key in _REQUIRED:
        if request.get(key) is None and (key == "messages" or not context.get("history")):
            yield Violation(pointer(key), f"{key!r} is missing")


RULES: Final[Rulebook] = (
    Rule(
        id="ANT-MSG-001",
        name="empty-conversation",
        severity="reject",
        source="error text of public API emulators; SDK: types/beta/beta_thread_continue_params.py",
        error="messages: at least one message is required",
        check=empty_conversation,
        applies="every model; not a thread that is continued after a pause",
    ),
    Rule(
        id="ANT-MSG-002",
        name="empty-message",
        severity="reject",
        source="https://github.com/anthropics/claude-code/issues/3196;"
        " https://github.com/anthropics/claude-code/issues/6774",
        error="all messages must have non-empty content except for the optional final assistant message",
        check=empty_message,
        applies="every model",
    ),
    Rule(
        id="ANT-MSG-003",
        name="unknown-block",
        severity="reject",
        source="https://github.com/anthropics/claude-code/issues/28870; SDK: types/content_block_param.py,"
        " types/beta/beta_content_block_param.py",
        error="Input tag",
        check=unknown_block,
        applies="every model",
    ),
    Rule(
        id="ANT-MSG-004",
        name="unknown-key",
        severity="reject",
        source="https://github.com/anthropics/claude-code/issues/4378",
        error="Extra inputs are not permitted",
        check=unknown_key,
        applies="every model; keys of a beta need its header",
    ),
    Rule(
        id="ANT-MSG-005",
        name="lone-surrogate",
        severity="reject",
        source="https://github.com/anthropics/claude-code/issues/60394;"
        " SDK: lib/tools/_toolsets/_sanitize.py",
        error="The request body is not valid JSON",
        check=lone_surrogate,
        applies="every model",
    ),
    Rule(
        id="ANT-MSG-006",
        name="trailing-whitespace",
        severity="reject",
        source="https://platform.claude.com/docs/en/build-with-claude/refusals-and-fallback;"
        " https://github.com/crewAIInc/crewAI/issues/4413;"
        " https://github.com/langchain-ai/langchain/issues/35071",
        error="final assistant content cannot end with trailing whitespace",
        check=trailing_whitespace,
        applies="models with prefill, and a refused reply that another model continues",
    ),
    Rule(
        id="ANT-MSG-007",
        name="missing-field",
        severity="reject",
        source="SDK: types/message_create_params.py",
        error="Field required",
        check=missing_field,
        applies="every model",
    ),
)
