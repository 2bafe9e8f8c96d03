"""The output item of a call: the recorded result word for word, or a notice of the outcome.

The outputs of shells, the computer, patches and searches have no place for our text in some or all outcomes. There
is no truthful item then, and the call is rendered as text instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.parts import Json
from normalizer.projecting.unmapped_fields import remainder, whole
from normalizer.providers.openai_responses import calls, decoding, encoding, media, schema_keys, wire
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from normalizer.parts import ResultPart
    from normalizer.projecting.draft import Answered, Value
    from normalizer.projecting.reports import Reports
    from normalizer.providers.openai_responses.context import ItemsContext
    from normalizer.transcript import Call

_NOT_APPLIED: Final = frozenset({"denied", "never_run"})
_WITH_CALLER: Final = frozenset(name for name, item in wire.ITEMS.items() if "caller" in item.keys)
_FLAGS: Final = frozenset({"shell_call", "apply_patch_call"})


def flags_error(call: Call) -> bool:
    """Whether the output says by a status or an exit code that the call failed."""
    return calls.form_of(call) in _FLAGS


# ---------------------------------------------------------------- notices


def notice(answered: Answered, wire_id: str) -> None:
    """The outcome in our text, where the call's output has a place for it."""
    call, text = answered.call, answered.text or ""
    form = calls.form_of(call)
    output = {"type": wire.ANSWERS[form], "call_id": wire_id}
    if form in calls.WORDED:
        made: Value = {**output, "output": text}
    elif form == "local_shell_call":
        made = {"type": wire.ANSWERS[form], "id": wire_id, "output": decoding.as_notice(text)}
    elif form == "apply_patch_call" and answered.kind in _NOT_APPLIED:
        made = {**output, "status": "failed", "output": text}
    else:
        return
    made = _with_caller(call, made)
    recorded = next((f for f in call.facts if f.kind == "outcome_attested" and f.raw is not None), None)
    if recorded is not None and recorded.raw is not None:  # a notice that was read back keeps its item
        made = _as_read(recorded.raw.value, made)
    answered.value = made


def _as_read(raw: Any, made: Value) -> Value:
    if not isinstance(raw, dict) or raw.get("type") != made["type"] or raw.get("output") != made["output"]:
        return made
    return {**raw, **{key: value for key, value in made.items() if key in raw}}


def _with_caller(call: Call, made: Value) -> Value:
    """The output names the caller that its call names: the program that made it, if one did."""
    raw = call.part.raw.value if call.part.raw is not None else None
    caller = raw.get("caller") if isinstance(raw, dict) and decoding.kind(raw) in wire.ANSWERS else None
    if not isinstance(caller, dict):
        foreign = made.get("caller") is not None
        return {key: value for key, value in made.items() if key != "caller"} if foreign else made
    if decoding.kind(made) not in _WITH_CALLER or made.get("caller") == caller:
        return made
    return {**made, "caller": caller}


# ---------------------------------------------------------------- recorded results


def recorded(items: ItemsContext, call: Call, fact: Any, reports: Reports) -> Value | None:
    """A recorded result in the form of the call's own output; None where that has no place for it."""
    form, wire_id = calls.form_of(call), items.ids[call.key]
    raw = fact.raw.value if fact.raw is not None else None
    if isinstance(raw, dict) and raw.get("type") == wire.ANSWERS[form] and _usable(form, raw):
        made: Value | None = _replayed(call, fact, raw, wire_id, reports)
    else:
        made = _MAKERS[form](call, fact, reports)
        _note_rest(call, fact, made, reports)
        if made is not None:
            name = "id" if form == "local_shell_call" else "call_id"
            made = _with_caller(call, {"type": wire.ANSWERS[form], name: wire_id, **made})
    if made is not None and form == "computer_call":
        made = _acknowledged(call, made)
    if made is not None:
        made = _fitting(call, fact, made, reports)
    if fact.is_error and made is not None and not _says_failed(form, made):
        message = f"the result of call {named(call.key)} is marked as an error; there is no flag for it"
        reports.result(call, fact, "trimmed", message, None, "is_error")
    return made


def _says_failed(form: str, made: Value) -> bool:
    """Whether an output says by itself that its call failed."""
    if form == "shell_call":
        return any(chunk["outcome"].get("exit_code") != 0 for chunk in made["output"])
    return form == "apply_patch_call" and made.get("status") == "failed"


def _replayed(call: Call, fact: Any, raw: Value, wire_id: str, reports: Reports) -> Value:
    """An output as it was received, with the id and the caller that its call has on the wire."""
    form, replayed = calls.form_of(call), schema_keys.replay(raw, reports, fact.fact_id)
    name = "id" if form == "local_shell_call" and "call_id" not in replayed else "call_id"
    if replayed.get(name) != wire_id and not (form == "tool_search_call" and call.part.id is None):
        replayed = {**replayed, name: wire_id}
    caller = replayed.get("caller")
    made = _with_caller(call, replayed)
    if caller is not None and made.get("caller") != caller:
        message = f"the result of call {named(call.key)} names another caller than the call does"
        reports.result(call, fact, "trimmed", message, "OAR-PROG-002", Json.of(caller).text)
    return made


def late(items: ItemsContext, call: Call, result: str | None, text: str, reports: Reports) -> Value:
    """The one output of a call that was left open: its result, or a notice (`text`)."""
    fact = next((f for f in call.facts if f.fact_id == result), None)
    if fact is not None and not text:
        made = recorded(items, call, fact, reports)
        reports.further_results(call)
        if made is not None:
            return made
    return {"type": wire.ANSWERS[calls.form_of(call)], "call_id": items.ids[call.key], "output": text}


def media_of(parts: Sequence[ResultPart], key: str, fact_id: str, reports: Reports) -> list[Value]:
    """What a result that is rendered as text holds beside text, as parts of a user message."""
    found: list[Value] = []
    for part in parts:
        made, rule = media.piece(part)
        if made is None and part.kind == "media":
            made = media.left_out(part)
            reports.add("media_moved", f"a {part.media} in a result has no form here", rule, call_id=key,
                        facts=(fact_id,), content=whole(part))  # fmt: skip
        found.append(made or {"type": "input_text", "text": whole(part) or ""})
    return found


def _note_rest(call: Call, fact: Any, made: Value | None, reports: Reports) -> None:
    """Report what a result as received says beyond what is made of it; its parts are looked at one by one."""
    parts = () if isinstance(fact.content, str) else fact.content
    received = [part.raw.value for part in parts if part.raw is not None]
    shown = [getattr(part, "text", None) for part in parts] or fact.content
    flag = {"is_error": fact.is_error}
    if (rest := remainder(fact.raw, call.part.id, call.part.name, received, shown, made, flag)) is not None:
        _trimmed(call, fact, rest, reports)


def _trimmed(call: Call, fact: Any, rest: str, reports: Reports) -> None:
    message = f"the result of call {named(call.key)} says more than this API has a place for"
    reports.result(call, fact, "trimmed", message, "unmapped", rest)


def _usable(form: str, raw: Value) -> bool:
    """Whether a recorded output item can go back as it is."""
    output = raw.get("output")
    if form in ("function_call", "custom_tool_call"):
        return isinstance(output, str) or (
            isinstance(output, list)
            and all(isinstance(p, dict) and str(p.get("type")) in wire.INPUT_PARTS for p in output)
        )
    if form == "shell_call":
        return isinstance(output, list) and all(_ended(chunk) for chunk in output)
    if form == "computer_call":
        shot = output if isinstance(output, dict) and output.get("type") == "computer_screenshot" else {}
        return bool(shot.get("image_url") or shot.get("file_id")) and raw.get("status") != "failed"
    if form == "local_shell_call":
        return isinstance(output, str) and Json(output).valid
    if form == "apply_patch_call":
        return raw.get("status") in ("completed", "failed")
    return isinstance(raw.get("tools"), list)


def _ended(chunk: Any) -> bool:
    """Whether a shell's output says how its command ended."""
    outcome = chunk.get("outcome") if isinstance(chunk, dict) else None
    if not isinstance(outcome, dict) or not all(
        isinstance(chunk.get(key), str) for key in ("stdout", "stderr")
    ):
        return False
    exited = outcome.get("type") == "exit" and isinstance(outcome.get("exit_code"), int)
    return exited or outcome.get("type") == "timeout"


def _function(call: Call, fact: Any, reports: Reports) -> Value:
    return {"output": _output(call, fact, reports)}


def _output(call: Call, fact: Any, reports: Reports) -> str | list[Value]:
    """A result's content as text or parts; what the API cannot take is left out and reported."""
    content = fact.content
    if isinstance(content, str):
        return content
    made: list[Value] = []
    for part in content:
        piece, rule = media.piece(part)
        if piece is not None:
            made.append(piece)
            if (rest := media.rest(part, piece)) is not None:
                _trimmed(call, fact, rest, reports)
        elif part.kind == "opaque":
            made.append({"type": "input_text", "text": part.raw.text})
            reports.result(call, fact, "told_as_text", "a part of a result is sent as its JSON text", rule)
        else:
            made.append(media.left_out(part))
            message = f"a {part.media} in a result has no form here"
            reports.result(call, fact, "media_moved", message, rule, whole(part))
    return made or ""


def _local_shell(call: Call, fact: Any, reports: Reports) -> Value:
    output = _output(call, fact, reports)
    text = output if isinstance(output, str) else Json.of(output).text
    return {"output": text if Json(text).valid and text.strip() else Json.of({"output": text}).text}


def _shell(_call: Call, fact: Any, _reports: Reports) -> Value | None:
    """Chunks as recorded, or words with the exit code that was."""
    if isinstance(fact.content, str):
        held = Json(fact.content)
        if held.text[:1] == "[" and held.valid and held.value and all(_ended(chunk) for chunk in held.value):
            return {"output": held.value}
        if getattr(fact, "exit_code", None) is not None:
            outcome = {"type": "exit", "exit_code": fact.exit_code}
            return {"output": [{"stdout": fact.content, "stderr": "", "outcome": outcome}]}
    return None


def _patch(call: Call, fact: Any, reports: Reports) -> Value:
    output = _output(call, fact, reports)
    text = output if isinstance(output, str) else Json.of(output).text
    status = {"status": "failed" if fact.is_error else "completed"}
    return {**status, "output": text} if text else status


def _computer(_call: Call, fact: Any, _reports: Reports) -> Value | None:
    shot = next((p for p in fact.content if p.kind == "media" and p.media == "image"), None) if not isinstance(
        fact.content, str
    ) else None  # fmt: skip
    piece = media.piece(shot)[0] if shot is not None else None
    if piece is None or not piece.get("image_url"):
        return None
    return {"output": {"type": "computer_screenshot", "image_url": piece["image_url"]}}


def _search(_call: Call, fact: Any, _reports: Reports) -> Value | None:
    held = Json(fact.content) if isinstance(fact.content, str) else None
    if held is None or not held.valid or not isinstance(held.value, list):
        return None
    return {"execution": "client", "status": "completed", "tools": held.value}


_MAKERS: Final[dict[str, Callable[[Call, Any, Reports], Value | None]]] = {
    "function_call": _function,
    "custom_tool_call": _function,
    "local_shell_call": _local_shell,
    "shell_call": _shell,
    "apply_patch_call": _patch,
    "computer_call": _computer,
    "tool_search_call": _search,
}


def _acknowledged(call: Call, item: Value) -> Value | None:
    """A screenshot with the safety checks that somebody approved; None if nobody did."""
    raw: Any = call.part.raw.value if call.part.raw is not None else {}
    pending = _checks(raw.get("pending_safety_checks"))
    given = [check.get("id") for check in _checks(item.get("acknowledged_safety_checks"))]
    if all(check.get("id") in given for check in pending):
        return item
    if any(fact.kind == "approval_given" for fact in call.facts):
        return {**item, "acknowledged_safety_checks": pending}
    return None


def _checks(given: Any) -> list[Value]:
    return [check for check in given if isinstance(check, dict)] if isinstance(given, list) else []


def _fitting(call: Call, fact: Any, made: Value, reports: Reports) -> Value:
    """A text that is longer than the API takes is cut, with a mark."""
    output = made.get("output")
    if isinstance(output, str) and len(output) > wire.MAX_TEXT:
        message = f"the result of call {named(call.key)} is longer than the API takes"
        reports.result(call, fact, "trimmed", message, "OAR-LIMIT-001", output)
        return {**made, "output": encoding.limited(output)}
    return made
