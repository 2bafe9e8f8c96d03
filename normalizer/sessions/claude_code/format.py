"""Claude Code session files: JSON Lines, a tree by `uuid` and `parentUuid`, one content block a line.

The file is read twice: once to find the live conversation, then line by line to tell it. Between the two only a small
node a line is kept. Lines that are no part of the live conversation are leftovers, whole, with the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic_core import from_json

from normalizer.errors import UnreadableInput
from normalizer.findings import Reading
from normalizer.provider import Format
from normalizer.providers.anthropic import wire
from normalizer.reading import sanitizing
from normalizer.reading.fact_builder import Recorder
from normalizer.sessions.claude_code.calls import Signs
from normalizer.sessions.claude_code.facts import Teller
from normalizer.sessions.claude_code.lines import Record, records
from normalizer.sessions.claude_code.nodes import Node
from normalizer.sessions.claude_code.tree import story
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from normalizer.provider import Origin

NAME: Final = "claude_code"
_OF_TREE: Final = frozenset({"user", "assistant", "system", "attachment", "progress"})
_OTHERS: Final = frozenset(
    {"summary", "last-prompt", "queue-operation", "file-history-snapshot", "custom-title", "ai-title", "mode",
     "permission-mode", "agent-name", "agent-setting", "tag"}
)  # fmt: skip
_ENDED: Final = frozenset({"stopped", "killed"})
_SNIFFED: Final = 40


def sniff(head: bytes) -> int:
    """How well the beginning of a file fits: the lines' types, and the keys that tie them together."""
    score = 0
    for line in head.split(b"\n", _SNIFFED)[:_SNIFFED]:
        try:
            value = from_json(line)
        except ValueError:
            torn = line.lstrip(b"\0 \t\r\xef\xbb\xbf")
            if torn[:2] == b'{"' and b'"parentUuid"' in torn and b'"isSidechain"' in torn:
                score = max(score, 60)
            continue
        if type(value) is not dict or not isinstance(value.get("type"), str):
            continue
        kind, message = value["type"], value.get("message")
        if isinstance(message, dict) and "parts" in message and "content" not in message:
            return 0  # another client's sessions, with the same keys around other messages
        if kind in _OF_TREE and "parentUuid" in value and "uuid" in value:
            return 95
        if kind in ("user", "assistant") and "sessionId" in value and isinstance(message, dict):
            return 85
        if kind in _OTHERS and ("sessionId" in value or "leafUuid" in value or "messageId" in value):
            score = max(score, 50)
    return score


def read(data: bytes, origin: Origin) -> Reading:
    """The facts of a session file.

    Raises UnreadableInput, reason `no_messages`, where no line of a user or a model can be read.
    """
    try:
        return _read(data, origin, closely=False)
    except sanitizing.Unclean:
        return _read(data, origin, closely=True)


def _read(data: bytes, origin: Origin, *, closely: bool) -> Reading:
    recorder = Recorder("import", provider=wire.PROVIDER, api=wire.API)
    index = _Index(data, recorder)
    for record, value in records(data, recorder, closely=closely):
        index.take(record, value)
    told = story(index.nodes, index.leaf, frozenset(index.hits), recorder)
    if not told.steps:
        raise UnreadableInput(
            "no line of this file is a message of a user or a model; expected JSON Lines with"
            " 'type', 'uuid' and 'message'",
            reason="no_messages",
        )
    teller = Teller(data, recorder, index.signs, told, origin)
    teller.tell()
    teller.queued(index.waiting)
    return Reading(
        format=NAME,
        facts=recorder.close(),
        findings=tuple(recorder.findings),
        leftovers=tuple(sorted(recorder.leftovers, key=lambda left: left.line or 0)),
        fragments=tuple(recorder.fragments),
        home=wire.API,
    )


class _Index:
    """The first pass: the nodes of the tree, the leaf that the file names, and signs of what ran."""

    def __init__(self, data: bytes, recorder: Recorder) -> None:
        self.data = data
        self.recorder = recorder
        self.nodes: list[Node] = []
        self.known: dict[str, Node] = {}
        self.leaf: str | None = None
        self.leaves: list[str] = []
        self.hits: set[str] = set()
        self.signs = Signs()
        self.waiting: list[tuple[Record, Any, Any]] = []

    def take(self, record: Record, value: dict[str, Any]) -> None:
        kind = value.get("type")
        if isinstance(kind, str) and (kind in _OF_TREE or isinstance(value.get("uuid"), str)):
            self._node(record, value)
            return
        if kind == "last-prompt" and isinstance(value.get("leafUuid"), str):
            self.leaf = value["leafUuid"]
        elif kind == "queue-operation":
            self._queue(record, value)
        reason = f"a {kind} line" if isinstance(kind, str) else "a line without a type"
        self.recorder.leftover(record.place, reason, record.raw(self.data))

    def _node(self, record: Record, value: dict[str, Any]) -> None:
        node = Node(record, value, len(self.nodes))
        first = self.known.setdefault(node.uuid, node)
        if first is not node:
            self._again(first, record, value)
            return
        self.nodes.append(node)
        if node.side:
            self._helper(node, value)
        elif isinstance(value.get("interruptedMessageId"), str):
            self.hits.add(value["interruptedMessageId"])
        if node.type in ("system", "progress"):
            self._sign(node, value)
        self.signs.answered.update(node.results)

    def _again(self, first: Node, record: Record, value: dict[str, Any]) -> None:
        """A line whose uuid was there before: the first one counts. Re-writes of the same line are no fault."""
        raw = record.raw(self.data)
        if raw == first.record.raw(self.data):
            return
        if value.get("message") != first.record.value(self.data).get("message"):
            self.recorder.finding(
                "duplicate_id", f"two different lines have the uuid {named(first.uuid)}", record.place
            )
        self.recorder.leftover(record.place, "a line that was written again", raw)

    def _helper(self, node: Node, value: dict[str, Any]) -> None:
        """The prompt that opens a sub-agent's conversation shows that the call with this prompt has started."""
        message = value.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        if node.prompt and node.parent is None and isinstance(content, str):
            self.signs.prompts.setdefault(content, (node.record, value.get("timestamp")))

    def _sign(self, node: Node, value: dict[str, Any]) -> None:
        """What a line of the client shows of a running tool. A hook's output says nothing of the tool itself."""
        at = value.get("timestamp")
        detail = value.get("data")
        if node.type == "progress" and isinstance(detail, dict) and "hook" not in str(detail.get("type")):
            for key in ("parentToolUseID", "toolUseID"):
                if isinstance(value.get(key), str):
                    self.signs.started.setdefault(value[key], (node.record, at))
                    if isinstance(detail.get("output"), str) or isinstance(detail.get("fullOutput"), str):
                        self.signs.output[value[key]] = node.record
        elif node.type == "system" and isinstance(value.get("tool_use_id"), str):
            if value.get("subtype") == "task_started":
                self.signs.started.setdefault(value["tool_use_id"], (node.record, at))
            elif value.get("subtype") == "task_notification" and value.get("status") in _ENDED:
                self.signs.stopped.setdefault(value["tool_use_id"], (node.record, at))

    def _queue(self, record: Record, value: dict[str, Any]) -> None:
        """What the user typed and the model was not given yet."""
        operation, content = value.get("operation"), value.get("content")
        if operation == "enqueue" and isinstance(content, str) and content:
            self.waiting.append((record, content, value.get("timestamp")))
        elif operation == "popAll":
            self.waiting.clear()
        elif operation in ("dequeue", "remove") and self.waiting:
            same = (n for n, entry in enumerate(self.waiting) if entry[1] == content)
            del self.waiting[next(same, 0)]


FORMAT: Final = Format(name=NAME, home=wire.API, sniff=sniff, read=read)
