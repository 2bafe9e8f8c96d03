"""The keys that the schema of Chat Completions knows, as data. SDK: types/chat/*_param.py"""

from __future__ import annotations

from typing import Final

_NAMED: Final = frozenset({"role", "content", "name"})
MESSAGE_KEYS: Final[dict[str, frozenset[str]]] = {
    "system": _NAMED,
    "developer": _NAMED,
    "user": _NAMED,
    "assistant": _NAMED | {"audio", "function_call", "refusal", "tool_calls"},
    "tool": frozenset({"role", "content", "tool_call_id"}),
    "function": _NAMED,
}
CALL_KEYS: Final[dict[str, frozenset[str]]] = {
    "function": frozenset({"id", "type", "function"}),
    "custom": frozenset({"id", "type", "custom"}),
}
PAYLOAD_KEYS: Final[dict[str, frozenset[str]]] = {
    "function": frozenset({"name", "arguments"}),
    "custom": frozenset({"name", "input"}),
}
PART_KEYS: Final[dict[str, frozenset[str]]] = {
    "text": frozenset({"type", "text", "prompt_cache_breakpoint"}),
    "image_url": frozenset({"type", "image_url", "prompt_cache_breakpoint"}),
    "input_audio": frozenset({"type", "input_audio", "prompt_cache_breakpoint"}),
    "file": frozenset({"type", "file", "prompt_cache_breakpoint"}),
    "refusal": frozenset({"type", "refusal"}),
}
# Keys by which the Responses API keeps the history; Chat has none of them.
STATE_KEYS: Final = ("previous_response_id", "conversation")
