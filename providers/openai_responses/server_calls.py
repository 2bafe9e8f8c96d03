"""Calls that the server runs: replayed when it ended them, however it did; kept open as long as it may go on; else left
out whole. A result is never made up, and never taken from a client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.openai_responses import items, keys, replies, wire

if TYPE_CHECKING:
    from normalizer.providers.openai_responses.items import Item
    from normalizer.providers.openai_responses.render import Out, Renderer
    from normalizer.providers.openai_responses.replies import Piece
    from normalizer.stepping import Step
    from normalizer.transcript import Entry, ServerCall

CHOICE: Final = "server_call"


def choose(renderer: Renderer, step: Step, entry: Entry, piece: Piece, out: Out, *, own: bool) -> None:
    """Give a server's call or result its item, or leave it out."""
    if piece.part.kind == "server_tool_result":
        _result(renderer, entry, piece, out, own=own)
        return
    call = renderer.server_calls[piece.key or ""]
    why = _verdict(renderer, step, call, own=own)
    if why is None:
        piece.item = keys.replay(items.whole(call.part, _inside(call)), out.notes, entry.fact.fact_id)
        if not keys.complete(piece.item):
            why = "it lacks what its type demands", "OAR-STRUCT-008"
        elif call.result is None and call.part.form == "mcp_approval_request":
            _ask(renderer, step, call, out)
        elif call.result is None:
            out.open_tail = True
    if why is not None:
        replies.drop(entry, piece, out, "dropped_server_tool", *why)
        out.choices.append((CHOICE, call.key, None))
        out.gone.add(call.key)


def _inside(call: ServerCall) -> Any:
    """The result that belongs into the call's own item."""
    return call.result if call.part.form in wire.HOSTED else None


def _verdict(renderer: Renderer, step: Step, call: ServerCall, *, own: bool) -> tuple[str, str] | None:
    """Why a server's call is left out, and the rule; None if it stays."""
    raw = call.part.raw.value if call.part.raw is not None else None
    if not own or not isinstance(raw, dict) or call.part.form not in wire.ITEMS:
        return "it is the call of another provider's server", "OAR-STRUCT-005"
    if renderer.chain.chosen(CHOICE, call.key):
        return "a request left it out; it stays out", "OAR-HOST-002"
    form = str(call.part.form)
    if form in wire.NEEDS_ID and not (isinstance(raw.get("id"), str) and keys.fits(form, raw["id"])):
        return "its id does not come from this API", "OAR-ID-002"
    if form == "mcp_approval_request":
        if _decided(renderer, step, call.key) or not _moved_on(step):
            return None
        return "nobody decided, and the conversation has moved on", "OAR-MCP-004"
    if call.result is None:
        if form == "program" and not _moved_on(step) and not _cut(step):
            return None
        return f"the server left it {raw.get('status') or 'open'}: its result is not known", "OAR-HOST-002"
    if form == "image_generation_call" and renderer.options.stored is False and not whole(call).get("result"):
        return "nothing is stored, and the picture is not on record", "OAR-HOST-005"
    return None


def whole(call: ServerCall) -> Item:
    """The call's item with its result."""
    return items.whole(call.part, _inside(call))


def _moved_on(step: Step) -> bool:
    """Whether something else than outputs came behind the reply."""
    return not step.last or any(e.kind in ("user", "summary", "steering") and not _control(e) for e in step.behind)


def _control(entry: Entry) -> bool:
    return bool(entry.parts) and all(p.kind == "opaque" and p.type in wire.OUTPUTS for p in entry.parts)


def _cut(step: Step) -> bool:
    return step.reply is not None and step.reply.fact.kind == "reply_cut"


def _result(renderer: Renderer, entry: Entry, piece: Piece, out: Out, *, own: bool) -> None:
    """A server's result: inside its call's item, or an item of its own behind it."""
    call = renderer.server_calls.get(piece.key or "")
    if call is None:
        replies.drop(entry, piece, out, "dropped_orphan", "a server's result without its call", "OAR-PROG-003")
    elif call.part.form in wire.HOSTED and own:
        piece.item = None
    elif call.key in out.gone or renderer.chain.chosen(CHOICE, call.key) or not own:
        replies.drop(entry, piece, out, "dropped_server_tool", "its call is left out", "OAR-PROG-003")
    else:
        piece.item = keys.replay(piece.part.raw.value, out.notes, entry.fact.fact_id)


# ---------------------------------------------------------------- approvals


def _decided(renderer: Renderer, step: Step, key: str) -> bool:
    """Whether somebody answered the server's question: in what was read, or as a fact of the host's."""
    return _recorded(step, key) or bool(renderer.decision(key))


def _recorded(step: Step, key: str) -> bool:
    return any(
        part.kind == "opaque" and part.type == "mcp_approval_response" and part.raw.value.get("approval_request_id") == key
        for entry in step.behind for part in entry.parts
    )  # fmt: skip


def _ask(renderer: Renderer, step: Step, call: ServerCall, out: Out) -> None:
    """The decision of a person or policy behind its request; without one the request waits."""
    if _recorded(step, call.key):
        return
    fact: Any = renderer.decision(call.key)
    if fact is None:
        out.open_tail = True
        return
    item: Item = {
        "type": "mcp_approval_response", "approval_request_id": call.part.id, "approve": fact.kind == "approval_given",
    }  # fmt: skip
    if getattr(fact, "reason", None):
        item["reason"] = fact.reason
    out.decisions.append(item)
