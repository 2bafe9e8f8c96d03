"""OAC-CONTENT: which parts stand in whose messages, and what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.openai_chat import wire
from normalizer.providers.openai_chat.rules import view
from normalizer.rules import Context, Request, Rule, Rulebook, Severity, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

_SDK: Final = "openai SDK, types/chat"
_PICTURES: Final = frozenset({"image_url"})


def misplaced_picture(request: Request, context: Context) -> Iterator[Violation]:
    """Pictures stand only in user messages.

    ## Repair
    The text stays in the tool message; the picture follows in a user message behind the whole block of answers.
    """
    for at, role, _ in view.misplaced(request, lambda role, kind: kind in _PICTURES and role != "user"):
        yield Violation(at, f"a picture in a message of role {role!r}")


def media_in_tool_message(request: Request, context: Context) -> Iterator[Violation]:
    """The content array of a tool message holds text parts only.

    ## Repair
    Other media are sent in a user message behind the block, or named in words.
    """
    yield from _others(request, context, "tool")


def _others(request: Request, context: Context, *roles: str) -> Iterator[Violation]:
    received = context.get("received_types") or ()
    for at, role, part in view.misplaced(
        request, lambda role, kind: role in roles and kind not in wire.PARTS[role]
    ):
        kind = view.kind(part)
        known = kind in wire.ALL_PARTS or kind in wire.FOREIGN_PARTS
        if known or kind not in received:
            severity: Severity = (
                "contested" if wire.is_unknown(kind) else "reject"
            )  # it may be newer than this rule
            yield Violation(at, f"a part of type {kind!r} in a message of role {role!r}", severity=severity)


def mixed_reply(request: Request, context: Context) -> Iterator[Violation]:
    """The content array of an assistant message holds text parts, or exactly one refusal part.

    ## Repair
    A refusal is sent alone; what was said before it goes into a message of its own.
    """
    yield from _others(request, context, "assistant")
    for at, message in view.where(request, lambda sort: sort.role == "assistant" and sort.form == "parts"):
        kinds = [view.kind(part) for part in message["content"]]
        if "refusal" in kinds and len(kinds) > 1:
            yield Violation(f"{at}/content", "a refusal beside other parts")


def media_in_instructions(request: Request, context: Context) -> Iterator[Violation]:
    """The content array of a system or developer message holds text parts only.

    ## Repair
    Media move to a user message.
    """
    yield from _others(request, context, "system", "developer")


def nameless_file(request: Request, context: Context) -> Iterator[Violation]:
    """A file part names a stored file, or has the data and the name of one.

    ## Repair
    The recorded bytes are sent under the recorded name; where there are none, words say that a file was there.
    """
    for at, _, part in view.misplaced(request, lambda role, kind: kind == "file" and role == "user"):
        held = view.member(part, "file")
        stored = view.text(view.member(held, "file_id"))
        whole = view.text(view.member(held, "file_data")) and view.text(view.member(held, "filename"))
        if not stored and not whole:
            yield Violation(f"{at}/file", "neither the id of a stored file, nor data with a name")


def bad_sound(request: Request, context: Context) -> Iterator[Violation]:
    """A sound has its data in base64 and the format wav or mp3, and stands in a user message.

    ## Repair
    Nothing is converted: another format is left out and named in words.
    """
    for at, role, part in view.misplaced(request, lambda _, kind: kind == "input_audio"):
        held = view.member(part, "input_audio")
        if role != "user":
            yield Violation(at, f"a sound in a message of role {role!r}")
        if view.text(view.member(held, "format")) not in wire.SOUND_FORMATS:
            yield Violation(f"{at}/input_audio/format", f"the format {view.member(held, 'format')!r}")
        if not view.text(view.member(held, "data")):
            yield Violation(f"{at}/input_audio/data", "a sound without data")


def responses_part(request: Request, context: Context) -> Iterator[Violation]:
    """The part types of the Responses API (input_text, output_text, input_image, input_file) are none of Chat.

    ## Repair
    The same facts are sent under Chat's names.
    """
    for at, part in view.parts_of(request, *wire.RESPONSES_PARTS):
        yield Violation(f"{at}/type", f"{view.kind(part)!r} is a part of the Responses API")


def picture_without_address(request: Request, context: Context) -> Iterator[Violation]:
    """`image_url` is an object with a `url`.

    ## Repair
    The recorded address, or the data as an address, is wrapped.
    """
    for at, part in view.parts_of(request, "image_url"):
        if not view.text(view.member(part, "image_url", "url")):
            yield Violation(f"{at}/image_url", "it is no object with an address")


def expired_audio(request: Request, context: Context) -> Iterator[Violation]:
    """A reference to stored audio is used only until it expires.

    ## Repair
    After that the recorded transcript is sent as the text.
    """
    now, expiry = context.get("now"), context.get("audio_expires_at") or {}
    for at, message in view.having(request, "audio", "assistant") if expiry else ():
        ends = expiry.get(view.text(view.member(message, "audio", "id")))
        if ends is not None and now is not None and now >= ends:
            yield Violation(f"{at}/audio/id", "the server no longer has this recording")


def textless_part(request: Request, context: Context) -> Iterator[Violation]:
    """A text part is an object with its text as a string.

    ## Repair
    A part without text is left out.
    """
    for at, _, part in view.parts(request):
        if not isinstance(part, dict):
            yield Violation(at, "a part is no object")
        elif view.kind(part) == "text" and not isinstance(part.get("text"), str):
            yield Violation(f"{at}/text", "a text part without text")


def refusal_as_words(request: Request, context: Context) -> Iterator[Violation]:
    """A refusal stays a refusal and does not become ordinary words of the assistant."""
    refused = context.get("refusals") or ()
    yield from spoken_refusal(request, refused)


def spoken_refusal(request: Request, refused: Any) -> Iterator[Violation]:
    """The assistant messages whose words are one of these refusals."""
    for at, message in view.of_role(request, "assistant") if refused else ():
        if view.words(message) in refused and not view.refusals(message):
            yield Violation(f"{at}/content", "a refusal is told as ordinary words")


RULES: Final[Rulebook] = (
    Rule(
        id="OAC-CONTENT-001",
        name="misplaced-picture",
        severity="reject",
        source="https://github.com/All-Hands-AI/OpenHands/issues/7700; https://github.com/openai/openai-node/issues/1030",
        error="Image URLs are only allowed for messages with role 'user', but this message with role 'tool' contains an"
        " image URL.",
        check=misplaced_picture,
    ),
    Rule(
        id="OAC-CONTENT-002",
        name="media-in-tool-message",
        severity="reject",
        source=f"{_SDK}/chat_completion_tool_message_param.py",
        error="Invalid value: '",
        check=media_in_tool_message,
    ),
    Rule(
        id="OAC-CONTENT-003",
        name="mixed-reply",
        severity="reject",
        source=f"{_SDK}/chat_completion_assistant_message_param.py",
        error="Invalid value: '",
        check=mixed_reply,
    ),
    Rule(
        id="OAC-CONTENT-004",
        name="media-in-instructions",
        severity="reject",
        source=f"{_SDK}/chat_completion_system_message_param.py",
        error="Invalid value: '",
        check=media_in_instructions,
    ),
    Rule(
        id="OAC-CONTENT-005",
        name="nameless-file",
        severity="reject",
        source=f"{_SDK}/chat_completion_content_part_param.py; https://developers.openai.com/api/docs/guides/file-inputs",
        error="Missing required parameter: 'messages[0].content[0].file.",
        check=nameless_file,
    ),
    Rule(
        id="OAC-CONTENT-006",
        name="bad-sound",
        severity="reject",
        source=f"{_SDK}/chat_completion_content_part_input_audio_param.py",
        error="Invalid value: '",
        check=bad_sound,
    ),
    Rule(
        id="OAC-CONTENT-007",
        name="responses-part",
        severity="reject",
        source=f"{_SDK}/chat_completion_content_part_param.py",
        error="Invalid value: 'input_text'.",
        check=responses_part,
        applies="histories copied from Responses",
    ),
    Rule(
        id="OAC-CONTENT-008",
        name="picture-without-address",
        severity="reject",
        source=f"{_SDK}/chat_completion_content_part_image_param.py",
        error="Invalid type for 'messages[0].content[0].image_url': expected an object",
        check=picture_without_address,
    ),
    Rule(
        id="OAC-CONTENT-009",
        name="expired-audio",
        severity="reject",
        source=f"{_SDK}/chat_completion_audio.py",
        error="audio",
        check=expired_audio,
        static=False,
        applies="with `now` and `audio_expires_at` in the context",
    ),
    Rule(
        id="OAC-CONTENT-010",
        name="textless-part",
        severity="reject",
        source=f"{_SDK}/chat_completion_content_part_text_param.py",
        error="Missing required parameter: 'messages[0].content[0].text'",
        check=textless_part,
    ),
    Rule(
        id="OAC-CONTENT-011",
        name="refusal-as-words",
        severity="policy",
        source=f"{_SDK}/chat_completion_message.py, which keeps content and refusal apart",
        error=None,
        check=refusal_as_words,
        static=False,
        applies="with `refusals` in the context",
    ),
)
