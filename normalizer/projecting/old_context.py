"""What every projection begins with and ends in, whether it goes on from an earlier one or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from normalizer.errors import OpenCalls
from normalizer.projecting.call_ids import wire_ids
from normalizer.projecting.old_prefix_check import newly_told, sending
from normalizer.projecting.sent_history import chain_of, stirred
from normalizer.projection import Projection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from normalizer.projecting.call_ids import WireIds
    from normalizer.projecting.dialect_policies import IdPolicy
    from normalizer.projecting.incremental import Rendering
    from normalizer.projecting.old_prefix_check import Head
    from normalizer.projecting.sent_history import Chain, Stirred
    from normalizer.projection import Adjustment, Options
    from normalizer.transcript import ServerCall, Transcript


@dataclass(slots=True)
class Ground:
    """What was sent, the ids, and of which calls something else is known than was told.

    `newly_told` are calls that requests told of since the projection before.
    """

    transcript: Transcript
    target: str
    options: Options
    model: str | None
    chain: Chain
    ids: WireIds
    stirred: Stirred
    newly_told: list[str]

    def projection(
        self,
        request: dict[str, Any],
        notes: list[Adjustment],
        head: Head,
        rendering: Rendering[Any],
        kept: Kept,
    ) -> Projection:
        """The projection that was made on it. `head` is what stands before the messages, `kept` for the next one."""
        final = rendering.last
        return Projection(
            request=request,
            adjustments=tuple(notes),
            late_news=tuple(note.content or "" for note in final.adjustments if note.kind == "late_news"),
            ready=final.asks,
            _ids=self.ids,
            _sending=lambda: sending(
                self.target, self.transcript, self.options, self.model, self.chain, head, self.ids, rendering
            ),
            _kept=kept,
        )


@dataclass(slots=True)
class Kept:
    """What one projection keeps for the next; each API's has fields of its own besides."""

    ground: Ground
    rendering: Rendering[Any]


K = TypeVar("K", bound=Kept)


def kept_by(
    previous: Projection | None, kind: type[K], transcript: Transcript, options: Options, model: str | None
) -> K | None:
    """What the earlier projection kept, if it was one of the same conversation for the same API and options."""
    kept = previous._kept if previous is not None else None  # noqa: SLF001 - it is kept for this
    if not isinstance(kept, kind):
        return None
    same = (kept.ground.options, kept.ground.model) == (options, model)
    return kept if same and transcript.grew_from(kept.rendering.point) else None


def ground(
    transcript: Transcript, target: str, options: Options, model: str | None, policy: IdPolicy,
    server_calls: Mapping[str, ServerCall], kept: Kept | None,
) -> Ground:  # fmt: skip
    """The ground of a projection; raises OpenCalls where calls are pending and `open_calls` is `refuse`.

    `server_calls` are those whose ids the request may hold, `policy` says what the API takes as an id.
    """
    if options.open_calls == "refuse" and transcript.pending:
        raise OpenCalls(transcript.pending)
    before = kept.ground if kept is not None else None
    chain = chain_of(
        transcript,
        target,
        model,
        options.profile,
        options.account,
        before.chain if before is not None else None,
    )
    told = newly_told(transcript, before.chain.seen) if before is not None else []
    ids = wire_ids(
        transcript.calls, server_calls, chain.told, policy, before.ids if before is not None else None, told
    )
    changed = stirred(
        transcript, chain, told, before.stirred if before is not None else None,
        running=options.open_calls == "say_running",
    )  # fmt: skip
    return Ground(transcript, target, options, model, chain, ids, changed, told)
