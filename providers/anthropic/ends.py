"""Both ends of a request: who may speak first, and the beginning of a reply that the model is to go on with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from normalizer import notices
from normalizer.projection import Adjustment
from normalizer.providers.anthropic import assistant_turn, tool_results, wire
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from normalizer.projecting.incremental import Rendered, Step
    from normalizer.providers.anthropic.render import Out, Renderer
    from normalizer.transcript import Entry, Transcript

_USER_SIDE: Final = frozenset({"user", "steering", "summary", "news"})


@dataclass(frozen=True, slots=True)
class Beginning:
    """Who may begin the request.

    `first_user` is the index of the first entry of the user's side that can; beyond all entries without one. Words that
    came beside results cannot: a history is never cut at a turn of results.

    `leads`: a reply before that entry may. It may where nobody else says anything, and where late news was read: what
    stands before that was sent as it is.
    """

    first_user: int
    leads: bool


def beginning(transcript: Transcript) -> Beginning:
    """Who may begin a request for this transcript."""
    entries = transcript.entries
    first = _first_user(transcript)
    begins = any(entry.kind == "reply" for entry in entries[:first])
    leads = begins and (first >= len(entries) or any(entry.kind == "news" for entry in entries[first:]))
    return Beginning(first, leads)


def _first_user(transcript: Transcript) -> int:
    calls = transcript.calls
    results: set[int] = set()
    for n, entry in enumerate(transcript.entries):
        if entry.kind == "reply" and entry.parts:
            # results go to their reply: words stay beside those of the reply before them alone
            facts = [f for key in entry.calls if key in calls for f in calls[key or ""].facts]
            results = {f.group for f in facts if f.group is not None}
        elif entry.kind in _USER_SIDE and entry.fact.group not in results and _says(entry):
            return n
    return len(transcript.entries)


def _says(entry: Entry) -> bool:
    """Whether an entry has words of somebody; what we told in words of a call is nobody's."""
    return entry.kind == "news" or any(
        p.kind != "text" or (p.text.strip() and notices.read_back(p.text, None) is None) for p in entry.parts
    )


def begin(renderer: Renderer, step: Step, out: Out) -> None:
    """Let a reply begin the request, once sent for good, or leave it out."""
    after = step.after or ""
    if renderer.chain.chosen("first", after) or _may_stand_first(renderer, out):
        out.choices.append(("first", after, None))
    else:
        _drop_beginning(step, out)


def _may_stand_first(renderer: Renderer, out: Out) -> bool:
    """Whether a reply may begin the request: after a compaction, or where `leads` says so."""
    return out.blocks[0].get("type") == "compaction" or renderer.beginning.leads


def _drop_beginning(step: Step, out: Out) -> None:
    """A history whose beginning was cut off starts with the first words of the user's side."""
    out.notes.append(
        Adjustment(
            "dropped_turn",
            "the beginning of the history is cut off: a reply that no message stands before is left out",
            "ANT-ROLE-010",
            facts=(step.after or "",),
            content=assistant_turn.text_of(out.blocks),
        )
    )
    for call in out.calls:
        out.notes.append(
            Adjustment("dropped_orphan", f"call {named(call.key)} goes with it", "ANT-ROLE-010", call.key,
                       tuple(f.fact_id for f in call.facts), tool_results.content_text(call))
        )  # fmt: skip
    out.blocks, out.calls, out.changed, out.dropped = [], [], True, True
    out.held, out.open_tail = frozenset(), False


def prefill(renderer: Renderer, step: Step, messages: list[dict[str, Any]], rendered: Rendered[Any]) -> bool:
    """A reply at the end, on a model that would go on with it: its white space at the end goes."""
    fact = step.reply.fact if step.reply is not None else None
    if not renderer.row.prefill or not messages or getattr(fact, "stop_reason", None) is not None:
        return False
    message = _without_thoughts(step, messages, rendered)
    if message is None:
        return False
    content = message["content"]
    text = content if isinstance(content, str) else content[-1].get("text") if content else None
    if isinstance(text, str) and text != text.rstrip():
        kept = text.rstrip()
        messages[-1] = {
            "role": "assistant",
            "content": kept if isinstance(content, str) else [*content[:-1], {**content[-1], "text": kept}],
        }
        rendered.adjustments.append(
            Adjustment("trimmed", "white space at the end of a prefill", "ANT-MSG-006",
                       facts=(step.after or "",), content=text)
        )  # fmt: skip
        rendered.choices.append(("trimmed", step.after or "", None))
    return fact is not None and fact.kind == "model_replied"


def _without_thoughts(
    step: Step, messages: list[dict[str, Any]], rendered: Rendered[Any]
) -> dict[str, Any] | None:
    """The beginning of a reply without reasoning, which it may not hold; None if nothing is left."""
    content = messages[-1]["content"]
    if isinstance(content, str) or not any(b.get("type") in wire.THINKING for b in content):
        return messages[-1]
    kept = [block for block in content if block.get("type") not in wire.THINKING]
    gone = [block for block in content if block.get("type") in wire.THINKING]
    rendered.adjustments.append(
        Adjustment(
            "dropped_reasoning",
            "the beginning of a reply may not hold reasoning",
            "ANT-THK-006",
            facts=(step.after or "",),
            content=assistant_turn.text_of(gone),
        )
    )
    messages.pop()
    if kept:
        messages.append({"role": "assistant", "content": kept})
    return messages[-1] if kept else None
