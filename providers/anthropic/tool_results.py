"""Results of calls as blocks: verbatim or as notices, in front of everything else that the user's side says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from normalizer import notices
from normalizer.parts import Json
from normalizer.projecting.old_tool_results import answer, further, in_order, noticed
from normalizer.projecting.unmapped_fields import received, remainder
from normalizer.projection import Adjustment
from normalizer.providers.anthropic import encoding, result_blocks, schema_keys
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from normalizer.facts import CallFact
    from normalizer.projecting.incremental import Rendered, Step
    from normalizer.providers.anthropic.render import Out, Renderer
    from normalizer.providers.anthropic.user_turn import Side
    from normalizer.transcript import Call, Entry


def results(renderer: Renderer, out: Out, side: Side, rendered: Rendered[Any], step: Step) -> None:
    """One result for each call of the reply, in front of everything else."""
    calls = out.calls
    chain_told = renderer.chain.told
    if len(calls) > 1:
        calls = in_order(calls, chain_told)
    blocks: list[dict[str, Any]] = []
    groups: set[int] = set()
    for call in calls:
        key = call.key
        facts = call.facts
        wire_id = renderer.ids[key]
        raw = call.part.raw
        if (
            not chain_told
            and len(facts) == 1
            and _plain(fact := facts[0])
            and (raw is None or not result_blocks.toolset(call))
        ):
            blocks.append({"type": "tool_result", "tool_use_id": wire_id, "content": fact.content})  # type: ignore[union-attr]
            rendered.told.append((key, "completed", None, call.part.name))
            if fact.group is not None:
                groups.add(fact.group)
            continue
        block, group = _answer(renderer, call, wire_id, side, rendered, out)
        blocks.append(block)
        if group is not None:
            groups.add(group)
    _note_moved(renderer, calls, step, rendered, out)
    if len(groups) > 1 and _split_as_received(renderer, calls, step.behind):
        for call, block in zip(calls, blocks, strict=True):
            side.add([block], call.facts[0].group)
        return
    if len(groups) > 1:
        rendered.adjustments.append(
            Adjustment(
                "merged",
                "results of one reply that stood in several messages are sent in one",
                "ANT-PAIR-003",
            )
        )
        out.changed = True
    side.add(blocks, min(groups) if groups else None)


def _note_moved(renderer: Renderer, calls: list[Call], step: Step, rendered: Rendered[Any], out: Out) -> None:
    """Report results that stood behind words of the user's side, or behind a later reply."""
    words_at = [e.fact.seq for e in step.behind if e.kind not in ("instructions", "tools")]
    border = min([*words_at, *([] if step.last else [renderer.entries[step.end].fact.seq])], default=None)
    for call in calls:
        fact = call.result
        if border is not None and fact is not None and fact.seq > border:
            out.changed = True
            rendered.adjustments.append(
                Adjustment("moved", f"the result of call {named(call.key)} is sent directly behind it", "ANT-PAIR-003",
                           call.key, (fact.fact_id,))
            )  # fmt: skip


def _plain(fact: CallFact) -> bool:
    """Whether a fact is a recorded result of one text that says all of its block."""
    return (
        fact.kind == "call_completed" and fact.raw is None and type(fact.content) is str and not fact.is_error
    )


def _split_as_received(renderer: Renderer, calls: list[Call], behind: Sequence[Entry]) -> bool:
    """Whether the results stood in neighbouring messages with nothing between them, which the API takes as one turn."""
    if renderer.chain.told or any(not c.facts or c.facts[0].group is None for c in calls):
        return False
    last = max(call.facts[0].seq for call in calls)
    return not any(entry.fact.seq < last for entry in behind)


def _answer(
    renderer: Renderer, call: Call, wire_id: str, side: Side, rendered: Rendered[Any], out: Out
) -> tuple[dict[str, Any], int | None]:
    """The result block of one call, and the message that it came in."""
    call, kind, fact, text = answer(call, renderer.chain, running=renderer.running)
    if fact is not None and fact.content is not None:  # type: ignore[union-attr]
        return _recorded(renderer, call, fact, wire_id, side, rendered, out)
    if text is None:
        text = notices.notice(call, kind, wire_id, renderer.options.notices)
    fresh = _note_notice(call, kind, text, rendered)
    out.changed = out.changed or fresh
    rendered.told.append((call.key, kind, text, call.part.name))
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": wire_id, "content": text}
    if kind in notices.ERROR_FLAGGED or (kind == "completed" and call.outcome.is_error):
        block["is_error"] = True
    block = _echoed(call, block)
    group = next((f.group for f in call.facts if f.kind == "outcome_attested" and f.group is not None), None)
    return block, group


def _note_notice(call: Call, kind: str, text: str, rendered: Rendered[Any]) -> bool:
    """Report a notice; whether it differs from what was read."""
    rendered.adjustments.append(noticed(call, kind))
    body = text.split("\n", 1)[1].rpartition("\n")[0] if "\n" in text else text
    return not any(
        f.kind == "outcome_attested" and f.notice is not None and f.notice == body for f in call.facts
    )


def _recorded(
    renderer: Renderer,
    call: Call,
    fact: CallFact,
    wire_id: str,
    side: Side,
    rendered: Rendered[Any],
    out: Out,
) -> tuple[dict[str, Any], int | None]:
    """A recorded result, verbatim as far as the API takes it."""
    rendered.told.append((call.key, "completed", None, call.part.name))
    rendered.adjustments.extend(further(call, "ANT-PAIR-006"))
    raw = fact.raw.value if fact.raw is not None and _own(fact.raw.value) else None  # type: ignore[union-attr]
    failed = bool(fact.is_error)  # type: ignore[union-attr]
    if raw is not None:
        block = raw if raw.get("tool_use_id") == wire_id else {**raw, "tool_use_id": wire_id}
        if not raw.keys() <= schema_keys.BLOCK_KEYS["tool_result"] or (
            raw.get("is_error") is not None and not isinstance(raw["is_error"], bool)
        ):
            block = {k: v for k, v in block.items() if k in schema_keys.BLOCK_KEYS["tool_result"]}
            block["is_error"] = failed
            _trimmed(rendered, call, fact, raw)
            out.changed = True
    else:
        content: Any = fact.content  # type: ignore[union-attr]
        block = {"type": "tool_result", "tool_use_id": wire_id}
        block["content"] = (
            content if isinstance(content, str) else [encoding.block_of(part) for part in content]
        )
        _note_rest(rendered, call, fact, block["content"])
        if failed:
            block["is_error"] = True
    inner = block.get("content")
    if type(inner) is not str and inner is not None:
        block = result_blocks.fitting(renderer, call, fact, block, side, rendered, out)
        inner = block.get("content")
    elif inner is None and "content" in block:
        block = {k: v for k, v in block.items() if k != "content"}
    if failed and not (inner if isinstance(inner, str) else any(b.get("text") for b in inner or ())):
        text = notices.notice(call, "completed", wire_id)
        block = {**block, "content": text}
        rendered.told[-1] = (call.key, "completed", text, call.part.name)
        _note_notice(call, "completed", text, rendered)
        out.changed = True
    echoed = _echoed(call, block)
    if echoed is not block and block.get("toolset_name"):
        rendered.adjustments.append(
            Adjustment("trimmed", f"the result of call {named(call.key)} names a toolset that its call does not",
                       "ANT-PAIR-010", call.key, (fact.fact_id,), str(block["toolset_name"]))
        )  # fmt: skip
        out.changed = True
    return echoed, fact.group


def _note_rest(rendered: Rendered[Any], call: Call, fact: Any, made: Any) -> None:
    """Report what a result of another API, and its parts, say beyond what is made of them."""
    parts = () if isinstance(fact.content, str) else fact.content
    inside = [part.raw.value for part in parts if part.raw is not None]
    rests = [
        remainder(fact.raw, call.part.id, call.part.name, made, inside),
        *(
            remainder(received(part), block, getattr(part, "media_type", None))
            for part, block in zip(parts, made, strict=False)
        ),
    ]
    for rest in rests:
        if rest is not None:
            rendered.adjustments.append(
                Adjustment("trimmed", f"the result of call {named(call.key)} says more than this API has a place for",
                           "ANT-MSG-004", call.key, (fact.fact_id,), rest)
            )  # fmt: skip


def _own(raw: Any) -> bool:
    """Whether a raw result block is of this API."""
    return isinstance(raw, dict) and raw.get("type") == "tool_result" and (
        raw.get("content") is None or isinstance(raw["content"], str)
        or (isinstance(raw["content"], list) and all(isinstance(b, dict) for b in raw["content"]))
    )  # fmt: skip


def _trimmed(rendered: Rendered[Any], call: Call, fact: CallFact, raw: dict[str, Any]) -> None:
    extra = {k: v for k, v in raw.items() if k not in schema_keys.BLOCK_KEYS["tool_result"]}
    rendered.adjustments.append(
        Adjustment("trimmed", f"the result of call {named(call.key)} has keys that the API does not know",
                   "ANT-MSG-004",
                   call.key, (fact.fact_id,), Json.of(extra or raw.get("is_error")).text)
    )  # fmt: skip


def _echoed(call: Call, block: dict[str, Any]) -> dict[str, Any]:
    """A toolset's call is answered under the toolset's name, and any other call under none."""
    name = result_blocks.toolset(call)
    if block.get("toolset_name") == name:
        return block
    rest = {k: v for k, v in block.items() if k != "toolset_name"}
    return {**rest, "toolset_name": name} if name else rest


def content_text(call: Call) -> str | None:
    """The recorded content of a call's result as text, for a report."""
    for fact in call.facts:
        content = getattr(fact, "content", None)
        if content is not None:
            if isinstance(content, str):
                return content
            return Json.of([encoding.block_of(part) for part in content]).text
    return None
