"""A projection that goes out -> the fact that freezes it. Write it before the request leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from normalizer.facts import RequestSent

if TYPE_CHECKING:
    from normalizer.projection import Projection


def request_sent(
    projection: Projection, *, fact_id: str, seq: int, at: str | None = None, turn_id: str | None = None
) -> RequestSent:
    """The `request_sent` fact of a projection. Replies name its `fact_id` in `answers`."""
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
