"""Calls that the server runs: replayed when it ended them, however it did; kept open as long as it may go on; else left
out whole. A result is never made up, and never taken from a client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from normalizer.notices import read_back
from normalizer.projecting.draft import SERVER_CALL, Refusal
from normalizer.projecting.reports import Reports
from normalizer.providers.openai_responses import calls, decoding, schema_keys, wire

if TYPE_CHECKING:
    from normalizer.projecting.draft import Draft, Piece, Value
    from normalizer.projecting.incremental import Step
    from normalizer.providers.openai_responses.context import ItemsContext
    from normalizer.transcript import Entry, ServerCall


def choose(items: ItemsContext, step: Step, piece: Piece, draft: Draft) -> Refusal | None:
    """Give a server's call or result its item, or say why it is left out."""
    if piece.part.kind == "server_tool_result":
        return _result(items, piece, draft)
    call = items.server_calls[piece.key or ""]
    if (why := _verdict(items, step, call)) is not None:
        return Refusal("dropped_server_tool", *why)
    piece.value = schema_keys.replay(whole(call), draft.reports, draft.entry.fact.fact_id)
    if not schema_keys.complete(piece.value):
        return _incomplete()
    if call.result is None and call.part.form == "mcp_approval_request":
        _ask(items, step, call, draft)
    elif call.part.form not in wire.HOSTED:
        draft.held.add(call.key)  # until the item of its result comes
    return None


def _incomplete() -> Refusal:
    return Refusal("dropped_server_tool", "it lacks what its type demands", "OAR-STRUCT-008")


def _inside(call: ServerCall) -> Any:
    """The result that belongs into the call's own item."""
    return call.result if call.part.form in wire.HOSTED else None


def _verdict(items: ItemsContext, step: Step, call: ServerCall) -> tuple[str, str] | None:
    """Why a server's call is left out, and the rule; None if it stays."""
    raw = call.part.raw.value if call.part.raw is not None else None
    if not isinstance(raw, dict) or call.part.form not in wire.ITEMS:
        return "it is the call of another provider's server", "OAR-STRUCT-005"
    if items.history.chosen(SERVER_CALL, call.key):
        return "a request left it out; it stays out", "OAR-HOST-002"
    form = str(call.part.form)
    if form in wire.NEEDS_ID and not (isinstance(raw.get("id"), str) and schema_keys.fits(form, raw["id"])):
        return "its id does not come from this API", "OAR-ID-002"
    if form == "mcp_approval_request":
        if _decided(items, step, call.key) or not _moved_on(step):
            return None
        return "nobody decided, and the conversation has moved on", "OAR-MCP-004"
    if call.result is None:
        if form == "program" and not _cut(step) and _goes_on(items, step, call):
            return None
        return f"the server left it {raw.get('status') or 'open'}: its result is not known", "OAR-HOST-002"
    if form not in wire.HOSTED and not _sendable(call.result.raw.value):
        return "its result lacks what its type demands", "OAR-STRUCT-008"
    if form == "image_generation_call" and items.options.stored is False and not whole(call).get("result"):
        return "nothing is stored, and the picture is not on record", "OAR-HOST-005"
    return None


def _sendable(result: Any) -> bool:
    """Whether a result that is an item of its own can go back; where it cannot, its call cannot stay either."""
    return isinstance(result, dict) and schema_keys.complete(schema_keys.replay(result, Reports({}), ""))


def whole(call: ServerCall) -> Value:
    """The call's item with its result."""
    return decoding.whole(call.part, _inside(call))


def _moved_on(step: Step) -> bool:
    """Whether something else than outputs came behind the reply."""
    return not step.last or any(
        e.kind in ("user", "summary", "steering") and not _control(e) for e in step.behind
    )


def _goes_on(items: ItemsContext, step: Step, call: ServerCall) -> bool:
    """Whether nothing but outputs, and replies with calls of the program, came behind a program."""
    for entry in (*step.behind, *items.entries[step.end :]):
        if entry.kind in ("user", "summary", "steering") and not _control(entry):
            return False
        if entry.kind == "reply" and not any(calls.program_of(part) == call.part.id for part in entry.parts):
            return False
    return True


def _control(entry: Entry) -> bool:
    """Whether an entry is no new word: an output whose call the server holds, or what we told of a call in words."""
    return bool(entry.parts) and all(
        (p.kind == "opaque" and (p.type in wire.OUTPUTS or p.type == "mcp_approval_response"))
        or (p.kind == "text" and (found := read_back(p.text, None)) is not None and found.form != "notice")
        for p in entry.parts
    )


def _cut(step: Step) -> bool:
    return step.reply is not None and step.reply.fact.kind == "reply_cut"


def _result(items: ItemsContext, piece: Piece, draft: Draft) -> Refusal | None:
    """A server's result: inside its call's item, or an item of its own behind it."""
    call = items.server_calls.get(piece.key or "")
    if call is None:
        return Refusal("dropped_orphan", "a server's result without its call", "OAR-PROG-003")
    if call.part.form in wire.HOSTED:
        return None
    if call.key not in draft.held:
        return Refusal("dropped_server_tool", "its call is left out", "OAR-PROG-003")
    piece.value = schema_keys.replay(piece.part.raw.value, draft.reports, draft.entry.fact.fact_id)
    draft.held.discard(call.key)
    return None if schema_keys.complete(piece.value) else _incomplete()


# ---------------------------------------------------------------- approvals


def _decided(items: ItemsContext, step: Step, key: str) -> bool:
    """Whether somebody answered the server's question: in what was read, or as a fact of the host's."""
    return _recorded(step, key) or items.decision(key, step) is not None


def _recorded(step: Step, key: str) -> bool:
    given = [part for entry in step.behind for part in entry.parts if part.kind == "opaque"]
    return any(
        p.type == "mcp_approval_response" and p.raw.value.get("approval_request_id") == key for p in given
    )


def _ask(items: ItemsContext, step: Step, call: ServerCall, draft: Draft) -> None:
    """The decision of a person or policy behind its request; without one the request waits."""
    if _recorded(step, call.key):
        return
    fact: Any = items.decision(call.key, step)
    if fact is None:
        draft.open_tail = True
        return
    made: Value = {
        "type": "mcp_approval_response", "approval_request_id": call.part.id, "approve": fact.kind == "approval_given",
    }  # fmt: skip
    if getattr(fact, "reason", None):
        made["reason"] = fact.reason
    draft.wire.decisions[call.key] = made
