"""OAR-COMP, OAR-SHELL, OAR-LSHELL, OAR-PATCH: the computer, shells and patches.

Their outputs have no place for words of ours, so some outcomes have no truthful item.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.openai_responses.rules import pairing, view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Iterator

_ITEMS: Final = "SDK types/responses/response_input_item_param.py"
_RUNNER: Final = "SDK lib/responses_tool_runner.py"
_CHUNK: Final = "SDK types/responses/response_function_shell_call_output_content_param.py"
_OPERATIONS: Final = {
    "create_file": ("path", "diff"),
    "update_file": ("path", "diff"),
    "delete_file": ("path",),
}
_NOT_RUN: Final = ("denied", "never_run", "cancelled_while_running", "unknown")


def _outcome(context: Context, item: view.Item) -> Any:
    return view.mapped(view.mapped(context.get("outcomes")).get(view.call_id(item))).get("kind")


def computer_call_without_screen(request: Request, context: Context) -> Iterator[Violation]:
    """Every computer call is answered with a screenshot, by address, data URL or file id.

    ## Repair
    Send the recorded screenshot. Without one the call is told in a message.
    """
    yield from pairing.unanswered(request, "computer_call")
    for at, item in view.of_kind(request, "computer_call_output"):
        output = view.mapped(item.get("output"))
        if output.get("type") != "computer_screenshot" or not (
            output.get("image_url") or output.get("file_id")
        ):
            yield Violation(f"{at}/output", "the output is no screenshot")


def unacknowledged_check(request: Request, context: Context) -> Iterator[Violation]:
    """A safety check that is pending is acknowledged in the output, by a person's recorded decision.

    ## Repair
    Copy the checks of the recorded approval. Without one the call was not run.
    """
    pending = {
        view.call_id(item): {
            view.text(view.mapped(check).get("id"))
            for check in view.listed(item.get("pending_safety_checks"))
        }
        for _, item in view.of_kind(request, "computer_call")
    }
    decided = context.get("acknowledged")
    for at, item in view.of_kind(request, "computer_call_output"):
        given = {
            view.text(view.mapped(check).get("id"))
            for check in view.listed(item.get("acknowledged_safety_checks"))
        }
        if missing := pending.get(view.call_id(item), set()) - given:
            yield Violation(at, f"the checks {sorted(map(str, missing))} are not acknowledged")
        if isinstance(decided, list) and (made_up := given - set(view.names(decided))):
            yield Violation(
                f"{at}/acknowledged_safety_checks", f"nobody acknowledged {sorted(map(str, made_up))}"
            )


def untrue_screen(request: Request, context: Context) -> Iterator[Violation]:
    """A computer call that was not run, or whose screen is not known, has no output item.

    ## Repair
    Leave the call out with its reasoning and tell the outcome in a message. No blank or old screenshot.
    """
    for at, item in view.of_kind(request, "computer_call_output"):
        if _outcome(context, item) in _NOT_RUN:
            yield Violation(at, f"the outcome of the call is {_outcome(context, item)}")


def bad_computer_action(request: Request, context: Context) -> Iterator[Violation]:
    """A computer call has either one action or a list of actions.

    ## Repair
    Replay the key as received.
    """
    for at, item in view.of_kind(request, "computer_call"):
        if ("action" in item) == ("actions" in item):
            yield Violation(at, "the call needs one of action and actions")


def failed_screen(request: Request, context: Context) -> Iterator[Violation]:
    """The status of a screenshot is never failed in an input.

    ## Repair
    Such a call has no truthful output: tell it in a message.
    """
    for at, item in view.of_kind(request, "computer_call_output"):
        if item.get("status") == "failed":
            yield Violation(f"{at}/status", "failed is no status of an input")


def shell_call_without_output(request: Request, context: Context) -> Iterator[Violation]:
    """Every shell call that the client runs has a list of outputs.

    ## Repair
    Write the recorded ones.
    """
    yield from pairing.unanswered(request, "shell_call")
    for at, item in view.of_kind(request, "shell_call_output"):
        if not isinstance(item.get("output"), list):
            yield Violation(f"{at}/output", "the output is no list")


def bad_exit(request: Request, context: Context) -> Iterator[Violation]:
    """Each output of a shell ended with an exit code or with a timeout, as recorded.

    ## Why
    There is no third word, and a made-up exit code would be believed.

    ## Repair
    Without a recorded end, leave the call out with its reasoning and tell the outcome in a message.
    """
    for at, item in view.of_kind(request, "shell_call_output"):
        for place, chunk in view.objects(item.get("output"), f"{at}/output"):
            outcome = view.mapped(chunk.get("outcome"))
            if outcome.get("type") not in ("exit", "timeout"):
                yield Violation(f"{place}/outcome", "the outcome is neither exit nor timeout")
            elif outcome["type"] == "exit" and not isinstance(outcome.get("exit_code"), int):
                yield Violation(f"{place}/outcome/exit_code", "an exit has a code")
            elif not (isinstance(chunk.get("stdout"), str) and isinstance(chunk.get("stderr"), str)):
                yield Violation(place, "stdout and stderr are texts")
        if _outcome(context, item) in _NOT_RUN:
            yield Violation(at, f"the outcome of the call is {_outcome(context, item)}")


def client_answers_container(request: Request, context: Context) -> Iterator[Violation]:
    """A shell call in a hosted container is answered by the server.

    ## Repair
    Treat it as a hosted call.
    """
    if not view.native(context):
        return
    served = {view.call_id(item) for _, item in view.of_kind(request, "shell_call") if view.served(item)}
    given = {view.call_id(item) for item in view.native(context) if view.kind(item) == "shell_call_output"}
    for at, item in view.of_kind(request, "shell_call_output"):
        if view.call_id(item) in served - given:
            yield Violation(at, f"the server runs {named(view.call_id(item))}")


def local_shell_without_output(request: Request, context: Context) -> Iterator[Violation]:
    """Every local shell call has an output that names it and holds JSON text.

    ## Repair
    The SDK's types put the call's id into `id`; keep the form that was recorded.
    """
    yield from pairing.unanswered(request, "local_shell_call")
    for at, item in view.of_kind(request, "local_shell_call_output"):
        if not isinstance(item.get("output"), str) or not _is_json(item["output"]):
            yield Violation(f"{at}/output", "the output is no JSON text")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def patch_without_output(request: Request, context: Context) -> Iterator[Violation]:
    """Every patch has an output whose status is completed or failed.

    ## Repair
    Completed if it was applied; failed, with a notice, if it certainly was not.
    """
    yield from pairing.unanswered(request, "apply_patch_call")
    for at, item in view.of_kind(request, "apply_patch_call_output"):
        if item.get("status") not in ("completed", "failed"):
            yield Violation(f"{at}/status", "the status is completed or failed")


def bad_patch_operation(request: Request, context: Context) -> Iterator[Violation]:
    """A patch that creates or updates a file has a path and a diff, one that deletes it only a path.

    ## Repair
    Replay the operation; a patch whose diff was cut is a fragment.
    """
    for at, item in view.of_kind(request, "apply_patch_call"):
        operation = view.mapped(item.get("operation"))
        wanted = _OPERATIONS.get(view.text(operation.get("type")))
        if wanted is None:
            yield Violation(f"{at}/operation", f"there is no operation {operation.get('type')!r}")
        else:
            for key in wanted:
                if not isinstance(operation.get(key), str):
                    yield Violation(f"{at}/operation", f"the operation needs {key!r}")


def untrue_patch(request: Request, context: Context) -> Iterator[Violation]:
    """A patch of which nobody knows whether it was applied is called neither completed nor failed.

    ## Repair
    Look at the files first. Still not known: leave the call out and tell it in a message.
    """
    for at, item in view.of_kind(request, "apply_patch_call_output"):
        if _outcome(context, item) == "unknown":
            yield Violation(f"{at}/status", "whether it was applied is not known")


def _rule(rule_id: str, name: str, error: str | None, check: Any, source: str, severity: Any = "reject",
          *, static: bool = True, applies: str | None = None) -> Rule:  # fmt: skip
    return Rule(f"OAR-{rule_id}", name, severity, source, error, check, static, applies)


RULES: Final[Rulebook] = (
    _rule(
        "COMP-001", "computer-call-without-screen", "No tool output found for computer call call_1.",
        computer_call_without_screen,
        f"SDK types/responses/response_computer_tool_call_output_screenshot_param.py; {_RUNNER}",
    ),
    _rule(
        "COMP-002", "unacknowledged-check", "Computer tool has unacknowledged safety check for ['cu_sc_1']",
        unacknowledged_check, "https://github.com/openai/openai-agents-python/issues/843", static=False,
    ),
    _rule("COMP-003", "untrue-screen", None, untrue_screen, _ITEMS, "policy", static=False),
    _rule(
        "COMP-004", "bad-computer-action", "Missing required parameter: 'input[1].action", bad_computer_action,
        "SDK types/responses/response_computer_tool_call_param.py; SDK lib/computer.py",
    ),
    _rule(
        "COMP-005", "failed-screen", "Invalid value: 'failed'", failed_screen,
        f"openai/openai-node src/lib/responses/ResponseInputItems.ts; {_ITEMS}",
    ),
    _rule(
        "SHELL-001", "shell-call-without-output", "No tool output found for shell call call_1.",
        shell_call_without_output, f"https://github.com/microsoft/agent-framework/issues/8663; {_CHUNK}",
        applies="shells that the client runs",
    ),
    _rule(
        "SHELL-002", "bad-exit", "Missing required parameter: 'input[2].output[0].outcome", bad_exit, _CHUNK,
    ),
    _rule(
        "SHELL-003", "client-answers-container", None, client_answers_container, f"{_ITEMS}; {_RUNNER}", "policy",
        static=False, applies="shells in a hosted container",
    ),
    _rule(
        "LSHELL-001", "local-shell-without-output", "No tool output found for local shell call call_1.",
        local_shell_without_output, f"{_ITEMS}; openai/openai-agents-python src/agents/run_internal/items.py",
    ),
    _rule(
        "PATCH-001", "patch-without-output", "No tool output found for apply patch call call_1.", patch_without_output,
        f"{_ITEMS}; https://github.com/openai/codex/issues/620",
    ),
    _rule(
        "PATCH-002", "bad-patch-operation", "Missing required parameter: 'input[1].operation.diff'",
        bad_patch_operation, _ITEMS,
    ),
    _rule("PATCH-003", "untrue-patch", None, untrue_patch, "the laws of this library", "policy", static=False),
)  # fmt: skip
