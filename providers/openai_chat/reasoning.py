"""Which reasoning goes back, and in which key: verbatim or not at all, and never as words of the reply.

OpenAI's own Chat endpoint has no place for it. A compatible server gets what it sent; where it demands the key beside
calls and nothing was recorded, the key is empty, which is true. No thought is made up.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from normalizer.parts import Json
from normalizer.projecting.unmapped_fields import whole
from normalizer.projection import Adjustment
from normalizer.providers.openai_chat import wire

if TYPE_CHECKING:
    from normalizer.parts import Reasoning
    from normalizer.providers.openai_chat.render import Out, Renderer
    from normalizer.transcript import Entry

CHOICE: Final = "reasoning"


def fields(
    renderer: Renderer, entry: Entry, thoughts: list[Reasoning], out: Out, *, calls: bool
) -> dict[str, Any]:
    """The reasoning keys of one assistant message; `calls`: it has calls."""
    profile = renderer.profile
    found: dict[str, Any] = {}
    for thought in thoughts:
        rule = _barrier(renderer, entry, thought)
        made = {} if rule is not None else _keys(renderer, entry, thought, out)
        if made:
            found.update(made)
        else:
            _drop(entry, thought, rule or "OAC-STRUCT-006", out)
            if rule == "OCX-QWEN-007":
                out.choices.append((CHOICE, entry.fact.fact_id, None))
    if (
        (
            calls
            and profile.reasoning_needed
            and profile.reasoning is not None
            and found.get(profile.reasoning) is None
        )
        and wire.thinks(profile, renderer.model)
        and not wire.refuses_reasoning(profile, renderer.model)
    ):
        found[profile.reasoning] = ""
        out.notes.append(
            Adjustment("dropped_reasoning", "the server demands the key of its reasoning beside calls; none of its"
                       " own is recorded, so it is sent empty", _NEEDED[profile.name], facts=(entry.fact.fact_id,))
        )  # fmt: skip
    return found


_NEEDED: Final = {"deepseek": "OCX-DEEPSEEK-002", "kimi": "OCX-KIMI-001"}
_OTHER_KEY: Final = {"ollama": "OCX-OLLAMA-006", "groq": "OCX-GROQ-002", "openrouter": "OCX-OPENROUTER-002"}


def _barrier(renderer: Renderer, entry: Entry, thought: Reasoning) -> str | None:
    """The rule by which this reasoning does not go back; None if it may."""
    profile, fact = renderer.profile, entry.fact
    if profile.reasoning is None or _received(thought) is None or fact.api not in (None, wire.API):
        return "OAC-STRUCT-006"
    if wire.refuses_reasoning(profile, renderer.model):
        return "OCX-DEEPSEEK-003"
    model = fact.model
    if model and profile.makers and not re.match(rf"(?:.*/)?(?:{profile.makers})", model.lower()):
        return "OAC-STRUCT-006"
    if (
        profile.reasoning_turn
        and thought.text
        and not renderer.in_running_turn(entry)
        and not _sent(renderer, entry)
    ):
        return "OCX-QWEN-007"
    return None


def _sent(renderer: Renderer, entry: Entry) -> bool:
    """Whether a request of this chain already held it, so that its bytes stay."""
    base = renderer.chain.base
    return (
        base is not None
        and entry.fact.seq <= base.through
        and not renderer.chain.chosen(CHOICE, entry.fact.fact_id)
    )


def _received(thought: Reasoning) -> dict[str, Any] | None:
    """The keys in which it came; None for a thought of another wire."""
    raw = thought.raw.value if thought.raw is not None else None
    return raw if isinstance(raw, dict) and not raw.keys().isdisjoint(wire.REASONING_KEYS) else None


def _keys(renderer: Renderer, entry: Entry, thought: Reasoning, out: Out) -> dict[str, Any]:
    """The keys as the target has them: its own as received, else its text under the target's key."""
    profile = renderer.profile
    received = _received(thought) or {}
    kept = {key: value for key, value in received.items() if key in profile.reasoning_keys}
    if "reasoning_details" in kept:
        kept["reasoning_details"] = _once(renderer, entry, kept["reasoning_details"], out)
    if kept or profile.name == "groq":  # which has no use for the thoughts of others
        return kept
    key = profile.reasoning or ""
    out.notes.append(
        Adjustment("moved", f"reasoning is sent in the key {key!r}, which this server reads",
                   _OTHER_KEY.get(profile.name), facts=(entry.fact.fact_id,))
    )  # fmt: skip
    return {key: thought.text}


def _once(renderer: Renderer, entry: Entry, details: Any, out: Out) -> Any:
    """Each detail once in a history, beside the message that it came with first.

    https://github.com/OpenRouterTeam/ai-sdk-provider/issues/254
    """
    if not isinstance(details, list):
        return details
    owners = renderer.detail_owners()
    kept = [d for d in details if owners.get(detail_id(d), entry.fact.fact_id) == entry.fact.fact_id]
    if len(kept) == len(details):
        return details
    out.notes.append(
        Adjustment("dropped_reasoning", "details of reasoning that an earlier message holds already",
                   "OCX-OPENROUTER-003", facts=(entry.fact.fact_id,),
                   content=Json.of([d for d in details if d not in kept]).text)
    )  # fmt: skip
    return kept


def detail_id(detail: Any) -> str:
    """The id of one of `reasoning_details`; empty if it has none."""
    found = detail.get("id") if isinstance(detail, dict) else None
    return found if isinstance(found, str) else ""


def _drop(entry: Entry, thought: Reasoning, rule: str, out: Out) -> None:
    out.dropped = True
    out.notes.append(
        Adjustment("dropped_reasoning", "reasoning that this server or model does not take", rule,
                   facts=(entry.fact.fact_id,), content=whole(thought))
    )  # fmt: skip
