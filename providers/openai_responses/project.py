"""Transcript -> Responses request. The steps are rendered by `Renderer`; here is what concerns the whole request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from normalizer.chains import Chain, chain_of, state
from normalizer.errors import CannotProject, OpenCalls
from normalizer.facts import Choice, Digest, News, Told
from normalizer.identity import hashed, mapped, newest
from normalizer.projection import Adjustment, Options, Projection, Sending
from normalizer.providers.openai_responses import held, top, wire
from normalizer.providers.openai_responses.render import FIRST, Flow, Renderer
from normalizer.stepping import Rendered, Rendering, render_steps

if TYPE_CHECKING:
    from normalizer.transcript import Entry, Transcript

PROFILES: Final = frozenset({"azure", "vllm", "openrouter"})
"""Servers of others that speak this API, too."""


@dataclass(slots=True)
class _Kept:
    """What one projection keeps for the next."""

    options: Options
    model: str | None
    chain: Chain
    ids: dict[str, str]
    taken: set[str]
    owners: _Owners
    top: top.Top
    rendering: Rendering[Flow]


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
    if options.open_calls == "refuse" and transcript.pending:
        raise OpenCalls(transcript.pending)
    model = options.model or last_model(transcript)
    kept = previous._kept if previous is not None else None  # noqa: SLF001 - what this module keeps itself
    if kept is not None and not (isinstance(kept, _Kept) and kept.options == options and kept.model == model):
        kept = None
    chain = chain_of(
        transcript,
        wire.API,
        model,
        options.profile,
        options.account,
        kept.chain if kept is not None else None,
    )
    new_told = _new_told(transcript, kept, chain)
    ids, taken = _ids(transcript, chain, kept)
    owners = _owners(transcript.entries, kept.owners if kept is not None else None)
    head = top.build(transcript, chain.base, kept.top if kept is not None else None)
    renderer = Renderer(transcript, options, model, chain, ids, head, owners.first)
    reusable = kept is not None and kept.top is head and not chain.restarted
    before = kept.rendering if kept is not None and reusable else None
    rendering = render_steps(transcript, FIRST, renderer, before, new_told)
    notes = [*head.adjustments, *rendering.adjustments]
    border = held.border(transcript, options, renderer, rendering, notes)
    if not rendering.messages and not border.named:
        raise CannotProject("there is nothing to send: the history holds no item", reason="no_messages")
    if not border.named:
        _compare(chain, head, rendering, notes)
    final = rendering.last
    return Projection(
        request=_request(transcript, model, head, rendering, border),
        adjustments=tuple(notes),
        ids=ids,
        late_news=tuple(note.content or "" for note in final.adjustments if note.kind == "late_news"),
        ready=final.asks,
        _sending=lambda: _sending(transcript, options, model, chain, ids, head, rendering),
        _kept=_Kept(options, model, chain, ids, taken, owners, head, rendering),
    )


def last_model(transcript: Transcript) -> str | None:
    """The model of the last recorded reply of this API, or of one of OpenAI's models."""
    for entry in reversed(transcript.entries):
        fact: Any = entry.fact
        model = getattr(fact, "model", None)
        if model and (fact.api == wire.API or (fact.api is None and wire.is_own(model))):
            return str(model)
    return None


def _new_told(transcript: Transcript, kept: _Kept | None, chain: Chain) -> list[str]:
    """The calls that requests recorded since the last projection told: their words are fixed from now on."""
    if kept is None or kept.chain is chain:
        return []
    return [told.call_id for sent in transcript.requests[kept.chain.seen :] for told in sent.told]


def _ids(transcript: Transcript, chain: Chain, kept: _Kept | None) -> tuple[dict[str, str], set[str]]:
    """The id of every call on the wire, given in the order of the calls; an id once given goes to no other call."""
    calls = transcript.calls
    if kept is not None and len(kept.ids) == len(calls):
        return kept.ids, kept.taken
    if kept is not None and 0 < len(kept.ids) < len(calls):
        ids, taken = dict(kept.ids), set(kept.taken)
    else:
        ids, taken = {}, {call.part.id or "" for call in transcript.server_calls.values()}
    for key in newest(calls, len(ids)):
        wire_id = calls[key].part.id
        told = chain.told.get(key)
        if told is not None and told.wire_id:
            wire_id = told.wire_id
        elif not wire_id or wire_id in taken or len(wire_id) > wire.MAX_ID:
            wire_id = mapped(wire_id, wire.CALL_ID, taken) if wire_id else hashed("call_", key, taken)
        ids[key] = wire_id
        taken.add(wire_id)
    return ids, taken


@dataclass(slots=True)
class _Owners:
    """Which part of which reply has an item's id first. `upto` entries were looked at, `last` is the last of them."""

    first: dict[str, tuple[str, int]] = field(default_factory=dict)
    upto: int = 0
    last: Entry | None = None


def _owners(entries: tuple[Entry, ...], before: _Owners | None) -> _Owners:
    """The owners in these entries; `before` are those of an earlier transcript."""
    grown = before is not None and 0 < before.upto <= len(entries) and entries[before.upto - 1] is before.last
    found = _Owners(dict(before.first), before.upto) if before is not None and grown else _Owners()
    for entry in entries[found.upto :]:
        for number, part in enumerate(entry.parts if entry.kind == "reply" else ()):
            raw = part.raw.value if part.raw is not None else None
            item_id = raw.get("id") if isinstance(raw, dict) else None
            if isinstance(item_id, str):
                found.first.setdefault(item_id, (entry.fact.fact_id, number))
    found.upto, found.last = len(entries), entries[-1] if entries else None
    return found


def _request(
    transcript: Transcript, model: str | None, head: top.Top, rendering: Rendering[Flow], border: held.Border
) -> dict[str, Any]:
    """The body: the model if it is known, instructions, the history and the tools."""
    request: dict[str, Any] = {}
    if model:
        request["model"] = model
    if head.instructions is not None:
        request["instructions"] = head.instructions
    request["input"] = _input(transcript, rendering, border)
    if head.tools is not None:
        request["tools"] = head.tools
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


def _compare(chain: Chain, head: top.Top, rendering: Rendering[Flow], notes: list[Adjustment]) -> None:
    """Report where the bytes that were sent are not the beginning of this request."""
    if chain.restarted:
        message = "the API refused the last request; the prefix begins anew"
        notes.append(Adjustment("prefix_changed", message, "refused"))
        return
    if chain.base is None:
        return
    sent = chain.base.digest
    same = (
        ("instructions", sent.instructions == head.instructions_digest),
        ("tools", sent.tools == head.tools_digest),
        ("items", rendering.digest_at(sent.count) == sent.blocks),
    )
    if changed := ", ".join(what for what, equal in same if not equal):
        notes.append(
            Adjustment("prefix_changed", f"what was sent before is not the beginning of this request: {changed} differ",
                       changed, facts=(chain.base.fact_id,))
        )  # fmt: skip


def _sending(
    transcript: Transcript, options: Options, model: str | None, chain: Chain, ids: dict[str, str], head: top.Top,
    rendering: Rendering[Flow],
) -> Sending:  # fmt: skip
    """What a record of this projection's sending has to say beyond its base."""
    told: list[Told] = []
    news: list[News] = []
    choices: list[Choice] = []
    for step in _unsent(rendering, chain):
        for key, kind, text, name in step.told:
            known = chain.told.get(key)
            if known is None or (known.text or "") != (
                text or ""
            ):  # a call may have to be told in words later on
                outcome, result, effects = state(transcript.calls[key], kind)
                sent_name = head.names.get(name, name)
                told.append(Told(key, outcome, ids[key], sent_name, result, text, effects))
        news.extend(item for item in step.news if item not in chain.news)
        choices.extend(
            Choice(*choice) for choice in step.choices if (choice[0], choice[1]) not in chain.choices
        )
    count, blocks = rendering.digest(len(rendering.slots))
    return Sending(
        target=wire.API,
        model=model,
        profile=options.profile,
        account=options.account,
        base=chain.base.fact_id if chain.base is not None else None,
        through=max((fact.seq for fact in transcript.facts), default=0),
        digest=Digest(head.instructions_digest, head.tools_digest, count, blocks),
        told=tuple(told),
        news=tuple(news),
        choices=tuple(choices),
    )


def _unsent(rendering: Rendering[Flow], chain: Chain) -> list[Rendered[Flow]]:
    """The steps that can hold something that the chain does not know: from the one where the last request ended; all of
    them where its items are not the beginning of these.
    """
    slots = rendering.slots
    sent = chain.base.digest if chain.base is not None else None
    if sent is not None and rendering.digest_at(sent.count) == sent.blocks:
        rendering.digest(len(slots))
        slots = slots[
            next((n for n in range(len(slots), -1, -1) if rendering.digests[n][0] < sent.count), 0) :
        ]
    return [slot.rendered for slot in slots]
