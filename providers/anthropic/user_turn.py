"""What the user's side says, as blocks: blank text, and what has no place there, are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from normalizer.projecting.unmapped_fields import beside_content, received, whole
from normalizer.providers.anthropic import encoding, pictures, schema_keys, wire

if TYPE_CHECKING:
    from collections.abc import Sequence

    from normalizer.parts import ResultPart
    from normalizer.projecting.draft import Draft, Value
    from normalizer.projection import AdjustmentKind
    from normalizer.providers.anthropic.context import ClaudeContext
    from normalizer.transcript import Entry


def blocks(claude: ClaudeContext, entry: Entry, draft: Draft) -> list[Value]:
    """The blocks of a user message."""
    found: list[Value] = []
    if (rest := beside_content(entry.fact)) is not None:
        message = "a message says more beside its content than this API has a place for"
        draft.reports.entry(entry, "trimmed", message, "message-keys", rest)
    part: Any
    for part in entry.parts:
        made: Value | None = None
        if part.kind == "text":
            if not part.text or part.text.isspace():
                _leave_out(entry, draft, "dropped_empty", "a blank text is left out", "empty", part)
            else:
                made = encoding.text_block(part, draft, entry)
        elif part.kind == "media":
            made = _medium(claude, entry, part, draft)
        elif (
            part.kind == "opaque"
            and part.type not in encoding.FOREIGN
            and part.type not in wire.ASSISTANT_BLOCKS
            and part.type
            and (part.type not in wire.USER_BLOCKS or encoding.usable(part.raw.value))
        ):
            made = encoding.replay(part.raw.value, draft, entry)
        else:
            message = f"a {part.kind} block has no place in a user message"
            _leave_out(entry, draft, "dropped_fragment", message, "foreign-block", part)
        if made is not None:
            found.append(made)
    return found


def _medium(claude: ClaudeContext, entry: Entry, part: Any, draft: Draft) -> Value | None:
    """A picture, document or upload; None if the API cannot take it."""
    made = encoding.block_of(part)
    block = pictures.honest(made, draft.reports, entry.fact.fact_id)
    if block is None or not encoding.usable(block):
        message = "a picture or document that the API cannot take"
        _leave_out(entry, draft, "media_moved", message, "ANT-BLK-006", part)
        return None
    if block.get("type") == "container_upload" and not any(
        (wire.word(tool, "type") or "").startswith(wire.CODE_TOOLS) for tool in claude.head.tools_at(None)
    ):
        message = "an upload needs the code execution tool"
        _leave_out(entry, draft, "media_moved", message, "ANT-BLK-012", part)
        return None
    encoding.note_rest(draft, entry, received(part), made, part.media_type)
    return encoding.replay(block, draft, entry)


def _leave_out(entry: Entry, draft: Draft, kind: AdjustmentKind, message: str, cause: str, part: Any) -> None:
    draft.reports.part(entry, kind, message, cause, part)
    draft.changed = True


def result_media(parts: Sequence[ResultPart], key: str, draft: Draft, fact_id: str) -> list[Value]:
    """What a result that is rendered as text holds beside text; what has no form is reported."""
    kept: list[Value] = []
    for part in parts:
        made = (
            encoding.block_of(part) if part.kind == "media" else {"type": "text", "text": part.raw.text}  # type: ignore[union-attr]
        )
        block = pictures.honest(made, draft.reports, fact_id)
        if block is not None and (part.kind != "media" or encoding.usable(block)):
            kept.append(
                {name: block[name] for name in block if name in schema_keys.BLOCK_KEYS[block["type"]]}
            )
            continue
        message = "a medium in news that the API cannot take is left out"
        draft.reports.add(
            "media_moved", message, "ANT-BLK-006", call_id=key, facts=(fact_id,), content=whole(part)
        )
    return kept
