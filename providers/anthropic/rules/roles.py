"""ANT-ROLE: who may say what, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from normalizer.providers.anthropic import wire
from normalizer.providers.anthropic.rules import exchanges, view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation, pointer

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROLES: Final = frozenset({"user", "assistant", "system"})
_MEDIA: Final = frozenset({"image", "document", "search_result", "container_upload"})
_OPEN_ENDS: Final = wire.SERVER_RESULTS | {"compaction", "fallback"}
_OPEN_STOPS: Final = frozenset({"pause_turn", "compaction"})


def unknown_role(request: Request, context: Context) -> Iterator[Violation]:
    """A message is from the user or the assistant, or from the system where the model takes that.

    ## Why
    Other APIs have tool, function and developer messages; this one has blocks and the top-level `system` for
    them.

    ## Repair
    Tool messages become results at the front of the user turn behind the call, developer messages
    instructions.
    """
    for at, message in view.history(request).where(lambda sort, _: sort.role not in _ROLES):
        yield Violation(f"{at}/role", f"there is no role {message.get('role')!r}")


def results_split_by_message(request: Request, context: Context) -> Iterator[Violation]:
    """Neighbouring messages of one role count as one turn, and its results stand in front of all else in it.

    ## Why
    Messages need not alternate: the API joins neighbours before it looks at their order. A message of the
    user that came between a call and its result stands in front of the result then.

    ## Repair
    Merge neighbours, results first.
    """
    for turn in () if exchanges.order(request).single else view.turns(request):
        if turn.role != "user" or turn.first == turn.last:
            continue
        blocked = None
        for at, block in turn.items:
            message = at.split("/", 3)[2]
            if block.get("type") != "tool_result":
                blocked = blocked or message
            elif blocked not in (None, message):
                yield Violation(
                    at, "the message before this result joins it to one turn and stands in front of it"
                )


def assistant_prefill(request: Request, context: Context) -> Iterator[Violation]:
    """The conversation ends with the user, unless the server itself left the assistant's turn open.

    ## Why
    Models since 4.6 do not go on writing a reply that the client began. A paused turn, a compaction and a
    reply that another model takes over are continued: they end as the server left them.

    ## Repair
    After a finished reply there is nothing to ask yet. After one that was cut off, the user asks to go on, or
    the reply is dropped and asked for again.
    """
    if view.model(request).prefill or context.get("history") or _left_open(request, context):
        return
    last = view.last_turn(request)
    if last is not None and last.role == "assistant":
        yield Violation(
            pointer("messages", last.last), "the model does not continue a reply of the assistant"
        )


def _left_open(request: Request, context: Context) -> bool:
    """Whether the server goes on with the assistant turn at the end."""
    last = view.last_turn(request)
    if last is None or not last.items:
        return False
    if (
        request.get("fallback_credit_token") is not None
        or view.text(context.get("stop_reason")) in _OPEN_STOPS
    ):
        return True
    return view.kind(last.items[-1][1]) in _OPEN_ENDS or bool(exchanges.server_calls(request).open)


def prefill_with_thinking(request: Request, context: Context) -> Iterator[Violation]:
    """With manual thinking on, an assistant message at the end begins with thinking.

    ## Why
    The model would have to think before words that are already there.

    ## Repair
    End with the user's turn, or turn thinking off for this request.
    """
    if view.thinking(request) != "enabled" or context.get("history") or _left_open(request, context):
        return
    last = view.last_turn(request)
    if last is not None and last.role == "assistant" and last.items:
        at, block = last.items[0]
        if view.kind(block) not in wire.THINKING:
            yield Violation(at, f"the reply begins with {view.kind(block)!r} while thinking is on")


def misplaced_tool_call(request: Request, context: Context) -> Iterator[Violation]:
    """Only the assistant calls tools.

    ## Repair
    Move the call to the turn that made it. If the record does not say which, leave call and result out.
    """
    yield from _elsewhere(request, frozenset({"tool_use"}), "assistant")


def misplaced_tool_result(request: Request, context: Context) -> Iterator[Violation]:
    """Results of the client's tools stand in user messages only.

    ## Repair
    Split the message: calls and what precedes them stay, the results open the next user turn, the rest
    follows.
    """
    yield from _elsewhere(request, frozenset({"tool_result"}), "user")


def misplaced_thinking(request: Request, context: Context) -> Iterator[Violation]:
    """Thinking, redacted or not, stands in assistant messages only.

    ## Why
    Thinking is signed for the reply that it belongs to. Another agent's thinking cannot be handed on.

    ## Repair
    Leave it out.
    """
    yield from _elsewhere(request, wire.THINKING, "assistant")


def misplaced_server_block(request: Request, context: Context) -> Iterator[Violation]:
    """Calls of server tools and their results stand in assistant messages only.

    ## Why
    The server runs these tools itself and writes the results into its own reply.

    ## Repair
    Put the result back behind its call. It never becomes a result of the client.
    """
    yield from _elsewhere(request, wire.SERVER_CALLS | wire.SERVER_RESULTS, "assistant")


def _elsewhere(request: Request, kinds: frozenset[str], role: str) -> Iterator[Violation]:
    """Blocks of these types in messages of another role."""
    for at, block in view.misplaced(request, kinds, role):
        yield Violation(at, f"{view.kind(block)} stands in a message that is not the {role}'s")


def assistant_media(request: Request, context: Context) -> Iterator[Violation]:
    """Pictures, documents, search results and uploads do not stand in assistant messages.

    ## Why
    The API takes them from the user only, although replies of its own may hold uploads.

    ## Repair
    Record the file's id and leave the block out. Never put words in its place that the model did not write.
    """
    for at, block in view.of_type(request, _MEDIA, "assistant"):
        yield Violation(at, f"{view.kind(block)} is not permitted in an assistant turn")


def assistant_first(request: Request, context: Context) -> Iterator[Violation]:
    """The first message is the user's.

    ## Why
    The first-party API takes an assistant message there, other endpoints do not. A compaction may stand
    first.

    ## Repair
    When old turns are cut off, cut at a user message that holds no results.
    """
    for index, message in view.messages(request)[:1]:
        begins = view.blocks(index, message)[:1]
        if view.role(message) == "assistant" and not (begins and view.kind(begins[0][1]) == "compaction"):
            yield Violation(pointer("messages", index), "the conversation begins with the assistant")


RULES: Final[Rulebook] = (
    Rule(
        id="ANT-ROLE-001",
        name="unknown-role",
        severity="reject",
        source="https://github.com/mark3labs/mcphost/issues/36;"
        " https://github.com/NyarchLinux/NyarchAssistant/issues/157",
        error="Unexpected role",
        check=unknown_role,
        applies="every model",
    ),
    Rule(
        id="ANT-ROLE-002",
        name="results-split-by-message",
        severity="reject",
        source="SDK: types/message_create_params.py; https://github.com/vercel/ai/issues/2047;"
        " https://github.com/diegosouzapw/OmniRoute/issues/2382",
        error="`tool_use` ids were found without `tool_result` blocks immediately after",
        check=results_split_by_message,
        applies="first-party API; some resellers still demand that roles alternate",
    ),
    Rule(
        id="ANT-ROLE-003",
        name="assistant-prefill",
        severity="reject",
        source="https://platform.claude.com/docs/en/api/errors;"
        " https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons;"
        " SDK: lib/tools/_beta_runner.py",
        error="does not support assistant message prefill",
        check=assistant_prefill,
        applies="Claude 4.6 and later, Mythos Preview",
    ),
    Rule(
        id="ANT-ROLE-004",
        name="prefill-with-thinking",
        severity="reject",
        source="https://platform.claude.com/docs/en/build-with-claude/thinking;"
        " https://github.com/n8n-io/n8n/issues/22550",
        error="Expected `thinking` or `redacted_thinking`, but found `text`",
        check=prefill_with_thinking,
        applies="manual thinking (`enabled`)",
    ),
    Rule(
        id="ANT-ROLE-005",
        name="misplaced-tool-call",
        severity="reject",
        source="https://github.com/microsoft/agent-framework/issues/4328",
        error="`tool_use` blocks can only be in `assistant` messages",
        check=misplaced_tool_call,
        applies="every model",
    ),
    Rule(
        id="ANT-ROLE-006",
        name="misplaced-tool-result",
        severity="reject",
        source="live probe of claude-haiku-4-5 in a public repository, 2026-08-28",
        error="`tool_result` blocks can only be in `user` messages",
        check=misplaced_tool_result,
        applies="every model",
    ),
    Rule(
        id="ANT-ROLE-007",
        name="misplaced-thinking",
        severity="reject",
        source="error text quoted in several public test suites",
        error="thinking blocks may only be in `assistant` messages",
        check=misplaced_thinking,
        applies="every model",
    ),
    Rule(
        id="ANT-ROLE-008",
        name="misplaced-server-block",
        severity="reject",
        source="error text reproduced by public API emulators",
        error="blocks can only be in `assistant` messages",
        check=misplaced_server_block,
        applies="every model",
    ),
    Rule(
        id="ANT-ROLE-009",
        name="assistant-media",
        severity="reject",
        source="live probes in public repositories: refusal table of Freyja (2026-09-20), events of ag2",
        error="blocks are not permitted within assistant turns",
        check=assistant_media,
        applies="every model",
    ),
    Rule(
        id="ANT-ROLE-010",
        name="assistant-first",
        severity="contested",
        source="https://github.com/anthropics/anthropic-sdk-typescript/issues/622",
        error='first message must use the "user" role',
        check=assistant_first,
        applies="Amazon Bedrock and old versions of the API refuse it, the first-party API accepts it",
    ),
)
