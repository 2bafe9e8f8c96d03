"""The output item of a call: the recorded result word for word, or a notice of the outcome.

The outputs of shells, the computer, patches and searches have no place for our words in some or all outcomes. There
is no truthful item then, and the call is told in words instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from normalizer import notices
from normalizer.parts import Json
from normalizer.projecting.old_tool_results import further
from normalizer.projecting.unmapped_fields import remainder, whole
from normalizer.projection import Adjustment
from normalizer.providers.openai_responses import decoding, media, schema_keys, wire
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Callable

    from normalizer.facts import CallFact
    from normalizer.providers.openai_responses.decoding import Item
    from normalizer.providers.openai_responses.render import Renderer
    from normalizer.transcript import Call

_FORMS: Final = {"custom": "custom_tool_call"}
_NOT_APPLIED: Final = frozenset({"denied", "never_run"})
_CUT: Final = "\n[cut here: the text was longer than the API takes]"


@dataclass(slots=True)
class Answer:
    """What is told of a call: `kind` with the result (`fact`) or own words (`text`), and the item that says so.

    No item and no words: an asynchronous call that stays open. No item, and words: the call is told as text. `after` is
    the `seq` behind which a recorded output stands, None where it stands directly behind its call.
    """

    kind: str
    fact: CallFact | None = None
    text: str | None = None
    item: Item | None = None
    after: int | None = None
    notes: tuple[Adjustment, ...] = ()

    @property
    def open(self) -> bool:
        """Whether the call stays open."""
        return self.item is None and self.text == ""


def form_of(call: Call) -> str:
    """The type of the item that the call is. Forms of other wires are functions here."""
    form = _FORMS.get(call.part.form or "", call.part.form or "")
    raw = call.part.raw.value if call.part.raw is not None else None
    native = isinstance(raw, dict) and raw.get("type") == form
    return form if form in wire.ANSWERS and (native or form == "custom_tool_call") else "function_call"


def is_async(call: Call) -> bool:
    """Whether the call may stay open while the conversation goes on."""
    raw = call.part.raw.value if call.part.raw is not None else None
    return isinstance(raw, dict) and raw.get("async") is True


def answer(renderer: Renderer, call: Call, *, own: bool) -> Answer:
    """What this request tells of a call. `own`: its reply was recorded from this API."""
    told = renderer.chain.told.get(call.key)
    late = next((f.seq for f in call.facts if f.kind == "outcome_attested" and f.late), None)
    text = None
    if told is not None:
        fact = next((f for f in call.facts if f.fact_id == told.result), None) if told.result else None
        kind, text = told.outcome, told.text
        if text == "" or renderer.chain.chosen("told", call.key):
            return Answer(kind, fact, text) if text is not None else in_words(renderer, call)
    elif late is not None:
        call, kind, fact = notices.told_before(call, late)
    else:
        kind = notices.told_kind(call, running=renderer.running)
        fact = call.result if kind == "completed" else None
        if fact is None and is_async(call) and (call.outcome.kind == "pending" or not call.facts):
            return Answer(kind, None, "")
    found = Answer(kind, fact, text)
    if fact is not None and fact.content is not None and text is None:  # type: ignore[union-attr]
        put_recorded(renderer, call, fact, found)
        # an output may stand anywhere behind its call: what was read keeps its place, a late one comes where it fell
        if (own and fact.group is not None) or is_async(call):
            found.after = fact.seq
    else:
        _noticed(renderer, call, found)
        read = next((f.seq for f in call.facts if f.kind == "outcome_attested" and f.group is not None), None)
        found.after = read if own else None
    return found if found.item is not None else in_words(renderer, renderer.calls[call.key])


def in_words(renderer: Renderer, call: Call) -> Answer:
    """What is known of a call that is told as text."""
    kind = notices.told_kind(call, running=renderer.running)
    text = notices.told_as_text(call, kind, renderer.ids[call.key], renderer.options.notices)
    return Answer(kind, call.result if kind == "completed" else None, text)


# ---------------------------------------------------------------- notices


def _noticed(renderer: Renderer, call: Call, found: Answer) -> None:
    """The outcome in our words, where the call's output has a place for them."""
    form, wire_id = form_of(call), renderer.ids[call.key]
    text = found.text or notices.notice(call, found.kind, wire_id, renderer.options.notices)
    output = {"type": wire.ANSWERS[form], "call_id": wire_id}
    if form in ("function_call", "custom_tool_call"):
        found.item = {**output, "output": text}
    elif form == "local_shell_call":
        found.item = {"type": wire.ANSWERS[form], "id": wire_id, "output": decoding.as_notice(text)}
    elif form == "apply_patch_call" and found.kind in _NOT_APPLIED:
        found.item = {**output, "status": "failed", "output": text}
    else:
        return
    found.text = text
    found.item = _with_caller(call, found.item)
    recorded = next((f for f in call.facts if f.kind == "outcome_attested" and f.raw is not None), None)
    if recorded is not None and recorded.raw is not None:  # a notice that was read back keeps its item
        found.item = _as_read(recorded.raw.value, found.item)


def _as_read(raw: Any, item: Item) -> Item:
    if not isinstance(raw, dict) or raw.get("type") != item["type"]:
        return item
    return (
        item
        if raw.get("output") != item["output"]
        else {**raw, **{k: v for k, v in item.items() if k in raw}}
    )


def _with_caller(call: Call, item: Item) -> Item:
    """The output names the caller that its call names: the program that made it, if one did."""
    raw = call.part.raw.value if call.part.raw is not None else None
    caller = raw.get("caller") if isinstance(raw, dict) and decoding.kind(raw) in wire.ANSWERS else None
    if not isinstance(caller, dict):
        foreign = item.get("caller") is not None
        return {key: value for key, value in item.items() if key != "caller"} if foreign else item
    if decoding.kind(item) not in _WITH_CALLER or item.get("caller") == caller:
        return item
    return {**item, "caller": caller}


_WITH_CALLER: Final = frozenset(name for name, item in wire.ITEMS.items() if "caller" in item.keys)

# ---------------------------------------------------------------- recorded results


def put_recorded(renderer: Renderer, call: Call, fact: Any, found: Answer) -> None:
    """A recorded result in the form of the call's own output, if it has one."""
    form, wire_id = form_of(call), renderer.ids[call.key]
    raw = fact.raw.value if fact.raw is not None else None
    notes: list[Adjustment] = []
    item: Item | None
    if isinstance(raw, dict) and raw.get("type") == wire.ANSWERS[form] and _usable(form, raw):
        item = schema_keys.replay(raw, notes, fact.fact_id)
        name = "id" if form == "local_shell_call" and "call_id" not in item else "call_id"
        if item.get(name) != wire_id and not (form == "tool_search_call" and call.part.id is None):
            item = {**item, name: wire_id}
        caller = item.get("caller")
        item = _with_caller(call, item)
        if caller is not None and item.get("caller") != caller:
            notes.append(
                Adjustment("trimmed", f"the result of call {named(call.key)} names another caller than the call does",
                           "OAR-PROG-002", call.key, (fact.fact_id,), Json.of(caller).text)
            )  # fmt: skip
    else:
        item = _MAKERS[form](call, fact, notes)
        _note_rest(call, fact, item, notes)
        if item is not None:
            name = "id" if form == "local_shell_call" else "call_id"
            item = _with_caller(call, {"type": wire.ANSWERS[form], name: wire_id, **item})
    if item is not None and form == "computer_call":
        item = _acknowledged(call, item)
    if item is not None:
        item = _fitting(call, fact, item, notes)
    if fact.is_error and form in ("function_call", "custom_tool_call"):
        notes.append(
            Adjustment("trimmed",
                       f"the result of call {named(call.key)} is marked as an error; there is no flag for it",
                       None, call.key, (fact.fact_id,), "is_error")
        )  # fmt: skip
    notes.extend(further(call, "OAR-PAIR-003"))
    found.item = item
    found.notes = tuple(notes)


def _note_rest(call: Call, fact: Any, item: Item | None, notes: list[Adjustment]) -> None:
    """Report what a result as received says beyond what is made of it; its parts are looked at one by one."""
    parts = () if isinstance(fact.content, str) else fact.content
    received = [part.raw.value for part in parts if part.raw is not None]
    shown = [getattr(part, "text", None) for part in parts] or fact.content
    flag = {"is_error": fact.is_error}
    if (rest := remainder(fact.raw, call.part.id, call.part.name, received, shown, item, flag)) is not None:
        notes.append(_rest_of(call, fact, rest))


def _rest_of(call: Call, fact: Any, rest: str) -> Adjustment:
    message = f"the result of call {named(call.key)} says more than this API has a place for"
    return Adjustment("trimmed", message, "OAR-STRUCT-006", call.key, (fact.fact_id,), rest)


def _usable(form: str, raw: Item) -> bool:
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


def _function(call: Call, fact: Any, notes: list[Adjustment]) -> Item:
    return {"output": _output(call, fact, notes)}


def _output(call: Call, fact: Any, notes: list[Adjustment]) -> str | list[Item]:
    """A result's content as text or parts; what the API cannot take is left out and reported."""
    content = fact.content
    if isinstance(content, str):
        return content
    made: list[Item] = []
    for part in content:
        piece, because = media.piece(part)
        if piece is not None:
            made.append(piece)
            if (rest := media.rest(part, piece)) is not None:
                notes.append(_rest_of(call, fact, rest))
        elif part.kind == "opaque":
            made.append({"type": "input_text", "text": part.raw.text})
            message = "a part of a result is sent as its JSON text"
            notes.append(_note("told_as_text", message, because, call, fact, None))
        else:
            made.append(media.left_out(part))
            message = f"a {part.media} in a result has no form here"
            notes.append(_note("media_moved", message, because, call, fact, part))
    return made or ""


def _note(kind: Any, message: str, because: str, call: Call, fact: Any, part: Any) -> Adjustment:
    content = whole(part) if part is not None else None
    return Adjustment(kind, message, because, call.key, (fact.fact_id,), content)


def _local_shell(call: Call, fact: Any, notes: list[Adjustment]) -> Item:
    output = _output(call, fact, notes)
    text = output if isinstance(output, str) else Json.of(output).text
    return {"output": text if Json(text).valid and text.strip() else Json.of({"output": text}).text}


def _shell(_call: Call, fact: Any, _notes: list[Adjustment]) -> Item | None:
    """Chunks as recorded, or words with the exit code that was."""
    if isinstance(fact.content, str):
        held = Json(fact.content)
        if held.text[:1] == "[" and held.valid and held.value and all(_ended(chunk) for chunk in held.value):
            return {"output": held.value}
        if getattr(fact, "exit_code", None) is not None:
            outcome = {"type": "exit", "exit_code": fact.exit_code}
            return {"output": [{"stdout": fact.content, "stderr": "", "outcome": outcome}]}
    return None


def _patch(call: Call, fact: Any, notes: list[Adjustment]) -> Item:
    output = _output(call, fact, notes)
    text = output if isinstance(output, str) else Json.of(output).text
    status = {"status": "failed" if fact.is_error else "completed"}
    return {**status, "output": text} if text else status


def _computer(_call: Call, fact: Any, _notes: list[Adjustment]) -> Item | None:
    shot = next((p for p in fact.content if p.kind == "media" and p.media == "image"), None) if not isinstance(
        fact.content, str
    ) else None  # fmt: skip
    piece = media.piece(shot)[0] if shot is not None else None
    if piece is None or not piece.get("image_url"):
        return None
    return {"output": {"type": "computer_screenshot", "image_url": piece["image_url"]}}


def _search(_call: Call, fact: Any, _notes: list[Adjustment]) -> Item | None:
    held = Json(fact.content) if isinstance(fact.content, str) else None
    if held is None or not held.valid or not isinstance(held.value, list):
        return None
    return {"execution": "client", "status": "completed", "tools": held.value}


_MAKERS: Final[dict[str, Callable[[Call, Any, list[Adjustment]], Item | None]]] = {
    "function_call": _function,
    "custom_tool_call": _function,
    "local_shell_call": _local_shell,
    "shell_call": _shell,
    "apply_patch_call": _patch,
    "computer_call": _computer,
    "tool_search_call": _search,
}


def _acknowledged(call: Call, item: Item) -> Item | None:
    """A screenshot with the safety checks that somebody approved; None if nobody did."""
    raw: Any = call.part.raw.value if call.part.raw is not None else {}
    pending = _checks(raw.get("pending_safety_checks"))
    given = [check.get("id") for check in _checks(item.get("acknowledged_safety_checks"))]
    if all(check.get("id") in given for check in pending):
        return item
    if any(fact.kind == "approval_given" for fact in call.facts):
        return {**item, "acknowledged_safety_checks": pending}
    return None


def _checks(given: Any) -> list[Item]:
    return [check for check in given if isinstance(check, dict)] if isinstance(given, list) else []


def _fitting(call: Call, fact: Any, item: Item, notes: list[Adjustment]) -> Item:
    """A text that is longer than the API takes is cut, with a mark."""
    output = item.get("output")
    if isinstance(output, str) and len(output) > wire.MAX_TEXT:
        notes.append(
            Adjustment("trimmed", f"the result of call {named(call.key)} is longer than the API takes", "OAR-LIMIT-001",
                       call.key, (fact.fact_id,), output)
        )  # fmt: skip
        return {**item, "output": cut(output)}
    return item


def cut(text: str) -> str:
    """A text within the limit."""
    return text if len(text) <= wire.MAX_TEXT else text[: wire.MAX_TEXT - len(_CUT)] + _CUT
