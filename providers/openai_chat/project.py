"""Transcript -> Chat Completions request. The steps are rendered by `Renderer`; here is what concerns the whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from normalizer.errors import CannotProject
from normalizer.parts import Json
from normalizer.projecting.context import Kept, ground, kept_by
from normalizer.projecting.dialect_policies import IdPolicy
from normalizer.projecting.incremental import Rendering, render_steps
from normalizer.projecting.preamble import build
from normalizer.projecting.prefix_check import changed
from normalizer.projection import Adjustment, Options, Projection
from normalizer.providers.openai_chat import preamble, user_turn, wire
from normalizer.providers.openai_chat.render import Flow, Out, Renderer

if TYPE_CHECKING:
    from normalizer.providers.openai_chat.wire import Profile
    from normalizer.transcript import Transcript


@dataclass(slots=True)
class _Kept(Kept):
    """What one projection keeps for the next."""

    top: preamble.Top


_FIRST: Final = Flow()
_IDS: Final = IdPolicy(pattern=wire.CALL_ID, prefix="call_", limit=wire.CALL_ID_LIMIT)
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
    model = options.model or last_model(transcript)
    kept = kept_by(previous, _Kept, transcript, options, model)
    base = ground(transcript, wire.API, options, model, _IDS, {}, kept)
    chain = base.chain
    head = build(
        preamble.Wire(profile, model), transcript, chain,
        kept.top if kept is not None else None, kept.ground.transcript if kept is not None else None,
    )  # fmt: skip
    renderer = Renderer(
        transcript, options, profile, model, chain, base.ids.by_key.lookup, head, base.stirred.keys
    )
    reusable = kept is not None and head.renders_as(kept.top) and chain.began is kept.ground.chain.began
    rendering = render_steps(
        transcript,
        _FIRST,
        renderer,
        kept.rendering if kept is not None and reusable else None,
        base.newly_told,
    )
    notes = [*head.adjustments, *rendering.adjustments.listed()]
    messages = _messages(renderer, profile, rendering, notes)
    if not messages:
        raise CannotProject(
            "there is no message to send: the history holds nothing that may stand in one",
            reason="no_messages",
        )
    notes.extend(changed(chain, head, rendering, "messages"))
    return base.projection(
        _request(model, head, messages), notes, head, rendering, _Kept(base, rendering, head)
    )


def last_model(transcript: Transcript) -> str | None:
    """The model of the last recorded reply of this API, or of one of OpenAI's models."""
    for entry in reversed(transcript.entries):
        model = getattr(entry.fact, "model", None)
        if model and (entry.fact.api == wire.API or (entry.fact.api is None and wire.is_openai(model))):
            return str(model)
    return None


def _request(model: str | None, head: preamble.Top, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The body: the model if it is known, the history, and the tools."""
    request: dict[str, Any] = {}
    if model:
        request["model"] = model
    request["messages"] = messages
    if head.tools is not None:
        request["tools"] = list(head.tools)
    if head.functions is not None:
        request["functions"] = list(head.functions)
    return request


# ---------------------------------------------------------------- messages


def _messages(
    renderer: Renderer, profile: Profile, rendering: Rendering[Flow], notes: list[Adjustment]
) -> list[dict[str, Any]]:
    """All messages; for a template that wants alternating roles, instructions in front and neighbours joined."""
    if not profile.alternate:
        return rendering.messages.listed()
    return _alternating([*_gathered(renderer, notes), *rendering.messages.listed()], notes)


def _gathered(renderer: Renderer, notes: list[Adjustment]) -> list[dict[str, Any]]:
    """All instructions as one system message."""
    out = Out()
    side = user_turn.Side(renderer, [], out)
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
    single = first.string or preamble.recorded_role(entries[0]) is None
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
