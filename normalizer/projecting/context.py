"""What every projection begins with and ends in, whether it goes on from an earlier one or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from normalizer.errors import OpenCalls
from normalizer.projecting.call_ids import wire_ids
from normalizer.projecting.prefix_check import newly_told, sending
from normalizer.projecting.sent_history import chain_of, stirred
from normalizer.projection import Projection

if TYPE_CHECKING:
    from normalizer.projecting.call_ids import WireIds
    from normalizer.projecting.dialect import Dialect
    from normalizer.projecting.incremental import Rendering
    from normalizer.projecting.sent_history import Chain, Stirred
    from normalizer.projecting.wire import Wire
    from normalizer.projection import Adjustment, Options
    from normalizer.transcript import Transcript


@dataclass(slots=True)
class Context:
    """What was sent, the ids, and of which calls something else is known than was sent.

    `newly_told` are calls that requests rendered since the projection before. `running`: pending calls are reported as
    running.
    """

    dialect: Dialect
    transcript: Transcript
    options: Options
    model: str | None
    chain: Chain
    ids: WireIds
    stirred: Stirred
    newly_told: list[str]

    @property
    def running(self) -> bool:
        """Whether a pending call is reported as running."""
        return self.options.open_calls == "say_running"

    def projection(
        self, request: dict[str, Any], notes: list[Adjustment], wire: Wire, rendering: Rendering[Any]
    ) -> Projection:
        """The projection that was made on it."""
        final = rendering.last
        return Projection(
            request=request,
            adjustments=tuple(notes),
            late_news=tuple(note.content or "" for note in final.adjustments if note.kind == "late_news"),
            ready=final.asks,
            _ids=self.ids,
            _sending=lambda: sending(
                self.dialect.api, self.transcript, self.options, self.model, self.chain, wire.head, self.ids, rendering
            ),
            _kept=Cached(self, rendering, wire),
        )  # fmt: skip


@dataclass(slots=True)
class Cached:
    """What one projection keeps for the next."""

    context: Context
    rendering: Rendering[Any]
    wire: Wire


def cached_of(
    previous: Projection | None, dialect: Dialect, transcript: Transcript, options: Options, model: str | None
) -> Cached | None:
    """What the earlier projection kept, if it was one of the same conversation for the same API and options."""
    cached = previous._kept if previous is not None else None  # noqa: SLF001 - it is kept for this
    if not isinstance(cached, Cached) or cached.context.dialect is not dialect:
        return None
    same = (cached.context.options, cached.context.model) == (options, model)
    return cached if same and transcript.grew_from(cached.rendering.point) else None


def context_of(
    dialect: Dialect, transcript: Transcript, options: Options, model: str | None, cached: Cached | None
) -> Context:
    """The context of a projection; raises OpenCalls where calls are pending and `open_calls` is `refuse`."""
    if options.open_calls == "refuse" and transcript.pending:
        raise OpenCalls(transcript.pending)
    before = cached.context if cached is not None else None
    chain = chain_of(
        transcript, dialect.api, model, options.profile, options.account, before.chain if before is not None else None
    )  # fmt: skip
    told = newly_told(transcript, before.chain.seen) if before is not None else []
    server_calls = transcript.server_calls if dialect.server_ids else {}
    ids = wire_ids(
        transcript.calls, server_calls, chain.told, dialect.ids, before.ids if before is not None else None, told
    )  # fmt: skip
    changed = stirred(
        transcript, chain, told, before.stirred if before is not None else None,
        running=options.open_calls == "say_running",
    )  # fmt: skip
    return Context(dialect, transcript, options, model, chain, ids, changed, told)
