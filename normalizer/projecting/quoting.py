"""What another provider's server did, as a labelled text of the user's side (`server_tools="quote"`).

A text stands behind the reply that it was found in, and says nothing that a later reply brings: what was sent stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from normalizer.util.text import words_under

if TYPE_CHECKING:
    from normalizer.parts import ServerToolCall, ServerToolResult
    from normalizer.transcript import ServerCall

# Keys whose strings a reader can make something of; sealed fields, ids and types are none of them.
_READABLE: Final = frozenset(
    {
        "text", "title", "url", "content", "stdout", "stderr", "cited_text", "source", "output", "outputs", "logs",
        "query", "error", "error_code", "snippet", "filename", "results", "result", "message",
    }
)  # fmt: skip


def quote(part: ServerToolCall | ServerToolResult, call: ServerCall | None, here: str) -> str | None:
    """What a call asked for with the words that came back in the same reply (`here`); else a result's words alone.

    None where that says nothing: no readable words, or they stand at the call already.
    """
    if part.kind == "server_tool_call":
        lines = [f"[run by the provider's server: {part.name}]", part.arguments.text]
        if call is not None and call.result is not None and call.result_reply == here:
            lines.extend(words_under(_READABLE, call.result.raw.value))
        return "\n".join(lines)
    if call is not None and call.reply == here:
        return None
    found = list(words_under(_READABLE, part.raw.value))
    name = call.name if call is not None else "unknown"
    return "\n".join([f"[result of the provider's server: {name}]", *found]) if found else None
