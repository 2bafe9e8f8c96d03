"""Context editing, compaction and threads (ANT-CTX)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from normalizer.providers.anthropic import wire
from normalizer.providers.anthropic.rules import view
from normalizer.providers.anthropic.rules.caching import forces_tool, marked, output_formats
from normalizer.rules import Context, Request, Rule, Rulebook, Violation
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Iterator

_EDITING: Final = "https://platform.claude.com/docs/en/build-with-claude/context-editing"
_COMPACTION: Final = "https://platform.claude.com/docs/en/build-with-claude/compaction"

CLEAR_THINKING: Final = "clear_thinking_20251015"
COMPACT: Final = "compact_20260112"
LEAST_TRIGGER: Final = 50_000
ON_DEMAND: Final = "compact-2026-09-04"
AUTOMATIC: Final = "compact-2026-01-12"
# The beginning of an edit's type, and of the beta that it needs.
_EDIT_BETAS: Final = (("clear_", "context-management-"), ("compact_", "compact-"))
# Rows of models that are known not to think unless they are asked to.
_SILENT_MODELS: Final = frozenset({"4-5", "opus-4-6", "opus-4-7", "opus-4-8"})


def edits(request: Request) -> list[view.Placed]:
    """The edits of the context that are asked for."""
    found = view.member(request.get("context_management"), "edits")
    return list(view.objects(found, "/context_management/edits"))


def compactions(request: Request) -> list[view.Placed]:
    """The compaction blocks of the history."""
    return view.of_type(request, frozenset({"compaction"}))


def late_thinking_edit(request: Request, _context: Context) -> Iterator[Violation]:
    """Among the context edits the clearing of thinking comes first.

    Only the order of `edits` has to change.
    """
    for pointer, edit in edits(request)[1:]:
        if view.kind(edit) == CLEAR_THINKING:
            yield Violation(pointer, f"{CLEAR_THINKING!r} stands behind another edit")


def thinking_edit_without_thinking(request: Request, _context: Context) -> Iterator[Violation]:
    """Thinking is cleared only where the model thinks.

    Leave the edit out, or turn thinking on. Models that may think unasked are not judged by the absence of
    `thinking`.
    """
    asked = view.thinking(request)
    if asked not in ("", "disabled") or (not asked and view.model(request).name not in _SILENT_MODELS):
        return
    for pointer, edit in edits(request):
        if view.kind(edit) == CLEAR_THINKING:
            yield Violation(pointer, "thinking is off")


def context_edit_without_beta(request: Request, _context: Context) -> Iterator[Violation]:
    """Context edits come with the beta that each of them belongs to.

    Clearing needs `context-management-2025-06-27`, compacting `compact-2026-01-12`.
    """
    if not isinstance(request.get("context_management"), dict):
        return
    if not any(view.has_beta(request, beta) for _, beta in _EDIT_BETAS):
        yield Violation("/context_management", "no beta for context management is asked for")
        return
    for pointer, edit in edits(request):
        for start, beta in _EDIT_BETAS:
            if view.kind(edit).startswith(start) and not view.has_beta(request, beta):
                yield Violation(pointer, f"{view.kind(edit)!r} needs a beta {beta}...")


def cleared_result_sent(request: Request, context: Context) -> Iterator[Violation]:
    """The client sends its whole history, whatever the server clears from the model's view.

    What `applied_edits` report is no part of the conversation: do not copy it into the record. Judged against
    `recorded_result`, the text of the result as the tool gave it.
    """
    recorded = context.get("recorded_result")
    if not isinstance(recorded, str) or not any(
        view.kind(edit).startswith("clear_") for _, edit in edits(request)
    ):
        return
    results = view.of_type(request, frozenset({"tool_result"}))
    if results and not any(_text_of(result) == recorded for _, result in results):
        yield Violation(f"{results[-1][0]}/content", "the recorded result stands nowhere in the history")


def _text_of(result: view.Block) -> str:
    content = result.get("content")
    if isinstance(content, str):
        return content
    return "".join(view.text(block.get("text")) for _, block in view.objects(content, ""))


def empty_compaction(request: Request, _context: Context) -> Iterator[Violation]:
    """A compaction block has a text, or null where compacting failed.

    Replay the block as it came; one with an empty text is left out.
    """
    for pointer, block in compactions(request):
        content = block.get("content")
        if content is not None and not view.text(content):
            yield Violation(f"{pointer}/content", "the summary is neither a text nor null")


def compaction_without_beta(request: Request, _context: Context) -> Iterator[Violation]:
    """Compaction blocks come with a compaction beta, on every later request too.

    Keep the header as long as such a block is part of the history.
    """
    if not view.has_beta(request, "compact-"):
        for pointer, _ in compactions(request):
            yield Violation(pointer, "no compaction beta is asked for")


def misplaced_compaction(request: Request, _context: Context) -> Iterator[Violation]:
    """A compaction that was asked for is the first block of the conversation, and the only one.

    It stands for exactly the messages that it sums up: leave those out of the request and keep them in the
    record.
    """
    if ON_DEMAND not in view.betas(request):
        return
    both = AUTOMATIC in view.betas(request)
    messages = view.messages(request)
    first = next((pointer for pointer, _ in view.blocks(*messages[0])), "") if messages else ""
    if messages and view.role(messages[0][1]) == "system":
        first = ""
    summed = False
    for pointer, block in compactions(request):
        if not block.get("content") or (both and not block.get("signature")):
            continue
        if summed:
            yield Violation(pointer, "a compaction stands before it")
        elif pointer != first:
            yield Violation(pointer, "something stands before the compaction")
        summed = True


def compaction_with_other_wishes(request: Request, _context: Context) -> Iterator[Violation]:
    """A request for a compaction asks for nothing else.

    Context edits, stop sequences, an output format and a forced tool go into a request of their own.
    """
    if request.get("compaction") is None:
        return
    if request.get("context_management") is not None:
        yield Violation("/context_management", "`compaction` does not go with context edits")
    if request.get("stop_sequences"):
        yield Violation("/stop_sequences", "`compaction` does not go with stop sequences")
    for pointer in output_formats(request):
        yield Violation(pointer, "`compaction` does not go with an output format")
    if forces_tool(request):
        yield Violation("/tool_choice", "`compaction` does not go with a forced tool")


def compaction_of_open_turn(request: Request, _context: Context) -> Iterator[Violation]:
    """Only finished turns are compacted.

    A call that nobody answered, of ours or of the server, keeps the last turn open: finish the turn or leave
    it out.
    """
    last = view.last_turn(request)
    if request.get("compaction") is None or last is None or last.role != "assistant":
        return
    answered = {view.text(block.get("tool_use_id")) for _, block in last.items if "tool_use_id" in block}
    for pointer, block in last.of_type("tool_use", *wire.SERVER_CALLS):
        if view.text(block.get("id")) not in answered:
            yield Violation(pointer, f"the call {named(block.get('id'))} is open")


def early_compaction_trigger(request: Request, _context: Context) -> Iterator[Violation]:
    """Automatic compaction starts at 50,000 input tokens or later.

    Raise the value.
    """
    for pointer, edit in edits(request):
        value = view.member(edit, "trigger", "value")
        if view.kind(edit) == COMPACT and isinstance(value, int | float) and value < LEAST_TRIGGER:
            yield Violation(f"{pointer}/trigger/value", f"{value} is below {LEAST_TRIGGER}")


def thread_repeats_itself(request: Request, _context: Context) -> Iterator[Violation]:
    """A thread is continued with what is new: no instructions, no tools, no earlier messages.

    The server holds the rest. Keep the whole history in the record all the same: a thread expires within
    minutes.
    """
    if view.member(request.get("thread"), "type") != "continue":
        return
    for key in ("system", "tools"):
        if request.get(key):
            yield Violation(f"/{key}", f"the thread already has its {key!r}")
    for index, message in view.messages(request):
        if view.role(message) == "assistant":
            yield Violation(f"/messages/{index}", "the thread already has its replies")


def thread_with_more_than_it_carries(request: Request, _context: Context) -> Iterator[Violation]:
    """A request in a thread has no cache marks, no context edits and no fallbacks.

    Use plain requests where one of them is wanted.
    """
    if not isinstance(request.get("thread"), dict):
        return
    for key in ("cache_control", "context_management", "fallbacks"):
        if request.get(key) is not None:
            yield Violation(f"/{key}", f"a thread does not carry {key!r}")
    for pointer, _ in marked(request):
        yield Violation(f"{pointer}/cache_control", "a thread does not carry cache marks")


RULES: Rulebook = (
    Rule(
        id="ANT-CTX-001",
        name="late-thinking-edit",
        severity="reject",
        source=_EDITING,
        error="clear_thinking_20251015",
        check=late_thinking_edit,
        applies="beta context-management-2025-06-27",
    ),
    Rule(
        id="ANT-CTX-002",
        name="thinking-edit-without-thinking",
        severity="reject",
        source=_EDITING,
        error="`clear_thinking_20251015` strategy requires `thinking` to be enabled or adaptive",
        check=thinking_edit_without_thinking,
        applies="beta context-management-2025-06-27",
    ),
    Rule(
        id="ANT-CTX-003",
        name="context-edit-without-beta",
        severity="reject",
        source=f"{_EDITING}; {_COMPACTION}",
        error="context_management: Extra inputs are not permitted",
        check=context_edit_without_beta,
    ),
    Rule(
        id="ANT-CTX-004",
        name="cleared-result-sent",
        severity="degrades",
        source=_EDITING,
        error=None,
        check=cleared_result_sent,
        static=False,
        applies="context editing",
    ),
    Rule(
        id="ANT-CTX-005",
        name="empty-compaction",
        severity="reject",
        source=f"{_COMPACTION}; SDK:types/beta/beta_compaction_block_param.py",
        error="compaction",
        check=empty_compaction,
        applies="compaction betas",
    ),
    Rule(
        id="ANT-CTX-006",
        name="compaction-without-beta",
        severity="reject",
        source=_COMPACTION,
        error="does not match any of the expected tags",
        check=compaction_without_beta,
    ),
    Rule(
        id="ANT-CTX-007",
        name="misplaced-compaction",
        severity="reject",
        source=f"{_COMPACTION}; SDK: compaction error classes",
        error="compaction_block",
        check=misplaced_compaction,
        applies=f"beta {ON_DEMAND}",
    ),
    Rule(
        id="ANT-CTX-008",
        name="compaction-with-other-wishes",
        severity="reject",
        source=f"{_COMPACTION}; SDK:types/beta/beta_compaction_config_param.py",
        error="compaction",
        check=compaction_with_other_wishes,
        applies=f"beta {ON_DEMAND}",
    ),
    Rule(
        id="ANT-CTX-009",
        name="compaction-of-open-turn",
        severity="reject",
        source="SDK: compaction error classes",
        error="compaction_incomplete_turn",
        check=compaction_of_open_turn,
        applies=f"beta {ON_DEMAND}",
    ),
    Rule(
        id="ANT-CTX-010",
        name="early-compaction-trigger",
        severity="reject",
        source=_COMPACTION,
        error="trigger",
        check=early_compaction_trigger,
        applies=f"beta {AUTOMATIC}",
    ),
    Rule(
        id="ANT-CTX-011",
        name="thread-that-repeats-itself",
        severity="reject",
        source="SDK:types/beta/beta_thread_continue_params.py; SDK:lib/threads/_thread_state.py",
        error="thread",
        check=thread_repeats_itself,
        applies="beta message-threads-2026-08-12",
    ),
    Rule(
        id="ANT-CTX-012",
        name="thread-with-more-than-it-carries",
        severity="reject",
        source="SDK: thread error classes",
        error="thread_unsupported_request",
        check=thread_with_more_than_it_carries,
        applies="beta message-threads-2026-08-12",
    ),
)
