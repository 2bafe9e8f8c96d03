"""OAR-STREAM: what may be sent of a response that was assembled from its stream."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.openai_responses import wire
from normalizer.providers.openai_responses.rules import view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Iterator

_HELPER: Final = "SDK lib/streaming/responses/_responses.py"
_EVENTS: Final = "SDK types/responses/response_stream_event.py"
_RUNNER: Final = "SDK lib/responses_tool_runner.py"


def _fragments(request: Request, context: Context, *why: str) -> Iterator[Violation]:
    """Items in the request of which the record says that they were cut, for one of these reasons."""
    found = view.listed(view.mapped(context.get("truth")).get("fragments"))
    cut = {
        view.text(view.mapped(f).get("ref")): view.text(f.get("why")) for f in found if isinstance(f, dict)
    }
    for at, item in view.items(request) if cut else ():
        for key in ("id", "call_id"):
            reason = cut.get(view.text(item.get(key)))
            if reason in why and view.kind(item) not in wire.OUTPUTS:
                yield Violation(at, f"only a beginning of it arrived ({reason})")
                break


def incomplete_item(request: Request, context: Context) -> Iterator[Violation]:
    """After an incomplete response only completed items are whole; a message that was cut off is what was said.

    ## Repair
    A call that did not complete is not run and not sent, and its reasoning goes with it.
    """
    yield from _fragments(request, context, "incomplete")


def item_of_failed_response(request: Request, context: Context) -> Iterator[Violation]:
    """After a failure only finished items are whole, and the response is nobody's parent.

    ## Repair
    Keep the finished items and send the whole history in a fresh request.
    """
    yield from _fragments(request, context, "failed")
    before = view.mapped(context.get("previous_response"))
    if before.get("status") == "failed" and request.get("previous_response_id") == before.get("id"):
        yield Violation("/previous_response_id", "this response failed")


def item_of_cancelled_response(request: Request, context: Context) -> Iterator[Violation]:
    """A cancelled response leaves its finished items and nothing else.

    ## Repair
    A stored response can be retrieved and tells its end.
    """
    yield from _fragments(request, context, "cancelled")


def item_never_done(request: Request, context: Context) -> Iterator[Violation]:
    """An item that began and was never done is a fragment, even if it reads as whole.

    ## Repair
    Keep it aside; it is not run and not sent.
    """
    yield from _fragments(request, context, "cut")


def not_as_done(request: Request, context: Context) -> Iterator[Violation]:
    """The finished item replaces what its deltas built up.

    ## Repair
    Record the finished item; deltas are for the eye.
    """
    for at, item, done in _done(request, context, *wire.ANSWERS, "message"):
        for key in ("arguments", "input", "content", "name", "operation"):
            if key in done and item.get(key) != done[key]:
                yield Violation(f"{at}/{key}", "the finished item says otherwise")


def _done(request: Request, context: Context, *kinds: str) -> Iterator[tuple[str, view.Item, view.Item]]:
    yield from view.originals(request, {"native": context.get("done_items")}, *kinds)


def not_in_order(request: Request, context: Context) -> Iterator[Violation]:
    """Items stand in the order of their `output_index`, which may have gaps.

    ## Repair
    Sort the finished items by it.
    """
    order = view.names(context.get("order"))
    there = [(at, view.text(item.get("id"))) for at, item in view.items(request)] if order else []
    ranks = [(at, order.index(found)) for at, found in there if found in order]
    for (_, before), (at, rank) in itertools.pairwise(ranks):
        if rank < before:
            yield Violation(at, "it came before the item in front of it")


def lost_done_items(request: Request, context: Context) -> Iterator[Violation]:
    """A final response without output is made of the items that were done.

    ## Repair
    Take them, in order.
    """
    if "final_output" not in context or context["final_output"]:
        return
    there = {view.text(item.get(key)) for _, item in view.items(request) for key in ("id", "call_id")}
    for item in view.listed(context.get("done_items")):
        if not {view.text(item.get("id")), view.text(item.get("call_id"))} & there - {""}:
            yield Violation("/input", f"the finished item {named(item.get('id'))} is missing")


def merged_commands(request: Request, context: Context) -> Iterator[Violation]:
    """Pieces of a shell's commands belong together by `output_index` and `command_index`.

    ## Repair
    The commands of the finished item count.
    """
    for at, item, done in _done(request, context, "shell_call"):
        if item.get("action") != done.get("action"):
            yield Violation(f"{at}/action", "the finished item says otherwise")


def lost_steering(request: Request, context: Context) -> Iterator[Violation]:
    """Steering that took effect is told once, before what the model made of it.

    ## Repair
    Finished items, then the steering, then the items of the response that followed. What was accepted and never
    committed is not told.
    """
    applied = view.names(context.get("applied_steering"))
    said = [view.words(item.get("content")) for _, item in view.messages(request, "user")] if applied else []
    for text in applied:
        if said.count(text) != 1:
            yield Violation("/input", f"the steering {text!r} stands there {said.count(text)} times")


def preview_as_result(request: Request, context: Context) -> Iterator[Violation]:
    """A partial image is a preview, not the result.

    ## Repair
    Use the result of the finished item.
    """
    previews = view.mapped(context.get("partial_images"))
    finished = [item for item in view.listed(context.get("done_items")) if isinstance(item, dict)]
    done = {view.text(item.get("id")): item.get("result") for item in finished}
    for at, item in view.of_kind(request, "image_generation_call"):
        found = view.text(item.get("id"))
        if item.get("result") in view.listed(previews.get(found)) and done.get(found) != item.get("result"):
            yield Violation(f"{at}/result", "this is a preview")


def progress_as_end(request: Request, context: Context) -> Iterator[Violation]:
    """A progress event ends no item, whatever its name says.

    ## Repair
    Without the finished item, action and result are not known: a fragment.
    """
    yield from _fragments(request, context, "progress_only")


def unfinished_summary(request: Request, context: Context) -> Iterator[Violation]:
    """A summary that ended incomplete does not make the reasoning whole.

    ## Repair
    The item's own end decides.
    """
    yield from _fragments(request, context, "summary_incomplete")


def mixed_responses(request: Request, context: Context) -> Iterator[Violation]:
    """Items of two responses are not mixed.

    ## Repair
    One assembly per response, and per lane of a socket.
    """
    responses, this = view.mapped(context.get("responses")), context.get("this")
    if not isinstance(this, str) or this not in responses:
        return
    others = {found for name, ids in responses.items() if name != this for found in view.names(ids)}
    for at, item in view.items(request):
        if view.text(item.get("id")) in others - set(view.names(responses[this])):
            yield Violation(at, f"it is no item of {this!r}")


def unfinished_item(request: Request, context: Context) -> Iterator[Violation]:
    """Calls and messages go back completed or without status; only a message may be incomplete.

    ## Repair
    In progress means that the end was missed: a fragment.
    """
    for at, item in view.having(request, "status"):
        found, status = view.kind(item), item["status"]
        if found not in wire.ANSWERS and found != "message":
            continue
        if status == "in_progress" or (status == "incomplete" and found != "message"):
            yield Violation(f"{at}/status", f"the item is {status}")


def _rule(number: int, name: str, check: Any, source: str, *, static: bool = False,
          applies: str | None = None) -> Rule:  # fmt: skip
    return Rule(f"OAR-STREAM-{number:03}", name, "policy", source, None, check, static, applies)


RULES: Final[Rulebook] = (
    _rule(1, "incomplete-item", incomplete_item, "SDK types/responses/response.py"),
    _rule(2, "item-of-failed-response", item_of_failed_response, f"{_EVENTS}; {_RUNNER}"),
    _rule(3, "item-of-cancelled-response", item_of_cancelled_response, "SDK types/responses/response.py"),
    _rule(4, "item-never-done", item_never_done, f"{_EVENTS}; {_HELPER}"),
    _rule(5, "not-as-done", not_as_done, _HELPER),
    _rule(6, "not-in-order", not_in_order, _HELPER),
    _rule(7, "lost-done-items", lost_done_items, _HELPER),
    _rule(8, "merged-commands", merged_commands, "SDK types/responses/response_shell_call_command_delta_event.py"),
    _rule(
        9, "lost-steering", lost_steering,
        "https://developers.openai.com/api/docs/guides/steering; SDK types/responses/response_steer_event_param.py",
        applies="steering over WebSocket, the GPT-6 family",
    ),
    _rule(
        10, "preview-as-result", preview_as_result,
        "SDK types/responses/response_image_gen_call_partial_image_event.py",
    ),
    _rule(11, "progress-as-end", progress_as_end, _EVENTS),
    _rule(
        12, "unfinished-summary", unfinished_summary,
        "SDK types/responses/response_reasoning_summary_part_done_event.py",
    ),
    _rule(
        13, "mixed-responses", mixed_responses,
        f"{_HELPER}; https://developers.openai.com/api/docs/guides/websocket-mode",
    ),
    _rule(14, "unfinished-item", unfinished_item, _RUNNER, static=True),
)  # fmt: skip
