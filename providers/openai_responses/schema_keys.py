"""Items as the API takes them back: without output-only keys, nulls where there are none, and ids of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.parts import Json
from normalizer.providers.openai_responses import decoding, wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from normalizer.projecting.reports import Reports
    from normalizer.providers.openai_responses.decoding import Item


def replay(item: Item, reports: Reports, fact_id: str) -> Item:
    """An item as it was received, less what the API does not take back. The same object where that is nothing."""
    known = wire.ITEMS.get(decoding.kind(item))
    if known is None:
        return item
    kept = {
        key: value
        for key, value in item.items()
        if key in known.keys and (value is not None or key in known.nullable)
    }
    if kept.get("type") is not None and not isinstance(kept["type"], str):
        kept["type"] = decoding.kind(item)
    if kept.get("content") and "summary" in kept:
        del kept["content"]  # the open text of a model's reasoning
    if not fits(decoding.kind(item), kept.get("id")):
        kept.pop("id", None)
    if len(kept) == len(item) and kept.get("type") == item.get("type"):
        return _pieces(item, reports, fact_id)
    lost = {key: value for key, value in item.items() if key not in kept or kept[key] != value}
    if any(value is not None for value in lost.values()):
        message = f"a {decoding.kind(item)} item has keys that the API does not take back"
        reports.add("trimmed", message, _rule(lost), facts=(fact_id,), content=Json.of(lost).text)
    return _pieces(kept, reports, fact_id)


def _rule(lost: dict[str, Any]) -> str:
    if "id" in lost:
        return "OAR-ID-001"
    return "OAR-REASON-011" if "content" in lost else "OAR-STRUCT-006"


def fits(kind: str, item_id: Any) -> bool:
    """Whether an id can be one that the server gave to such an item; none at all is fine."""
    if item_id is None:
        return True
    known = wire.ITEMS.get(kind)
    prefix = (known.prefix or "") if known is not None else ""
    if kind == "local_shell_call_output":
        return True
    return (
        isinstance(item_id, str)
        and item_id.startswith(prefix)
        and wire.ITEM_ID.fullmatch(item_id) is not None
    )


def _pieces(item: Item, reports: Reports, fact_id: str) -> Item:
    """The pieces of an assistant's message under the names of this API."""
    content = item.get("content")
    if decoding.kind(item) != "message" or item.get("role") != "assistant" or not isinstance(content, list):
        return item
    fixed = [_piece(piece) for piece in content]
    if all(a is b for a, b in zip(fixed, content, strict=True)):
        return item
    message = "pieces of a message have names or keys that the API does not take back"
    reports.add("trimmed", message, "OAR-CONTENT-001", facts=(fact_id,), content=Json.of(content).text)
    return {**item, "content": [piece for piece in fixed if piece is not None]}


def _piece(piece: Any) -> Any:
    if isinstance(piece, str):
        return {"type": "output_text", "text": piece, "annotations": []}
    if not isinstance(piece, dict):
        return None
    found = piece.get("type")
    known = wire.PART_KEYS.get(found) if isinstance(found, str) and found in wire.OUTPUT_PARTS else None
    if known is not None:
        kept = {key: value for key, value in piece.items() if key in known and value is not None}
        return piece if len(kept) == len(piece) else kept
    text = piece.get("text")
    return {"type": "output_text", "text": text, "annotations": []} if isinstance(text, str) else None


def without_id(item: Item) -> Item:
    """An item that goes without its id; a message in its short form, so that nothing is missing in it."""
    rest = {key: value for key, value in item.items() if key != "id"}
    if decoding.kind(item) != "message":
        return rest
    content = item.get("content")
    one = content[0] if isinstance(content, list) and len(content) == 1 else None
    if isinstance(one, dict) and one.get("type") == "output_text" and isinstance(one.get("text"), str):
        short: Item = {"role": "assistant", "content": one["text"]}
        return {**short, "phase": item["phase"]} if item.get("phase") else short
    rest.pop("status", None)
    return rest


def complete(item: Item) -> bool:
    """Whether an item has all that its type demands."""
    kind = decoding.kind(item)
    known = wire.ITEMS.get(kind)
    look = _INSIDE.get(kind)
    return known is not None and known.required <= item.keys() and (look is None or look(item))


def _searched(item: Item) -> bool:
    """Whether a web search says what it did."""
    action = item["action"]
    wanted = {"search": (), "open_page": (), "find_in_page": ("url", "pattern")}
    if not isinstance(action, dict) or decoding.word(action, "type") not in wanted:
        return False
    nulls = {key for key, value in action.items() if value is None}
    return all(key in action for key in wanted[action["type"]]) and nulls <= (
        {"url"} if action["type"] == "open_page" else set()
    )


def _operated(item: Item) -> bool:
    """Whether a patch says what to do."""
    operation = item["operation"]
    wanted = {"create_file": ("path", "diff"), "update_file": ("path", "diff"), "delete_file": ("path",)}
    if not isinstance(operation, dict) or decoding.word(operation, "type") not in wanted:
        return False
    return all(isinstance(operation.get(key), str) for key in wanted[operation["type"]])


_INSIDE: Final[dict[str, Callable[[Item], bool]]] = {
    "web_search_call": _searched,
    "apply_patch_call": _operated,
    "computer_call": lambda item: ("action" in item) != ("actions" in item),
    "mcp_call": lambda item: isinstance(item["arguments"], str),
    "mcp_approval_response": lambda item: (
        isinstance(item["approval_request_id"], str) and isinstance(item["approve"], bool)
    ),
    "mcp_approval_request": lambda item: isinstance(item["arguments"], str),
    "compaction": lambda item: isinstance(item["encrypted_content"], str) and bool(item["encrypted_content"]),
    "function_call_output": lambda item: isinstance(item["output"], str | list),
    "custom_tool_call_output": lambda item: isinstance(item["output"], str | list),
    "program": lambda item: isinstance(item["code"], str) and isinstance(item["fingerprint"], str),
}
