"""Results of calls as blocks: verbatim or as notices, in one user message in front of everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from normalizer import notices
from normalizer.parts import Json
from normalizer.projecting.unmapped_fields import received, remainder
from normalizer.providers.anthropic import calls, encoding, result_blocks, schema_keys
from normalizer.providers.anthropic.context import notes_of
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from normalizer.projecting.draft import Answered, Draft, Value
    from normalizer.projecting.user_turn import UserTurn
    from normalizer.providers.anthropic.context import ClaudeContext
    from normalizer.transcript import Call


def notice(answered: Answered, wire_id: str) -> None:
    """A notice as a result block."""
    call, kind = answered.call, answered.kind
    block: Value = {"type": "tool_result", "tool_use_id": wire_id, "content": answered.text}
    if kind in notices.ERROR_FLAGGED or (kind == "completed" and call.outcome.is_error):
        block["is_error"] = True
    answered.value = _echoed(call, block)


def result(claude: ClaudeContext, answered: Answered, wire_id: str, draft: Draft) -> None:
    """A recorded result, verbatim as far as the API takes it. An error of which no text is left becomes a notice."""
    call, fact = answered.call, answered.fact
    assert fact is not None  # noqa: S101 - the caller has looked
    block = _block(call, fact, wire_id, draft)
    inner = block.get("content")
    if type(inner) is not str and inner is not None:
        block = result_blocks.fitting(claude, call, fact, block, draft)
        inner = block.get("content")
    elif inner is None and "content" in block:
        block = {k: v for k, v in block.items() if k != "content"}
    failed = bool(fact.is_error)  # type: ignore[union-attr]
    if failed and not (inner if isinstance(inner, str) else any(b.get("text") for b in inner or ())):
        answered.text = notices.notice(call, "completed", wire_id, claude.options.notices)
        block = {**block, "content": answered.text}
    answered.value = _echoed(call, block)
    if answered.value is not block and (toolset := block.get("toolset_name")):
        message = f"the result of call {named(call.key)} names a toolset that its call does not"
        draft.reports.result(call, fact, "trimmed", message, "ANT-PAIR-010", str(toolset))
        draft.changed = True


def _block(call: Call, fact: Any, wire_id: str, draft: Draft) -> Value:
    """The block as it was received from this API, else one made anew."""
    raw = fact.raw.value if fact.raw is not None and _own(fact.raw.value) else None
    if raw is None:
        made = fact.content if isinstance(fact.content, str) else [encoding.block_of(p) for p in fact.content]
        block: Value = {"type": "tool_result", "tool_use_id": wire_id, "content": made}
        _note_rest(call, fact, made, draft)
        if fact.is_error:
            block["is_error"] = True
        return block
    known, flag = schema_keys.BLOCK_KEYS["tool_result"], raw.get("is_error")
    block = raw if raw.get("tool_use_id") == wire_id else {**raw, "tool_use_id": wire_id}
    if raw.keys() <= known and (flag is None or isinstance(flag, bool)):
        return block
    extra = {k: v for k, v in raw.items() if k not in known}
    message = f"the result of call {named(call.key)} has keys that the API does not know"
    draft.reports.result(call, fact, "trimmed", message, "unmapped", Json.of(extra or flag).text)
    draft.changed = True
    return {**{k: v for k, v in block.items() if k in known}, "is_error": bool(fact.is_error)}


def _note_rest(call: Call, fact: Any, made: Any, draft: Draft) -> None:
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
            message = f"the result of call {named(call.key)} says more than this API has a place for"
            draft.reports.result(call, fact, "trimmed", message, "unmapped", rest)


def _own(raw: Any) -> bool:
    """Whether a raw result block is of this API."""
    return isinstance(raw, dict) and raw.get("type") == "tool_result" and (
        raw.get("content") is None or isinstance(raw["content"], str)
        or (isinstance(raw["content"], list) and all(isinstance(b, dict) for b in raw["content"]))
    )  # fmt: skip


def _echoed(call: Call, block: Value) -> Value:
    """A toolset's call is answered under the toolset's name, and any other call under none."""
    name = calls.toolset(call.part)
    if block.get("toolset_name") == name:
        return block
    rest = {k: v for k, v in block.items() if k != "toolset_name"}
    return {**rest, "toolset_name": name} if name else rest


# ---------------------------------------------------------------- where they stand


def put_all(claude: ClaudeContext, turn: UserTurn, draft: Draft) -> None:
    """The results of one reply in one user message, and behind them what may not stand in them."""
    notes = notes_of(draft)
    results = notes.results
    if len(results) == 1:
        block, fact = results[0]
        turn.add([block], fact.group if fact is not None else None)
    elif results:
        _put_several(claude, results, turn, draft)
    for each in notes.displaced:
        result_blocks.put_behind(each, turn, draft)


def _put_several(
    claude: ClaudeContext, results: list[tuple[Value, Any]], turn: UserTurn, draft: Draft
) -> None:
    groups = {fact.group for _, fact in results if fact is not None and fact.group is not None}
    if len(groups) > 1 and _split_as_received(claude, results, draft):
        for block, fact in results:
            turn.add([block], fact.group)
        return
    if len(groups) > 1:
        message = "results of one reply that stood in several messages are sent in one"
        draft.reports.add("merged", message, "result-place")
        draft.changed = True
    turn.add([block for block, _ in results], min(groups) if groups else None)


def _split_as_received(claude: ClaudeContext, results: list[tuple[Value, Any]], draft: Draft) -> bool:
    """Whether the results stood in neighbouring messages with nothing between them, which the API takes as one turn."""
    if claude.history.told or any(fact is None or fact.group is None for _, fact in results):
        return False
    last: int = max(fact.seq for _, fact in results)
    return not any(entry.fact.seq < last for entry in draft.step.behind)
