"""Which reasoning goes back, and in which key: verbatim or not at all, and never as words of the reply.

OpenAI's own Chat endpoint has no place for it. A compatible server gets what it sent; where it demands the key beside
calls and nothing was recorded, the key is empty, which is true. No thought is made up.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from normalizer.parts import Json
from normalizer.projecting.draft import REASONING
from normalizer.projecting.unmapped_fields import whole
from normalizer.providers.openai_chat import wire

if TYPE_CHECKING:
    from normalizer.parts import Reasoning
    from normalizer.projecting.draft import Draft, Value
    from normalizer.providers.openai_chat.context import ChatContext
    from normalizer.transcript import Entry


def fields(chat: ChatContext, thoughts: list[Reasoning], draft: Draft, *, calls: bool) -> Value:
    """The reasoning keys of one assistant message; `calls`: it has calls."""
    profile, entry = chat.profile, draft.entry
    found: Value = {}
    for thought in thoughts:
        rule = _barrier(chat, entry, thought)
        made = {} if rule is not None else _keys(chat, thought, draft)
        if made:
            found.update(made)
            continue
        draft.dropped = True
        message = "reasoning that this server or model does not take"
        draft.note("dropped_reasoning", message, rule or "OAC-STRUCT-006", whole(thought))
        if rule is not None and rule == chat.profile.reasoning_turn:
            draft.choices.append((REASONING, entry.fact.fact_id, None))
    if (
        calls
        and profile.reasoning_needed
        and profile.reasoning is not None
        and found.get(profile.reasoning) is None
        and wire.thinks(profile, chat.model)
        and not wire.refuses_reasoning(profile, chat.model)
    ):
        found[profile.reasoning] = ""
        message = (
            "the server demands the key of its reasoning beside calls;"
            " none of its own is recorded, so it is sent empty"
        )
        draft.note("dropped_reasoning", message, profile.reasoning_needed)
    return found


def _barrier(chat: ChatContext, entry: Entry, thought: Reasoning) -> str | None:
    """The rule by which this reasoning does not go back; None if it may."""
    profile = chat.profile
    fact: Any = entry.fact
    if profile.reasoning is None or _received(thought) is None or fact.api not in (None, wire.API):
        return "OAC-STRUCT-006"
    if wire.refuses_reasoning(profile, chat.model):
        return "OCX-DEEPSEEK-003"
    if fact.model and profile.makers and not re.match(rf"(?:.*/)?(?:{profile.makers})", fact.model.lower()):
        return "OAC-STRUCT-006"
    if profile.reasoning_turn and thought.text and not chat.in_running_turn(entry) and not _sent(chat, entry):
        return profile.reasoning_turn
    return None


def _sent(chat: ChatContext, entry: Entry) -> bool:
    """Whether a request of this sent history already held it, so that its bytes stay."""
    base = chat.history.base
    return (
        base is not None
        and entry.fact.seq <= base.through
        and not chat.history.chosen(REASONING, entry.fact.fact_id)
    )


def _received(thought: Reasoning) -> Value | None:
    """The keys in which it came; None for a thought of another wire."""
    raw = thought.raw.value if thought.raw is not None else None
    return raw if isinstance(raw, dict) and not raw.keys().isdisjoint(wire.REASONING_KEYS) else None


def _keys(chat: ChatContext, thought: Reasoning, draft: Draft) -> Value:
    """The keys as the target has them: its own as received, else its text under the target's key."""
    profile = chat.profile
    received = _received(thought) or {}
    kept = {key: value for key, value in received.items() if key in profile.reasoning_keys}
    if "reasoning_details" in kept:
        kept["reasoning_details"] = _once(chat, kept["reasoning_details"], draft)
    if kept or profile.name == "groq":  # which has no use for the thoughts of others
        return kept
    key = profile.reasoning or ""
    message = f"reasoning is sent in the key {key!r}, which this server reads"
    draft.note("moved", message, profile.other_key)
    return {key: thought.text}


def _once(chat: ChatContext, details: Any, draft: Draft) -> Any:
    """Each detail once in a history, beside the message that it came with first.

    https://github.com/OpenRouterTeam/ai-sdk-provider/issues/254
    """
    if not isinstance(details, list):
        return details
    here = draft.entry.fact.fact_id
    kept = [detail for detail in details if chat.details.owner(detail, here) == here]
    if len(kept) == len(details):
        return details
    gone = Json.of([d for d in details if d not in kept]).text
    message = "details of reasoning that an earlier message holds already"
    draft.note("dropped_reasoning", message, "OCX-OPENROUTER-003", gone)
    return kept
