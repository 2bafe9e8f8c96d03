"""Transcript -> request, for every API: one run over the steps, with the dialect's data and the wire's encoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from normalizer.errors import CannotProject
from normalizer.projecting import fast_path
from normalizer.projecting.context import context_of
from normalizer.projecting.draft import Flow
from normalizer.projecting.incremental import render_steps
from normalizer.projecting.prefix_check import report_change
from normalizer.projecting.reports import Reports
from normalizer.projecting.sent_record import sending
from normalizer.projecting.steps import Renderer
from normalizer.projection import Projection

if TYPE_CHECKING:
    from normalizer.projecting.context import Context
    from normalizer.projecting.dialect import Dialect
    from normalizer.projecting.incremental import Rendering
    from normalizer.projecting.wire import Wire
    from normalizer.projection import Options
    from normalizer.provider import Projector
    from normalizer.transcript import Transcript

_FIRST = Flow()


def projector(dialect: Dialect, wire_type: type[Wire]) -> Projector:
    """The `project` of one API.

    It raises OpenCalls where calls are pending and `open_calls` is `refuse`; CannotProject with the reason
    `no_messages` where there is nothing to send, `unknown_profile` for a profile that the API does not have, and what
    its wire raises.
    """

    def project(transcript: Transcript, options: Options, previous: Projection | None = None) -> Projection:
        return _project(dialect, wire_type, transcript, options, previous)

    return project


def _project(
    dialect: Dialect,
    wire_type: type[Wire],
    transcript: Transcript,
    options: Options,
    previous: Projection | None,
) -> Projection:
    if options.profile is not None and options.profile not in dialect.profiles:
        has = f"profiles: {', '.join(dialect.profiles)}" if dialect.profiles else "it has none"
        raise CannotProject(
            f"the target {dialect.api!r} has no profile {options.profile!r}; {has}", reason="unknown_profile"
        )
    model = options.model or last_model(dialect, transcript)
    cached = _cached(previous, dialect, transcript, options, model)
    context = context_of(dialect, transcript, options, model, cached.context if cached is not None else None)
    wire = wire_type(context, cached.wire if cached is not None else None)
    same = (
        cached is not None
        and context.history.began is cached.context.history.began
        and wire.renders_as(cached.wire)
    )
    before = cached.rendering if cached is not None and same else None
    render = fast_path.in_front_of(Renderer(context, wire), context, wire)
    rendering = render_steps(transcript, _FIRST, render, before, context.newly_told)
    notes = [*wire.head.adjustments, *rendering.adjustments.listed()]
    request, whole = wire.request(rendering, notes)
    if whole and not rendering.messages:
        raise CannotProject(
            "there is no message to send: the history holds nothing that may stand in one",
            reason="no_messages",
        )
    if whole:
        report_change(context.history, wire.head, rendering, dialect.history, Reports(dialect.because, notes))
    final = rendering.last
    return Projection(
        request=request,
        adjustments=tuple(notes),
        late_news=tuple(note.content or "" for note in final.adjustments if note.kind == "late_news"),
        ready=final.asks,
        _ids=context.ids,
        _sending=lambda: sending(context, wire.head, rendering),
        _kept=Cached(context, wire, rendering),
    )


@dataclass(slots=True)
class Cached:
    """What one projection keeps for the next."""

    context: Context
    wire: Wire
    rendering: Rendering[Flow]


def _cached(
    previous: Projection | None, dialect: Dialect, transcript: Transcript, options: Options, model: str | None
) -> Cached | None:
    """What the earlier projection kept, if it was one of the same conversation for the same API and options."""
    cached = previous._kept if previous is not None else None  # noqa: SLF001 - it is kept for this
    if not isinstance(cached, Cached) or cached.context.dialect is not dialect:
        return None
    same = (cached.context.options, cached.context.model) == (options, model)
    return cached if same and transcript.grew_from(cached.rendering.point) else None


def last_model(dialect: Dialect, transcript: Transcript) -> str | None:
    """The model of the last recorded reply that this API can go on with."""
    for entry in reversed(transcript.entries):
        model = getattr(entry.fact, "model", None)
        if model and dialect.serves(entry.fact.api, model):
            return str(model)
    return None
