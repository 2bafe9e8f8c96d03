"""How well a parsed value fits the Messages API."""

from __future__ import annotations

from typing import Any, Final

from normalizer.providers.anthropic import wire
from normalizer.providers.anthropic.decoding import KNOWN

# blocks that only other APIs and programs have
_OTHERS: Final = frozenset({"image_url", "input_audio", "tool-call", "tool-result", "function_call"})
_SURE: Final = 75


def sniff(value: Any) -> int:
    """How well a parsed value fits: a request, a list of messages, or one response."""
    if isinstance(value, dict):
        if value.get("type") == "message" and isinstance(value.get("content"), list):
            return 90
        messages = value.get("messages")
        if not isinstance(messages, list):
            return 0
        score = _sniff_messages(messages)
        if score and ("system" in value or "betas" in value or "claude" in (wire.word(value, "model") or "")):
            return min(100, score + 25)
        return score
    return _sniff_messages(value) if isinstance(value, list) else 0


def _sniff_messages(messages: list[Any]) -> int:
    """Messages with blocks of this API; plain words alone fit several, and broken messages fit none well."""
    score = 0
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            continue
        if "tool_calls" in message or "parts" in message or message["role"] == "model":
            return 0
        content = message.get("content")
        if isinstance(content, str) or content == []:
            score = max(score, 20)
        for block in content if isinstance(content, list) else ():
            kind = block.get("type") if type(block) is dict else ""
            if score == _SURE and type(kind) is str and kind in KNOWN:
                continue
            if kind is None or (isinstance(kind, str) and kind in _OTHERS):
                return 0
            score = max(
                score, 20 if kind == "text" else _SURE if isinstance(kind, str) and kind in KNOWN else 10
            )
    return score
