"""Transcript -> Chat Completions request. The steps are rendered by `Renderer`; here is what concerns the whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from normalizer.chains import Chain, chain_of, state
from normalizer.errors import CannotProject, OpenCalls
from normalizer.facts import Choice, Digest, News, Told
from normalizer.parts import Json
from normalizer.projection import Adjustment, Options, Projection, Sending
from normalizer.providers.openai_chat import calls, top, user_side, wire
from normalizer.providers.openai_chat.render import Flow, Out, Renderer
from normalizer.stepping import Rendered, Rendering, render_steps

if TYPE_CHECKING:
    from normalizer.providers.openai_chat.wire import Profile
    from normalizer.transcript import Transcript


@dataclass(slots=True)
class _Kept:
    """What one projection keeps for the next."""

    options: Options
    model: str | None
    chain: Chain
    ids: dict[str, str]
    taken: set[str]
    top: top.Top
    rendering: Rendering[Flow]


_FIRST: Final = Flow()
_PAIRED: Final = frozenset({"user", "assistant"})


def project(transcript: Transcript, options: Options, previous: Projection | None = None) -> Projection:
    """The Chat request for these facts.

    Raises OpenCalls where calls are pending and `open_calls` is `refuse`; CannotProject with the reason `no_messages`
    where there is nothing to send, `unknown_profile` for a profile that is not in the table, and `too_many_tools`.
    """
    profile = wire.profile_of(options.profile)
    if profile is None:
        raise CannotProject(
            f"the target {wire.API!r} has no profile {options.profile!r}; profiles: {', '.join(wire.PROFILES)}",
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
    told = _new_told(transcript, kept, chain)
    ids, taken = calls.ids(transcript, chain, (kept.ids, kept.taken) if kept is not None else None)
    head = top.build(transcript, profile, model, chain.sent.values(), kept.top if kept is not None else None)
    renderer = Renderer(transcript, options, profile, model, chain, ids, head)
    reusable = kept is not None and head.shapes(kept.top) and not chain.restarted
    rendering = render_steps(
        transcript, _FIRST, renderer, kept.rendering if kept is not None and reusable else None, told
    )
    notes = [*head.adjustments, *rendering.adjustments]
    messages = _messages(renderer, profile, rendering, notes)
    if not messages:
        raise CannotProject(
            "there is no message to send: the history holds nothing that may stand in one",
            reason="no_messages",
        )
    _compare(chain, head, rendering, notes)
    final = rendering.last
    return Projection(
        request=_request(model, head, messages),
        adjustments=tuple(notes),
        ids=ids,
        late_news=tuple(note.content or "" for note in final.adjustments if note.kind == "late_news"),
        ready=final.asks,
        _sending=lambda: _sending(transcript, options, model, chain, ids, head, rendering),
        _kept=_Kept(options, model, chain, ids, taken, head, rendering),
    )


def last_model(transcript: Transcript) -> str | None:
    """The model of the last recorded reply of this API, or of one of OpenAI's models."""
    for entry in reversed(transcript.entries):
        model = getattr(entry.fact, "model", None)
        if model and (entry.fact.api == wire.API or (entry.fact.api is None and wire.is_openai(model))):
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


def _request(model: str | None, head: top.Top, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The body: the model if it is known, the history, and the tools."""
    request: dict[str, Any] = {}
    if model:
        request["model"] = model
    request["messages"] = messages
    if head.tools is not None:
        request["tools"] = head.tools
    if head.functions is not None:
        request["functions"] = head.functions
    return request


# ---------------------------------------------------------------- messages


def _messages(
    renderer: Renderer, profile: Profile, rendering: Rendering[Flow], notes: list[Adjustment]
) -> list[dict[str, Any]]:
    """All messages; for a template that wants alternating roles, instructions in front and neighbours joined."""
    if not profile.alternate:
        return rendering.messages.copy()
    return _alternating([*_gathered(renderer, notes), *rendering.messages], notes)


def _gathered(renderer: Renderer, notes: list[Adjustment]) -> list[dict[str, Any]]:
    """All instructions as one system message."""
    out = Out()
    side = user_side.Side(renderer, [], out)
    blocks: list[dict[str, Any]] = []
    moved: list[dict[str, Any]] = []
    for entry in renderer.head.gathered:
        texts, media = side.instruction_blocks(entry)
        blocks.extend(texts)
        moved.extend(media)
    notes.extend(out.notes)
    if not blocks:
        return []
    entries = renderer.head.gathered
    first: Any = entries[0].fact
    single = first.string or top.recorded_role(entries[0]) is None
    if len(entries) > 1:
        notes.append(
            Adjustment("merged", "all instructions stand in one message at the beginning", "OCX-VLLM-002",
                       facts=tuple(entry.fact.fact_id for entry in entries))
        )  # fmt: skip
    return [{"role": renderer.head.role, "content": renderer.content(entries[0], blocks, out, single=single)}]


def _alternating(messages: list[dict[str, Any]], notes: list[Adjustment]) -> list[dict[str, Any]]:
    """Neighbours of one role as one message, part behind part: their bytes stay, only a border goes.

    https://github.com/microsoft/autogen/issues/1037
    """
    found: list[dict[str, Any]] = []
    joined = 0
    for message in messages:
        before = found[-1] if found else {}
        if (
            message["role"] not in _PAIRED
            or before.get("role") != message["role"]
            or before.get("tool_calls")
        ):
            found.append(message)
            continue
        joined += 1
        parts = [*_listed(before.get("content")), *_listed(message.get("content"))]
        kept = [part for part in parts if part.get("type") != "refusal"]
        if len(kept) < len(parts) and len(parts) > 1:
            notes.append(
                Adjustment("dropped_fragment", "a refusal that cannot be joined with its neighbour is left out",
                           "OCX-VLLM-002", content=Json.of([part for part in parts if part not in kept]).text)
            )  # fmt: skip
        beside = {key: value for key, value in before.items() if key != "content" and value is not None}
        if lost := {key: value for key, value in beside.items() if message.get(key, value) != value}:
            notes.append(
                Adjustment("merged", "what stood beside the words of a joined message is left out", "OCX-VLLM-002",
                           content=Json.of(lost).text)
            )  # fmt: skip
        found[-1] = {**beside, **message, "content": kept or parts[:1] or None}
    if joined:
        text = f"{joined} messages are joined with the one of the same role before them"
        notes.append(Adjustment("merged", text, "OCX-VLLM-002"))
    return found


def _listed(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content or []


# ---------------------------------------------------------------- what was sent


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
    same = (
        ("instructions", sent.instructions == head.instructions_digest),
        ("tools", sent.tools == head.tools_digest),
        ("messages", rendering.digest_at(sent.count) == sent.blocks),
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
            if key not in chain.told:
                outcome, result, effects = state(transcript.calls[key], kind)
                told.append(
                    Told(
                        key,
                        outcome,
                        ids[key],
                        head.names.get(name, name),
                        result if text is None else None,
                        text,
                        effects,
                    )
                )
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
    """The steps that can hold something that the chain does not know: from the one where the last request ended.

    Where that request is not the beginning of this one, all of them can.
    """
    slots = rendering.slots
    sent = chain.base.digest if chain.base is not None else None
    if sent is not None and rendering.digest_at(sent.count) == sent.blocks:
        at = next((n for n in range(len(slots), -1, -1) if rendering.digests[n][0] < sent.count), 0)
        slots = slots[at:]
    return [slot.rendered for slot in slots]
