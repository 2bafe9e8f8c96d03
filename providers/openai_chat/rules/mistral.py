"""OCX-MISTRAL: Mistral's OpenAI-like endpoint, in short form. Under the profile `mistral` only.

Requests for it are projected by the target of that name; these rules tell who sends it an OpenAI request.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.openai_chat.rules import identifiers, pairing, view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Iterator

_ID: Final = re.compile(r"[a-zA-Z0-9]{9}")


def _applies(context: Context) -> bool:
    return view.under(context, "mistral")


def mistral_call_id(request: Request, context: Context) -> Iterator[Violation]:
    """Ids of calls for Mistral have exactly nine letters or digits.

    ## Repair
    They are mapped by a hash, on the call and on its answer.
    """
    for at, call in view.calls(request) if _applies(context) else ():
        if not _ID.fullmatch(view.text(call.get("id"))):
            yield Violation(f"{at}/id", f"the id {named(call.get('id'))}")
    for at, message in view.of_role(request, "tool") if _applies(context) else ():
        if not _ID.fullmatch(view.text(message.get("tool_call_id"))):
            yield Violation(f"{at}/tool_call_id", f"the id {named(message.get('tool_call_id'))}")


def _followed(request: Request) -> Iterator[tuple[int, str, str]]:
    """Each message's index, the role before it (empty at the beginning), and its own."""
    before = ""
    for index, message in view.messages(request):
        role = view.text(message.get("role"))
        yield index, before, role
        before = role


def mistral_user_behind_results(request: Request, context: Context) -> Iterator[Violation]:
    """Behind results Mistral expects the assistant, not the user.

    ## Repair
    The words move behind the assistant's next reply, or the results are told in words.
    """
    for index, before, role in _followed(request) if _applies(context) else ():
        if before == "tool" and role not in ("tool", "assistant"):
            yield Violation(f"/messages/{index}/role", f"{role} behind results")


def mistral_stray_result(request: Request, context: Context) -> Iterator[Violation]:
    """A tool message for Mistral follows a message with calls, or another tool message."""
    for index, before, role in _followed(request) if _applies(context) else ():
        if role == "tool" and before not in ("assistant", "tool"):
            yield Violation(f"/messages/{index}/role", f"a tool message behind {before or 'nothing'}")


def mistral_last_role(request: Request, context: Context) -> Iterator[Violation]:
    """The last message for Mistral is the user's, a tool's, or an assistant's that is marked as a prefix.

    ## Repair
    There is nothing to answer yet.
    """
    found = view.messages(request) if _applies(context) else []
    if found and found[-1][1].get("role") not in ("user", "tool") and not found[-1][1].get("prefix"):
        yield Violation(f"/messages/{found[-1][0]}/role", "there is nothing to answer")


def mistral_count(request: Request, context: Context) -> Iterator[Violation]:
    """Mistral wants as many results as calls, with the same ids."""
    if _applies(context):
        for check in (
            pairing.unanswered_tool_call, pairing.open_end, pairing.unknown_call_id, pairing.duplicate_answer
        ):  # fmt: skip
            yield from check(request, context)


def mistral_words_and_calls(request: Request, context: Context) -> Iterator[Violation]:
    """Older models of Mistral take words or calls in a message, not both.

    ## Repair
    The words go into a message of their own where two in a row are taken; else they are left out and reported.
    """
    for at, message in view.of_role(request, "assistant") if _applies(context) else ():
        if message.get("content") and message.get("tool_calls"):
            yield Violation(at, "words and calls in one message")


def mistral_tool_name(request: Request, context: Context) -> Iterator[Violation]:
    """Names of functions for Mistral have 1 to 64 letters, digits, underscores or hyphens."""
    if _applies(context):
        yield from identifiers.bad_tool_name(request, context)


def mistral_first_role(request: Request, context: Context) -> Iterator[Violation]:
    """A conversation with Mistral begins with a system or a user message.

    ## Repair
    A greeting without a question is left out and reported.
    """
    first = next(iter(view.messages(request)), None) if _applies(context) else None
    if first is not None and first[1].get("role") not in ("system", "user"):
        yield Violation(f"/messages/{first[0]}/role", f"it begins with {first[1].get('role')}")


def mistral_empty_instructions(request: Request, context: Context) -> Iterator[Violation]:
    """Instructions for Mistral are not empty.

    ## Repair
    An empty message is left out.
    """
    for at, message in view.of_role(request, "system") if _applies(context) else ():
        if not view.words(message):
            yield Violation(f"{at}/content", "instructions with nothing in them")


_VALIDATOR: Final = "mistralai/mistral-common, protocol/instruct/validator.py"


def _rule(number: int, name: str, check: Any, error: str, source: str = _VALIDATOR) -> Rule:
    return Rule(
        id=f"OCX-MISTRAL-{number:03d}", name=name, severity="reject", source=source, error=error, check=check,
        applies="profile mistral",
    )  # fmt: skip


RULES: Final[Rulebook] = (
    _rule(1, "mistral-call-id", mistral_call_id,
          "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9."),
    _rule(2, "mistral-user-behind-results", mistral_user_behind_results, "Unexpected role 'user' after role 'tool'",
          "https://github.com/BerriAI/litellm/issues/6323"),
    _rule(3, "mistral-stray-result", mistral_stray_result, "Unexpected role 'tool' after role 'user'"),
    _rule(4, "mistral-last-role", mistral_last_role, "Expected last role User or Tool (or Assistant with prefix"),
    _rule(5, "mistral-count", mistral_count, "Not the same number of function calls and responses"),
    _rule(6, "mistral-words-and-calls", mistral_words_and_calls,
          "Assistant message must have either content or tool_calls, but not both."),
    _rule(7, "mistral-tool-name", mistral_tool_name, "Function name was"),
    _rule(8, "mistral-first-role", mistral_first_role,
          "Conversation must start with a user message or system message"),
    _rule(9, "mistral-empty-instructions", mistral_empty_instructions, "System prompt must have content"),
)  # fmt: skip
