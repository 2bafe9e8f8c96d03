"""How well a parsed value fits the Responses API."""

from __future__ import annotations

from typing import Any

from normalizer.providers.openai_responses import decoding, wire


def sniff(value: Any) -> int:
    """How well a parsed value fits: a request, a response, a list of items, or stored items."""
    if isinstance(value, list):
        return _sniff_items(value)
    if not isinstance(value, dict):
        return 0
    if isinstance(value.get("output"), list) and (
        value.get("object") == "response" or _sniff_items(value["output"])
    ):
        return 95
    if isinstance(value.get("data"), list) and value.get("object") == "list":
        return _sniff_items(value["data"])
    given = value.get("input")
    if isinstance(given, list) and given and not any(key in value for key in ("messages", "contents")):
        return max(_sniff_items(given), 60 if all(isinstance(item, dict) for item in given) else 0)
    if isinstance(given, str):
        return 60 if "model" in value or "instructions" in value or "previous_response_id" in value else 20
    return 0


def _sniff_items(found: list[Any]) -> int:
    """Items of this API's types; messages that are nothing but words fit several APIs."""
    score = 0
    for item in found:
        if not isinstance(item, dict):
            return 0
        if decoding.word(item, "type") in wire.ITEMS:
            score = max(score, 90)
        elif isinstance(item.get("role"), str) and "content" in item and "parts" not in item:
            pieces = item["content"] if isinstance(item["content"], list) else []
            kinds = {decoding.word(piece, "type") for piece in pieces if isinstance(piece, dict)}
            score = max(score, 90 if kinds & (wire.INPUT_PARTS | wire.OUTPUT_PARTS) else 20)
        elif item.keys() != {"id"}:
            return 0
    return score
