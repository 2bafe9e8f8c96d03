"""Responses for the engine: its dialect, and its wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from normalizer.projecting.dialect import Dialect
from normalizer.projecting.dialect_policies import IdPolicy
from normalizer.projecting.engine import projector
from normalizer.projecting.preamble import Preamble, build
from normalizer.projecting.reports import Reports
from normalizer.projecting.wire import Results, Updates, Wire
from normalizer.providers.openai_responses import (
    assistant_turn,
    calls,
    held,
    preamble,
    server_tools,
    tool_results,
    units,
    user_turn,
    wire,
)
from normalizer.providers.openai_responses.context import ItemsContext, Reply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from normalizer.facts import News
    from normalizer.parts import ResultPart
    from normalizer.projecting.context import Context
    from normalizer.projecting.draft import Answered, Draft, Flow, Piece, Refusal, Spoken, Value
    from normalizer.projecting.incremental import Rendered, Rendering, Step
    from normalizer.projecting.user_turn import UserTurn
    from normalizer.projection import Adjustment
    from normalizer.transcript import Call, Entry

DIALECT: Final = Dialect(
    api=wire.API,
    history="items",
    serves=lambda api, model: api == wire.API or (api is None and wire.is_own(model)),
    ids=IdPolicy(pattern=wire.CALL_ID, prefix="call_", limit=wire.MAX_ID),
    profiles=("azure", "openrouter", "vllm"),
    placement="anywhere",
    text_type="input_text",
    refused_replies="kept",
    because={
        "refused-reply": None,
        "before-fallback": None,
        "repeated-call": "OAR-PAIR-004",
        "repeated-id": "OAR-PAIR-004",
        "missing-id": "OAR-ID-004",
        "id-form": "OAR-ID-004",
        "further-result": "OAR-PAIR-003",
        "result-place": None,
        "message-keys": "OAR-STRUCT-006",
        "cut-end": None,
        "foreign-server-call": "OAR-STRUCT-005",
        "closed-to-text": None,
        "unmapped": "OAR-STRUCT-006",
    },
)


class ResponsesWire(Wire):
    """The encoding of one projection."""

    head: Preamble

    def __init__(self, context: Context, before: Wire | None) -> None:
        super().__init__(context, before)
        earlier = before if isinstance(before, ResponsesWire) else None
        self.items: ItemsContext = ItemsContext(context, earlier.items if earlier is not None else None)
        made = (earlier.head, earlier.context.transcript) if earlier is not None else None
        self.head = self.items.head = build(preamble.Wire(), context.transcript, context.history, made)

    @override
    def bind(self, results: Results, updates: Updates) -> None:
        super().bind(results, updates)
        self.items.results = results

    # ------------------------------------------------------------ the reply

    @override
    def start(self, step: Step, flow: Flow, draft: Draft) -> None:
        """Nothing keeps a reply out as a whole."""
        draft.wire = Reply()

    @override
    def encode(self, piece: Piece, draft: Draft) -> None:
        assistant_turn.encode(self.items, piece, draft)

    @override
    def server_call(self, step: Step, flow: Flow, piece: Piece, draft: Draft) -> Refusal | None:
        refusal = server_tools.choose(self.items, step, piece, draft)
        if refusal is None:
            units.unique(self.items, piece, draft)
        return refusal

    @override
    def settle(self, step: Step, flow: Flow, before: Rendering[Flow], draft: Draft) -> None:
        assistant_turn.settle(self.items, draft)

    @override
    def text_of(self, piece: Piece) -> str | None:
        """The content of a message in the short form; an item with pieces stays as it was received."""
        content = piece.value.get("content") if piece.value is not None else None
        return content if isinstance(content, str) and content.strip() else None

    @override
    def put_text(self, piece: Piece, text: str) -> None:
        piece.value = {**(piece.value or {}), "content": text}

    @override
    def assistant(self, step: Step, flow: Flow, draft: Draft) -> list[Spoken]:
        return assistant_turn.messages(self.items, draft)

    # ------------------------------------------------------------ results

    @override
    def result(self, answered: Answered, wire_id: str, draft: Draft) -> None:
        answered.value = tool_results.recorded(self.items, answered.call, answered.fact, draft.reports)

    @override
    def notice(self, answered: Answered, wire_id: str, draft: Draft) -> None:
        tool_results.notice(answered, wire_id)

    @override
    def may_stay_open(self, call: Call) -> bool:
        return calls.is_async(call)

    @override
    def flags_error(self, call: Call) -> bool:
        return tool_results.flags_error(call)

    @override
    def after_results(self, turn: UserTurn, draft: Draft) -> None:
        """What the host decided about the server's questions."""
        reply: Reply | None = draft.wire
        for key, decision in reply.decisions.items() if reply is not None else ():
            if key not in draft.gone:
                turn.message(decision)
                turn.asks = True

    # ------------------------------------------------------------ the user's side

    @override
    def said(self, entry: Entry, turn: UserTurn, draft: Draft) -> bool:
        return user_turn.said(self.items, entry, turn, draft)

    @override
    def result_media(self, parts: Sequence[ResultPart], key: str, draft: Draft, fact_id: str) -> list[Value]:
        return tool_results.media_of(parts, key, fact_id, draft.reports)

    @override
    def later_head(self, entry: Entry, turn: UserTurn, draft: Draft) -> None:
        if (item := self.head.later.get(entry.fact.fact_id)) is not None:
            turn.message(item)

    @override
    def late_update(self, item: News, turn: UserTurn, draft: Draft) -> bool:
        """A call that was left open gets its one output, where it came."""
        if not self.updates.brings_result(item):
            return False
        call = self.calls[item.call_id]
        turn.message(tool_results.late(self.items, call, item.result, item.text, draft.reports))
        return True

    @override
    def finish(self, step: Step, flow: Flow, draft: Draft, rendered: Rendered[Flow]) -> held.Shown | None:
        """A question of the server's waits for its answer; where a stored response ends, its items are counted."""
        rendered.open = draft.open_tail
        reply: Reply | None = draft.wire
        if reply is None or self.options.stored is not True:
            return None
        return held.Shown(reply.items, draft.as_text[0].call.key if draft.as_text else None)

    # ------------------------------------------------------------ the whole

    @override
    def request(self, rendering: Rendering[Flow], notes: list[Adjustment]) -> tuple[dict[str, Any], bool]:
        """The model if it is known, instructions, the history and the tools.

        With `stored` only what is newer than the newest stored response is in the input, and the request names it.
        """
        border = held.border(self.items, rendering, Reports(DIALECT.because, notes))
        request: dict[str, Any] = {}
        if self.model:
            request["model"] = self.model
        if self.head.instructions is not None:
            request["instructions"] = self.head.instructions
        request["input"] = self._input(rendering, border)
        if self.head.tools is not None:
            request["tools"] = list(self.head.tools)
        request.update(border.named)
        return request, not border.named

    def _input(self, rendering: Rendering[Flow], border: held.Border) -> Any:
        """The items; an input that was read as one text goes back as one."""
        found = rendering.messages[border.start :]
        if len(found) != 1:
            return found
        said = [e for e in self.entries if e.kind not in ("instructions", "tools")]
        if len(said) == 1 and said[0].kind == "user":
            raw = said[0].fact.raw
            if raw is not None and raw.text == "null":
                return found[0]["content"]
        return found


project: Final = projector(DIALECT, ResponsesWire)
