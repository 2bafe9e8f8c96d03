"""The beginning of a reply that the model is to go on with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from normalizer.parts import Json
from normalizer.providers.anthropic import wire

if TYPE_CHECKING:
    from normalizer.projecting.draft import Draft, Flow, Value
    from normalizer.projecting.incremental import Rendered
    from normalizer.providers.anthropic.context import ClaudeContext


def prefill(claude: ClaudeContext, draft: Draft, rendered: Rendered[Flow]) -> bool:
    """Whether the model goes on with the reply at the end of a request; then white space at its end goes."""
    fact, said = draft.entry.fact, rendered.messages
    if not claude.row.prefill or not said or said[-1]["role"] != "assistant":
        return False
    if getattr(fact, "stop_reason", None) is not None:
        return False
    message = _without_thoughts(draft, said)
    if message is None:
        return False
    content = message["content"]
    text = content if isinstance(content, str) else content[-1].get("text") if content else None
    if isinstance(text, str) and text != text.rstrip():
        kept = text.rstrip()
        said[-1] = {
            "role": "assistant",
            "content": kept if isinstance(content, str) else [*content[:-1], {**content[-1], "text": kept}],
        }
        draft.note("trimmed", "white space at the end of a prefill", "cut-end", text)
        draft.choices.append(("trimmed", draft.step.after or "", None))
    return bool(fact.kind == "model_replied")


def _without_thoughts(draft: Draft, said: list[Value]) -> Value | None:
    """The beginning of a reply without reasoning, which it may not hold; None if nothing is left."""
    content = said[-1]["content"]
    if isinstance(content, str) or not any(b.get("type") in wire.THINKING for b in content):
        return said[-1]
    kept = [block for block in content if block.get("type") not in wire.THINKING]
    gone = [block for block in content if block.get("type") in wire.THINKING]
    message = "the beginning of a reply may not hold reasoning"
    draft.note("dropped_reasoning", message, "ANT-THK-006", Json.of(gone).text)
    said.pop()
    if kept:
        said.append({"role": "assistant", "content": kept})
    return said[-1] if kept else None
