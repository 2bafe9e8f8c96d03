"""What was sent and what is to be sent: where they differ, and what a record of the next sending has to say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from normalizer.facts import Choice, Digest, Told
from normalizer.parts import Json
from normalizer.projecting.sent_history import state
from normalizer.projection import Adjustment, Sending

if TYPE_CHECKING:
    from collections.abc import Mapping

    from normalizer.facts import News
    from normalizer.projecting.call_ids import WireIds
    from normalizer.projecting.incremental import Rendered, Rendering
    from normalizer.projecting.sent_history import Chain
    from normalizer.projection import Options
    from normalizer.transcript import Transcript


class Head(Protocol):
    """What stands before the messages, and its digests. `names` are those of tools that have another in the request."""

    @property
    def names(self) -> Mapping[str, str]:
        """Tool names as recorded -> as sent."""

    @property
    def later(self) -> Mapping[str, Any]:
        """What instructions and tools that were set in mid-conversation became, by `fact_id`."""

    @property
    def adjustments(self) -> list[Adjustment]:
        """What differs in instructions and tools."""

    @property
    def instructions_digest(self) -> str:
        """The digest of the instructions."""

    @property
    def tools_digest(self) -> str:
        """The digest of the tools."""


def newly_told(transcript: Transcript, seen: int) -> list[str]:
    """The calls that requests behind the first `seen` told of: their words are fixed from now on."""
    sent = transcript.requests[seen:]
    return [
        *(told.call_id for request in sent for told in request.told),
        *(news.call_id for request in sent for news in request.news),
    ]


def changed(chain: Chain, head: Head, rendering: Rendering[Any], history: str) -> list[Adjustment]:
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


def sending(
    target: str,
    transcript: Transcript,
    options: Options,
    model: str | None,
    chain: Chain,
    head: Head,
    ids: WireIds,
    rendering: Rendering[Any],
) -> Sending:
    """What a record of this projection's sending has to say beyond its base."""
    told: list[Told] = []
    news: list[News] = []
    choices: list[Choice] = []
    for step in _unsent(rendering, chain):
        for key, kind, text, name in step.told:
            known = chain.told.get(key)
            # what was told once may have to be told in other words later on
            if known is None or (known.text or "") != (text or ""):
                outcome, result, effects = state(transcript.calls[key], kind)
                told.append(Told(key, outcome, ids[key], head.names.get(name, name), result, text, effects))
        news.extend(item for item in step.news if item not in chain.news)
        choices.extend(Choice(*choice) for choice in step.choices if not chain.chosen(choice[0], choice[1]))
    count, blocks = rendering.digest(len(rendering.slots))
    return Sending(
        target=target,
        model=model,
        profile=options.profile,
        account=options.account,
        base=chain.base.fact_id if chain.base is not None else None,
        through=transcript.through,
        digest=Digest(head.instructions_digest, head.tools_digest, count, blocks),
        told=tuple(told),
        news=tuple(news),
        choices=tuple(choices),
        options=Json.of(chosen) if (chosen := options.chosen()) else None,
    )


def _unsent(rendering: Rendering[Any], chain: Chain) -> list[Rendered[Any]]:
    """The steps that can hold something that the chain does not know: from the one where the last request ended.

    Where that request is not the beginning of this one, all of them can.
    """
    start = 0
    sent = chain.base.digest if chain.base is not None else None
    if sent is not None and rendering.digest_at(sent.count) == sent.blocks:
        rendering.digest(len(rendering.slots))
        start = next(
            (n for n in range(len(rendering.slots), -1, -1) if rendering.digests[n][0] < sent.count), 0
        )
    return [slot.rendered for slot in rendering.slots[start:]]
