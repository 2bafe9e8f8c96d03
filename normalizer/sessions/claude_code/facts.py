"""The live conversation of a Claude Code session -> facts, step by step.

Every string of a line ends up in a fact or in a leftover: what stands beside a message's content is a leftover of its
own, and a result that is told otherwise than it stands in the file is one as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.facts import SteeringApplied, SteeringQueued, Summarised, TurnCancelRequested
from normalizer.parts import Text
from normalizer.providers.anthropic.decoding import part
from normalizer.sessions.claude_code.calls import Calls
from normalizer.sessions.claude_code.evidence import INTERRUPTED, MARKERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from normalizer.facts import Fact
    from normalizer.parts import Part
    from normalizer.provider import Origin
    from normalizer.reading.fact_builder import Recorder
    from normalizer.sessions.claude_code.calls import Signs
    from normalizer.sessions.claude_code.lines import Record
    from normalizer.sessions.claude_code.nodes import Node
    from normalizer.sessions.claude_code.tree import Step, Story

SYNTHETIC: Final = "<synthetic>"
_RESUME: Final = "Continue from where you left off."
# what the client writes in the model's name without the model having said it
_NOT_SAID: Final = frozenset({"No response requested.", "(no content)"})
_COMMANDS: Final = ("<command-name>", "<command-message>", "<bash-input>")
_INJECTED: Final = ("<task-notification>",)
_OUTPUTS: Final = ("<local-command-stdout>", "<local-command-stderr>", "<local-command-caveat>", "<bash-stdout>",
                   "<bash-stderr>")  # fmt: skip
_OF_MODEL: Final = frozenset({"tool_call", "server_tool_call", "server_tool_result", "reasoning"})


class Teller:
    """Tells the steps of a story to a recorder."""

    def __init__(self, data: bytes, recorder: Recorder, signs: Signs, told: Story, origin: Origin) -> None:
        self.data = data
        self.recorder = recorder
        self.calls = Calls(data, recorder, signs, told.stopped)
        self.told = told
        self.origin = origin

    def tell(self) -> None:
        """All steps in order, then what stands beside them."""
        for step, following in _with_next(self.told.steps):
            if step.group:
                self._reply(step, following)
            else:
                node = step.nodes[0]
                value = node.record.value(self.data)
                if node.type == "user":
                    self._user(node, value)
                else:
                    self._other(node, value)
        for node in self.told.beside:
            self.recorder.leftover(node.record.place, _why_beside(node), node.record.raw(self.data))

    def queued(self, waiting: list[tuple[Record, Any, Any]]) -> None:
        """What was typed and never given to the model."""
        for record, content, at in waiting:
            self._add(SteeringQueued, record.place, at, steering_id=record.place, parts=(Text(content),))

    def _add(self, make: Callable[..., Fact], place: str, at: Any, **more: Any) -> None:
        self.recorder.add(
            make(
                fact_id=place, seq=self.recorder.next_seq(), source=self.recorder.source, turn_id=self.recorder.turn,
                at=_time(at), **more,
            )
        )  # fmt: skip

    def _beside(self, node: Node, value: dict[str, Any], message: dict[str, Any]) -> None:
        """Keep what a line says beside its message's content."""
        rest = {key: item for key, item in message.items() if key != "content"}
        self.recorder.leftover(
            node.record.place, "what stands beside the message", {**value, "message": rest}
        )

    # ------------------------------------------------------------ replies

    def _reply(self, step: Step, following: Node | None) -> None:
        place = step.nodes[0].record.place
        blocks: list[tuple[str, Any]] = []
        value: dict[str, Any] = {}
        message: dict[str, Any] = {}
        stop_reason = None
        string = aborted = False
        for node in step.nodes:
            value = node.record.value(self.data)
            found = value.get("message")
            if not isinstance(found, dict):
                self._unusable(node)
                continue
            message = found
            self._beside(node, value, message)
            stop_reason = _string(message.get("stop_reason")) or stop_reason
            aborted = aborted or value.get("isAbortedMidStream") is True
            string = self._take_blocks(node.record.place, message, blocks)
        if not message and not blocks:
            return
        model = _string(message.get("model"))
        if model == SYNTHETIC and self._by_client(place, value, blocks):
            return
        cut = aborted or model == SYNTHETIC or (stop_reason is None and self._breaks_off(following))
        parts = tuple(part(block) for _, block in blocks)
        model = None if model == SYNTHETIC else model or _string(self.origin.get("model"))
        container = message.get("container")
        more: dict[str, Any] = {"cut": True} if cut else {"stop_reason": stop_reason}
        self.recorder.failed = False
        self.recorder.reply(
            place,
            parts,
            model=model,
            provider=self.recorder.provider if model is None or "claude" in model.lower() else None,
            container=_string(container.get("id")) if isinstance(container, dict) else None,
            string=string and len(parts) == 1,
            at=_time(value.get("timestamp")),
            **more,
        )
        self.calls.show_starts(parts)

    def _take_blocks(self, place: str, message: dict[str, Any], blocks: list[tuple[str, Any]]) -> bool:
        """Add a line's blocks, each once. Returns whether the content was one text."""
        content = message.get("content")
        if isinstance(content, str):
            blocks.append((place, {"type": "text", "text": content}))
            return True
        if not isinstance(content, list):
            self.recorder.finding(
                "bad_line", "the content of a message is neither text nor a list of blocks", place
            )
            self.recorder.leftover(place, "content that is neither text nor blocks", content)
            return False
        for number, block in enumerate(content):
            if type(block) is dict and block.get("type") == "tool_result":
                where = f"{place}/message/content/{number}"
                self.recorder.finding("unknown_block", "a tool's result stands in the model's reply", where)
                self.recorder.leftover(where, "a result in a reply", block)
            elif not any(where != place and block == known for where, known in blocks):
                blocks.append((place, block))
        return False

    def _by_client(self, place: str, value: dict[str, Any], blocks: list[tuple[str, Any]]) -> bool:
        """Whether the client wrote this in the model's name; if so it is kept aside."""
        texts = [block.get("text") for _, block in blocks if type(block) is dict]
        words = "\n".join(text for text in texts if isinstance(text, str))
        if value.get("isApiErrorMessage") is True or value.get("error") or words.startswith("API Error"):
            self.recorder.failed = True
            reason = "provider error"
        elif words.strip() in _NOT_SAID or not words.strip():
            reason = "made by the client on resume"
        else:
            return False
        self.recorder.leftover(f"{place}/message/content", reason, [block for _, block in blocks])
        return True

    def _breaks_off(self, following: Node | None) -> bool:
        """Whether the next message is the marker of a stop during the reply."""
        if following is None or not following.prompt:
            return False
        return _marker(following.record.value(self.data)) == INTERRUPTED

    # ------------------------------------------------------------ the user's side

    def _user(self, node: Node, value: dict[str, Any]) -> None:
        message = value.get("message")
        if not isinstance(message, dict):
            self._unusable(node)
            return
        self._beside(node, value, message)
        content = message.get("content")
        place = node.record.place
        if not isinstance(content, str | list):
            self.recorder.finding(
                "bad_line", "the content of a message is neither text nor a list of blocks", place
            )
            self.recorder.leftover(
                f"{place}/message/content", "content that is neither text nor blocks", content
            )
        elif node.summary:
            self._summary(place, value, content)
        elif isinstance(content, str):
            self._text(place, value, content)
        else:
            self._blocks(place, value, content)

    def _unusable(self, node: Node) -> None:
        self.recorder.finding("bad_line", "a line of a message holds no message", node.record.place)
        self.recorder.leftover(node.record.place, "a line without its message", node.record.raw(self.data))

    def _text(self, place: str, value: dict[str, Any], content: str) -> None:
        if content in MARKERS:
            self._interrupt(place, value, content)
        elif value.get("isMeta") is True and content == _RESUME:
            self.recorder.leftover(f"{place}/message/content", "made by the client on resume", content)
        else:
            self._said(place, value, (Text(content),), string=True)

    def _blocks(self, place: str, value: dict[str, Any], content: list[Any]) -> None:
        """Results, markers and words in their order; neighbouring words are one message."""
        run: list[Part] = []
        results = False
        for number, block in enumerate(content):
            where = f"{place}/message/content/{number}"
            text = block.get("text") if type(block) is dict and block.get("type") == "text" else None
            is_result = type(block) is dict and block.get("type") == "tool_result"
            is_resume = value.get("isMeta") is True and text == _RESUME
            if (is_result or is_resume or text in MARKERS) and run:
                self._said(f"{where}:before", value, tuple(run), opens=not results)
                run = []
            if is_result:
                results = True
                self.calls.result(where, value, block)
            elif text in MARKERS:
                self._interrupt(where, value, block)
            elif is_resume:
                self.recorder.leftover(where, "made by the client on resume", block)
            else:
                run.append(part(block))
        if run or not content:
            self._said(place, value, tuple(run), opens=not results)

    def _said(
        self,
        place: str,
        value: dict[str, Any],
        parts: tuple[Part, ...],
        *,
        string: bool = False,
        opens: bool = True,
    ) -> None:
        kept = self._without_models(place, parts)
        if parts and not kept:
            return
        person, prompt = _speaker(value, kept)
        if prompt and opens:
            self.recorder.open_turn()
        self.recorder.user(
            place, kept, string=string, by="person" if person else "program", at=_time(value.get("timestamp"))
        )

    def _without_models(self, place: str, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """The parts that a user's message can hold; what only a model writes is kept aside."""
        if not any(piece.kind in _OF_MODEL for piece in parts):
            return parts
        kept: list[Part] = []
        for piece in parts:
            if piece.kind in _OF_MODEL:
                self.recorder.finding(
                    "unknown_block", f"a {piece.kind} block stands in a user message", place
                )
                self.recorder.leftover(place, f"{piece.kind} in a user message", _whole(piece))
            else:
                kept.append(piece)
        return tuple(kept)

    def _interrupt(self, place: str, value: dict[str, Any], content: Any) -> None:
        """The marker of a stop is evidence, not the user's words."""
        self.recorder.interrupted = True
        self._add(TurnCancelRequested, place, value.get("timestamp"), by="user")
        self.recorder.leftover(place, "interrupt marker", content)

    def _summary(self, place: str, value: dict[str, Any], content: str | list[Any]) -> None:
        """A compaction: what came before is represented by its summary, so that no later result belongs to it."""
        through = self.recorder.seq
        parts = self._without_models(place, _parts(content))
        self._add(
            Summarised,
            place,
            value.get("timestamp"),
            parts=parts,
            through=through,
            string=isinstance(content, str),
        )
        self.recorder.uses.clear()

    # ------------------------------------------------------------ other lines

    def _other(self, node: Node, value: dict[str, Any]) -> None:
        """Lines that are no message; what the user typed into the running turn is steering."""
        place = node.record.place
        attachment = value.get("attachment")
        self.recorder.leftover(place, _why_other(node, value), node.record.raw(self.data))
        if (
            node.type == "attachment"
            and isinstance(attachment, dict)
            and attachment.get("type") == "queued_command"
        ):
            prompt = attachment.get("prompt")
            if not isinstance(prompt, str | list):
                return
            parts = self._without_models(place, _parts(prompt))
            if attachment.get("commandMode") not in (None, "prompt"):
                self.recorder.user(place, parts, by="program", at=_time(value.get("timestamp")))
                return
            at = value.get("timestamp")
            self._add(SteeringQueued, place, at, steering_id=place, parts=parts)
            self._add(SteeringApplied, f"{place}:applied", at, steering_id=place)


def _with_next(steps: list[Step]) -> list[tuple[Step, Node | None]]:
    """Each step with the first line of the message behind it."""
    found: list[tuple[Step, Node | None]] = []
    following: Node | None = None
    for step in reversed(steps):
        found.append((step, following))
        if step.nodes[0].is_message:
            following = step.nodes[0]
    found.reverse()
    return found


def _parts(content: str | list[Any]) -> tuple[Part, ...]:
    return (Text(content),) if isinstance(content, str) else tuple(map(part, content))


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _time(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _marker(value: dict[str, Any]) -> str | None:
    """The marker that a user line is."""
    message = value.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list) and len(content) == 1 and type(content[0]) is dict:
        content = content[0].get("text")
    return content if isinstance(content, str) and content in MARKERS else None


def _speaker(value: dict[str, Any], parts: tuple[Part, ...]) -> tuple[bool, bool]:
    """Whether a person said this, and whether it begins a round of work."""
    first = parts[0].text if parts and isinstance(parts[0], Text) else ""
    origin = value.get("origin")
    kind = origin.get("kind") if isinstance(origin, dict) else None
    if value.get("isMeta") is True or first.startswith(_OUTPUTS):
        return False, False
    if first.startswith((*_COMMANDS, *_INJECTED)) or (isinstance(kind, str) and kind != "human"):
        return False, True
    return True, True


def _whole(piece: Any) -> Any:
    if piece.raw is not None:
        return piece.raw
    return {"type": "tool_use", "id": piece.id, "name": piece.name, "input": piece.arguments.value}


def _why_beside(node: Node) -> str:
    if node.side:
        return "a sub-agent's own conversation"
    return "another branch" if node.is_message else f"a {node.type} line"


def _why_other(node: Node, value: dict[str, Any]) -> str:
    attachment = value.get("attachment")
    detail = attachment.get("type") if isinstance(attachment, dict) else value.get("subtype")
    return f"a {node.type} line ({detail})" if isinstance(detail, str) else f"a {node.type} line"
