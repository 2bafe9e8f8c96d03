"""OAR-CONTENT: the parts of messages and outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from normalizer.providers.openai_responses import wire
from normalizer.providers.openai_responses.rules import view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

_INPUT: Final = "SDK types/responses/response_input_content_param.py"
_NOT_ASSISTANT: Final = ("user", "system", "developer")
_CHAT_PARTS: Final = frozenset({"text", "image_url", "file"})
_TOLD: Final = ("function_call_output", "custom_tool_call_output")
_FILE_SOURCES: Final = ("file_id", "file_url", "file_data")


def foreign_assistant_part(request: Request, context: Context) -> Iterator[Violation]:
    """An assistant message consists of `output_text` and `refusal` parts.

    ## Repair
    Write what the model said as `output_text`, or the whole content as one text.
    """
    for at, part, _ in view.message_parts(request, lambda kind: kind not in wire.OUTPUT_PARTS, "assistant"):
        yield Violation(f"{at}/type", f"no assistant message holds {part.get('type')!r}")


def foreign_input_part(request: Request, context: Context) -> Iterator[Violation]:
    """A user, system or developer message consists of `input_text`, `input_image` and `input_file` parts.

    ## Repair
    Write the part under its input name. Who said it does not change.
    """
    for at, part, sort in view.message_parts(
        request, lambda kind: kind not in wire.INPUT_PARTS, *_NOT_ASSISTANT
    ):
        yield Violation(f"{at}/type", f"no {sort.role} message holds {part.get('type')!r}")


def chat_part(request: Request, context: Context) -> Iterator[Violation]:
    """Parts have the names of this API, not those of Chat Completions.

    ## Repair
    `text` is `input_text` or `output_text`, by author; an `image_url` object is the string inside it.
    """
    for at, part, _ in view.message_parts(request, lambda kind: kind in _CHAT_PARTS):
        yield Violation(f"{at}/type", f"{part['type']!r} is a part of Chat Completions")


def _inputs(request: Request, kind: str) -> list[view.Placed]:
    """The parts of this type where they belong: in outputs, and in the contents of all else."""
    found = view.parts(
        request,
        lambda sort: sort.kind == kind and sort.key == ("output" if sort.item in wire.OUTPUTS else "content"),
    )
    return [(at, part) for at, part, _ in found]


def picture_without_source(request: Request, context: Context) -> Iterator[Violation]:
    """A picture is named by an address or data URL, as a text, or by a file id.

    ## Repair
    Unwrap the object of Chat Completions; a picture without a source is left out.
    """
    for at, part in _inputs(request, "input_image"):
        url = part.get("image_url")
        if url is not None and not isinstance(url, str):
            yield Violation(f"{at}/image_url", "the address is no text")
        elif url is None and not part.get("file_id"):
            yield Violation(at, "the picture has no source")


def file_without_source(request: Request, context: Context) -> Iterator[Violation]:
    """A file is named by its id, by an address, or given as data with a file name.

    ## Repair
    Send the recorded source; without one the file is left out.
    """
    for at, part in _inputs(request, "input_file"):
        if not any(part.get(key) for key in _FILE_SOURCES):
            yield Violation(at, "the file has no source")
        elif part.get("file_data") and not part.get("filename"):
            yield Violation(f"{at}/filename", "data comes with a file name")


def foreign_output_part(request: Request, context: Context) -> Iterator[Violation]:
    """The list in a function's or custom tool's output holds input parts.

    ## Repair
    Rename the parts. Pictures and files may stay in the output.
    """
    for at, part, _ in view.parts(
        request,
        lambda sort: sort.item in _TOLD and sort.key == "output" and sort.kind not in wire.INPUT_PARTS,
    ):
        yield Violation(f"{at}/type", f"no output holds {part.get('type')!r}")


def refusal_as_text(request: Request, context: Context) -> Iterator[Violation]:
    """A refusal goes back as a refusal, not as an ordinary text.

    ## Repair
    Replay the part as received.
    """
    refused = set(view.names(context.get("refusals")))
    for at, item in view.messages(request, "assistant") if refused else ():
        if isinstance(item.get("content"), str) and item["content"] in refused:
            yield Violation(f"{at}/content", "this was a refusal")
        for place, part in view.objects(item.get("content"), f"{at}/content"):
            if part.get("type") == "output_text" and view.text(part.get("text")) in refused:
                yield Violation(place, "this was a refusal")


def audio_part(request: Request, context: Context) -> Iterator[Violation]:
    """There is no audio in the input.

    ## Repair
    Send a recorded transcript that says what it is, or leave the audio out.
    """
    for at, _, _ in view.message_parts(request, lambda kind: kind == "input_audio"):
        yield Violation(at, "audio cannot be sent")


def changed_phase(request: Request, context: Context) -> Iterator[Violation]:
    """The phase of an assistant message, commentary or final answer, goes back as it came.

    ## Why
    The model takes its own commentary for its answer otherwise.

    ## Repair
    Keep the phase with the message and never guess one.
    """
    for at, item in view.having(request, "phase"):
        if view.kind(item) != "message":
            continue
        if item["phase"] is not None and view.text(item["phase"]) not in wire.PHASES:
            yield Violation(f"{at}/phase", f"there is no phase {item['phase']!r}")
    for at, item, given in view.originals(request, context, "message"):
        if given.get("phase") is not None and item.get("phase") != given["phase"]:
            yield Violation(f"{at}/phase", f"the phase was {given['phase']!r}")


RULES: Final[Rulebook] = (
    Rule(
        "OAR-CONTENT-001", "foreign-assistant-part", "reject",
        "https://github.com/tinyhumansai/openhuman/issues/3624;"
        " https://github.com/jeremychone/rust-genai/issues/119",
        "Supported values are: 'output_text' and 'refusal'.", foreign_assistant_part,
    ),
    Rule(
        "OAR-CONTENT-002", "foreign-input-part", "reject", _INPUT, "Invalid value: 'output_text'.", foreign_input_part
    ),
    Rule("OAR-CONTENT-003", "chat-part", "reject", _INPUT, "Invalid value: 'text'.", chat_part),
    Rule(
        "OAR-CONTENT-004", "picture-without-source", "reject", "SDK types/responses/response_input_image_param.py",
        "Invalid type for 'input[0].content[0].image_url': expected", picture_without_source,
    ),
    Rule(
        "OAR-CONTENT-005", "file-without-source", "reject",
        "SDK types/responses/response_input_file_param.py;"
        " https://developers.openai.com/api/docs/guides/file-inputs",
        "Missing required parameter: 'input[0].content[0].file", file_without_source,
    ),
    Rule(
        "OAR-CONTENT-006", "foreign-output-part", "reject",
        "SDK types/responses/response_function_call_output_item_param.py", "Invalid value: 'output_text'.",
        foreign_output_part,
    ),
    Rule(
        "OAR-CONTENT-007", "refusal-as-text", "policy", "SDK types/responses/response_output_refusal_param.py", None,
        refusal_as_text, static=False,
    ),
    Rule("OAR-CONTENT-008", "audio-part", "reject", _INPUT, "Invalid value: 'input_audio'.", audio_part),
    Rule(
        "OAR-CONTENT-009", "changed-phase", "degrades",
        "SDK types/responses/easy_input_message_param.py, types/responses/response_output_message_param.py",
        "Invalid value: '", changed_phase, applies="gpt-5.3-codex and later",
    ),
)  # fmt: skip
