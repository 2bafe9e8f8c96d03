"""Transcript -> request, for every API: one run over the steps, with the dialect's data and the wire's encoding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from normalizer.errors import CannotProject
from normalizer.projecting.context import cached_of, context_of
from normalizer.projecting.draft import Flow
from normalizer.projecting.incremental import render_steps
from normalizer.projecting.prefix_check import changed
from normalizer.projecting.steps import Renderer

if TYPE_CHECKING:
    from normalizer.projecting.dialect import Dialect
    from normalizer.projecting.wire import Wire
    from normalizer.projection import Options, Projection
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
    cached = cached_of(previous, dialect, transcript, options, model)
    context = context_of(dialect, transcript, options, model, cached)
    wire = wire_type(context, cached)
    same = (
        cached is not None
        and context.chain.began is cached.context.chain.began
        and wire.renders_as(cached.wire)
    )
    before = cached.rendering if cached is not None and same else None
    rendering = render_steps(transcript, _FIRST, Renderer(context, wire), before, context.newly_told)
    notes = [*wire.head.adjustments, *rendering.adjustments.listed()]
    request, whole = wire.request(rendering, notes)
    if whole and not rendering.messages:
        raise CannotProject(
            "there is no message to send: the history holds nothing that may stand in one",
            reason="no_messages",
        )
    if whole:
        notes.extend(changed(context.chain, wire.head, rendering, dialect.history))
    return context.projection(request, notes, wire, rendering)


def last_model(dialect: Dialect, transcript: Transcript) -> str | None:
    """The model of the last recorded reply that this API can go on with."""
    for entry in reversed(transcript.entries):
        model = getattr(entry.fact, "model", None)
        if model and dialect.serves(entry.fact.api, model):
            return str(model)
    return None
