"""Anthropic Messages for the engine: its dialect, and its wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from normalizer.projecting.dialect import Dialect
from normalizer.projecting.dialect_policies import IdPolicy
from normalizer.projecting.engine import projector
from normalizer.projecting.preamble import build
from normalizer.projecting.reports import Reports
from normalizer.projecting.wire import Wire
from normalizer.providers.anthropic import (
    assistant_turn,
    calls,
    marks,
    plain_steps,
    preamble,
    prefill,
    server_tools,
    system_messages,
    tool_results,
    user_turn,
    wire,
)
from normalizer.providers.anthropic.context import ClaudeContext, Handed, Notes, handed, notes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from normalizer.parts import ResultPart
    from normalizer.projecting.context import Context
    from normalizer.projecting.draft import Answered, Draft, Flow, Piece, Refusal, Spoken, Value
    from normalizer.projecting.incremental import Rendered, Rendering, Step
    from normalizer.projecting.user_turn import UserTurn
    from normalizer.projection import Adjustment
    from normalizer.transcript import Call, Entry

DIALECT: Final = Dialect(
    api=wire.API,
    history="messages",
    serves=lambda _api, model: "claude" in model,
    ids=IdPolicy(pattern=wire.CALL_ID, prefix="toolu_"),
    joins="neighbours",
    text_as="block",
    because={
        "refused-reply": "ANT-REF-001",
        "before-fallback": "ANT-REF-005",
        "repeated-call": "ANT-PAIR-005",
        "repeated-id": "ANT-PAIR-005",
        "missing-id": "ANT-ID-001",
        "id-form": "ANT-ID-001",
        "further-result": "ANT-PAIR-006",
        "result-place": "ANT-PAIR-003",
        "message-keys": "ANT-MSG-004",
        "cut-end": "ANT-MSG-006",
        "foreign-server-call": "ANT-ID-002",
        "closed-to-text": "ANT-SRV-003",
        "unmapped": "ANT-MSG-004",
        "empty": "ANT-BLK-002",
        "foreign-block": "ANT-MSG-003",
    },
)


class ClaudeWire(Wire):
    """The encoding of one projection."""

    head: preamble.Top

    def __init__(self, context: Context, before: Wire | None) -> None:
        super().__init__(context, before)
        self.claude = claude = ClaudeContext(context)
        earlier = (before.head, before.context.transcript) if isinstance(before, ClaudeWire) else None
        self.head = claude.head = build(
            preamble.Wire(claude.row), context.transcript, context.history, earlier
        )
        # who may stand first depends on whether anybody of the user's side has spoken, and whether an update was read
        beginning = claude.beginning
        self._opened = beginning.first_user < len(claude.entries), beginning.leads
        self.plain = plain_steps.ClaudeSteps()

    @override
    def renders_as(self, other: Wire) -> bool:
        return (
            isinstance(other, ClaudeWire)
            and self.head.renders_as(other.head)
            and self._opened == other._opened  # noqa: SLF001
        )

    # ------------------------------------------------------------ the reply

    @override
    def start(self, step: Step, flow: Flow, draft: Draft) -> tuple[str, str] | None:
        """The cut continuation of an open server call is no history: the server can still go on with the call."""
        entry = draft.entry
        if entry.fact.kind == "reply_cut" and flow.held and flow.held.isdisjoint(entry.calls):
            return "it was cut before the result that it was to bring", "ANT-STR-007"
        notes_of(draft).begun = True
        return None

    @override
    def encode(self, piece: Piece, draft: Draft) -> None:
        assistant_turn.encode(self.claude, piece, draft)

    @override
    def server_call(self, step: Step, flow: Flow, piece: Piece, draft: Draft) -> Refusal | None:
        """What stands beside it decides the rest, when all pieces are known (`settle`)."""
        asked = piece.part.kind == "server_tool_call"
        return server_tools.unfit(self.server_calls[piece.key or ""]) if asked else None

    @override
    def settle(self, step: Step, flow: Flow, before: Rendering[Flow], draft: Draft) -> None:
        assistant_turn.settle(self.claude, flow, before, draft)

    @override
    def assistant(self, step: Step, flow: Flow, draft: Draft) -> list[Spoken]:
        return assistant_turn.spoken(self.claude, flow, draft)

    # ------------------------------------------------------------ results

    @override
    def plain_result(self, call: Call, wire_id: str, content: str) -> Value | None:
        if call.part.raw is not None and calls.toolset(call.part):
            return None
        return {"type": "tool_result", "tool_use_id": wire_id, "content": content}

    @override
    def result(self, answered: Answered, wire_id: str, draft: Draft) -> None:
        tool_results.result(self.claude, answered, wire_id, draft)

    @override
    def notice(self, answered: Answered, wire_id: str, draft: Draft) -> None:
        tool_results.notice(answered, wire_id)

    @override
    def put_result(self, value: Value, fact: Any, turn: UserTurn, draft: Draft) -> None:
        """All results of a reply go into one message: `after_results` puts them."""
        notes_of(draft).results.append((value, fact))

    @override
    def after_results(self, turn: UserTurn, draft: Draft) -> None:
        tool_results.put_all(self.claude, turn, draft)

    # ------------------------------------------------------------ the user's side

    @override
    def takes_text(self, draft: Draft) -> bool:
        """Nothing but results stands behind a call that the server goes on with (ANT-SRV-003)."""
        return not draft.held

    @override
    def said(self, entry: Entry, turn: UserTurn, draft: Draft) -> bool:
        blocks = user_turn.blocks(self.claude, entry, draft)
        if blocks:
            turn.add(blocks, entry.fact.group, string=getattr(entry.fact, "string", False))
        return bool(blocks)

    @override
    def result_media(self, parts: Sequence[ResultPart], key: str, draft: Draft, fact_id: str) -> list[Value]:
        return user_turn.result_media(parts, key, draft, fact_id)

    @override
    def later_head(self, entry: Entry, turn: UserTurn, draft: Draft) -> None:
        """A system message stands at the end of the turn: `finish` puts it, or the reply behind it does."""
        if entry.fact.fact_id in self.head.later:
            notes = notes_of(draft)
            notes.system.append((entry, turn.added))
            notes.turn = turn

    @override
    def finish(self, step: Step, flow: Flow, draft: Draft, rendered: Rendered[Flow]) -> Handed:
        """System messages at the end, what the server or the model goes on with, and what is handed on."""
        messages, notes, before = rendered.messages, notes_of(draft), handed(flow)
        after_user, after_result = before.after_user, before.after_result
        if messages:
            after_user = messages[-1]["role"] == "user"
            after_result = not after_user and _ends_in_server_result(messages[-1])
        system = _system(before, notes, draft, messages) if before.system or notes.system else ()
        if step.last and system and (after_user or after_result):
            messages.extend(system_messages.made(self.claude, system, draft))
            system = ()
        elif step.last and system:
            system_messages.keep_back(self.claude, system, draft)
        self._set_asks(step, flow, draft, rendered)
        container = None
        if draft.held and server_tools.runs_code(self.claude, draft.held):
            container = (server_tools.container(draft.entry) if notes.begun else None) or before.container
        return Handed(
            before.started or bool(messages), before.intact and not draft.changed, after_user, after_result,
            before.betas if notes.betas <= before.betas else before.betas | notes.betas,
            before.marks + marks.in_messages(messages), container, system,
        )  # fmt: skip

    def _set_asks(self, step: Step, flow: Flow, draft: Draft, rendered: Rendered[Flow]) -> None:
        """Whether the request asks something: also by what the server goes on with, or a reply that the model does."""
        if step.reply is None:
            if self.claude.beginning.first_user >= len(self.entries):
                rendered.asks = False  # nothing but updates: nobody has asked anything
            return
        if draft.open_tail or (flow.held and not notes_of(draft).begun and server_tools.waits(step)):
            rendered.asks = True
        if step.last and not rendered.asks:
            rendered.asks = prefill.prefill(self.claude, draft, rendered)

    # ------------------------------------------------------------ the whole

    @override
    def request(self, rendering: Rendering[Flow], notes: list[Adjustment]) -> tuple[dict[str, Any], bool]:
        """The model if it is known, the history, and what the history decides of the settings."""
        head, flow = self.head, handed(rendering.last.flow)
        request: dict[str, Any] = {}
        if self.model:
            request["model"] = self.model
        if head.instructions is not None:
            request["system"] = (
                head.instructions if isinstance(head.instructions, str) else list(head.instructions)
            )
        request["messages"] = rendering.messages.listed()
        if head.tools is not None:
            request["tools"] = list(head.tools)
        if flow.container:
            request["container"] = flow.container
        betas = {wire.BETAS.get(name, ("", name))[1] for name in (*flow.betas, *head.betas)}
        if betas:
            request["betas"] = sorted(betas)
        if flow.marks + head.marks:
            marks.tidy(request, Reports(DIALECT.because, notes))
        return request, True


def _system(before: Handed, notes: Notes, draft: Draft, messages: list[Value]) -> tuple[Entry, ...]:
    """What system messages have to say yet. What was said before them meanwhile, though it came later, is reported."""
    waiting = () if notes.told else before.system
    passed = list(waiting) if messages and messages[0]["role"] == "user" else []
    passed.extend(entry for entry, at in notes.system if notes.turn is not None and notes.turn.added > at)
    system_messages.note_passed(passed, draft)
    return (*waiting, *(entry for entry, _ in notes.system))


def _ends_in_server_result(message: Value) -> bool:
    content = message["content"]
    return type(content) is list and content[-1].get("type") in wire.SERVER_RESULTS


project: Final = projector(DIALECT, ClaudeWire)
