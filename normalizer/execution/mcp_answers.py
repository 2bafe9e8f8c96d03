"""What a server's answer says, or the lack of one. A table of errors decides which of them are no answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mcp import MCPError
from mcp import types as wire
from pydantic import ValidationError

from normalizer.execution.capture import shortened
from normalizer.execution.contract import Finished, Unknown
from normalizer.parts import Media, Text
from normalizer.util.text import escaped, excerpt, json_text

if TYPE_CHECKING:
    from normalizer.execution.mcp_wire import Exchange
    from normalizer.parts import ResultPart

# Errors that the SDK makes up itself where no answer came or none that could be read: by code, and for codes that
# servers use as well by the SDK's words (None: whatever the words).
_NO_ANSWER: Final[frozenset[tuple[int, str | None]]] = frozenset(
    {
        (wire.CONNECTION_CLOSED, None),
        (wire.REQUEST_TIMEOUT, None),
        (wire.PARSE_ERROR, None),
        (wire.INTERNAL_ERROR, "Server returned an error response"),
        (wire.INVALID_REQUEST, "server answered a request with 202 Accepted"),
        (wire.INVALID_REQUEST, "Unexpected content type"),
    }
)

# What servers say instead of a result when they applied a cancel: that they gave the call up, not what it had done.
_GIVEN_UP: Final = frozenset({(-32800, None), (0, "Request cancelled")})


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The server says that it applied the cancel."""

    words: str


Answer: TypeAlias = Finished | Unknown | Acknowledged


def finished(result: wire.CallToolResult, keep: int) -> Finished:
    """A result, verbatim: one text as a string, more as parts, structured output where there is nothing else.

    Texts that take more than `keep` bytes together are shortened, each to its share.
    """
    parts = [_part(block) for block in result.content]
    if not parts and result.structured_content is not None:
        parts = [Text(json_text(result.structured_content))]
    texts = [part for part in parts if isinstance(part, Text)]
    truncated = sum(len(part.text.encode("utf-8", "replace")) for part in texts) > keep
    if truncated:
        share = keep // len(texts)
        parts = [Text(shortened(part.text, share)[0]) if isinstance(part, Text) else part for part in parts]
    return Finished(content=_content(parts), is_error=result.is_error, truncated=truncated)


def _content(parts: list[ResultPart]) -> str | tuple[ResultPart, ...]:
    if not parts:
        return ""
    only = parts[0]
    return only.text if len(parts) == 1 and isinstance(only, Text) else tuple(parts)


def _part(block: wire.ContentBlock) -> ResultPart:
    match block:
        case wire.TextContent():
            return Text(_clean(block.text))
        case wire.ImageContent():
            return Media("image", media_type=block.mime_type, data=block.data)
        case wire.AudioContent():
            return Media("audio", media_type=block.mime_type, data=block.data)
        case wire.EmbeddedResource(resource=wire.TextResourceContents() as resource):
            return Text(_clean(resource.text))
        case wire.EmbeddedResource(resource=wire.BlobResourceContents() as resource):
            return Media("file", media_type=resource.mime_type, data=resource.blob, name=str(resource.uri))
        case _:  # a link, or what a later protocol adds: the model can read what it says
            return Text(json_text(block.model_dump(mode="json", by_alias=True, exclude_none=True)))


def _clean(text: str) -> str:
    return escaped(text).replace("\0", "\ufffd")


def ended(error: Exception, exchange: Exchange, keep: int, *, cancelled: bool) -> Answer:
    """How a call ended for which the SDK raised. `cancelled`: a cancel had been sent for it."""
    if exchange.request_id is None:
        return Finished(content=f"The call was not sent: {_words(error)}", is_error=True, started=False)
    if exchange.answer is not None:
        return _answered(error, exchange.answer, keep)
    if isinstance(error, MCPError) and cancelled and _among(error, _GIVEN_UP):
        return Acknowledged(_words(error))
    if isinstance(error, MCPError) and not _among(error, _NO_ANSWER):
        return Finished(content=_words(error), is_error=True)
    return Unknown(reason=f"no answer came: {_words(error)}")


def _answered(error: Exception, answer: dict[str, Any], keep: int) -> Finished:
    """The SDK refuses an answer that breaks the tool's own schema, say; what the server said counts all the same."""
    try:
        return finished(wire.CallToolResult.model_validate(answer), keep)
    except ValidationError:
        text, truncated = shortened(json_text(answer), keep)
        content = f"The server's answer is no tool result ({_words(error)}):\n{text}"
        return Finished(content=content, is_error=True, truncated=truncated)


def _among(error: MCPError, table: frozenset[tuple[int, str | None]]) -> bool:
    return any(
        error.code == code and (words is None or error.message.startswith(words)) for code, words in table
    )


def _words(error: Exception) -> str:
    return excerpt(str(error), 500) or type(error).__name__
