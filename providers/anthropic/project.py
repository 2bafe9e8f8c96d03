"""Transcript -> Messages request. The steps are rendered by `Renderer`; here is what concerns the whole request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from normalizer import canonical
from normalizer.chains import Chain, chain_of, state
from normalizer.errors import CannotProject, OpenCalls
from normalizer.facts import Choice, Digest, News, Told
from normalizer.identity import hashed, mapped, newest
from normalizer.projection import Adjustment, Options, Projection, Sending
from normalizer.providers.anthropic import marks, top, wire
from normalizer.providers.anthropic.render import Flow, Renderer
from normalizer.stepping import Rendering, render_steps

if TYPE_CHECKING:
    from normalizer.transcript import Transcript

_FIRST: Final = Flow()


@dataclass(slots=True)
class _Kept:
    """What one projection keeps for the next."""

    options: Options
    model: str
    chain: Chain
    ids: _Ids
    top: top.Top
    rendering: Rendering[Flow]
    opened: bool


def project(transcript: Transcript, options: Options, previous: Projection | None = None) -> Projection:
    """The Messages request for these facts.

    Raises OpenCalls where calls are pending and `open_calls` is `refuse`, CannotProject with the reason `no_messages`
    where there is nothing to send, and `unknown_profile` for a profile, of which this API has none.
    """
    if options.profile is not None:
        raise CannotProject(
            f"the target 'anthropic' has no profile {options.profile!r}", reason="unknown_profile"
        )
    if options.open_calls == "refuse" and transcript.pending:
        raise OpenCalls(transcript.pending)
    named = options.model or last_model(transcript)
    model = named or wire.COMMONEST
    kept = previous._kept if previous is not None else None  # noqa: SLF001
    if kept is not None and not (isinstance(kept, _Kept) and kept.options == options and kept.model == model):
        kept = None
    chain = chain_of(
        transcript, wire.API, named, None, options.account, kept.chain if kept is not None else None
    )
    new_told = _new_told(transcript, kept, chain)
    wire_ids = _ids(transcript, chain, kept)
    ids = wire_ids.by_key
    head = top.build(
        transcript,
        wire.capability(model),
        kept.top if kept is not None else None,
        len(kept.ids.by_key) if kept is not None else 0,
    )
    renderer = Renderer(transcript, options, model, chain, ids, head)
    opened = renderer.first_user() < len(transcript.entries)
    # who may stand first depends on whether anybody of the user's side has spoken
    same = kept is not None and kept.top is head and kept.opened == opened and not chain.restarted
    before = kept.rendering if kept is not None and same else None
    rendering = render_steps(transcript, _FIRST, renderer, before, new_told)
    if not rendering.messages:
        raise CannotProject(
            "there is no message to send: the history holds nothing that may stand in one",
            reason="no_messages",
        )
    notes = [*head.adjustments, *rendering.adjustments]
    request = _request(named, head, rendering, notes)
    _compare(chain, head, rendering, notes)
    final = rendering.last
    return Projection(
        request=request,
        adjustments=tuple(notes),
        ids=ids,
        late_news=tuple(note.content or "" for note in final.adjustments if note.kind == "late_news"),
        ready=final.asks,
        _sending=lambda: _sending(transcript, options, named, chain, ids, head, rendering),
        _kept=_Kept(options, model, chain, wire_ids, head, rendering, opened),
    )


def last_model(transcript: Transcript) -> str | None:
    """The model of the last recorded reply, if it is one that this API serves."""
    for entry in reversed(transcript.entries):
        model = getattr(entry.fact, "model", None)
        if model and "claude" in model:
            return str(model)
    return None


def _new_told(transcript: Transcript, kept: _Kept | None, chain: Chain) -> list[str]:
    """The calls that requests recorded since the last projection told of: their words are fixed from now on."""
    if kept is None or kept.chain is chain:
        return []
    sent = transcript.requests[kept.chain.seen :]
    return [
        *(told.call_id for request in sent for told in request.told),
        *(news.call_id for request in sent for news in request.news),
    ]


class _Ids:
    """The id of every call on the wire, given in the order of the calls; an id once given goes to no other call."""

    __slots__ = ("by_key", "renamed", "server")

    def __init__(self, by_key: dict[str, str], renamed: set[str], server: int) -> None:
        self.by_key = by_key
        self.renamed = renamed
        self.server = server

    def __contains__(self, wire_id: object) -> bool:
        return self.by_key.get(wire_id) == wire_id or wire_id in self.renamed  # type: ignore[call-overload]


def _ids(transcript: Transcript, chain: Chain, kept: _Kept | None) -> _Ids:
    """Go on from the ids of the last projection, which stay as they are."""
    calls, server = transcript.calls, len(transcript.server_calls)
    before = kept.ids if kept is not None else None
    if before is not None and len(before.by_key) == len(calls) and before.server == server:
        return before
    if before is not None and before.server == server and len(before.by_key) < len(calls):
        ids = _Ids(dict(before.by_key), set(before.renamed), server)
    else:
        ids = _Ids({}, {call.part.id or "" for call in transcript.server_calls.values()}, server)
    told = chain.told
    for key in newest(calls, len(ids.by_key)):
        wire_id = calls[key].part.id
        if key in told and told[key].wire_id:
            wire_id = told[key].wire_id
        elif (
            not wire_id
            or wire_id in ids
            or not (wire_id.isascii() and wire_id.replace("-", "_").replace("_", "a").isalnum())
        ):
            wire_id = mapped(wire_id, wire.CALL_ID, ids) if wire_id else hashed("toolu_", key, ids)
        ids.by_key[key] = wire_id  # type: ignore[assignment]
        if wire_id != key:
            ids.renamed.add(wire_id)  # type: ignore[arg-type]
    return ids


def _request(
    model: str | None, head: top.Top, rendering: Rendering[Flow], notes: list[Adjustment]
) -> dict[str, Any]:
    """The body: the model if it is known, the history, and what the history decides of the settings."""
    request: dict[str, Any] = {}
    if model:
        request["model"] = model
    if head.system is not None:
        request["system"] = head.system
    request["messages"] = rendering.messages.copy()
    if head.tools is not None:
        request["tools"] = head.tools
    flow = rendering.last.flow
    if flow.container:
        request["container"] = flow.container
    betas = {beta for name in (*flow.betas, *head.betas) for beta in (wire.BETAS.get(name, ("", name))[1],)}
    if betas:
        request["betas"] = sorted(betas)
    if flow.marks + head.marks:
        marks.tidy(request, notes)
    return request


def _compare(chain: Chain, head: top.Top, rendering: Rendering[Flow], notes: list[Adjustment]) -> None:
    """Report where the bytes that were sent are not the beginning of this request."""
    if chain.restarted:
        notes.append(
            Adjustment(
                "prefix_changed", "the API refused the last request; the prefix begins anew", "refused"
            )
        )
        return
    if chain.base is None:
        return
    sent = chain.base.digest
    changed = [
        what
        for what, same in (
            ("instructions", sent.instructions == head.instructions_digest),
            ("tools", sent.tools == head.tools_digest),
            ("messages", rendering.digest_at(sent.count) == sent.blocks),
        )
        if not same
    ]
    if changed:
        notes.append(
            Adjustment(
                "prefix_changed",
                f"what was sent before is not the beginning of this request: {', '.join(changed)} differ",
                ", ".join(changed),
                facts=(chain.base.fact_id,),
            )
        )


def _sending(
    transcript: Transcript, options: Options, model: str | None, chain: Chain, ids: dict[str, str], head: top.Top,
    rendering: Rendering[Flow],
) -> Sending:  # fmt: skip
    """What a record of this projection's sending has to say beyond its base."""
    known = chain.told
    told: list[Told] = []
    news: list[News] = []
    choices: list[Choice] = []
    for step in _unsent(rendering, chain):
        for key, kind, text, name in step.told:
            if key not in known:
                call = transcript.calls[key]
                outcome, result, effects = state(call, kind)
                told.append(Told(key, outcome, ids[key], name, result, text, effects))
        news.extend(item for item in step.news if item not in chain.news)
        choices.extend(
            Choice(*choice) for choice in step.choices if (choice[0], choice[1]) not in chain.choices
        )
    count, blocks = rendering.digest(len(rendering.slots))
    return Sending(
        target=wire.API,
        model=model,
        profile=None,
        account=options.account,
        base=chain.base.fact_id if chain.base is not None else None,
        through=max((fact.seq for fact in transcript.facts), default=0),
        digest=Digest(head.instructions_digest, head.tools_digest, count, blocks),
        told=tuple(told),
        news=tuple(news),
        choices=tuple(choices),
    )


def _unsent(rendering: Rendering[Flow], chain: Chain) -> list[Any]:
    """The steps that can hold something that the chain does not know: from the one where the last request ended."""
    slots = rendering.slots
    if chain.base is not None and rendering.digest_at(chain.base.digest.count) == chain.base.digest.blocks:
        count = chain.base.digest.count
        slots = slots[next((n for n in range(len(slots), -1, -1) if rendering.digests[n][0] < count), 0) :]
    return [slot.rendered for slot in slots]


__all__ = ["canonical", "project"]
