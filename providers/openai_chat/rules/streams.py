"""OAC-STREAM: what a history may hold of a streamed reply. `truth` in the context says what the stream proved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.openai_chat.rules import content, view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHUNK: Final = "openai SDK, types/chat/chat_completion_chunk.py"
_NEVER: Final = object()


def _truth(context: Context) -> dict[str, Any]:
    found = context.get("truth")
    return found if isinstance(found, dict) else {}


def torn_call(request: Request, context: Context) -> Iterator[Violation]:
    """Deltas of one call belong together by their index; their arguments are joined in order of arrival."""
    told = {
        view.text(call.get("id")): call
        for call in _truth(context).get("calls") or ()
        if isinstance(call, dict)
    }
    for at, call in view.calls(request) if told else ():
        wanted = told.get(view.text(call.get("id")))
        payload = view.payload(call)
        if wanted is not None and any(
            wanted.get(key) != payload.get(key) for key in ("name", "arguments") if key in wanted
        ):
            yield Violation(at, f"call {named(call.get('id'))} is not what its deltas add up to")


def _fragments(request: Request, context: Context, finish: object) -> Iterator[Violation]:
    """Fragments of a stream with this end that the history holds as calls."""
    truth = _truth(context)
    if "finish" not in truth or truth["finish"] != finish:
        return
    fragments = truth.get("fragments") or ()
    for at, call in view.calls(request) if fragments else ():
        if view.text(call.get("id")) in fragments:
            yield Violation(at, f"call {named(call['id'])} never arrived whole")
    for at, message in view.of_role(request, "tool") if fragments else ():
        if view.text(message.get("tool_call_id")) in fragments:
            yield Violation(at, "an answer to a call that never arrived whole")


def call_cut_by_limit(request: Request, context: Context) -> Iterator[Violation]:
    """A call that was being written when the length limit came is a fragment.

    ## Why
    Only the call with the highest index can be half. It may parse and yet say less than was meant.

    ## Repair
    Keep it aside: it is not run, not sent, and nothing answers it.
    """
    yield from _fragments(request, context, "length")


def call_cut_by_filter(request: Request, context: Context) -> Iterator[Violation]:
    """A call of a reply that the content filter cut is a fragment, whether or not its arguments parse."""
    yield from _fragments(request, context, "content_filter")


def call_without_end(request: Request, context: Context) -> Iterator[Violation]:
    """A stream that ended without a finish_reason leaves no complete call; arguments that parse prove nothing."""
    yield from _fragments(request, context, None)


def chunk_as_message(request: Request, context: Context) -> Iterator[Violation]:
    """A chunk without choices (usage, moderation, results of a filter) adds no message."""
    wanted = _truth(context).get("replies")
    if isinstance(wanted, int):
        for number, (at, _) in enumerate(view.of_role(request, "assistant")):
            if number >= wanted:
                yield Violation(at, f"the stream brought {wanted} replies")


def refusal_became_words(request: Request, context: Context) -> Iterator[Violation]:
    """Deltas of a refusal make a refusal and no words."""
    refusal = _truth(context).get("refusal")
    if isinstance(refusal, str) and refusal:
        yield from content.spoken_refusal(request, (refusal,))


def wrong_audio_id(request: Request, context: Context) -> Iterator[Violation]:
    """A recording keeps the id of its first delta; the last one may bring nothing but the expiry."""
    wanted = _truth(context).get("audio")
    for at, message in view.of_role(request, "assistant") if isinstance(wanted, str) else ():
        if isinstance(message.get("audio"), dict) and message["audio"].get("id") != wanted:
            yield Violation(f"{at}/audio/id", f"the recording of the stream is {wanted!r}")


def merged_choices(request: Request, context: Context) -> Iterator[Violation]:
    """Choices are replies of their own: they are never merged, and one of them is the history."""
    choices = [text for text in _truth(context).get("choices") or () if isinstance(text, str) and text]
    used: str | None = None
    for at, message in view.of_role(request, "assistant") if len(choices) > 1 else ():
        words = view.words(message)
        held = [text for text in choices if text in words]
        if words in choices:
            if used is not None and words != used:
                yield Violation(at, "a second choice of the same reply")
            used = used or words
        elif len(held) > 1 and sum(map(len, held)) >= len(words.strip()):
            yield Violation(f"{at}/content", "two choices in one message")


def custom_call_as_function(request: Request, context: Context) -> Iterator[Violation]:
    """Deltas of a custom call come under `custom` and are collected as raw text."""
    told = {
        view.text(call.get("id")): call
        for call in _truth(context).get("custom") or ()
        if isinstance(call, dict)
    }
    for at, call in view.calls(request) if told else ():
        wanted = told.get(view.text(call.get("id")))
        if wanted is not None and (
            call.get("type") != "custom"
            or any(wanted[key] != view.payload(call).get(key) for key in ("name", "input") if key in wanted)
        ):
            yield Violation(at, f"call {named(call.get('id'))} is a custom call with its own text")


def words_without_end(request: Request, context: Context) -> Iterator[Violation]:
    """Words that a length limit ended are what the model said; words without any finish_reason are a fragment."""
    truth = _truth(context)
    fragment = truth.get("text_fragment")
    if truth.get("finish", _NEVER) is None and isinstance(fragment, str) and fragment:
        for at, message in view.of_role(request, "assistant"):
            if view.words(message) == fragment:
                yield Violation(f"{at}/content", "words of a reply whose end never came")


def _rule(number: int, name: str, check: Any, source: str = _CHUNK) -> Rule:
    return Rule(
        id=f"OAC-STREAM-{number:03d}",
        name=name,
        severity="policy",
        source=source,
        error=None,
        check=check,
        static=False,
        applies="with `truth` in the context: what a stream proved",
    )


RULES: Final[Rulebook] = (
    _rule(1, "torn-call", torn_call),
    _rule(2, "call-cut-by-limit", call_cut_by_limit, f"{_CHUNK}; _exceptions.py, LengthFinishReasonError"),
    _rule(
        3,
        "call-cut-by-filter",
        call_cut_by_filter,
        f"{_CHUNK}; _exceptions.py, ContentFilterFinishReasonError",
    ),
    _rule(4, "call-without-end", call_without_end),
    _rule(5, "chunk-as-message", chunk_as_message),
    _rule(6, "refusal-became-words", refusal_became_words),
    _rule(7, "wrong-audio-id", wrong_audio_id),
    _rule(8, "merged-choices", merged_choices),
    _rule(9, "custom-call-as-function", custom_call_as_function),
    _rule(10, "words-without-end", words_without_end),
)
