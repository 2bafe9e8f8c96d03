"""Plain steps as Chat messages, for the engine's fast path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import override

from normalizer.projecting.plain_steps import PlainSteps
from normalizer.providers.openai_chat import calls, wire

if TYPE_CHECKING:
    from normalizer.projecting.draft import Value
    from normalizer.projecting.plain_steps import Results
    from normalizer.providers.openai_chat.wire import Profile
    from normalizer.transcript import Entry


def plain_steps(profile: Profile) -> PlainSteps | None:
    """The writer for a server that takes plain messages as they are; None where it wants more of them."""
    wants_more = profile.reasoning_needed or profile.reasoning_turn or profile.one_text
    return None if wants_more or profile.no_words != "any" else ChatSteps(profile)


class ChatSteps(PlainSteps):
    """An assistant message with its `tool_calls`, and a `tool` message for each."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._limit = profile.max_string

    @override
    def reply(self, entry: Entry) -> Value | None:
        fact: Any = entry.fact
        if fact.raw is not None:
            return None
        texts: list[Value] = []
        asked: list[Value] = []
        part: Any
        for part in entry.parts:
            if part.kind == "tool_call":
                arguments = calls.as_text(self._profile, part.arguments)
                if arguments is None or part.form in calls.OTHER_FORMS:
                    return None
                function = {"name": part.name, "arguments": arguments}
                asked.append({"id": part.id, "type": "function", "function": function})
            elif asked or not part.text or len(part.text) > self._limit:
                return None
            else:
                texts.append({"type": "text", "text": part.text})
        if len(asked) > wire.MAX_CALLS:
            return None
        own = fact.api in (None, wire.API)
        content: Any = texts
        if len(texts) == 1 and (fact.string or not own):
            content = texts[0]["text"]
        elif not texts:
            if not asked:
                return None
            content = "" if own and fact.string else None
        message: Value = {"role": "assistant", "content": content}
        if asked:
            message["tool_calls"] = asked
        return message

    @override
    def put_results(self, results: Results, messages: list[Value]) -> bool:
        for call_id, content in results:
            if len(content) > self._limit:
                return False
            messages.append({"role": "tool", "tool_call_id": call_id, "content": content})
        return True

    @override
    def said(self, text: str, *, string: bool) -> Value | None:
        if not text or len(text) > self._limit:
            return None
        return {"role": "user", "content": text if string else [{"type": "text", "text": text}]}
