"""One line of a Claude Code session: what has to be known of it to find the live conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from normalizer.sessions.claude_code.lines import Record

MESSAGES: Final = frozenset({"user", "assistant"})
REJECTED: Final = (
    "The user doesn't want to proceed with this tool use.",
    "The user doesn't want to take this action",
)


class Node:
    """A line of the tree: what has to be known of it to find the path, and where it stands in the file."""

    __slots__ = (
        "boundary", "calls", "digests", "index", "kept", "logical", "message_id", "number", "parent", "prompt",
        "record", "rejected", "request_id", "results", "side", "source", "summary", "type", "up", "uuid",
    )  # fmt: skip

    def __init__(self, record: Record, value: dict[str, Any], index: int) -> None:
        message = value.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        blocks = [b for b in content if type(b) is dict] if isinstance(content, list) else []
        self.record = record
        self.index = index
        self.type: str = value["type"]
        self.uuid = _word(value, "uuid") or record.place
        self.parent = _word(value, "parentUuid")
        self.side = value.get("isSidechain") is True
        self.up: Node | None = None
        self.source = _word(value, "sourceToolAssistantUUID")
        self.logical = _word(value, "logicalParentUuid")
        self.boundary = self.type == "system" and value.get("subtype") == "compact_boundary"
        self.summary = self.type == "user" and value.get("isCompactSummary") is True
        self.kept = _preserved(value.get("compactMetadata")) if self.boundary else ()
        self.message_id = self.request_id = self.number = None
        self.calls: tuple[str, ...] = ()
        self.results: tuple[str, ...] = ()
        self.digests: tuple[int, ...] = ()
        self.rejected: tuple[str, ...] = ()
        if "parentUuid" not in value and not self.boundary:
            self.parent = ""
        if self.type == "assistant":
            self.message_id = _word(message, "id") if isinstance(message, dict) else None
            self.request_id = _word(value, "requestId")
            self.number = value["apiBlockIndex"] if type(value.get("apiBlockIndex")) is int else None
            self.calls = tuple(str(b.get("id")) for b in blocks if b.get("type") == "tool_use")
        elif self.type == "user":
            found = [b for b in blocks if b.get("type") == "tool_result"]
            self.results = tuple(str(b.get("tool_use_id")) for b in found)
            self.digests = tuple(hash(str(b.get("content"))) for b in found)
            self.rejected = tuple(str(b.get("tool_use_id")) for b in found if _is_rejected(b))
        self.prompt = self.type == "user" and not self.results

    @property
    def is_message(self) -> bool:
        """Whether it is a line of a user or of the model."""
        return self.type in MESSAGES


def _word(value: dict[str, Any], key: str) -> str | None:
    found = value.get(key)
    return found if isinstance(found, str) and found else None


def _preserved(metadata: Any) -> tuple[str, ...]:
    """The lines that a compaction kept: listed, or the two ends of the kept piece."""
    if not isinstance(metadata, dict):
        return ()
    listed, piece = metadata.get("preservedMessages"), metadata.get("preservedSegment")
    if isinstance(listed, dict) and isinstance(listed.get("uuids"), list):
        return tuple(uuid for uuid in listed["uuids"] if isinstance(uuid, str))
    if isinstance(piece, dict):
        head, tail = piece.get("headUuid"), piece.get("tailUuid")
        if isinstance(head, str) and isinstance(tail, str):
            return ("", head, tail)
    return ()


def _is_rejected(block: dict[str, Any]) -> bool:
    content = block.get("content")
    return block.get("is_error") is True and isinstance(content, str) and content.startswith(REJECTED)
