"""What an API writes itself: how a part, a result, a message of the user's side looks on its wire.

The engine calls these in the order in which they stand here. Defaults are for what an API lacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from normalizer.facts import News
    from normalizer.parts import ResultPart
    from normalizer.projecting.context import Context
    from normalizer.projecting.draft import Answered, Draft, Flow, Piece, Refusal, Spoken, Value
    from normalizer.projecting.incremental import Rendered, Rendering, Step
    from normalizer.projecting.plain_steps import PlainSteps
    from normalizer.projecting.preamble import Preamble
    from normalizer.projecting.user_turn import UserTurn
    from normalizer.projection import Adjustment
    from normalizer.transcript import Call, Entry


class Results(Protocol):
    """What the engine knows of the results of calls, as far as a wire asks for it."""

    def answer(self, call: Call, draft: Draft) -> Answered:
        """What this request says of a call."""

    def as_text(self, call: Call) -> Answered:
        """What is known of a call that this API cannot be shown as a call."""

    def leave_as_text(self, piece: Piece, draft: Draft, why: str, cause: str | None = None) -> None:
        """Leave a call out of its reply; what is known of it is rendered as text behind the reply."""


class Updates(Protocol):
    """What the engine knows of late updates, as far as a wire asks for it. `by_step`: those sent behind each reply."""

    by_step: dict[str | None, list[News]]

    def left_open(self, key: str) -> bool:
        """Whether a call was sent without a result, and nothing was sent of it since."""

    def brings_result(self, item: News) -> bool:
        """Whether an update is the first of a call that was sent without a result, and so may bring that result."""


class Wire:
    """One API's encoding, one object a projection. `head` is what stands before the steps: instructions and tools.

    `before` is that of an earlier projection, if it can be gone on from. A constructor raises CannotProject where the
    API cannot take the history at all. `plain` writes the steps of the fast path; without it there is none.
    """

    head: Preamble
    plain: PlainSteps | None = None

    def __init__(self, context: Context, before: Wire | None) -> None:  # noqa: ARG002 - for those who go on from it
        self.context = context
        self.options = context.options
        self.model = context.model
        self.history = context.history
        self.entries = context.transcript.entries
        self.calls = context.transcript.calls
        self.server_calls = context.transcript.server_calls
        self.ids = context.ids.by_key.lookup
        self.results: Results
        self.updates: Updates

    def bind(self, results: Results, updates: Updates) -> None:
        """Get to know the engine's rooms: what is sent of a call, which late updates there are."""
        self.results, self.updates = results, updates

    def renders_as(self, other: Wire) -> bool:
        """Whether steps come out the same under both, so that they need not be rendered again."""
        return self.head is other.head

    # ------------------------------------------------------------ the reply

    def start(self, step: Step, flow: Flow, draft: Draft) -> tuple[str, str] | None:  # noqa: ARG002
        """Look at a reply before its parts. A message and a cause, if none of it can be sent."""
        return None

    def encode(self, piece: Piece, draft: Draft) -> None:
        """Give a text, call, medium or unknown part of a reply its value, or leave it out (`draft.drop`)."""
        raise NotImplementedError

    def server_call(self, step: Step, flow: Flow, piece: Piece, draft: Draft) -> Refusal | None:
        """Give a call of this API's server, or its result, a value, or say why it does not go back."""
        raise NotImplementedError

    def settle(self, step: Step, flow: Flow, before: Rendering[Flow], draft: Draft) -> None:
        """What the pieces of a reply decide together: which reasoning goes back, what goes or stays as one."""

    def text_of(self, piece: Piece) -> str | None:
        """The text of a text piece, as far as it is one text on the wire."""
        text = piece.value.get("text") if piece.value is not None else None
        return text if isinstance(text, str) else None

    def put_text(self, piece: Piece, text: str) -> None:
        """Replace the text of a text piece; an empty one is left out."""
        piece.value = {**(piece.value or {}), "text": text} if text else None

    def assistant(self, step: Step, flow: Flow, draft: Draft) -> list[Spoken]:
        """The pieces that have a value, as messages of the model, each with its calls that want a result."""
        raise NotImplementedError

    # ------------------------------------------------------------ results

    def plain_result(self, call: Call, wire_id: str, content: str) -> Value | None:  # noqa: ARG002
        """A recorded text of which nothing else is on record; None where that takes the long way."""
        return None

    def result(self, answered: Answered, wire_id: str, draft: Draft) -> None:
        """Give a recorded result its value: verbatim, as far as the API takes it. No value: it is rendered as text."""
        raise NotImplementedError

    def notice(self, answered: Answered, wire_id: str, draft: Draft) -> None:
        """Give a notice (`answered.text`) its value. No value: the outcome has no truthful form here."""
        raise NotImplementedError

    def may_stay_open(self, call: Call) -> bool:  # noqa: ARG002
        """Whether the API lets this call go without a result for now."""
        return False

    def flags_error(self, call: Call) -> bool:  # noqa: ARG002
        """Whether this call's result says by itself, without any text, that it failed."""
        return False

    def notice_subject(self, call: Call, wire_id: str) -> str:  # noqa: ARG002
        """What a notice is sealed for: the id on the wire; name and arguments where the wire has none."""
        return wire_id

    def put_result(self, value: Value, fact: Any, turn: UserTurn, draft: Draft) -> None:  # noqa: ARG002
        """Put a result where it belongs; `fact` is what was recorded, if anything was."""
        turn.message(value)

    def after_results(self, turn: UserTurn, draft: Draft) -> None:
        """What may not stand in the results and comes behind all of them."""

    # ------------------------------------------------------------ the user's side

    def takes_text(self, draft: Draft) -> bool:  # noqa: ARG002
        """Whether anything but results may stand behind this reply."""
        return True

    def said(self, entry: Entry, turn: UserTurn, draft: Draft) -> bool:
        """What the user's side says; whether there is anything."""
        raise NotImplementedError

    def result_media(self, parts: Sequence[ResultPart], key: str, draft: Draft, fact_id: str) -> list[Value]:
        """What a result that is rendered as text holds beside text, as blocks of a user message."""
        raise NotImplementedError

    def stands_here(self, entry: Entry) -> bool:
        """Whether an entry behind a reply is in the request at that place; instructions and tools may stand on top."""
        return entry.kind not in ("instructions", "tools") or entry.fact.fact_id in self.head.later

    def later_head(self, entry: Entry, turn: UserTurn, draft: Draft) -> None:
        """Instructions or tools that were set in mid-conversation."""
        raise NotImplementedError

    def late_update(self, item: News, turn: UserTurn, draft: Draft) -> bool:  # noqa: ARG002
        """Put a late update in a form of its own; False: it is rendered as text."""
        return False

    def finish(self, step: Step, flow: Flow, draft: Draft, rendered: Rendered[Flow]) -> Any:  # noqa: ARG002
        """The end of a step; gives what the wire hands on (`Flow.own`). May set `rendered.open` and `rendered.asks`."""
        return None

    # ------------------------------------------------------------ the whole

    def request(self, rendering: Rendering[Flow], notes: list[Adjustment]) -> tuple[dict[str, Any], bool]:
        """The body of the request, and whether it holds the whole history (False: the provider has a part of it)."""
        raise NotImplementedError
