"""How well a parsed value fits Chat Completions."""

from __future__ import annotations

from typing import Any, Final

from normalizer.providers.openai_chat import read, wire

_ROLES: Final = wire.ROLES | read.ROLES.keys()
_SAYING: Final = ("content", "tool_calls", "function_call", "audio", "refusal", "reasoning_content")
_OWN_PARTS: Final = frozenset({"image_url", "input_audio", "file", "refusal"})
_OWN_SETTINGS: Final = frozenset(
    {"max_completion_tokens", "frequency_penalty", "presence_penalty", "logit_bias", "response_format", "n", "seed",
     "parallel_tool_calls", "reasoning_effort", "functions", "modalities", "stream_options"}
)  # fmt: skip
_PLAIN, _LIKELY, _CERTAIN = 20, 60, 90


def sniff(value: Any) -> int:
    """0 (not at all) to 100 (certainly). Plain words in messages fit other APIs as well, and score low."""
    if isinstance(value, list):
        return _messages(value)
    if not isinstance(value, dict):
        return 0
    if value.get("object") in ("chat.completion", "chat.completion.chunk"):
        return 95
    choices = value.get("choices")
    if isinstance(choices, list) and choices and all(isinstance(c, dict) and "message" in c for c in choices):
        return 85
    if "role" in value and "messages" not in value:
        score = _messages([value])
        return score if score >= _LIKELY else 0
    messages = value.get("messages")
    score = _messages(messages) if isinstance(messages, list) else 0
    if not score or "system" in value:
        return score if score >= _LIKELY else 0
    model = value.get("model")
    named = isinstance(model, str) and "claude" not in model.lower()
    tools = value.get("tools")
    declared = isinstance(tools, list) and any(
        isinstance(t, dict) and t.get("type") == "function" for t in tools
    )
    return min(100, score + 25) if named or declared or not _OWN_SETTINGS.isdisjoint(value) else score


def _messages(messages: list[Any]) -> int:
    score = 0
    for number, message in enumerate(messages):
        found = _message(message, first=number == 0) if isinstance(message, dict) else 0
        if not found:
            return 0
        score = max(score, found)
    return score


def _message(message: dict[str, Any], *, first: bool) -> int:
    """How much one message looks like one of Chat; 0 for one that cannot be."""
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES or "parts" in message or "type" in message:
        return 0
    if not any(key in message for key in _SAYING):
        return 0
    if role == "tool" or "tool_calls" in message or "function_call" in message:
        return _CERTAIN if _fits(message.get("content")) else 0
    score = _fits(message.get("content"))
    if role in ("developer", "function") or "reasoning_content" in message:
        return max(score, _LIKELY) if score else 0
    return max(score, _PLAIN + 10) if role == "system" and first and score else score


def _fits(content: Any) -> int:
    """How much a content looks like one of Chat; 0 where it cannot be."""
    if content is None or isinstance(content, str):
        return _PLAIN
    if not isinstance(content, list):
        return 1
    score = _PLAIN
    for block in content:
        kind = block.get("type") if isinstance(block, dict) else None
        if isinstance(kind, str) and kind in _OWN_PARTS:
            score = _LIKELY + 15
        elif kind != "text" and not isinstance(block, str):
            return 0
    return score
