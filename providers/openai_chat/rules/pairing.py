"""OAC-PAIR: calls and the tool messages behind them. Pairing is local to a block: a reply and what answers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from normalizer.providers.openai_chat.rules import view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNANSWERED: Final = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The"
    " following tool_call_ids did not have response messages: call_"
)
_LITELLM: Final = "https://github.com/BerriAI/litellm/issues/10083"


def unanswered_tool_call(request: Request, context: Context) -> Iterator[Violation]:
    """Every call of an assistant message is answered by a tool message in the block right behind it.

    ## Why
    The API refuses the whole request, so one lost result ends the conversation.

    ## Repair
    Answer each call with its recorded result or the notice of its outcome. A call is never dropped to be rid of the
    error, and a result never made up.
    """
    for block in view.odd_blocks(request):
        if not block.last:
            for at, call_id in block.open:
                yield Violation(at, f"call {named(call_id)} has no tool message behind its message")


def interrupted_block(request: Request, context: Context) -> Iterator[Violation]:
    """Nothing but tool messages stands between an assistant message with calls and the answers to them.

    ## Repair
    What stands between is moved behind the block, with its words as they are.
    """
    waiting: dict[str, int] = {}
    ends = {block.end: block for block in view.odd_blocks(request) if block.open}
    told: set[int] = set()
    for index, message in view.messages(request) if ends else ():
        if block := ends.get(index):
            waiting.update({call_id: index for _, call_id in block.open})
        if message.get("role") == "tool":
            between = waiting.pop(view.text(message.get("tool_call_id")), None)
            if between is not None and between != index and between not in told:
                told.add(between)
                yield Violation(f"/messages/{between}", "it stands between a call and the answer to it")


def stray_tool_message(request: Request, context: Context) -> Iterator[Violation]:
    """A tool message stands only in the block behind an assistant message with calls.

    ## Why
    A window that cuts between call and result leaves such a message.

    ## Repair
    Put it behind its call, if that is on record; else leave it out and report it.
    """
    in_block = {at for block in view.blocks(request) for at, _ in block.answers}
    results = view.of_role(request, "tool")
    for at, _ in results if len(results) > len(in_block) else ():
        if at not in in_block:
            yield Violation(at, "no message with calls stands before this tool message")


def unknown_call_id(request: Request, context: Context) -> Iterator[Violation]:
    """The id of a tool message is that of a call in the message that opens its block.

    ## Repair
    The answer to an older call moves to its block, or is told as late news if that has an answer already.
    """
    for block in view.odd_blocks(request):
        known = {call_id for _, call_id in block.calls}
        for at, call_id in block.answers:
            if call_id not in known:
                yield Violation(f"{at}/tool_call_id", f"{named(call_id)} is no call of the message before")


def duplicate_answer(request: Request, context: Context) -> Iterator[Violation]:
    """A call is answered once.

    ## Repair
    The answer stays that the outcome decides for; a later, different observation is told at the end.
    """
    for block in view.odd_blocks(request):
        seen: set[str] = set()
        for at, call_id in block.answers:
            if call_id in seen:
                yield Violation(f"{at}/tool_call_id", f"call {named(call_id)} has an answer already")
            seen.add(call_id)


def duplicate_call_id(request: Request, context: Context) -> Iterator[Violation]:
    """The calls of one assistant message have different ids.

    ## Repair
    One call recorded twice is sent once. Of two calls the later one gets another id, in its answer too.
    """
    for block in view.odd_blocks(request):
        seen: set[str] = set()
        for at, call_id in block.calls:
            if call_id and call_id in seen:
                yield Violation(f"{at}/id", f"another call of this message has the id {named(call_id)}")
            seen.add(call_id)


def open_end(request: Request, context: Context) -> Iterator[Violation]:
    """A history does not end with unanswered calls.

    ## Repair
    Wait for the calls that run, or tell their outcomes as notices.
    """
    for block in view.odd_blocks(request):
        if block.last:
            for at, call_id in block.open:
                yield Violation(at, f"the history ends and call {named(call_id)} has no answer")


def made_up_answer(request: Request, context: Context) -> Iterator[Violation]:
    """A tool message tells the recorded result of its call, or the notice of its outcome, and nothing else.

    ## Why
    A made-up result looks to the model like something that happened.
    """
    outcomes = context.get("outcomes") or {}
    for at, message in view.of_role(request, "tool") if outcomes else ():
        outcome = outcomes.get(view.text(message.get("tool_call_id")))
        if not isinstance(outcome, dict):
            continue
        wanted = outcome.get("result") if outcome.get("kind") == "completed" else outcome.get("notice")
        if wanted is not None and view.words(message) != wanted:
            yield Violation(
                f"{at}/content", f"the outcome on record is {outcome.get('kind')!r}, and this is not its text"
            )


RULES: Final[Rulebook] = (
    Rule(
        id="OAC-PAIR-001",
        name="unanswered-tool-call",
        severity="reject",
        source=f"{_LITELLM}; https://github.com/sdcb/chats/issues/132; https://github.com/evalstate/fast-agent/issues/314",
        error=_UNANSWERED,
        check=unanswered_tool_call,
    ),
    Rule(
        id="OAC-PAIR-002",
        name="interrupted-block",
        severity="reject",
        source=f"{_LITELLM}; https://github.com/evalstate/fast-agent/issues/314",
        error=_UNANSWERED,
        check=interrupted_block,
        applies="words, notes and pictures that were recorded while tools ran",
    ),
    Rule(
        id="OAC-PAIR-003",
        name="stray-tool-message",
        severity="reject",
        source="https://github.com/smarter-sh/smarter/issues/264; https://github.com/miurla/morphic/issues/136",
        error="messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
        check=stray_tool_message,
    ),
    Rule(
        id="OAC-PAIR-004",
        name="unknown-call-id",
        severity="reject",
        source="https://github.com/dapr/dapr-agents/issues/145",
        error="'tool_call_id' of 'call_9' not found in 'tool_calls' of previous message.",
        check=unknown_call_id,
    ),
    Rule(
        id="OAC-PAIR-005",
        name="duplicate-answer",
        severity="reject",
        source="https://github.com/fatwang2/search2ai/issues/30",
        error="Duplicate value for 'tool_call_id' of 'call_1' in messages[2] and messages[3]",
        check=duplicate_answer,
    ),
    Rule(
        id="OAC-PAIR-006",
        name="duplicate-call-id",
        severity="reject",
        source=f"follows from the pairing by id; {_LITELLM}",
        error=_UNANSWERED,
        check=duplicate_call_id,
    ),
    Rule(
        id="OAC-PAIR-007",
        name="open-end",
        severity="reject",
        source=f"{_LITELLM}; https://github.com/openai/codex/issues/620",
        error=_UNANSWERED,
        check=open_end,
    ),
    Rule(
        id="OAC-PAIR-008",
        name="made-up-answer",
        severity="policy",
        source="the facts decide what a tool message says",
        error=None,
        check=made_up_answer,
        static=False,
        applies="with `outcomes` in the context: per call id `kind`, and `result` or `notice`",
    ),
)
