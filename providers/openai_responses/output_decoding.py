"""Output items and whole responses, as facts see them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from normalizer.parts import Json
from normalizer.providers.openai_responses import decoding
from normalizer.reading.diagnostics import error_line
from normalizer.reading.result_content import result_content

if TYPE_CHECKING:
    from normalizer.parts import Part
    from normalizer.providers.openai_responses.decoding import Item

_PLAIN = ["type", "call_id", "output"]


def of_item(item: Item) -> dict[str, Any]:
    """What an output item says: the call's id, the content, and whether and how the call failed."""
    found = decoding.kind(item)
    value = item.get("output")
    named = item.get("call_id")
    said: dict[str, Any] = {"raw": Json.of(item)}
    if found in ("function_call_output", "custom_tool_call_output"):
        said["content"] = result_content(value, decoding.input_part)
        if list(item) == _PLAIN and isinstance(value, str):
            said["raw"] = None
    elif found == "computer_call_output":
        said["content"] = result_content([value] if isinstance(value, dict) else value, decoding.input_part)
    elif found == "shell_call_output":
        said["content"] = Json.of(value).text
        said["exit_code"] = _exit_code(value)
    elif found == "local_shell_call_output":
        named = named if isinstance(named, str) else item.get("id")
        said["content"] = (
            decoding.notice_text(value)
            if isinstance(value, str)
            else result_content(value, decoding.input_part)
        )
    elif found == "apply_patch_call_output":
        said["content"] = value if isinstance(value, str) else ""
        said["is_error"] = item.get("status") == "failed"
    else:
        said["content"] = Json.of(item.get("tools")).text
    said["call_id"] = named if isinstance(named, str) else None
    return said


def _exit_code(value: Any) -> int | None:
    """The exit code of the last command, if it ended by itself."""
    last = value[-1] if isinstance(value, list) and value else None
    outcome = last.get("outcome") if isinstance(last, dict) else None
    code = outcome.get("exit_code") if isinstance(outcome, dict) else None
    return code if isinstance(code, int) else None


def leave_alone(parts: list[Part]) -> None:
    """Reasoning at the end of these parts led to something that did not arrive whole."""
    for number in range(len(parts) - 1, -1, -1):
        part = parts[number]
        if part.kind != "reasoning":
            return
        parts[number] = replace(part, alone=True)


# ---------------------------------------------------------------- whole responses


def stop_reason(response: dict[str, Any]) -> str | None:
    """How a response ended: its reason if it is incomplete, else its status; None while it runs."""
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    status = response.get("status")
    if isinstance(reason, str):
        return reason
    return status if isinstance(status, str) and status not in ("queued", "in_progress") else None


def error_text(error: Any) -> str | None:
    """An error as one line, redacted."""
    return error_line(error, "code") if isinstance(error, dict) else None


def reply_fields(response: dict[str, Any]) -> dict[str, Any]:
    """The fields of the reply that a response is, beside its parts."""
    model = response.get("model")
    more: dict[str, Any] = {
        "model": model if isinstance(model, str) else None,
        "raw": Json.of({key: value for key, value in response.items() if key != "output"}),
    }
    status = response.get("status")
    if status in ("failed", "cancelled", "queued", "in_progress"):
        return {**more, "cut": True, "error": error_text(response.get("error")) or str(status)}
    return {**more, "stop_reason": stop_reason(response)}
