"""OAR-TOOLS, OAR-LIMIT: the tools, the choice among them, and how long things may be."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.openai_responses import wire
from normalizer.providers.openai_responses.rules import view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation, remembered

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPENAPI: Final = "OpenAPI description in openai/openai-python (api_reference/openapi.transformed.yml)"
_MIGRATE: Final = "https://developers.openai.com/api/docs/guides/migrate-to-responses"
_TEXTS: Final = ("content", "output", "arguments", "input")
_PIECES: Final = ("text", "stdout", "stderr")
_NAMED: Final = ("function", "custom")


def _tools(request: Request) -> list[view.Item]:
    return [tool for tool in view.listed(request.get("tools")) if isinstance(tool, dict)]


def _added(request: Request) -> Iterator[view.Item]:
    for _, item in view.of_kind(request, "additional_tools"):
        yield from (tool for tool in view.listed(item.get("tools")) if isinstance(tool, dict))


def unknown_choice(request: Request, context: Context) -> Iterator[Violation]:
    """A `tool_choice` that names a tool names one that is offered.

    ## Repair
    Map the name as in the tools; else leave the choice to the model.
    """
    choice = view.mapped(request.get("tool_choice"))
    name = choice.get("name")
    named = choice.get("type") in _NAMED and isinstance(name, str)
    if named and name not in {view.text(tool.get("name")) for tool in (*_tools(request), *_added(request))}:
        yield Violation("/tool_choice/name", f"no tool is called {name!r}")


def nested_tool(request: Request, context: Context) -> Iterator[Violation]:
    """A function tool has its name and parameters beside its type.

    ## Repair
    Unwrap the object of Chat Completions. `strict` stays as it was declared: the defaults differ.
    """
    for number, tool in enumerate(view.listed(request.get("tools"))):
        if view.mapped(tool).get("type") == "function" and not isinstance(view.mapped(tool).get("name"), str):
            yield Violation(f"/tools/{number}/name", "the tool has no name")


def choice_without_tools(request: Request, context: Context) -> Iterator[Violation]:
    """Whoever demands a tool call offers tools.

    ## Repair
    Leave `tool_choice` out.
    """
    choice = request.get("tool_choice")
    demands = choice == "required" or view.mapped(choice).get("type") in _NAMED
    if demands and not _tools(request) and not any(True for _ in _added(request)):
        yield Violation("/tool_choice", "there are no tools to choose from")


def nested_choice(request: Request, context: Context) -> Iterator[Violation]:
    """A named `tool_choice` has the name beside its type.

    ## Repair
    Unwrap the object of Chat Completions.
    """
    choice = view.mapped(request.get("tool_choice"))
    if choice.get("type") in _NAMED and not isinstance(choice.get("name"), str):
        yield Violation("/tool_choice/name", "the choice names no tool")


def long_text(request: Request, context: Context) -> Iterator[Violation]:
    """A text has at most 10,485,760 characters.

    ## Repair
    Cut it only with a visible mark; the record keeps the whole.
    """
    for at, item in view.having(request, *_TEXTS) if _longest(request) > wire.MAX_TEXT else ():
        for key in _TEXTS:
            yield from _long(item.get(key), f"{at}/{key}")
    yield from _long(request.get("input") if isinstance(request.get("input"), str) else None, "/input")


@remembered
def _longest(request: Request) -> int:
    """How long the longest text of the items is."""
    found = (item[key] for key in _TEXTS for _, item in view.having(request, key))
    parts = (part[key] for key in _PIECES for _, part in view.parts_having(request, key))
    return max((len(text) for text in chain(found, parts) if isinstance(text, str)), default=0)


def _long(value: Any, at: str) -> Iterator[Violation]:
    if isinstance(value, str):
        if len(value) > wire.MAX_TEXT:
            yield Violation(at, f"the text has {len(value)} characters")
        return
    for number, part in enumerate(view.listed(value)):
        for key in _PIECES:
            if len(view.text(view.mapped(part).get(key))) > wire.MAX_TEXT:
                yield Violation(f"{at}/{number}/{key}", f"the text has {len(part[key])} characters")


def long_image_url(request: Request, context: Context) -> Iterator[Violation]:
    """The address of a picture, with data in it, has at most 20,971,520 characters.

    ## Repair
    Upload the picture and send its file id, or leave it out.
    """
    for at, part in view.parts_having(request, "image_url"):
        if len(view.text(part["image_url"])) > wire.MAX_IMAGE_URL:
            yield Violation(f"{at}/image_url", "the address is too long")


def long_file_data(request: Request, context: Context) -> Iterator[Violation]:
    """The data of a file has at most 73,400,320 characters.

    ## Repair
    Upload the file and send its id.
    """
    for at, part in view.parts_having(request, "file_data"):
        if len(view.text(part["file_data"])) > wire.MAX_FILE_DATA:
            yield Violation(f"{at}/file_data", "the data is too long")


def few_output_tokens(request: Request, context: Context) -> Iterator[Violation]:
    """`max_output_tokens` is at least 16.

    ## Repair
    Raise it.
    """
    found = request.get("max_output_tokens")
    if isinstance(found, int) and found < wire.MIN_OUTPUT_TOKENS:
        yield Violation("/max_output_tokens", f"{found} is less than 16")


RULES: Final[Rulebook] = (
    Rule(
        "OAR-TOOLS-001", "unknown-choice", "reject", "SDK types/responses/tool_choice_function_param.py",
        "Tool choice 'get_date' not found in 'tools' parameter.", unknown_choice,
    ),
    Rule(
        "OAR-TOOLS-002", "nested-tool", "reject",
        f"SDK types/responses/function_tool_param.py; {_MIGRATE};"
        " https://github.com/diegosouzapw/OmniRoute/issues/2692",
        "Missing required parameter: 'tools[0].name'.", nested_tool,
    ),
    Rule(
        "OAR-TOOLS-003", "choice-without-tools", "reject", "SDK types/responses/response_create_params.py",
        "must be specified with 'tools' parameter", choice_without_tools,
    ),
    Rule(
        "OAR-TOOLS-004", "nested-choice", "reject", "SDK types/responses/tool_choice_function_param.py",
        "Missing required parameter: 'tool_choice.name'.", nested_choice,
    ),
    Rule(
        "OAR-LIMIT-001", "long-text", "reject", f"{_OPENAPI}; https://github.com/VectorlyApp/bluebox/issues/31",
        "string too long. Expected a string with maximum length 10485760", long_text,
    ),
    Rule(
        "OAR-LIMIT-002", "long-image-url", "reject", _OPENAPI,
        "string too long. Expected a string with maximum length 20971520", long_image_url,
    ),
    Rule(
        "OAR-LIMIT-003", "long-file-data", "reject", _OPENAPI,
        "string too long. Expected a string with maximum length 73400320", long_file_data,
    ),
    Rule(
        "OAR-LIMIT-004", "few-output-tokens", "reject", _OPENAPI,
        "Invalid 'max_output_tokens': integer below minimum value", few_output_tokens,
    ),
)  # fmt: skip
