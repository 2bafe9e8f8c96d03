"""Chat Completions for the engine: its dialect, and its wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from normalizer.parts import Json
from normalizer.projecting.dialect import Dialect
from normalizer.projecting.dialect_policies import IdPolicy
from normalizer.projecting.draft import Draft, Refusal
from normalizer.projecting.engine import projector
from normalizer.projecting.incremental import Step
from normalizer.projecting.preamble import build
from normalizer.projecting.reports import Reports
from normalizer.projecting.wire import Wire
from normalizer.providers.openai_chat import (
    assistant_turn,
    calls,
    encoding,
    plain_steps,
    preamble,
    tool_results,
    user_turn,
    wire,
)
from normalizer.providers.openai_chat.context import ChatContext

if TYPE_CHECKING:
    from collections.abc import Sequence

    from normalizer.parts import ResultPart
    from normalizer.projecting.context import Context
    from normalizer.projecting.draft import Answered, Flow, Piece, Spoken, Value
    from normalizer.projecting.incremental import Rendered, Rendering
    from normalizer.projecting.user_turn import UserTurn
    from normalizer.projection import Adjustment
    from normalizer.transcript import Call, Entry

DIALECT: Final = Dialect(
    api=wire.API,
    history="messages",
    serves=lambda api, model: api == wire.API or (api is None and wire.is_openai(model)),
    ids=IdPolicy(pattern=wire.CALL_ID, prefix="call_", limit=wire.CALL_ID_LIMIT),
    profiles=tuple(wire.PROFILES),
    server_ids=False,
    joins="group",
    refused_replies="kept",
    because={
        "refused-reply": None,
        "before-fallback": None,
        "repeated-call": "OAC-PAIR-006",
        "repeated-id": "OAC-PAIR-006",
        "missing-id": "OAC-ID-003",
        "id-form": "OAC-ID-001",
        "further-result": "OAC-PAIR-005",
        "result-place": "OAC-PAIR-002",
        "message-keys": "OAC-STRUCT-006",
        "cut-end": None,
        "foreign-server-call": "OAC-STATE-003",
        "closed-to-text": None,
        "unmapped": "OAC-STRUCT-006",
        "empty": "OAC-STRUCT-004",
    },
)


class ChatWire(Wire):
    """The encoding of one projection."""

    head: preamble.Top

    def __init__(self, context: Context, before: Wire | None) -> None:
        super().__init__(context, before)
        self.chat = chat = ChatContext(context)
        earlier = (before.head, before.context.transcript) if isinstance(before, ChatWire) else None
        self.head = chat.head = build(
            preamble.Wire(chat.profile, chat.model), context.transcript, chat.history, earlier
        )
        self.plain = plain_steps.plain_steps(chat.profile)

    @override
    def renders_as(self, other: Wire) -> bool:
        """Names, the role of instructions, and which of them are replaced shape the messages; the tools do not."""
        return isinstance(other, ChatWire) and self.head.renders_as(other.head)

    # ------------------------------------------------------------ the reply

    @override
    def start(self, step: Step, flow: Flow, draft: Draft) -> None:
        """Nothing keeps a reply out as a whole."""
        draft.wire = []

    @override
    def encode(self, piece: Piece, draft: Draft) -> None:
        assistant_turn.encode(self.chat, piece, draft)

    @override
    def server_call(self, step: Step, flow: Flow, piece: Piece, draft: Draft) -> Refusal:
        """This API has no calls of its server's in a history."""
        message = "a call that the provider's own server ran has no form here"
        return Refusal("dropped_server_tool", message, "foreign-server-call")

    @override
    def assistant(self, step: Step, flow: Flow, draft: Draft) -> list[Spoken]:
        return assistant_turn.messages(self.chat, draft)

    # ------------------------------------------------------------ results

    @override
    def plain_result(self, call: Call, wire_id: str, content: str) -> Value | None:
        if len(content) > wire.MAX_STRING or call.part.form == calls.LEGACY:
            return None
        return {"role": "tool", "tool_call_id": wire_id, "content": content}

    @override
    def result(self, answered: Answered, wire_id: str, draft: Draft) -> None:
        tool_results.result(self.chat, answered, wire_id, draft)

    @override
    def notice(self, answered: Answered, wire_id: str, draft: Draft) -> None:
        tool_results.notice(self.chat, answered, wire_id, draft)

    @override
    def notice_subject(self, call: Call, wire_id: str) -> str:
        legacy = call.part.form == calls.LEGACY and call.part.id is None
        return wire.subject(call.part.name, call.part.arguments.text) if legacy else wire_id

    @override
    def after_results(self, turn: UserTurn, draft: Draft) -> None:
        """The media of this step's results, behind the whole batch."""
        blocks: list[Value] = []
        for key, parts in draft.wire or ():
            blocks.append({"type": "text", "text": f"[from the result of call {self.ids[key]}]"})
            blocks.extend(tool_results.moved_media(self.chat, parts, draft, draft.entry.fact.fact_id))
        if blocks:
            joined = encoding.one_text(self.chat, draft.entry, blocks, draft)
            turn.add(joined, string=self.chat.profile.one_text)

    # ------------------------------------------------------------ the user's side

    @override
    def said(self, entry: Entry, turn: UserTurn, draft: Draft) -> bool:
        return user_turn.said(self.chat, entry, turn, draft)

    @override
    def result_media(self, parts: Sequence[ResultPart], key: str, draft: Draft, fact_id: str) -> list[Value]:
        return tool_results.moved_media(self.chat, parts, draft, fact_id)

    @override
    def stands_here(self, entry: Entry) -> bool:
        return entry.kind != "tools" and not user_turn.is_elsewhere(self.chat, entry)

    @override
    def later_head(self, entry: Entry, turn: UserTurn, draft: Draft) -> None:
        user_turn.instructions(self.chat, entry, turn, draft)

    @override
    def finish(self, step: Step, flow: Flow, draft: Draft, rendered: Rendered[Flow]) -> None:
        """Reasoning that goes back in the running turn only may leave later."""
        first = step.reply or (step.behind[-1] if step.behind else None)
        runs = first is None or first.fact.seq >= self.chat.turn_start()
        rendered.open = self.chat.profile.reasoning_turn is not None and runs

    # ------------------------------------------------------------ the whole

    @override
    def request(self, rendering: Rendering[Flow], notes: list[Adjustment]) -> tuple[dict[str, Any], bool]:
        """The model if it is known, the history, and the tools."""
        request: dict[str, Any] = {}
        if self.model:
            request["model"] = self.model
        request["messages"] = self._messages(rendering, notes)
        if self.head.tools is not None:
            request["tools"] = list(self.head.tools)
        if self.head.functions is not None:
            request["functions"] = list(self.head.functions)
        return request, True

    def _messages(self, rendering: Rendering[Flow], notes: list[Adjustment]) -> list[Value]:
        """All messages; for a template that wants alternating roles, instructions in front and neighbours joined."""
        messages = rendering.messages.listed()
        if not self.chat.profile.alternate:
            return messages
        reports = Reports(DIALECT.because, notes)
        return _alternating([*self._gathered(reports), *messages], reports)

    def _gathered(self, reports: Reports) -> list[Value]:
        """All instructions as one system message."""
        entries = self.head.gathered
        draft = Draft(Step(0, None, (), 0, last=False), reports, set())
        blocks: list[Value] = []
        for entry in entries:
            texts, _ = user_turn.instruction_blocks(self.chat, entry, draft)
            blocks.extend(texts)
        if not blocks:
            return []
        first: Any = entries[0].fact
        single = first.string or preamble.recorded_role(entries[0]) is None
        if len(entries) > 1:
            reports.add("merged", "all instructions stand in one message at the beginning", "OCX-VLLM-002",
                        facts=tuple(entry.fact.fact_id for entry in entries))  # fmt: skip
        return [
            {
                "role": self.head.role,
                "content": encoding.content(self.chat, entries[0], blocks, draft, single=single),
            }
        ]


_PAIRED: Final = frozenset({"user", "assistant"})


def _alternating(messages: list[Value], reports: Reports) -> list[Value]:
    """Neighbours of one role as one message, part behind part: their bytes stay, only a border goes.

    https://github.com/microsoft/autogen/issues/1037
    """
    found: list[Value] = []
    joined = 0
    for message in messages:
        before = found[-1] if found else {}
        if (
            message["role"] not in _PAIRED
            or before.get("role") != message["role"]
            or before.get("tool_calls")
        ):
            found.append(message)
            continue
        joined += 1
        found[-1] = _joined(before, message, reports)
    if joined:
        text = f"{joined} messages are joined with the one of the same role before them"
        reports.add("merged", text, "OCX-VLLM-002")
    return found


def _joined(before: Value, message: Value, reports: Reports) -> Value:
    """Two messages of one role as one."""
    parts = [*_listed(before.get("content")), *_listed(message.get("content"))]
    kept = [part for part in parts if part.get("type") != "refusal"]
    if len(kept) < len(parts) and len(parts) > 1:
        gone = Json.of([part for part in parts if part not in kept]).text
        text = "a refusal that cannot be joined with its neighbour is left out"
        reports.add("dropped_fragment", text, "OCX-VLLM-002", content=gone)
    beside = {key: value for key, value in before.items() if key != "content" and value is not None}
    if lost := {key: value for key, value in beside.items() if message.get(key, value) != value}:
        text = "what stood beside the words of a joined message is left out"
        reports.add("merged", text, "OCX-VLLM-002", content=Json.of(lost).text)
    return {**beside, **message, "content": kept or parts[:1] or None}


def _listed(content: Any) -> list[Value]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content or []


project: Final = projector(DIALECT, ChatWire)
