"""OAR-REASON: reasoning items, what follows them, and their ciphertext."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.openai_responses import wire
from normalizer.providers.openai_responses.rules import view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Iterator

_ITEM: Final = "SDK types/responses/response_reasoning_item_param.py"
_GUIDE: Final = "https://developers.openai.com/api/docs/guides/reasoning"
_AGENTS: Final = "openai/openai-agents-python src/agents/run_internal/items.py"
_NO_FOLLOWER: Final = "Item 'rs_1' of type 'reasoning' was provided without its required following item."
_UNVERIFIED: Final = "The encrypted content gAAA could not be verified."
_USER_SIDE: Final = frozenset({"compaction_trigger", "configuration_update", "mcp_approval_response"})


def _written_by_model(item: view.Item) -> bool:
    """Whether a model can have produced the item."""
    found = view.kind(item)
    if found == "message":
        return item.get("role") == "assistant"
    return (
        found not in _USER_SIDE
        and found != "additional_tools"
        and (found not in wire.OUTPUTS or view.served(item))
    )


def _thoughts(request: Request) -> Iterator[tuple[str, view.Item, view.Item | None]]:
    """Each reasoning item with the item behind it."""
    index = view.history(request)
    for number in index.numbers(lambda sort, _: sort.kind == "reasoning"):
        at, item = index.entries[number]
        behind = index.entries[number + 1][1] if number + 1 < len(index.entries) else None
        yield at, item, behind or None


def reasoning_left_alone(request: Request, context: Context) -> Iterator[Violation]:
    """A reasoning item stands directly before the item that the model produced after it.

    ## Why
    Alone, or in front of something else, the server refuses it.

    ## Repair
    Restore the item that followed. If nothing whole followed, the reasoning is left out too.
    """
    for at, item, behind in _thoughts(request):
        if behind is None or not _written_by_model(behind):
            yield Violation(at, f"nothing of the model's stands behind {named(item.get('id'))}")


def _without_reasoning(request: Request, context: Context, *kinds: str) -> Iterator[Violation]:
    """Items that were produced after a reasoning item which does not lead their group here."""
    provenance = view.mapped(context.get("provenance"))
    leading: str | None = None
    for at, item in view.items(request) if provenance else ():
        found = view.kind(item)
        if found == "reasoning":
            leading = view.text(item.get("id"))
        elif not _written_by_model(item) and found not in wire.OUTPUTS:
            leading = None
        wanted = provenance.get(view.text(item.get("id")))
        if wanted is not None and wanted != leading and found in kinds:
            yield Violation(at, f"the reasoning {wanted!r} that it was produced after is missing")


def call_without_reasoning(request: Request, context: Context) -> Iterator[Violation]:
    """A call that is sent with its id has the reasoning that it was produced after before it.

    ## Repair
    Send the reasoning; if it may not go, leave the id of the call out and pair by `call_id`.
    """
    yield from _without_reasoning(request, context, *wire.ANSWERS)


def message_without_reasoning(request: Request, context: Context) -> Iterator[Violation]:
    """A message that is sent with its id has the reasoning that it was produced after before it.

    ## Repair
    Send the reasoning, or the short form of the message without id. The phase stays.
    """
    yield from _without_reasoning(request, context, "message")


def hosted_without_reasoning(request: Request, context: Context) -> Iterator[Violation]:
    """A hosted call has the reasoning that it was produced after before it.

    ## Why
    Its id cannot be left out, so without the reasoning the call goes too.

    ## Repair
    Replay both or leave both out. The message that used the result stays.
    """
    yield from _without_reasoning(request, context, *wire.HOSTED)


def bare_reasoning(request: Request, context: Context) -> Iterator[Violation]:
    """Where the server stores nothing, reasoning goes with its ciphertext only.

    ## Repair
    Without ciphertext it is left out, and what follows goes without id.
    """
    if view.stateless(request):
        for at, item in view.of_kind(request, "reasoning"):
            if not item.get("encrypted_content"):
                yield Violation(at, "nothing is stored, and the item has no ciphertext")


def changed_ciphertext(request: Request, context: Context) -> Iterator[Violation]:
    """Ciphertext goes back byte for byte, to the account and the models that it came from.

    ## Repair
    For another account leave the item out, and the id of what follows. Never shorten or re-encode it.
    """
    origin, target = view.mapped(context.get("origin")), context.get("target")
    for at, item in view.of_kind(request, "reasoning", "compaction"):
        if target is not None and origin.get(view.text(item.get("id")), target) != target:
            yield Violation(at, f"it was written for {origin[item['id']]!r}")
    for at, item, given in view.originals(request, context, "reasoning", "compaction"):
        if item.get("encrypted_content") and item["encrypted_content"] != given.get("encrypted_content"):
            yield Violation(f"{at}/encrypted_content", "the ciphertext is not as it was received")


def early_ciphertext(request: Request, context: Context) -> Iterator[Violation]:
    """Of a stream, the ciphertext of the finished item counts, not that of its beginning.

    ## Repair
    An item that only began is a fragment. Where the final response differs, it is right.
    """
    added, done = view.mapped(context.get("added")), view.mapped(context.get("done"))
    for at, item in view.of_kind(request, "reasoning"):
        found = view.text(item.get("id"))
        if found in added and item.get("encrypted_content") == added[found] != done.get(found):
            yield Violation(f"{at}/encrypted_content", "this is the ciphertext of an unfinished item")


def wrong_follower(request: Request, context: Context) -> Iterator[Violation]:
    """Nothing is moved between a reasoning item and its own follower, and no other takes its place.

    ## Repair
    Replay the items of a response in their order, as one unit.
    """
    followers = view.mapped(context.get("followers"))
    for at, item, behind in _thoughts(request):
        wanted = followers.get(view.text(item.get("id")))
        if wanted is not None and (behind or {}).get("id") != wanted:
            yield Violation(at, f"{wanted!r} has to stand directly behind it")


def reasoning_of_cut_item(request: Request, context: Context) -> Iterator[Violation]:
    """When the item behind a reasoning item was cut, the reasoning is left out as well.

    ## Repair
    Keep both aside. The reasoning is not attached to another item; a whole sibling goes without id.
    """
    cut = view.mapped(context.get("cut_followers"))
    for at, item in view.of_kind(request, "reasoning"):
        if view.text(item.get("id")) in cut:
            yield Violation(at, f"{cut[item['id']]!r}, which followed it, was cut")


def bad_summary(request: Request, context: Context) -> Iterator[Violation]:
    """The summary of a reasoning item is a list of `summary_text` parts; it may be empty.

    ## Repair
    Send the recorded one, else an empty list. Nobody writes one.
    """
    for at, item in view.of_kind(request, "reasoning"):
        summary = item.get("summary")
        if not isinstance(summary, list):
            yield Violation(f"{at}/summary", "the summary is no list")
            continue
        for number, part in enumerate(summary):
            if view.mapped(part).get("type") != "summary_text":
                yield Violation(f"{at}/summary/{number}", "a summary holds summary_text only")


def open_reasoning(request: Request, context: Context) -> Iterator[Violation]:
    """The text of a model's reasoning is not sent to OpenAI: `content` is absent or empty.

    ## Repair
    It stays on record, and goes to the server only that wrote it.
    """
    for at, item in view.of_kind(request, "reasoning"):
        if item.get("content"):
            yield Violation(f"{at}/content", "reasoning is sent without its text")


def changed_prefix(request: Request, context: Context) -> Iterator[Violation]:
    """What was sent before is the beginning of the next request, byte for byte.

    ## Why
    Newer models drop reasoning whose prefix has changed, and the prompt cache misses.

    ## Repair
    Append: a developer message, `additional_tools`, `configuration_update`, late news.
    """
    sent = view.mapped(context.get("sent"))
    for key in ("instructions", "tools", "text"):
        if key in sent and request.get(key) != sent[key]:
            yield Violation(f"/{key}", "it was sent otherwise before")
    before, found = sent.get("input"), request.get("input")
    if isinstance(before, list) and isinstance(found, list) and found[: len(before)] != before:
        at = next((n for n, (a, b) in enumerate(zip(before, found, strict=False)) if a != b), None)
        yield Violation(f"/input/{at}" if at is not None else "/input", "it was sent otherwise before")


def reasoning_missing_in_loop(request: Request, context: Context) -> Iterator[Violation]:
    """Inside a tool loop all reasoning since the last user message goes back.

    ## Repair
    Replay the items of the running turn whole; older turns may go without.
    """
    there = {view.text(item.get("id")) for _, item in view.of_kind(request, "reasoning")}
    known = {view.text(item.get("id")) for item in view.native(context) if view.kind(item) == "reasoning"}
    for wanted in view.names(context.get("since_last_user")):
        if wanted in known and wanted not in there:
            yield Violation("/input", f"the reasoning {wanted!r} of the running turn is missing")


def unfinished_reasoning(request: Request, context: Context) -> Iterator[Violation]:
    """A reasoning item that did not complete is a fragment.

    ## Repair
    Leave it out, and the id of what follows.
    """
    for at, item in view.of_kind(request, "reasoning"):
        if item.get("status") in ("in_progress", "incomplete"):
            yield Violation(f"{at}/status", "the reasoning is unfinished")


def reasoning_as_speech(request: Request, context: Context) -> Iterator[Violation]:
    """Reasoning never becomes a message.

    ## Repair
    Leave it out and report it.
    """
    thought = set(view.names(context.get("reasoning_texts")))
    for at, item in view.messages(request, "assistant", "developer", "system") if thought else ():
        if view.words(item.get("content")) in thought:
            yield Violation(f"{at}/content", "this is reasoning")


def nameless_reasoning(request: Request, context: Context) -> Iterator[Violation]:
    """A reasoning item has an id, or its ciphertext.

    ## Repair
    Without both there is nothing that the server could read: leave it out.
    """
    for at, item in view.of_kind(request, "reasoning"):
        if not item.get("id") and not item.get("encrypted_content"):
            yield Violation(at, "the reasoning has neither id nor ciphertext")


def half_sent_ids(request: Request, context: Context) -> Iterator[Violation]:
    """A reasoning item that is sent by its id alone has a follower with its own id.

    ## Repair
    Keep the id of the follower, or leave both out.
    """
    for at, item, behind in _thoughts(request):
        if (
            item.get("encrypted_content")
            or not item.get("id")
            or behind is None
            or not _written_by_model(behind)
        ):
            continue
        if "id" in wire.ITEMS.get(view.kind(behind), wire.ITEMS["message"]).keys and not behind.get("id"):
            yield Violation(at, "what follows it goes without id")


def _rule(number: int, name: str, error: str | None, check: Any, source: str, severity: Any = "reject",
          *, static: bool = True, applies: str | None = None) -> Rule:  # fmt: skip
    return Rule(f"OAR-REASON-{number:03}", name, severity, source, error, check, static, applies)


RULES: Final[Rulebook] = (
    _rule(
        1, "reasoning-left-alone", _NO_FOLLOWER, reasoning_left_alone,
        "https://github.com/continuedev/continue/issues/8933; https://github.com/vercel/ai/issues/7099;"
        " https://github.com/openai/openai-node/issues/1567",
    ),
    _rule(
        2, "call-without-reasoning",
        "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'.",
        call_without_reasoning,
        "https://github.com/mastra-ai/mastra/issues/8738; https://github.com/VRSEN/agency-swarm/issues/367;"
        " https://github.com/laravel/ai/issues/1052", static=False, applies="ids that the server knows",
    ),
    _rule(
        3, "message-without-reasoning",
        "Item 'msg_1' of type 'message' was provided without its required 'reasoning' item: 'rs_1'.",
        message_without_reasoning,
        "https://github.com/mastra-ai/mastra/issues/8738; https://github.com/vercel/ai/issues/7099", static=False,
        applies="ids that the server knows",
    ),
    _rule(
        4, "hosted-without-reasoning",
        "Item 'ws_1' of type 'web_search_call' was provided without its required 'reasoning' item: 'rs_1'.",
        hosted_without_reasoning, "https://github.com/mastra-ai/mastra/issues/8738; coder/mux", static=False,
    ),
    _rule(
        5, "bare-reasoning", "Items are not persisted when `store` is set to false.", bare_reasoning,
        "https://github.com/sst/opencode/issues/7724; https://github.com/can1357/oh-my-pi/issues/41;"
        f" https://github.com/openclaw/openclaw/issues/21782; {_GUIDE}", applies="`store` is false",
    ),
    _rule(
        6, "changed-ciphertext", _UNVERIFIED, changed_ciphertext,
        "https://github.com/openai/codex/issues/8145; https://github.com/openai/codex/issues/8119;"
        " https://github.com/openai/codex/issues/35334; https://github.com/Wei-Shaw/sub2api/issues/2863;"
        " https://github.com/openai/openai-agents-python/issues/2063", static=False,
    ),
    _rule(7, "early-ciphertext", _UNVERIFIED, early_ciphertext, _ITEM, static=False, applies="streams"),
    _rule(
        8, "wrong-follower", _NO_FOLLOWER, wrong_follower,
        f"https://github.com/mastra-ai/mastra/issues/8738; {_AGENTS}", static=False,
    ),
    _rule(9, "reasoning-of-cut-item", _NO_FOLLOWER, reasoning_of_cut_item, _AGENTS, static=False),
    _rule(10, "bad-summary", "Missing required parameter: 'input[1].summary'", bad_summary, _ITEM),
    _rule(
        11, "open-reasoning", "array too long. Expected an array with maximum length 0", open_reasoning,
        "https://github.com/musistudio/claude-code-router/issues/1783; https://github.com/querymt/querymt/issues/976",
        applies="reasoning of servers with open weights",
    ),
    _rule(
        12, "changed-prefix", None, changed_prefix,
        "https://developers.openai.com/api/docs/guides/preserved-reasoning;"
        " https://developers.openai.com/api/docs/guides/keep-prefix-unchanged; SDK types/responses/response.py",
        "degrades", static=False,
    ),
    _rule(13, "reasoning-missing-in-loop", None, reasoning_missing_in_loop, _GUIDE, "degrades", static=False),
    _rule(
        14, "unfinished-reasoning", None, unfinished_reasoning,
        "SDK lib/responses_tool_runner.py; SDK types/responses/response_reasoning_summary_part_done_event.py", "policy",
    ),
    _rule(15, "reasoning-as-speech", None, reasoning_as_speech, "the laws of this library", "policy", static=False),
    _rule(
        16, "nameless-reasoning", "Missing required parameter: 'input[1].id'", nameless_reasoning,
        f"{_ITEM}; vercel/ai packages/openai/src/responses/convert-to-openai-responses-input.ts",
    ),
    _rule(
        17, "half-sent-ids", _NO_FOLLOWER, half_sent_ids,
        "https://github.com/vercel/ai/issues/7099; https://github.com/laravel/ai/issues/1052",
    ),
)  # fmt: skip
