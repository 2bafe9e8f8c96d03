"""What stands inside text, images, documents and search results (ANT-BLK)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.anthropic import wire
from normalizer.providers.anthropic.rules import media, view
from normalizer.providers.anthropic.rules.caching import output_formats
from normalizer.rules import Context, Request, Rule, Rulebook, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

_VISION: Final = "https://platform.claude.com/docs/en/build-with-claude/vision"
_CITATIONS: Final = "https://platform.claude.com/docs/en/build-with-claude/citations"
_PDF: Final = "https://platform.claude.com/docs/en/build-with-claude/pdf-support"
_RESULTS: Final = "https://platform.claude.com/docs/en/build-with-claude/search-results"
_CLAUDE_CODE: Final = "reports in github.com/anthropics/claude-code"

# Each kind of document source: the media type that it must declare, the key of its content.
_SOURCES: Final[dict[str, tuple[str | None, str]]] = {
    "base64": ("application/pdf", "data"),
    "text": ("text/plain", "data"),
    "content": (None, "content"),
    "url": (None, "url"),
    "file": (None, "file_id"),
}
_DATA_URL: Final = "data:"
_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\r\n"


def empty_text(request: Request, _context: Context) -> Iterator[Violation]:
    """A text block holds at least one character.

    Leave the block out, and the message with it if nothing else is in it. Text inside a tool result has a
    rule of its own.
    """
    for pointer, block in view.of_type(request, frozenset({"text"})):
        if block.get("text") == "" and not pointer.endswith("/content"):
            yield Violation(f"{pointer}/text", "the text is empty")


def blank_text(request: Request, _context: Context) -> Iterator[Violation]:
    """A text block holds more than white space.

    Leave the block out. Models do emit a lone pair of line ends before a call; it cannot be sent back.
    """
    for pointer, block in view.of_type(request, frozenset({"text"})):
        text = view.text(block.get("text"))
        if text and text.isspace():
            yield Violation(pointer, "the text is only white space")


def text_that_is_no_string(request: Request, _context: Context) -> Iterator[Violation]:
    """The text of a text block is a string.

    Null is left out, anything else is turned into text where it is recorded.
    """
    for pointer, block in view.anywhere(request, "text"):
        if not isinstance(block.get("text"), str):
            yield Violation(f"{pointer}/text", f"the text is a {type(block.get('text')).__name__}")


def _images(request: Request) -> Iterator[tuple[str, str, str]]:
    """Pointer, declared media type and data of each image that carries its bytes."""
    for pointer, block in view.anywhere(request, "image"):
        found = media.base64_image(block)
        if found is not None:
            yield f"{pointer}/source", *found


def unknown_image_type(request: Request, _context: Context) -> Iterator[Violation]:
    """A base64 image is declared as JPEG, PNG, GIF or WebP.

    Convert other pictures before they are recorded. `image/jpg` is spelled `image/jpeg`.
    """
    for pointer, declared, _ in _images(request):
        if declared not in media.IMAGE_TYPES:
            yield Violation(f"{pointer}/media_type", f"{declared!r} is no accepted image type")


def wrong_image_type(request: Request, _context: Context) -> Iterator[Violation]:
    """The declared media type of an image is that of its bytes.

    The first bytes tell what a picture is: declare that.
    """
    for pointer, declared, data in _images(request):
        found = media.sniff(data)
        if declared in media.IMAGE_TYPES and found is not None and found != declared:
            yield Violation(f"{pointer}/media_type", f"declared as {declared!r}, the bytes are {found!r}")


def unreadable_image(request: Request, _context: Context) -> Iterator[Violation]:
    """The data of an image is plain base64 of a picture that can be read.

    A `data:` URL is not plain: cut its head off and take the media type from it. Leave out what cannot be
    read. Only the first bytes and the alphabet are looked at.
    """
    for pointer, _, data in _images(request):
        if data.startswith(_DATA_URL):
            yield Violation(f"{pointer}/data", "the data is a data: URL")
        elif not data.isascii() or data.encode().translate(None, _ALPHABET):
            yield Violation(f"{pointer}/data", "the data is no base64")
        elif media.sniff(data) is None:
            yield Violation(f"{pointer}/data", "the bytes are no JPEG, PNG, GIF or WebP picture")


def unknown_document_source(request: Request, _context: Context) -> Iterator[Violation]:
    """A document is a base64 PDF, plain text, text and image blocks, a URL or a file id.

    Office files and HTML are turned into text by whoever adds them, else left out.
    """
    for pointer, block in view.anywhere(request, "document"):
        fault = _document_fault(block.get("source"))
        if fault is not None:
            yield Violation(f"{pointer}/source", fault)


def _document_fault(source: Any) -> str | None:
    kind = view.text(view.member(source, "type"))
    if kind not in _SOURCES:
        return f"{kind!r} is no kind of document source"
    media_type, key = _SOURCES[kind]
    if media_type is not None and source.get("media_type") != media_type:
        return f"{source.get('media_type')!r} is no media type of a {kind!r} source"
    content = source.get(key)
    if kind == "content" and isinstance(content, list):
        other = next(
            (block for block in content if view.member(block, "type") not in ("text", "image")), None
        )
        return None if other is None else "a document's content is text and images"
    return None if isinstance(content, str) else f"the source has no {key!r}"


def _cited(request: Request, kind: str) -> list[tuple[str, bool]]:
    """The blocks of a type that the user's side sent, each with whether it may be cited."""
    found: list[tuple[str, bool]] = []
    if not view.anywhere(request, kind):
        return found
    for index, message in view.messages(request):
        if message.get("role") != "user" or not isinstance(message.get("content"), list):
            continue
        for pointer, outer in view.blocks(index, message):
            if outer.get("type") == kind or outer.get("type") == "tool_result":
                for place, block in view.walk(pointer, outer):
                    if block.get("type") == kind:
                        found.append((place, view.member(block, "citations", "enabled") is True))
    return found


def _at_odds(cited: list[tuple[str, bool]]) -> Iterator[Violation]:
    """A violation for each block whose setting is not that of the first one."""
    for pointer, enabled in cited[1:]:
        if enabled != cited[0][1]:
            yield Violation(
                pointer, f"citations are {'on' if enabled else 'off'} here, not so at {cited[0][0]}"
            )


def mixed_document_citations(request: Request, _context: Context) -> Iterator[Violation]:
    """All documents of a request allow citations, or none does.

    Give all of them the same setting. Text that is already in the history keeps its citations.
    """
    yield from _at_odds(_cited(request, "document"))


def citations_with_output_format(request: Request, _context: Context) -> Iterator[Violation]:
    """Citations do not go with structured output.

    Choose one of the two.
    """
    formats = list(output_formats(request))
    cited = _cited(request, "document") + _cited(request, "search_result") if formats else []
    if any(enabled for _, enabled in cited):
        yield Violation(formats[0], "a document or search result has citations on")


def search_result_without_text(request: Request, _context: Context) -> Iterator[Violation]:
    """A search result has a source, a title and at least one text block, none of them empty.

    Leave a hit without text out.
    """
    for pointer, block in view.anywhere(request, "search_result"):
        for key in ("source", "title"):
            if not isinstance(block.get(key), str):
                yield Violation(f"{pointer}/{key}", f"the search result has no {key}")
        content = block.get("content")
        if not isinstance(content, list) or not content:
            yield Violation(f"{pointer}/content", "the search result has no text")
            continue
        for at, inner in enumerate(content):
            if view.member(inner, "type") != "text" or not view.text(view.member(inner, "text")):
                yield Violation(f"{pointer}/content/{at}", "this is no text, or an empty one")


def mixed_search_result_citations(request: Request, _context: Context) -> Iterator[Violation]:
    """All search results of a request allow citations, or none does.

    Give all of them the same setting.
    """
    yield from _at_odds(_cited(request, "search_result"))


def upload_without_code_execution(request: Request, _context: Context) -> Iterator[Violation]:
    """A file for the container comes with a tool that runs code.

    Define the tool, or leave the upload out.
    """
    if view.continues_thread(request):
        return
    if not any(view.kind(tool).startswith(wire.CODE_TOOLS) for _, tool in view.tools(request)):
        for pointer, _ in view.of_type(request, frozenset({"container_upload"}), "user"):
            yield Violation(pointer, "no code execution tool is defined")


RULES: Rulebook = (
    Rule(
        id="ANT-BLK-001",
        name="empty-text",
        severity="reject",
        source=_CLAUDE_CODE,
        error="text content blocks must be non-empty",
        check=empty_text,
    ),
    Rule(
        id="ANT-BLK-002",
        name="blank-text",
        severity="reject",
        source=f"{_CLAUDE_CODE}; github.com/home-assistant/core",
        error="text content blocks must contain non-whitespace text",
        check=blank_text,
    ),
    Rule(
        id="ANT-BLK-003",
        name="text-that-is-no-string",
        severity="reject",
        source="SDK:types/text_block_param.py",
        error="Input should be a valid string",
        check=text_that_is_no_string,
    ),
    Rule(
        id="ANT-BLK-004",
        name="unknown-image-type",
        severity="reject",
        source=f"{_VISION}; {_CLAUDE_CODE}",
        error="Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'",
        check=unknown_image_type,
    ),
    Rule(
        id="ANT-BLK-005",
        name="wrong-image-type",
        severity="reject",
        source=f"{_CLAUDE_CODE}; github.com/home-assistant/core",
        error="image/jpeg",
        check=wrong_image_type,
    ),
    Rule(
        id="ANT-BLK-006",
        name="unreadable-image",
        severity="reject",
        source=_CLAUDE_CODE,
        error="Could not process image",
        check=unreadable_image,
    ),
    Rule(
        id="ANT-BLK-007",
        name="unknown-document-source",
        severity="reject",
        source=f"{_PDF}; SDK:types/document_block_param.py",
        error="Input should be",
        check=unknown_document_source,
    ),
    Rule(
        id="ANT-BLK-008",
        name="mixed-document-citations",
        severity="reject",
        source=_CITATIONS,
        error="citations",
        check=mixed_document_citations,
    ),
    Rule(
        id="ANT-BLK-009",
        name="citations-with-output-format",
        severity="reject",
        source=_CITATIONS,
        error="citations",
        check=citations_with_output_format,
    ),
    Rule(
        id="ANT-BLK-010",
        name="search-result-without-text",
        severity="reject",
        source=f"{_RESULTS}; SDK:types/search_result_block_param.py",
        error="search_result",
        check=search_result_without_text,
    ),
    Rule(
        id="ANT-BLK-011",
        name="mixed-search-result-citations",
        severity="reject",
        source=_RESULTS,
        error="citations",
        check=mixed_search_result_citations,
    ),
    Rule(
        id="ANT-BLK-012",
        name="upload-without-code-execution",
        severity="reject",
        source="https://platform.claude.com/docs/en/agents-and-tools/tool-use/code-execution-tool",
        error="container_upload",
        check=upload_without_code_execution,
        applies="files for the container",
    ),
)
