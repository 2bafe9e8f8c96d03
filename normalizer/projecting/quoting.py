"""What another provider's server did, as a labelled text of the user's side (`server_tools="quote"`).

A text stands behind the reply that it was found in, and says nothing that a later reply brings: what was sent stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from normalizer.util.text import words_under

if TYPE_CHECKING:
    from normalizer.transcript import Entry, ServerCall

# Keys whose strings a reader can make something of; sealed fields, ids and types are none of them.
_READABLE: Final = frozenset(
    {
        "text", "title", "url", "content", "stdout", "stderr", "cited_text", "source", "output", "outputs", "logs",
        "query", "error", "error_code", "snippet", "filename", "results", "result", "message",
    }
)  # fmt: skip


def quote_call(call: ServerCall, entry: Entry) -> str:
    """What the server was asked to do, and the readable words of what came back in the same reply."""
    lines = [f"[run by the provider's server: {call.name}]", call.part.arguments.text]
    if call.result is not None and call.result_reply == entry.fact.fact_id:
        lines.extend(words_under(_READABLE, call.result.raw.value))
    return "\n".join(lines)


def quote_result(call: ServerCall, entry: Entry) -> str | None:
    """The readable words of a result that came in a later reply than its call; None if there are none."""
    if call.result is None or call.reply == entry.fact.fact_id:
        return None
    found = list(words_under(_READABLE, call.result.raw.value))
    return "\n".join([f"[result of the provider's server: {call.name}]", *found]) if found else None
