"""What another provider's server did, told as a labelled note of the user's side (`server_tools="quote"`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from normalizer.util.text import words_under

if TYPE_CHECKING:
    from normalizer.transcript import ServerCall

# Keys whose words a reader can make something of; sealed fields, ids and types are none of them.
_READABLE: Final = frozenset(
    {
        "text", "title", "url", "content", "stdout", "stderr", "cited_text", "source", "output", "outputs", "logs",
        "query", "error", "error_code", "snippet", "filename", "results", "result", "message",
    }
)  # fmt: skip


def quote(call: ServerCall) -> str:
    """The note about one call: what was asked, and the readable words of what came back."""
    lines = [f"[run by the provider's server: {call.name}]", call.part.arguments.text]
    if call.result is None:
        lines.append("[no result is recorded]")
    else:
        lines.extend(words_under(_READABLE, call.result.raw.value))
    return "\n".join(lines)
