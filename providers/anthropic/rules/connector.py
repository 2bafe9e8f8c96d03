"""ANT-MCP: tools of MCP servers that the API connects to itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.anthropic import wire
from normalizer.providers.anthropic.rules import exchanges, recorded, view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation, pointer
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from normalizer.providers.anthropic.rules.view import Block

_BLOCKS: Final = frozenset({"mcp_tool_use", "mcp_tool_result", "mcp_tool_listing"})
_TOOLSET: Final = "mcp_toolset"
_FIRST_WITH_TOOLSETS: Final = "mcp-client-2025-11-20"
_BETA: Final = "mcp-client-"
_MCP: Final = "https://platform.claude.com/docs/en/agents-and-tools/mcp-connector"


def unanswered_mcp_call(request: Request, context: Context) -> Iterator[Violation]:
    """Once the conversation has moved on, every call of an MCP server's tool has its result behind it.

    ## Why
    The server makes these calls itself, like those of its own tools.

    ## Repair
    Drop the call. Its result is never written by the client.
    """
    for at, call in exchanges.server_calls(request).abandoned:
        if view.kind(call) == "mcp_tool_use":
            yield Violation(at, f"MCP call {named(call.get('id'))} has no result")


def orphan_mcp_result(request: Request, context: Context) -> Iterator[Violation]:
    """Every result of an MCP server's tool has its call before it.

    ## Repair
    Leave the result out and report it.
    """
    for at, result in exchanges.server_calls(request).orphans:
        if view.kind(result) == "mcp_tool_result":
            yield Violation(at, f"result of {result.get('tool_use_id')!r} has no call that waits for it")


def unmatched_mcp_server(request: Request, context: Context) -> Iterator[Violation]:
    """Each MCP server has one toolset that names it, and each toolset names a server.

    ## Why
    Since the beta of November 2025 the toolset says which of a server's tools the model sees.

    ## Repair
    Add or remove the toolset; the names match to the letter.
    """
    toolsets = [placed for placed in view.tools(request) if view.kind(placed[1]) == _TOOLSET]
    if view.continues_thread(request) or not (toolsets or _knows_toolsets(request)):
        return
    servers = list(view.objects(request.get("mcp_servers"), "/mcp_servers"))
    names = {view.text(server.get("name")) for _, server in servers}
    used: set[str] = set()
    for at, toolset in toolsets:
        name = view.text(toolset.get("mcp_server_name"))
        if name not in names:
            yield Violation(
                f"{at}/mcp_server_name", f"the toolset names server {name!r}, which is not declared"
            )
        elif name in used:
            yield Violation(at, f"server {name!r} already has a toolset")
        used.add(name)
    for at, server in servers:
        if view.text(server.get("name")) not in used:
            yield Violation(at, f"no toolset names server {server.get('name')!r}")


def _knows_toolsets(request: Request) -> bool:
    return any(beta.startswith(_BETA) and beta >= _FIRST_WITH_TOOLSETS for beta in view.betas(request))


def mcp_without_beta(request: Request, context: Context) -> Iterator[Violation]:
    """MCP servers, and blocks of their tools, need a beta of the MCP client.

    ## Repair
    Ask for the beta while such blocks are in the history, or drop calls and results together.
    """
    if view.has_beta(request, _BETA):
        return
    needed = wire.BETAS["mcp_tool_use"][1]
    if request.get("mcp_servers"):
        yield Violation("/mcp_servers", f"MCP servers need the beta {needed}")
    for at, block in view.of_type(request, _BLOCKS):
        yield Violation(at, f"{view.kind(block)} needs the beta {needed}")


def media_in_mcp_result(request: Request, context: Context) -> Iterator[Violation]:
    """The result of an MCP server's tool is a string or text blocks.

    ## Repair
    Replay the block as received.
    """
    for at, result in view.of_type(request, frozenset({"mcp_tool_result"})):
        content: Any = result.get("content", "")
        if isinstance(content, list):
            for number, part in enumerate(content):
                if not isinstance(part, dict) or view.kind(part) != "text":
                    yield Violation(f"{at}/content/{number}", "the result holds something else than text")
        elif not isinstance(content, str):
            yield Violation(
                f"{at}/content", "the content of the result is neither a string nor a list of blocks"
            )


def lost_mcp_listing(request: Request, context: Context) -> Iterator[Violation]:
    """A listing of an MCP server's tools stays in its assistant message, unchanged.

    ## Why
    Without it the server is asked again, and another answer changes the prefix that thinking is bound to.

    ## Repair
    Replay the block. It is no call and needs no result.
    """
    received = recorded.blocks(context)
    listings = [block for block in received if view.kind(block) == "mcp_tool_listing"]
    others = [block for block in received if block not in listings]
    for index, message in view.messages(request if listings else {}):
        held = [block for _, block in view.blocks(index, message)]
        if _of_one_reply(held, others):
            for listing in listings:
                if not any(recorded.same(listing, block) for block in held):
                    server = listing.get("mcp_server_name")
                    at = pointer("messages", index, "content")
                    yield Violation(at, f"the listing of {server!r} is missing or changed")
            return


def _of_one_reply(held: list[Block], others: list[Block]) -> bool:
    """Whether a message holds something of the recorded reply."""
    known = recorded.keys(held) & recorded.keys(others)
    return bool(known) or any(recorded.same(block, other) for block in held for other in others)


RULES: Final[Rulebook] = (
    Rule(
        id="ANT-MCP-001",
        name="unanswered-mcp-call",
        severity="reject",
        source=f"{_MCP}; https://platform.claude.com/docs/en/agents-and-tools/tool-use/server-tools;"
        " pydantic-ai, tests/models/anthropic/test_unpaired_native_tool_calls.py",
        error="was found without a corresponding `mcp_tool_result` block",
        check=unanswered_mcp_call,
        applies="MCP connector (beta)",
    ),
    Rule(
        id="ANT-MCP-002",
        name="orphan-mcp-result",
        severity="reject",
        source="https://github.com/anthropics/claude-code/issues/64383",
        error="unexpected `tool_use_id` found in `mcp_tool_result` blocks",
        check=orphan_mcp_result,
        applies="MCP connector (beta)",
    ),
    Rule(
        id="ANT-MCP-003",
        name="unmatched-mcp-server",
        severity="reject",
        source=_MCP,
        error="mcp",
        check=unmatched_mcp_server,
        applies="beta `mcp-client-2025-11-20` and later",
    ),
    Rule(
        id="ANT-MCP-004",
        name="mcp-without-beta",
        severity="reject",
        source=f"{_MCP}; SDK: types/beta/beta_content_block_param.py",
        error="does not match any of the expected tags",
        check=mcp_without_beta,
        applies="every model",
    ),
    Rule(
        id="ANT-MCP-005",
        name="media-in-mcp-result",
        severity="reject",
        source="SDK: types/beta/beta_request_mcp_tool_result_block_param.py",
        error="Input should be",
        check=media_in_mcp_result,
        applies="MCP connector (beta)",
    ),
    Rule(
        id="ANT-MCP-006",
        name="lost-mcp-listing",
        severity="degrades",
        source="SDK: types/beta/beta_mcp_tool_listing_block_param.py",
        error=None,
        check=lost_mcp_listing,
        static=False,
        applies="beta `mcp-client-2026-09-15`",
    ),
)
