"""How much a request may hold (ANT-LIM)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from normalizer.providers.anthropic.rules import media, texts, view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

_VISION: Final = "https://platform.claude.com/docs/en/build-with-claude/vision"
_ERRORS: Final = "https://platform.claude.com/docs/en/api/errors"
_MIB: Final = 1024 * 1024

MAX_MESSAGES: Final = 100_000
MAX_BODY: Final = 32 * _MIB
MAX_SIDE: Final = 8000
MANY_IMAGES: Final = 20
MAX_SIDE_OF_MANY: Final = 2000
MAX_IMAGE: Final = 10 * _MIB
MAX_IMAGE_ELSEWHERE: Final = 5 * _MIB
SMALL_WINDOW: Final = 200_000
LARGE_WINDOW: Final = 1_000_000
# Images and PDF pages: with a small context window, and with a large one.
MAX_MEDIA: Final = {SMALL_WINDOW: 100, LARGE_WINDOW: 600}
# The longest output of a model's row, and what a beta (the beginning of its name) makes of it.
MAX_OUTPUT_OLD: Final = (64_000, "output-128k-", 128_000)
MAX_OUTPUT: Final = (128_000, "output-300k-", 300_000)
# No text needs fewer tokens than a tenth of its characters, unless it is mostly blanks.
CHARACTERS_PER_TOKEN: Final = 10


def window(request: Request) -> int:
    """The context window; of a model that is not known, the large one."""
    small = view.model(request).name == "4-5" and not view.has_beta(request, "context-1m-")
    return SMALL_WINDOW if small else LARGE_WINDOW


def images(request: Request) -> list[view.Placed]:
    """All images of the history, those inside results and documents too."""
    return view.anywhere(request, "image")


def too_many_messages(request: Request, _context: Context) -> Iterator[Violation]:
    """A request has 100,000 messages at the most.

    Send a window of the history, or a summary.
    """
    count = len(view.listed(request.get("messages")))
    if count > MAX_MESSAGES:
        yield Violation("/messages", f"{count} messages, {MAX_MESSAGES} are allowed")


def too_large_request(request: Request, _context: Context) -> Iterator[Violation]:
    """The body of a request is not larger than 32 MB.

    Send pictures and documents by file id, or leave the oldest out. Only the bytes of texts and keys are
    counted, so a request just below the limit may still be too large.
    """
    inside = sum(weight.size for weight in texts.weights(request).values())
    if inside + texts.weigh(list(request)).size > MAX_BODY:
        yield Violation("", f"the request is larger than {MAX_BODY} bytes")


def too_many_images(request: Request, _context: Context) -> Iterator[Violation]:
    """A request has 100 images at the most where the context window is small, else 600.

    The images of all turns and of tool results count. Leave the oldest out and say so.
    """
    limit = MAX_MEDIA[window(request)]
    for count, (pointer, _) in enumerate(images(request), start=1):
        if count > limit:
            yield Violation(pointer, f"this is image {count}, {limit} are allowed")


def too_long_image(request: Request, _context: Context) -> Iterator[Violation]:
    """No side of an image is longer than 8000 pixels.

    Scale it down where it is recorded, or leave it out.
    """
    yield from _longer_than(MAX_SIDE, request)


def too_long_image_among_many(request: Request, _context: Context) -> Iterator[Violation]:
    """In a request of more than 20 images no side is longer than 2000 pixels.

    Images of old turns and of results count, so a history can break this long after the picture was accepted.
    Scale pictures down where they are recorded, or leave the oldest out.
    """
    if len(images(request)) > MANY_IMAGES:
        yield from _longer_than(MAX_SIDE_OF_MANY, request)


def _longer_than(limit: int, request: Request) -> Iterator[Violation]:
    for pointer, block in images(request):
        found = media.base64_image(block)
        size = media.size(found[1]) if found else None
        if size is not None and max(size) > limit:
            yield Violation(f"{pointer}/source/data", f"{size[0]} x {size[1]} pixels, {limit} are allowed")


def too_large_image(request: Request, context: Context) -> Iterator[Violation]:
    """A base64 image is not larger than 10 MB, on Bedrock and Vertex not larger than 5 MB.

    The encoded text counts. Encode the picture again, or leave it out.
    """
    limit = MAX_IMAGE_ELSEWHERE if context.get("backend") in ("bedrock", "vertex") else MAX_IMAGE
    for pointer, block in images(request):
        found = media.base64_image(block)
        if found and len(found[1]) > limit:
            yield Violation(f"{pointer}/source/data", f"{len(found[1])} bytes, {limit} are allowed")


def too_long_pdf(request: Request, _context: Context) -> Iterator[Violation]:
    """The PDFs of a request have 100 pages at the most (600 in a large context window) and no encryption.

    Pages that a file hides in compressed objects are not counted. Leave the document out and say so, or send
    a part.
    """
    limit, pages = MAX_MEDIA[window(request)], 0
    for pointer, block in view.anywhere(request, "document"):
        if view.member(block, "source", "type") != "base64":
            continue
        data = view.member(block, "source", "data")
        if not isinstance(data, str):
            continue
        pdf = media.pdf(data)
        pages += pdf.pages or 0
        if pdf.encrypted:
            yield Violation(f"{pointer}/source/data", "the PDF is encrypted")
        elif pages > limit:
            yield Violation(
                f"{pointer}/source/data", f"with this PDF there are {pages} pages, {limit} are allowed"
            )


def unfit_max_tokens(request: Request, _context: Context) -> Iterator[Violation]:
    """The output limit is not negative and not above what the model can put out.

    0 warms the cache only.
    """
    asked = request.get("max_tokens")
    if not isinstance(asked, int) or isinstance(asked, bool):
        return
    row = view.model(request).name
    limit, beta, raised = MAX_OUTPUT_OLD if row == "4-5" else MAX_OUTPUT
    limit = raised if view.has_beta(request, beta) else limit
    if asked < 0:
        yield Violation("/max_tokens", f"{asked} is negative")
    elif row != "unknown" and asked > limit:
        yield Violation("/max_tokens", f"{asked} is above the {limit} that the model can put out")


def blank_stop_sequence(request: Request, _context: Context) -> Iterator[Violation]:
    """A stop sequence is more than white space.

    Leave blank ones out.
    """
    for at, sequence in enumerate(view.listed(request.get("stop_sequences"))):
        if isinstance(sequence, str) and not sequence.strip():
            yield Violation(f"/stop_sequences/{at}", f"the stop sequence {sequence!r} is blank")


def too_long_prompt(request: Request, context: Context) -> Iterator[Violation]:
    """The prompt fits the context window of the model.

    Judged by `input_tokens`, the count that the API gave, or, without it, by a low estimate that speaks up
    only far above the window. Window by whole turns: a call stays with its result, running code with its
    inner calls.
    """
    limit, counted = window(request), context.get("input_tokens")
    if view.model(request).name == "unknown" or request.get("context_management") is not None:
        return
    if isinstance(counted, int):
        if counted > limit:
            yield Violation("/messages", f"{counted} tokens, {limit} fit")
        return
    weights = texts.weights(request)
    characters = sum(weights[key].read for key in ("system", "messages") if key in weights)
    least = characters // CHARACTERS_PER_TOKEN
    if least > limit:
        yield Violation("/messages", f"at least {least} tokens, {limit} fit")


RULES: Rulebook = (
    Rule(
        id="ANT-LIM-001",
        name="too-many-messages",
        severity="reject",
        source="SDK:types/message_create_params.py",
        error="messages",
        check=too_many_messages,
    ),
    Rule(
        id="ANT-LIM-002",
        name="too-large-request",
        severity="reject",
        source=_ERRORS,
        error="request_too_large",
        check=too_large_request,
    ),
    Rule(
        id="ANT-LIM-003",
        name="too-many-images",
        severity="reject",
        source=f"{_VISION}; ding113/claude-code-hub, src/repository/error-rules.ts",
        error="Too much media",
        check=too_many_images,
    ),
    Rule(
        id="ANT-LIM-004",
        name="too-long-image",
        severity="reject",
        source=_VISION,
        error="exceed max allowed size: 8000 pixels",
        check=too_long_image,
    ),
    Rule(
        id="ANT-LIM-005",
        name="too-long-image-among-many",
        severity="reject",
        source=f"{_VISION}; reports in github.com/anthropics/claude-code",
        error="many-image requests: 2000 pixels",
        check=too_long_image_among_many,
    ),
    Rule(
        id="ANT-LIM-006",
        name="too-large-image",
        severity="reject",
        source=f"{_VISION}; reports in github.com/anthropics/claude-code",
        error="image exceeds",
        check=too_large_image,
    ),
    Rule(
        id="ANT-LIM-007",
        name="too-long-pdf",
        severity="reject",
        source="https://platform.claude.com/docs/en/build-with-claude/pdf-support",
        error="100 PDF pages",
        check=too_long_pdf,
    ),
    Rule(
        id="ANT-LIM-008",
        name="unfit-max-tokens",
        severity="reject",
        source="SDK:types/message_create_params.py; https://platform.claude.com/docs/en/about-claude/models/overview",
        error="max_tokens",
        check=unfit_max_tokens,
    ),
    Rule(
        id="ANT-LIM-009",
        name="blank-stop-sequence",
        severity="reject",
        source="error text quoted by public clients",
        error="each stop sequence must contain non-whitespace",
        check=blank_stop_sequence,
    ),
    Rule(
        id="ANT-LIM-010",
        name="too-long-prompt",
        severity="reject",
        source=f"{_ERRORS}; https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons",
        error="prompt is too long",
        check=too_long_prompt,
        static=False,
    ),
)
