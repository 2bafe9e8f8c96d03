"""Names and limits of the Anthropic Messages wire, and what each model can do, as data.

Sources: the types of the anthropic SDK 2.14.0 and the public documentation named beside each table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

PROVIDER: Final = "anthropic"
API: Final = "anthropic"

# The block types of the wire and the role whose messages may hold them.
# SDK: types/content_block_param.py, types/beta/beta_content_block_param.py
SERVER_CALLS: Final = frozenset({"server_tool_use", "mcp_tool_use"})
SERVER_RESULTS: Final = frozenset(
    {
        "web_search_tool_result",
        "web_fetch_tool_result",
        "code_execution_tool_result",
        "bash_code_execution_tool_result",
        "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
        "advisor_tool_result",
        "mcp_tool_result",
    }
)
THINKING: Final = frozenset({"thinking", "redacted_thinking"})
USER_BLOCKS: Final = frozenset(
    {"text", "image", "document", "search_result", "tool_result", "container_upload"}
)
ASSISTANT_BLOCKS: Final = (
    frozenset({"text", "tool_use", "mcp_tool_listing", "compaction", "fallback", "connector_text"})
    | THINKING
    | SERVER_CALLS
    | SERVER_RESULTS
)
TOOL_CHANGES: Final = frozenset({"tool_addition", "tool_removal"})
SYSTEM_BLOCKS: Final = frozenset({"text"}) | TOOL_CHANGES
RESULT_BLOCKS: Final = frozenset(
    {"text", "image", "document", "search_result", "tool_reference", "browser_state"}
)

# Names that blocks, parts and items have on other wires, and what stands inside blocks of this one: none of them can be
# a block that is newer than this release.
ELSEWHERE: Final = RESULT_BLOCKS - USER_BLOCKS | frozenset(
    {
        "additional_tools", "apply_patch_call", "apply_patch_call_output", "audio", "code_interpreter_call",
        "compaction_trigger", "computer_call", "computer_call_output", "configuration_update", "custom_tool_call",
        "custom_tool_call_output", "file", "file_search_call", "function", "function_call", "function_call_output",
        "image_generation_call", "image_url", "input_audio", "input_file", "input_image", "input_text",
        "item_reference", "json", "local_shell_call", "local_shell_call_output", "mcp_approval_request",
        "mcp_approval_response", "mcp_call", "mcp_list_tools", "message", "output_text", "program", "program_output",
        "reasoning", "reasoning.encrypted", "refusal", "shell_call", "shell_call_output", "summary_text", "tool-call",
        "tool-result", "tool_call", "tool_search_call", "tool_search_output", "web_search_call", "web_search_result",
    }
)  # fmt: skip

CALL_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
SERVER_CALL_ID: Final = re.compile(r"srvtoolu_[a-zA-Z0-9_]+")
TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
MAX_CACHE_MARKS: Final = 4

# Betas that a block, or a key of a system message, in the history needs (a prefix of the beta's name), and
# the release to ask for.
# https://platform.claude.com/docs/en/agents-and-tools/mcp-connector, .../build-with-claude/compaction,
# .../build-with-claude/refusals-and-fallback, .../agents-and-tools/tool-use/advisor-tool
BETAS: Final[dict[str, tuple[str, str]]] = {
    "mcp_tool_use": ("mcp-client-", "mcp-client-2025-11-20"),
    "mcp_tool_result": ("mcp-client-", "mcp-client-2025-11-20"),
    "mcp_tool_listing": ("mcp-client-", "mcp-client-2026-09-15"),
    "compaction": ("compact-", "compact-2026-01-12"),
    "fallback": ("server-side-fallback-", "server-side-fallback-2026-07-01"),
    "advisor_tool_result": ("advisor-tool-", "advisor-tool-2026-03-01"),
    "tool_addition": ("mid-conversation-tool-changes-", "mid-conversation-tool-changes-2026-07-01"),
    "clear_at": ("mid-conversation-system-clear-at-", "mid-conversation-system-clear-at-2026-08-21"),
    "output_config": ("mid-conversation-output-config-", "mid-conversation-output-config-2026-07-01"),
    "tool_removal": ("mid-conversation-tool-changes-", "mid-conversation-tool-changes-2026-07-01"),
}


@dataclass(frozen=True, slots=True)
class Model:
    """What one row of models accepts. `thinking` is None where it is not known which types are accepted."""

    name: str
    prefill: bool
    thinking: frozenset[str] | None
    forced_tools: bool
    system_messages: Literal["yes", "ignored", "no"]
    sampling: bool
    prefix_bound: bool = False
    account_bound: bool = False


def word(value: Any, key: str) -> str | None:
    """The string that an object has under a key; what is no string names nothing, and cannot be looked up."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else None


_ALL: Final = frozenset({"enabled", "adaptive", "disabled"})
_ADAPTIVE: Final = frozenset({"adaptive", "disabled"})
_ALWAYS: Final = frozenset({"adaptive"})
_MANUAL: Final = frozenset({"enabled", "disabled"})

# Read from the top, the first pattern that fits the whole name decides.
# https://platform.claude.com/docs/en/api/errors, .../build-with-claude/thinking,
# .../build-with-claude/preserved-thinking,
# .../build-with-claude/mid-conversation-system-messages, .../agents-and-tools/tool-use/define-tools
_ROWS: Final[tuple[tuple[str, Model], ...]] = (
    (
        r"mythos-preview",
        Model("mythos-preview", False, frozenset({"adaptive", "enabled"}), False, "no", False),
    ),
    (r"opus-5-5", Model("opus-5-5", False, _ALWAYS, False, "yes", False, prefix_bound=True)),
    (r"(fable|mythos)-5-[12]", Model("fable-5-1", False, _ALWAYS, False, "yes", False, prefix_bound=True)),
    (
        r"(sonnet|haiku)-5-5",
        Model("sonnet-5-5", False, None, True, "yes", False, prefix_bound=True, account_bound=True),
    ),
    (r"(fable|mythos)-5", Model("fable-5", False, _ALWAYS, True, "yes", False)),
    (r"sonnet-5", Model("sonnet-5", False, None, True, "ignored", False)),
    (r"opus-5", Model("opus-5", False, _ADAPTIVE, True, "yes", False)),
    (r"opus-4-8", Model("opus-4-8", False, _ADAPTIVE, True, "yes", False)),
    (r"opus-4-7", Model("opus-4-7", False, _ADAPTIVE, True, "no", False)),
    (r"(opus|sonnet)-4-6", Model("opus-4-6", False, _ALL, True, "no", True)),
    (
        r"(opus|sonnet|haiku)-(4|4-[0-5])|3.*|[12]\b.*|instant.*",
        Model("4-5", True, _MANUAL, True, "no", True),
    ),
)
COMMONEST: Final = "claude-opus-4-8"
"""The model whose row stands in where neither the caller nor the history names one."""

_STRICTEST: Final = Model("unknown", False, None, False, "no", False, prefix_bound=True, account_bound=True)
_PREFIX: Final = re.compile(r"^(?:.*[./])?claude-")
_SUFFIX: Final = re.compile(r"(?:-latest|[-@]\d{8}|-v\d+(?::\d+)?|@\w+|\[\w+\])+$")


@lru_cache(maxsize=256)
def family(model: str) -> str:
    """The model's name without maker, route, date and release: `us.anthropic.claude-opus-4-8-v1:0` -> `opus-4-8`."""
    return _SUFFIX.sub("", _PREFIX.sub("", model.strip().lower())).replace(".", "-")


@lru_cache(maxsize=256)
def capability(model: str) -> Model:
    """The row of a model; of one that no row knows, the strictest."""
    if "claude" not in model:
        return _STRICTEST
    name = family(model)
    return next((row for pattern, row in _ROWS if re.fullmatch(pattern, name)), _STRICTEST)


IMAGE_TYPES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""Pictures by value. https://platform.claude.com/docs/en/build-with-claude/vision"""

BROWSER_TOOLSET: Final = "browser_toolset_"
"""How the types of toolsets begin whose results hold `browser_state`."""

# Which result block belongs to which server tool. SDK: types/content_block_param.py
RESULT_OF: Final[dict[str, str]] = {
    "web_search": "web_search_tool_result",
    "web_fetch": "web_fetch_tool_result",
    "code_execution": "code_execution_tool_result",
    "bash_code_execution": "bash_code_execution_tool_result",
    "text_editor_code_execution": "text_editor_code_execution_tool_result",
    "tool_search_tool_regex": "tool_search_tool_result",
    "tool_search_tool_bm25": "tool_search_tool_result",
    "advisor": "advisor_tool_result",
}

CODE: Final = frozenset({"code_execution", "bash_code_execution", "text_editor_code_execution"})
# The beginnings of the types of the tools that make the server run calls of a name. Tools of the web that
# filter with code bring the code tool along. SDK: types/beta/beta_tool_union_param.py
CODE_TOOLS: Final = ("code_execution_", "web_search_2026", "web_fetch_2026")
OFFERED_BY: Final[dict[str, tuple[str, ...]]] = {
    "web_search": ("web_search_",),
    "web_fetch": ("web_fetch_",),
    "tool_search_tool_regex": ("tool_search_tool_regex",),
    "tool_search_tool_bm25": ("tool_search_tool_bm25",),
    "advisor": ("advisor_",),
    **dict.fromkeys(CODE, CODE_TOOLS),
}

YIELDING: Final[dict[str, str]] = {
    "ANT-ROLE-004": "thinking",
    "ANT-THK-005": "thinking",
    "ANT-CTX-009": "compaction",
    "ANT-CTX-011": "thread",
    "ANT-CTX-012": "thread",
}
"""Settings that give way where the history cannot go with them."""
