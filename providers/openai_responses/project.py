"""Transcript -> Responses request. The steps are rendered by `Renderer`; here is what concerns the whole request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from normalizer.errors import CannotProject
from normalizer.projecting.dialect_policies import IdPolicy
from normalizer.projecting.incremental import Rendering, render_steps
from normalizer.projecting.old_context import Kept, ground, kept_by
from normalizer.projecting.preamble import Preamble, build
from normalizer.projecting.prefix_check import changed
from normalizer.providers.openai_responses import held, preamble, wire
from normalizer.providers.openai_responses.render import FIRST, Flow, Renderer
from normalizer.util.sharing import SharedDict

if TYPE_CHECKING:
    from normalizer.projection import Options, Projection
    from normalizer.transcript import Entry, Transcript

PROFILES: Final = frozenset({"azure", "vllm", "openrouter"})
"""Servers of others that speak this API, too."""
_IDS: Final = IdPolicy(pattern=wire.CALL_ID, prefix="call_", limit=wire.MAX_ID)


@dataclass(slots=True)
class _Kept(Kept):
    """What one projection keeps for the next."""

    owners: _Owners
    top: Preamble


def project(transcript: Transcript, options: Options, previous: Projection | None = None) -> Projection:
    """The Responses request for these facts.

    With `stored` only what is newer than the newest stored response is in the input, and the request names it. Raises
    OpenCalls where calls are pending and `open_calls` is `refuse`; CannotProject with the reason `no_messages` where
    there is nothing to send, and `unknown_profile`.
    """
    if options.profile is not None and options.profile not in PROFILES:
        raise CannotProject(
            f"the target {wire.API!r} has no profile {options.profile!r}; profiles: {', '.join(sorted(PROFILES))}",
            reason="unknown_profile",
        )
    model = options.model or last_model(transcript)
    kept = kept_by(previous, _Kept, transcript, options, model)
    base = ground(transcript, wire.API, options, model, _IDS, transcript.server_calls, kept)
    chain = base.chain
    owners = _owners(transcript.entries, kept.owners if kept is not None else None)
    head = build(
        preamble.Wire(), transcript, chain,
        kept.top if kept is not None else None, kept.ground.transcript if kept is not None else None,
    )  # fmt: skip
    renderer = Renderer(
        transcript,
        options,
        model,
        chain,
        base.ids.by_key.lookup,
        head,
        owners.first.lookup,
        base.stirred.keys,
    )
    reusable = kept is not None and head.renders_as(kept.top) and chain.began is kept.ground.chain.began
    before = kept.rendering if kept is not None and reusable else None
    rendering = render_steps(transcript, FIRST, renderer, before, base.newly_told)
    notes = [*head.adjustments, *rendering.adjustments.listed()]
    border = held.border(transcript, options, renderer, rendering, notes)
    if not rendering.messages and not border.named:
        raise CannotProject("there is nothing to send: the history holds no item", reason="no_messages")
    if not border.named:
        notes.extend(changed(chain, head, rendering, "items"))
    request = _request(transcript, model, head, rendering, border)
    return base.projection(request, notes, head, rendering, _Kept(base, rendering, owners, head))


def last_model(transcript: Transcript) -> str | None:
    """The model of the last recorded reply of this API, or of one of OpenAI's models."""
    for entry in reversed(transcript.entries):
        fact: Any = entry.fact
        model = getattr(fact, "model", None)
        if model and (fact.api == wire.API or (fact.api is None and wire.is_own(model))):
            return str(model)
    return None


@dataclass(slots=True)
class _Owners:
    """Which part of which reply has an item's id first, in the first `upto` entries."""

    first: SharedDict[str, tuple[str, int]] = field(default_factory=SharedDict)
    upto: int = 0
    last: Entry | None = None


def _owners(entries: tuple[Entry, ...], before: _Owners | None) -> _Owners:
    """The owners in these entries; `before` are those of an earlier transcript."""
    if before is not None and 0 < before.upto <= len(entries) and entries[before.upto - 1] is before.last:
        found = _Owners(before.first.continued(), before.upto)
    else:
        found = _Owners()
    first = found.first.lookup
    for entry in entries[found.upto :]:
        for number, part in enumerate(entry.parts if entry.kind == "reply" else ()):
            raw = part.raw.value if part.raw is not None else None
            item_id = raw.get("id") if isinstance(raw, dict) else None
            if isinstance(item_id, str) and item_id not in first:
                first[item_id] = (entry.fact.fact_id, number)
    found.first.settle()
    found.upto, found.last = len(entries), entries[-1] if entries else None
    return found


def _request(
    transcript: Transcript,
    model: str | None,
    head: Preamble,
    rendering: Rendering[Flow],
    border: held.Border,
) -> dict[str, Any]:
    """The body: the model if it is known, instructions, the history and the tools."""
    request: dict[str, Any] = {}
    if model:
        request["model"] = model
    if head.instructions is not None:
        request["instructions"] = head.instructions
    request["input"] = _input(transcript, rendering, border)
    if head.tools is not None:
        request["tools"] = list(head.tools)
    request.update(border.named)
    return request


def _input(transcript: Transcript, rendering: Rendering[Flow], border: held.Border) -> Any:
    """The items; an input that was read as one text goes back as one."""
    items = rendering.messages[border.start :]
    if len(items) != 1:
        return items
    said = [e for e in transcript.entries if e.kind not in ("instructions", "tools")]
    if len(said) == 1 and said[0].kind == "user":
        raw = said[0].fact.raw
        if raw is not None and raw.text == "null":
            return items[0]["content"]
    return items
