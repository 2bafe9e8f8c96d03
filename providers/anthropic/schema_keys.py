"""The keys that the schema of the Messages API knows, as data."""

from __future__ import annotations

from typing import Final

_RESULT: Final = frozenset({"type", "tool_use_id", "content", "cache_control"})

# SDK: types/content_block_param.py, types/beta/beta_content_block_param.py. Not listed: `connector_text`,
# which the documentation names but no schema describes.
BLOCK_KEYS: Final[dict[str, frozenset[str]]] = {
    "text": frozenset({"type", "text", "citations", "cache_control"}),
    "image": frozenset({"type", "source", "transformations", "cache_control"}),
    "document": frozenset({"type", "source", "title", "context", "citations", "cache_control"}),
    "search_result": frozenset({"type", "source", "title", "content", "citations", "cache_control"}),
    "thinking": frozenset({"type", "thinking", "signature"}),
    "redacted_thinking": frozenset({"type", "data"}),
    "tool_use": frozenset({"type", "id", "name", "input", "caller", "toolset_name", "cache_control"}),
    "tool_result": _RESULT | {"is_error", "toolset_name"},
    "tool_reference": frozenset({"type", "tool_name", "cache_control"}),
    "browser_state": frozenset({"type", "tabs", "state_changes", "cache_control"}),
    "server_tool_use": frozenset({"type", "id", "name", "input", "caller", "cache_control"}),
    "web_search_tool_result": _RESULT | {"caller"},
    "web_fetch_tool_result": _RESULT | {"caller"},
    "code_execution_tool_result": _RESULT,
    "bash_code_execution_tool_result": _RESULT,
    "text_editor_code_execution_tool_result": _RESULT,
    "tool_search_tool_result": _RESULT,
    "advisor_tool_result": _RESULT,
    "mcp_tool_use": frozenset({"type", "id", "name", "server_name", "input", "cache_control"}),
    "mcp_tool_result": _RESULT | {"is_error"},
    "mcp_tool_listing": frozenset({"type", "mcp_server_name", "tools"}),
    "container_upload": frozenset({"type", "file_id", "cache_control"}),
    "compaction": frozenset(
        {"type", "content", "encrypted_content", "signature", "tool_changes", "cache_control"}
    ),
    "fallback": frozenset({"type", "from", "to", "trigger"}),
    "tool_addition": frozenset({"type", "tool", "cache_control"}),
    "tool_removal": frozenset({"type", "tool", "cache_control"}),
}

# Keys of a message. SDK: types/message_param.py, types/beta/beta_system_message_param.py
MESSAGE_KEYS: Final = frozenset({"role", "content"})
SYSTEM_KEYS: Final = MESSAGE_KEYS | {"clear_at", "output_config"}

# SDK: types/message_create_params.py and the parameters of `messages.create` that are no part of the body;
# besides them the sampling parameters, which older models still take, and what Bedrock and Vertex put into
# the body.
REQUEST_KEYS: Final = frozenset(
    {
        "cache_control",
        "container",
        "diagnostics",
        "inference_geo",
        "max_tokens",
        "messages",
        "metadata",
        "model",
        "output_config",
        "service_tier",
        "speed",
        "stop_sequences",
        "stream",
        "system",
        "thinking",
        "tool_choice",
        "tools",
        "user_profile_id",
        "workspace_id",
        "temperature",
        "top_k",
        "top_p",
        "anthropic_beta",
        "anthropic_version",
        "betas",
        "extra_body",
        "extra_headers",
        "extra_query",
        "timeout",
    }
)

# Request keys that only betas know, and the beginnings of the names of these betas.
# The source is types/beta/message_create_params.py of the SDK.
BETA_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "billing_policy": ("user-profiles-",),
    "compaction": ("compact-",),
    "context_management": ("context-management-", "compact-"),
    "fallback_credit_token": ("fallback-credit-", "server-side-fallback-"),
    "fallbacks": ("server-side-fallback-",),
    "mcp_servers": ("mcp-client-",),
    "output_format": ("structured-outputs-",),
    "thread": ("message-threads-",),
}
