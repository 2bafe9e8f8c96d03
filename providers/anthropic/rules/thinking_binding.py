"""What a signature is bound to: text, turn, model and what came before (ANT-THK-001, 003, 004, 017).

None of it shows in a request. The context brings `recorded_blocks`, `recorded_model`, `original_request` (the
request that the recorded reply answered) and `account` (`other`, where it is not the one that the reply came
from).
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from normalizer.providers.anthropic import wire
from normalizer.providers.anthropic.rules import recorded, view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

_THINKING: Final = "https://platform.claude.com/docs/en/build-with-claude/thinking"
_TROUBLE: Final = "https://platform.claude.com/docs/en/build-with-claude/thinking-troubleshooting"
_PRESERVED: Final = "https://platform.claude.com/docs/en/build-with-claude/preserved-thinking"
_BOUND: Final = "Opus 5.5, Sonnet 5.5, Haiku 5.5, Fable and Mythos 5.1 and 5.2"
_OTHER_CONVERSATION: Final = (
    "Invalid `signature` in `thinking` block. The block is bound to a different conversation"
)

_Spoken: TypeAlias = tuple[str, str, view.Block]
"""Pointer, role and block."""


def changed_thinking_of_open_turn(request: Request, context: Context) -> Iterator[Violation]:
    """In a tool loop the thinking of the latest reply goes back as it came: same bytes, order and neighbours.

    Merging, trimming, escaping and moving are changes. If it is not all there, leave out all thinking of that
    turn, or the whole turn, and ask again.
    """
    received = recorded.kept(recorded.blocks(context))
    calls = recorded.keys(block for block in received if block.get("type") == "tool_use")
    turn = recorded.reply(request, received) if calls else None
    if turn is None or not recorded.is_latest(request, turn):
        return
    if not calls & recorded.keys(block for _, block in turn.items) or not any(turn.of_type(*wire.THINKING)):
        return
    sent = [*_outline(turn.items), (turn.items[-1][0], None)]
    for (pointer, block), (_, expected) in zip_longest(
        sent, _outline([("", block) for block in received]), fillvalue=(turn.pointer, None)
    ):
        if block != expected:
            yield Violation(pointer, "the thinking of the open turn is not as it was received")
            return


def _outline(items: list[view.Placed]) -> list[tuple[str, view.Block | None]]:
    """The thinking of a reply, with an empty block for whatever stands before and between.

    Blank text in front does not count, since it cannot be sent back.
    """
    found: list[tuple[str, view.Block | None]] = []
    gap: view.Placed | None = None
    for pointer, block in items:
        if recorded.is_thinking(block):
            found += [gap] if gap is not None else []
            found.append((pointer, recorded.substance(block)))
            gap = None
        elif found or not recorded.is_blank(block):
            gap = (pointer, {})
    return found


def thinking_of_another_model(request: Request, context: Context) -> Iterator[Violation]:
    """Thinking goes back to the model that wrote it.

    Another model ignores it, or refuses the signature. After a switch leave out the thinking of earlier
    turns; finish an open tool loop on the model that began it, or leave its thinking out as well.
    """
    writer, model = view.text(context.get("recorded_model")), view.text(request.get("model"))
    moved = bool(writer and model) and wire.family(writer) != wire.family(model)
    estranged = view.model(request).account_bound and context.get("account") == "other"
    if not moved and not estranged:
        return
    own = recorded.keys(recorded.blocks(context))
    for pointer, block in view.of_type(request, wire.THINKING):
        if not own or recorded.key(block) in own:
            yield Violation(pointer, f"written by {writer!r}" if moved else "written for another account")


def _is_bound(request: Request) -> bool:
    """Whether the model is known to bind thinking to what stands before it, and to mind."""
    row = view.model(request)
    behaviour = view.member(request.get("thinking"), "block_binding", "prefix_mismatch_behavior")
    return row.prefix_bound and row.name != "unknown" and behaviour != "drop_block"


def thinking_behind_changed_prefix(request: Request, context: Context) -> Iterator[Violation]:
    """On models that preserve thinking, nothing before a thinking block changes.

    The signature covers instructions, tools and all earlier messages. Only append: later instructions go into
    a system message, tools into tool changes, news to the end. If the beginning has to change, leave out all
    thinking behind the change, or ask for `drop_block`.
    """
    original = context.get("original_request")
    if not isinstance(original, dict) or not _is_bound(request):
        return
    sent = list(_flat(request))
    changed = _changed(sent, list(_flat(original)), recorded.keys(recorded.blocks(context)))
    if not (_same_instructions(request, original) and recorded.same(_tools(request), _tools(original))):
        changed = 0
    for pointer, _, block in sent[changed:]:
        if recorded.is_thinking(block):
            yield Violation(pointer, "something before this thinking block is not as it was")


def _flat(request: Request) -> Iterator[_Spoken]:
    """All blocks that stand directly in messages."""
    for index, message in view.messages(request):
        for pointer, block in view.blocks(index, message):
            yield pointer, view.role(message), block


def _changed(sent: list[_Spoken], original: list[_Spoken], own: frozenset[tuple[str, str]]) -> int:
    """From where on what is sent is not what the reply answered.

    At a block that differs, or at the reply's own blocks if something was put in front of them.
    """
    for at, (_, role, block) in enumerate(original):
        if at >= len(sent) or sent[at][1] != role or not recorded.same(sent[at][2], block):
            return at
    rest = range(len(original), len(sent))
    if not rest or sent[rest[0]][1] == "assistant":
        return len(sent)
    return next((at for at in rest if recorded.key(sent[at][2]) in own), len(sent))


def _tools(request: Request) -> list[Any]:
    return view.listed(request.get("tools"))


def _same_instructions(request: Request, original: Request) -> bool:
    one, other = request.get("system") or [], original.get("system") or []
    wrapped = [
        [{"type": "text", "text": value}] if isinstance(value, str) else value for value in (one, other)
    ]
    return recorded.same(*wrapped)


def thinking_with_gaps(request: Request, context: Context) -> Iterator[Violation]:
    """On models that preserve thinking, what is left out of it is left out to the end.

    Before a block that is kept nothing is missing and nothing was moved. If one block cannot be used, it goes
    with all later ones.
    """
    received = recorded.kept(recorded.blocks(context))
    turn = recorded.reply(request, received) if _is_bound(request) else None
    if turn is None:
        return
    own = {recorded.key(block): at for at, block in enumerate(received) if recorded.is_thinking(block)}
    for at, (pointer, block) in enumerate(turn.items):
        stood = own.get(recorded.key(block))
        if stood is None:
            continue
        before = [one for _, one in turn.items[max(0, at - stood) : at + 1]]
        if not recorded.same(before, received[: stood + 1]):
            yield Violation(pointer, "something before this thinking block is missing or moved")
            return


RULES: Rulebook = (
    Rule(
        id="ANT-THK-001",
        name="changed-thinking-of-open-turn",
        severity="reject",
        source=f"{_THINKING}; {_TROUBLE}",
        error="`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified",
        check=changed_thinking_of_open_turn,
        static=False,
        applies="models that think, as long as the turn is not finished",
    ),
    Rule(
        id="ANT-THK-003",
        name="thinking-of-another-model",
        severity="degrades",
        source=f"{_THINKING}; {_PRESERVED}",
        error="Invalid `signature` in `thinking` block",
        check=thinking_of_another_model,
        static=False,
        applies="a switch of the model; Sonnet 5.5 and Haiku 5.5 also a switch of the account",
    ),
    Rule(
        id="ANT-THK-004",
        name="thinking-behind-changed-prefix",
        severity="reject",
        source=f"{_PRESERVED}; reports in github.com/anomalyco/opencode",
        error=_OTHER_CONVERSATION,
        check=thinking_behind_changed_prefix,
        static=False,
        applies=f"{_BOUND}; accounts since 2026-08-31, or with `block_binding` set",
    ),
    Rule(
        id="ANT-THK-017",
        name="thinking-with-gaps",
        severity="reject",
        source=_PRESERVED,
        error=_OTHER_CONVERSATION,
        check=thinking_with_gaps,
        static=False,
        applies=_BOUND,
    ),
)
