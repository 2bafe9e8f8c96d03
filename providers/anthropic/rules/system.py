"""The instructions at the top, and system messages inside the history (ANT-SYS)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.anthropic import wire
from normalizer.providers.anthropic.rules import view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

_MESSAGES: Final = "https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages"
_ADDITION: Final = "SDK:types/beta/beta_request_tool_addition_block_param.py"
_PARAM: Final = "SDK:types/beta/beta_system_message_param.py"
_CHANGES: Final = frozenset({"tool_addition", "tool_removal"})
_INLINE_BETA: Final = "inline-tools-"
_INLINE_TOOLSET_BETA: Final = "mcp-client-2026-09-15"
# Keys of a system message, and the beginning of the beta that each needs.
_EXTRAS: Final = {
    "clear_at": "mid-conversation-system-clear-at-",
    "output_config": "mid-conversation-output-config-",
}
_WITH_ROLE: Final = "models with system messages"
# Rows of models of which it is not known whether they take system messages.
_UNVERIFIED: Final = frozenset({"unknown", "mythos-preview"})


def system_that_is_no_text(request: Request, _context: Context) -> Iterator[Violation]:
    """The instructions are a string or a list of text blocks.

    Pictures belong into the first user turn.
    """
    system = request.get("system")
    if system is None or isinstance(system, str):
        return
    if not isinstance(system, list):
        yield Violation("/system", f"the instructions are a {type(system).__name__}")
        return
    for at, block in enumerate(system):
        if view.member(block, "type") != "text":
            yield Violation(f"/system/{at}", "this is no text block")


def empty_system_text(request: Request, _context: Context) -> Iterator[Violation]:
    """The text blocks of the instructions are not empty.

    Leave an empty block out, and `system` with it if none is left.
    """
    for pointer, block in view.objects(request.get("system"), "/system"):
        if view.kind(block) == "text" and not view.text(block.get("text")):
            yield Violation(f"{pointer}/text", "the text is empty")


def _messages(request: Request) -> list[view.Placed]:
    """The system messages with their pointers."""
    return view.history(request).where(lambda sort, _: sort.role == "system")


def unsupported_system_message(request: Request, _context: Context) -> Iterator[Violation]:
    """System messages inside the history go to models that know them only.

    Opus 4.8 and Opus 5 know them, Fable 5, Mythos 5 and what came after them; Sonnet 5 takes and ignores
    them. For other models the text goes to the end of the user turn before it, marked as the application's,
    or to the top.
    """
    row = view.model(request)
    if row.system_messages == "no" and row.name not in _UNVERIFIED:
        for pointer, _ in _messages(request):
            yield Violation(f"{pointer}/role", f"{request.get('model')!r} knows no system messages")


def leading_system_message(request: Request, _context: Context) -> Iterator[Violation]:
    """The history does not begin with a system message.

    The instructions at the top are for that.
    """
    messages = view.messages(request)
    if messages and view.role(messages[0][1]) == "system":
        yield Violation("/messages/0", "the first message is a system message")


def misplaced_system_message(request: Request, _context: Context) -> Iterator[Violation]:
    """System messages follow a user turn or a server's result, and nothing but a reply follows them.

    A user turn of tool results counts. Move the message back behind the nearest user turn, or forward behind
    the next. Messages without text, that only change tools or the effort, are freer.
    """
    turns = view.turns(request) if _messages(request) else []
    for at, turn in enumerate(turns):
        if not at or turn.role != "system" or not any(True for _ in turn.of_type("text")):
            continue
        if not _may_precede(turns[at - 1]):
            yield Violation(turn.pointer, "it follows a reply that does not end in a server's result")
        if at + 1 < len(turns) and turns[at + 1].role != "assistant":
            yield Violation(turn.pointer, f"a {turns[at + 1].role!r} turn follows it")


def _may_precede(turn: view.Turn) -> bool:
    if turn.role != "assistant":
        return turn.role == "user"
    return bool(turn.items) and view.kind(turn.items[-1][1]) in wire.SERVER_RESULTS


def foreign_block_in_system_message(request: Request, _context: Context) -> Iterator[Violation]:
    """A system message holds text and tool changes only.

    Move everything else to a user turn.
    """
    for pointer, message in _messages(request):
        for place, block in view.objects(message.get("content"), f"{pointer}/content"):
            if view.kind(block) not in wire.SYSTEM_BLOCKS:
                yield Violation(place, f"a {block.get('type')!r} block in a system message")


def unknown_tool_change(request: Request, _context: Context) -> Iterator[Violation]:
    """A tool change has its beta and names a tool or toolset that the request defines.

    `tools` defines it from the start (deferred, or removed later), or an earlier addition does under
    `inline-tools-2026-09-15`. A change that names nothing is left out.
    """
    known = _names(tool for _, tool in view.tools(request))
    for pointer, block in view.of_type(request, _CHANGES, "system"):
        tool = block.get("tool")
        if not view.has_beta(request, wire.BETAS[block["type"]][0]):
            yield Violation(pointer, f"{block['type']!r} needs beta {wire.BETAS[block['type']][1]!r}")
        elif view.member(tool, "type") == "tool_definition" and block["type"] == "tool_addition":
            definition = view.member(tool, "definition")
            known |= _names([definition] if isinstance(definition, dict) else [])
            yield from _inline_faults(request, f"{pointer}/tool", view.member(definition, "type"))
        elif not view.continues_thread(request) and not _reference(tool) & known:
            yield Violation(f"{pointer}/tool", "the change refers to a tool that is not defined")


def _names(tools: Any) -> set[tuple[str, str]]:
    """What a reference can name: tools, and servers of toolsets."""
    found: set[tuple[str, str]] = set()
    for tool in tools:
        found.add(("tool", view.text(tool.get("name"))))
        if view.kind(tool) == "mcp_toolset":
            found.add(("server", view.text(tool.get("mcp_server_name"))))
    return found


def _reference(tool: Any) -> set[tuple[str, str]]:
    """What this reference names; empty if it is none."""
    match view.member(tool, "type"):
        case "tool_reference":
            return {("tool", view.text(tool.get("name")))}
        case "mcp_tool_reference" | "mcp_toolset_reference":
            return {("server", view.text(tool.get("server_name")))}
    return set()


def _inline_faults(request: Request, pointer: str, kind: Any) -> Iterator[Violation]:
    if not view.has_beta(request, _INLINE_BETA):
        yield Violation(pointer, "a definition inside the history needs beta 'inline-tools-2026-09-15'")
    elif kind == "mcp_toolset" and _INLINE_TOOLSET_BETA not in view.betas(request):
        yield Violation(pointer, f"a toolset inside the history needs beta {_INLINE_TOOLSET_BETA!r}")


def system_extra_without_beta(request: Request, _context: Context) -> Iterator[Violation]:
    """`clear_at` and `output_config` of a system message come with their betas.

    Ask for the beta or leave the key out.
    """
    for pointer, message in _messages(request):
        for key, beta in _EXTRAS.items():
            if message.get(key) is not None and not view.has_beta(request, beta):
                yield Violation(f"{pointer}/{key}", f"{key!r} needs a beta {beta}...")


def silent_system_message(request: Request, _context: Context) -> Iterator[Violation]:
    """A system message has content, or sets something in its `output_config`.

    Leave the message out.
    """
    for pointer, message in _messages(request):
        if not message.get("content") and not message.get("output_config"):
            yield Violation(pointer, "the system message says nothing")


RULES: Rulebook = (
    Rule(
        id="ANT-SYS-001",
        name="system-that-is-no-text",
        severity="reject",
        source="published live probes; router-for-me/CLIProxyAPI",
        error="system.0.type: Input should be 'text'",
        check=system_that_is_no_text,
    ),
    Rule(
        id="ANT-SYS-002",
        name="empty-system-text",
        severity="reject",
        source="reports in github.com/anthropics/claude-code",
        error="text content blocks must be non-empty",
        check=empty_system_text,
    ),
    Rule(
        id="ANT-SYS-003",
        name="unsupported-system-message",
        severity="reject",
        source=f"{_MESSAGES}; router-for-me/CLIProxyAPI (live, August 2026)",
        error="role 'system' is not supported on this model",
        check=unsupported_system_message,
        applies="Opus 4.7, Opus and Sonnet 4.6, all models of 4.5 and before",
    ),
    Rule(
        id="ANT-SYS-004",
        name="leading-system-message",
        severity="reject",
        source=f"{_MESSAGES}; a published live probe (2026-08-28)",
        error="use the top-level 'system' parameter",
        check=leading_system_message,
        applies=_WITH_ROLE,
    ),
    Rule(
        id="ANT-SYS-005",
        name="misplaced-system-message",
        severity="reject",
        source=f"{_MESSAGES}; pydantic-ai (measured)",
        error="a system message",
        check=misplaced_system_message,
        applies=_WITH_ROLE,
    ),
    Rule(
        id="ANT-SYS-006",
        name="foreign-block-in-system-message",
        severity="reject",
        source=f"router-for-me/CLIProxyAPI (live); {_PARAM}",
        error="role 'system' supports text, tool_addition, and tool_removal blocks only",
        check=foreign_block_in_system_message,
        applies=_WITH_ROLE,
    ),
    Rule(
        id="ANT-SYS-007",
        name="unknown-tool-change",
        severity="reject",
        source=f"{_MESSAGES}; {_ADDITION}; pydantic-ai (measured)",
        error="references unknown tool",
        check=unknown_tool_change,
        applies="beta mid-conversation-tool-changes-2026-07-01",
    ),
    Rule(
        id="ANT-SYS-008",
        name="system-extra-without-beta",
        severity="reject",
        source=f"{_PARAM}; {_MESSAGES}",
        error="Extra inputs are not permitted",
        check=system_extra_without_beta,
    ),
    Rule(
        id="ANT-SYS-009",
        name="silent-system-message",
        severity="reject",
        source=_PARAM,
        error=None,
        check=silent_system_message,
        applies=_WITH_ROLE,
    ),
)
