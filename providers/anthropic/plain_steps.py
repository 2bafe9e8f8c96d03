"""Plain steps as Messages, for the engine's fast path."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from normalizer.projecting.plain_steps import PlainSteps
from normalizer.providers.anthropic import calls

if TYPE_CHECKING:
    from normalizer.projecting.draft import Value
    from normalizer.projecting.plain_steps import Results
    from normalizer.transcript import Entry


class ClaudeSteps(PlainSteps):
    """Text and `tool_use` blocks, results in one user message."""

    @override
    def reply(self, entry: Entry) -> Value | None:
        blocks: list[Value] = []
        part: Any
        for part in entry.parts:
            if part.kind == "text":
                text = part.text
                if not text or text.isspace():
                    return None
                blocks.append({"type": "text", "text": text})
                continue
            arguments = part.arguments
            given = arguments._value  # noqa: SLF001 - the usual case without a property call
            if type(given) is not dict or calls.INVALID in given:
                return None
            if arguments._text is not None and calls.repeats_key(arguments, given):  # noqa: SLF001
                return None
            blocks.append({"type": "tool_use", "id": part.id, "name": part.name, "input": given})
        if not blocks:
            return None
        content: Any = blocks
        if len(blocks) == 1 and len(blocks[0]) == 2 and entry.fact.string:
            content = blocks[0]["text"]
        return {"role": "assistant", "content": content}

    @override
    def put_results(self, results: Results, messages: list[Value]) -> bool:
        blocks = []
        for call_id, content in results:
            blocks.append({"type": "tool_result", "tool_use_id": call_id, "content": content})
        messages.append({"role": "user", "content": blocks})
        return True

    @override
    def said(self, text: str, *, string: bool) -> Value | None:
        if not text or text.isspace():
            return None
        return {"role": "user", "content": text if string else [{"type": "text", "text": text}]}

    @override
    def may_follow(self, own: Any) -> bool:
        return own is not None and own.started and not own.system

    @override
    def handed_on(self, own: Any) -> Any:
        plain = own.after_user and not own.after_result
        return own if plain else replace(own, after_user=True, after_result=False)
