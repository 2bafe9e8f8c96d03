"""A projection that goes out -> the fact that freezes it. Write it before the request leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from normalizer.facts import RequestSent

if TYPE_CHECKING:
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
