"""What was sent and what is to be sent: where they differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from normalizer.projection import Adjustment

if TYPE_CHECKING:
    from normalizer.projecting.incremental import Rendering
    from normalizer.projecting.preamble import Preamble
    from normalizer.projecting.sent_history import Chain
    from normalizer.transcript import Transcript


def newly_told(transcript: Transcript, seen: int) -> list[str]:
    """The calls that requests behind the first `seen` told of: their words are fixed from now on."""
    sent = transcript.requests[seen:]
    return [
        *(told.call_id for request in sent for told in request.told),
        *(news.call_id for request in sent for news in request.news),
    ]


def changed(chain: Chain, head: Preamble, rendering: Rendering[Any], history: str) -> list[Adjustment]:
    """The report that the bytes that were sent are not the beginning of this request, if they are not.

    `history` is what the API calls the list of the history.
    """
    if chain.restarted:
        message = "the API refused the last request; the prefix begins anew"
        return [Adjustment("prefix_changed", message, "refused")]
    if chain.base is None:
        return []
    sent = chain.base.digest
    same = (
        ("instructions", sent.instructions == head.instructions_digest),
        ("tools", sent.tools == head.tools_digest),
        (history, rendering.digest_at(sent.count) == sent.blocks),
    )
    differ = ", ".join(what for what, equal in same if not equal)
    message = f"what was sent before is not the beginning of this request: {differ} differ"
    return [Adjustment("prefix_changed", message, differ, facts=(chain.base.fact_id,))] if differ else []
