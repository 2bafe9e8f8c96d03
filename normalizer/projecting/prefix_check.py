"""What was sent and what is to be sent: where they differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from normalizer.projecting.incremental import Rendering
    from normalizer.projecting.preamble import Preamble
    from normalizer.projecting.reports import Reports
    from normalizer.projecting.sent_history import SentHistory
    from normalizer.transcript import Transcript


def newly_told(transcript: Transcript, seen: int) -> list[str]:
    """The calls that requests behind the first `seen` told of: their words are fixed from now on."""
    sent = transcript.requests[seen:]
    return [
        *(told.call_id for request in sent for told in request.told),
        *(news.call_id for request in sent for news in request.news),
    ]


def report_change(
    history: SentHistory, head: Preamble, rendering: Rendering[Any], title: str, reports: Reports
) -> None:
    """Report that the bytes that were sent are not the beginning of this request, if they are not.

    `title` is what the API calls the entries of its history: `messages`, `items`.
    """
    if history.restarted:
        reports.add("prefix_changed", "the API refused the last request; the prefix begins anew", "refused")
        return
    if history.base is None:
        return
    sent = history.base.digest
    same = (
        ("instructions", sent.instructions == head.instructions_digest),
        ("tools", sent.tools == head.tools_digest),
        (title, rendering.digest_at(sent.count) == sent.blocks),
    )
    if differ := ", ".join(what for what, equal in same if not equal):
        message = f"what was sent before is not the beginning of this request: {differ} differ"
        reports.add("prefix_changed", message, differ, facts=(history.base.fact_id,))
