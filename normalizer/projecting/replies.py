"""What becomes of a model's reply: refused, cut and discarded ones, calls that stand twice, a server's calls.

What was received from the same API is replayed as received; what may not go back is left out whole and reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from normalizer.parts import Json
from normalizer.projecting import quoting
from normalizer.projecting.draft import Piece, Quote, Refusal
from normalizer.projecting.unmapped_fields import beside_content, whole
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from normalizer.projecting.context import Context
    from normalizer.projecting.draft import Draft, Flow, Spoken
    from normalizer.projecting.incremental import Rendering, Step
    from normalizer.projecting.tool_results import ToolResults
    from normalizer.projecting.wire import Wire

_SERVER: frozenset[str] = frozenset({"server_tool_call", "server_tool_result"})
_WITH_KEY = _SERVER | {"tool_call"}


class Replies:
    """The replies of one projection."""

    __slots__ = ("_context", "_quotes", "_results", "_wire")

    def __init__(self, context: Context, wire: Wire, results: ToolResults) -> None:
        self._context = context
        self._wire = wire
        self._results = results
        self._quotes = context.options.server_tools == "quote"

    def render(self, step: Step, flow: Flow, before: Rendering[Flow], draft: Draft) -> list[Spoken]:
        """The messages of a step's reply; what was decided on the way is in the draft."""
        fact: Any = draft.entry.fact
        dialect, wire = self._context.dialect, self._wire
        draft.own = fact.api in (None, dialect.api)
        refused = getattr(fact, "stop_reason", None) == "refusal"
        if refused and (dialect.refused_replies == "left_out" or not draft.own):
            self._leave_out(draft, "the reply ended in a refusal", "refused-reply")
            return []
        if (why := wire.start(step, flow, draft)) is not None:
            self._leave_out(draft, *why)
            return []
        if fact.kind == "reply_cut" and not draft.entry.parts:
            return []
        if (rest := beside_content(fact)) is not None and not draft.own:
            message = "a message says more beside its content than this API has a place for"
            draft.reports.entry(draft.entry, "trimmed", message, "message-keys", rest)
        simple = self._pieces(draft)
        for piece in draft.pieces:
            self._encode(step, flow, piece, draft)
        if not simple:
            wire.settle(step, flow, before, draft)
        if fact.kind == "reply_cut":
            self._trim_end(draft)
        return wire.assistant(step, flow, draft)

    def _leave_out(self, draft: Draft, why: str, cause: str) -> None:
        """A whole reply that is no history; what its calls did is rendered as text."""
        parts = draft.entry.parts
        content = Json.of([_json(part) for part in parts]).text if parts else None
        draft.note("dropped_turn", f"{why}: it is left out whole", cause, content)
        calls = self._context.transcript.calls
        draft.discarded.extend(key for key in draft.entry.calls if key is not None and key in calls)

    def _pieces(self, draft: Draft) -> bool:
        """The parts with their keys; a call that stands twice goes once. Whether all are text and calls."""
        entry = draft.entry
        keys = iter(entry.calls)
        simple = True
        part: Any
        for number, part in enumerate(entry.parts):
            kind = part.kind
            key = next(keys) if kind in _WITH_KEY else None
            if kind == "tool_call":
                if key is None:
                    message = f"call {named(part.id)} stands twice in one reply and is sent once"
                    draft.note("merged", message, "repeated-call", call_id=part.id)
                    continue
                simple = simple and part.raw is None
            elif kind != "text":
                simple = False
                if kind == "opaque" and part.type == "fallback":
                    draft.cutoff = number
            draft.pieces.append(Piece(number, part, key))
        return simple

    def _encode(self, step: Step, flow: Flow, piece: Piece, draft: Draft) -> None:
        """One piece: its value, or the report that it is left out."""
        kind = piece.part.kind
        if kind in _SERVER:
            self._server_call(step, flow, piece, draft)
        elif kind == "tool_call" and piece.number < draft.cutoff:
            draft.drop(piece, "dropped_turn", "a call before a fallback block is void", "before-fallback")
            if piece.key is not None and piece.key in self._context.transcript.calls:
                draft.discarded.append(piece.key)
        elif kind != "reasoning":
            self._wire.encode(piece, draft)

    def _server_call(self, step: Step, flow: Flow, piece: Piece, draft: Draft) -> None:
        """A call that a provider's server ran, or its result: a result is never made up, nor taken from a client."""
        refusal = (
            self._wire.server_call(step, flow, piece, draft)
            if draft.own
            else Refusal("dropped_server_tool", "a call that another provider's own server ran has no form here",
                         "foreign-server-call")
        )  # fmt: skip
        if refusal is None:
            return
        draft.refuse(piece, refusal)
        if self._quotes and not draft.own:
            call = self._context.transcript.server_calls.get(piece.key or "")
            if text := quoting.quote(piece.part, call, draft.entry.fact.fact_id):
                draft.quotes.append(Quote(draft.entry.fact.seq, text))

    def _trim_end(self, draft: Draft) -> None:
        """The last text of a cut reply loses the white space at its end, wherever it stands."""
        last = next((piece for piece in reversed(draft.pieces) if piece.value is not None), None)
        if last is None or last.part.kind != "text":
            return
        text = self._wire.text_of(last)
        if text is not None and text != text.rstrip():
            self._wire.put_text(last, text.rstrip())
            draft.note("trimmed", "white space at the end of a cut text", "cut-end", text)


def _json(part: Any) -> Any:
    raw = getattr(part, "raw", None)
    return raw.value if raw is not None else whole(part)
