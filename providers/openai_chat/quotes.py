"""What a provider's server did, told as a labelled note of the user's side (`server_tools="quote"`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from normalizer.util.text import words_under

if TYPE_CHECKING:
    from collections.abc import Iterator

    from normalizer.parts import ServerToolCall, ServerToolResult

# Keys whose strings a reader can make something of; sealed fields, ids and types are none of them.
_READABLE: Final = frozenset(
    {"text", "title", "url", "content", "stdout", "stderr", "cited_text", "source", "output", "logs", "query", "error",
     "error_code", "snippet", "filename", "results"}
)  # fmt: skip


def asked(part: ServerToolCall) -> str:
    """What the server was asked to do."""
    return f"[run by the provider's server: {part.name}]\n{part.arguments.text}"


def found(part: ServerToolResult, name: str | None) -> Iterator[str]:
    """The readable words of what came back, if there are any."""
    if words := list(words_under(_READABLE, part.raw.value)):
        yield "\n".join([f"[result of the provider's server: {name or 'unknown'}]", *words])
