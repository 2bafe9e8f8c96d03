"""What a projection that goes out has to put on record, and the fact that freezes it: written before it leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from normalizer.facts import Choice, Digest, RequestSent, Told
from normalizer.parts import Json
from normalizer.projecting.sent_history import state
from normalizer.projection import Sending

if TYPE_CHECKING:
    from normalizer.facts import News
    from normalizer.projecting.context import Context
    from normalizer.projecting.incremental import Rendered, Rendering
    from normalizer.projecting.preamble import Preamble
    from normalizer.projecting.sent_history import SentHistory
    from normalizer.projection import Projection


def request_sent(
    projection: Projection, *, fact_id: str, seq: int, at: str | None = None, turn_id: str | None = None
) -> RequestSent:
    """The `request_sent` fact of a projection that is about to go out: from it on, what it holds stays as it is.

    Append it to the facts before the request leaves. Projections for the same target (and model, profile, account)
    begin with the same bytes then, and what has become known of a call since comes behind them as late news.
    `fact_id` is a new id, by which the reply names what it answers; `seq` the next number of the conversation; `at`
    the time in UTC, ISO 8601. A conversation of a journal does all of this itself (`conversation.sent`).
    """
    sending = projection.sending()
    return RequestSent(
        fact_id=fact_id,
        seq=seq,
        at=at,
        turn_id=turn_id,
        source="host",
        target=sending.target,
        through=sending.through,
        digest=sending.digest,
        profile=sending.profile,
        model=sending.model,
        account=sending.account,
        options=sending.options,
        base=sending.base,
        told=sending.told,
        news=sending.news,
        choices=sending.choices,
    )


def sending(context: Context, head: Preamble, rendering: Rendering[Any]) -> Sending:
    """What a record of this projection's sending has to say beyond its base."""
    history, options, ids = context.history, context.options, context.ids
    told: list[Told] = []
    news: list[News] = []
    choices: list[Choice] = []
    for step in _unsent(rendering, history):
        for key, kind, text, name in step.told:
            known = history.told.get(key)
            # what was told once may have to be told in other words later on
            if known is None or (known.text or "") != (text or ""):
                outcome, result, effects = state(context.transcript.calls[key], kind)
                told.append(Told(key, outcome, ids[key], head.names.get(name, name), result, text, effects))
        news.extend(item for item in step.news if item not in history.news)
        choices.extend(Choice(*choice) for choice in step.choices if not history.chosen(choice[0], choice[1]))
    count, blocks = rendering.digest(len(rendering.slots))
    return Sending(
        target=context.dialect.api,
        model=context.model,
        profile=options.profile,
        account=options.account,
        base=history.base.fact_id if history.base is not None else None,
        through=context.transcript.through,
        digest=Digest(head.instructions_digest, head.tools_digest, count, blocks),
        told=tuple(told),
        news=tuple(news),
        choices=tuple(choices),
        options=Json.of(chosen) if (chosen := options.chosen()) else None,
    )


def _unsent(rendering: Rendering[Any], history: SentHistory) -> list[Rendered[Any]]:
    """The steps that can hold something that the sent history does not know: from the one where the last request ended.

    Where that request is not the beginning of this one, all of them can.
    """
    start = 0
    sent = history.base.digest if history.base is not None else None
    if sent is not None and rendering.digest_at(sent.count) == sent.blocks:
        rendering.digest(len(rendering.slots))
        start = next(
            (n for n in range(len(rendering.slots), -1, -1) if rendering.digests[n][0] < sent.count), 0
        )
    return [slot.rendered for slot in rendering.slots[start:]]
