"""Transcript -> Messages request. The steps are rendered by `Renderer`; here is what concerns the whole request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from normalizer.errors import CannotProject
from normalizer.projecting.dialect_policies import IdPolicy
from normalizer.projecting.incremental import Rendering, render_steps
from normalizer.projecting.old_context import Kept, ground, kept_by
from normalizer.projecting.old_prefix_check import changed
from normalizer.projecting.preamble import build
from normalizer.providers.anthropic import marks, preamble, wire
from normalizer.providers.anthropic.render import Flow, Renderer

if TYPE_CHECKING:
    from normalizer.projection import Adjustment, Options, Projection
    from normalizer.transcript import Transcript

_FIRST: Final = Flow()
_IDS: Final = IdPolicy(pattern=wire.CALL_ID, prefix="toolu_")


@dataclass(slots=True)
class _Kept(Kept):
    """What one projection keeps for the next."""

    top: preamble.Top
    opened: tuple[bool, bool]


def project(transcript: Transcript, options: Options, previous: Projection | None = None) -> Projection:
    """The Messages request for these facts.

    Raises OpenCalls where calls are pending and `open_calls` is `refuse`, CannotProject with the reason `no_messages`
    where there is nothing to send, and `unknown_profile` for a profile, of which this API has none.
    """
    if options.profile is not None:
        raise CannotProject(
            f"the target 'anthropic' has no profile {options.profile!r}", reason="unknown_profile"
        )
    named = options.model or last_model(transcript)
    model = named or wire.COMMONEST
    kept = kept_by(previous, _Kept, transcript, options, named)
    base = ground(transcript, wire.API, options, named, _IDS, transcript.server_calls, kept)
    chain = base.chain
    head = build(
        preamble.Wire(wire.capability(model)), transcript, chain,
        (kept.top, kept.ground.transcript) if kept is not None else None,
    )  # fmt: skip
    renderer = Renderer(transcript, options, model, chain, base.ids.by_key.lookup, head, base.stirred.keys)
    # who may stand first depends on whether anybody of the user's side has spoken, and whether news of it was read
    opened = renderer.beginning.first_user < len(transcript.entries), renderer.beginning.leads
    same = (
        kept is not None
        and head.renders_as(kept.top)
        and kept.opened == opened
        and chain.began is kept.ground.chain.began
    )
    before = kept.rendering if kept is not None and same else None
    rendering = render_steps(transcript, _FIRST, renderer, before, base.newly_told)
    if not rendering.messages:
        raise CannotProject(
            "there is no message to send: the history holds nothing that may stand in one",
            reason="no_messages",
        )
    notes = [*head.adjustments, *rendering.adjustments.listed()]
    request = _request(named, head, rendering, notes)
    notes.extend(changed(chain, head, rendering, "messages"))
    return base.projection(request, notes, head, rendering, _Kept(base, rendering, head, opened))


def last_model(transcript: Transcript) -> str | None:
    """The model of the last recorded reply, if it is one that this API serves."""
    for entry in reversed(transcript.entries):
        model = getattr(entry.fact, "model", None)
        if model and "claude" in model:
            return str(model)
    return None


def _request(
    model: str | None, head: preamble.Top, rendering: Rendering[Flow], notes: list[Adjustment]
) -> dict[str, Any]:
    """The body: the model if it is known, the history, and what the history decides of the settings."""
    request: dict[str, Any] = {}
    if model:
        request["model"] = model
    if head.instructions is not None:
        request["system"] = (
            head.instructions if isinstance(head.instructions, str) else list(head.instructions)
        )
    request["messages"] = rendering.messages.listed()
    if head.tools is not None:
        request["tools"] = list(head.tools)
    flow = rendering.last.flow
    if flow.container:
        request["container"] = flow.container
    betas = {beta for name in (*flow.betas, *head.betas) for beta in (wire.BETAS.get(name, ("", name))[1],)}
    if betas:
        request["betas"] = sorted(betas)
    if flow.marks + head.marks:
        marks.tidy(request, notes)
    return request
