"""Calls that the server runs: replayed when it ended them, however it did; kept open as long as it may go on; else left
out whole. A result is never made up, and never taken from a client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.notices import read_back
from normalizer.providers.openai_responses import assistant_turn, decoding, schema_keys, wire

if TYPE_CHECKING:
    from normalizer.projecting.incremental import Step
    from normalizer.providers.openai_responses.assistant_turn import Piece
    from normalizer.providers.openai_responses.decoding import Item
    from normalizer.providers.openai_responses.render import Out, Renderer
    from normalizer.transcript import Entry, ServerCall

CHOICE: Final = "server_call"
_PAIR: Final = frozenset({"server_tool_call", "server_tool_result"})


def choose(renderer: Renderer, step: Step, entry: Entry, piece: Piece, out: Out, *, own: bool) -> None:
    """Give a server's call or result its item, or leave it out. `out.held` are kept calls whose result comes later."""
    if piece.part.kind == "server_tool_result":
        _result(renderer, entry, piece, out, own=own)
        return
    call = renderer.server_calls[piece.key or ""]
    why = _verdict(renderer, step, call, own=own)
    if why is None:
        piece.item = schema_keys.replay(
            decoding.whole(call.part, _inside(call)), out.notes, entry.fact.fact_id
        )
        if not schema_keys.complete(piece.item):
            why = "it lacks what its type demands", "OAR-STRUCT-008"
        elif call.result is None and call.part.form == "mcp_approval_request":
            _ask(renderer, step, call, out)
        elif call.part.form not in wire.HOSTED:
            out.held.add(call.key)
    if why is not None:
        assistant_turn.drop(entry, piece, out, "dropped_server_tool", *why)


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
    if form in wire.NEEDS_ID and not (isinstance(raw.get("id"), str) and schema_keys.fits(form, raw["id"])):
        return "its id does not come from this API", "OAR-ID-002"
    if form == "mcp_approval_request":
        if _decided(renderer, step, call.key) or not _moved_on(step):
            return None
        return "nobody decided, and the conversation has moved on", "OAR-MCP-004"
    if call.result is None:
        if form == "program" and not _cut(step) and _goes_on(renderer, step, call):
            return None
        return f"the server left it {raw.get('status') or 'open'}: its result is not known", "OAR-HOST-002"
    if form not in wire.HOSTED and not _sendable(call.result.raw.value):
        return "its result lacks what its type demands", "OAR-STRUCT-008"
    if form == "image_generation_call" and renderer.options.stored is False and not whole(call).get("result"):
        return "nothing is stored, and the picture is not on record", "OAR-HOST-005"
    return None


def _sendable(result: Any) -> bool:
    """Whether a result that is an item of its own can go back; where it cannot, its call cannot stay either."""
    return isinstance(result, dict) and schema_keys.complete(schema_keys.replay(result, [], ""))


def whole(call: ServerCall) -> Item:
    """The call's item with its result."""
    return decoding.whole(call.part, _inside(call))


def _moved_on(step: Step) -> bool:
    """Whether something else than outputs came behind the reply."""
    return not step.last or any(
        e.kind in ("user", "summary", "steering") and not _control(e) for e in step.behind
    )


def _goes_on(renderer: Renderer, step: Step, call: ServerCall) -> bool:
    """Whether nothing but outputs, and replies with calls of the program, came behind a program."""
    for entry in (*step.behind, *renderer.entries[step.end :]):
        if entry.kind in ("user", "summary", "steering") and not _control(entry):
            return False
        if entry.kind == "reply" and not any(caller(part) == call.part.id for part in entry.parts):
            return False
    return True


def caller(part: Any) -> str | None:
    """The program that made a call of ours, if one did."""
    raw = part.raw.value if part.kind == "tool_call" and part.raw is not None else None
    held = raw.get("caller") if isinstance(raw, dict) else None
    return str(held.get("caller_id")) if isinstance(held, dict) and held.get("type") == "program" else None


def inner_calls(renderer: Renderer, entry: Entry, pieces: list[Piece], out: Out) -> bool:
    """Calls that a program made go where the program goes. Whether any had to."""
    kept = {p.part.id for p in pieces if p.item is not None and p.part.kind == "server_tool_call"}
    kept |= {renderer.server_calls[key].part.id for key in out.held if key in renderer.server_calls}
    gone = False
    for piece in pieces:
        program = caller(piece.part)
        if piece.item is None or program is None or program in kept:
            continue
        if renderer.options.stored is True and program not in renderer.server_calls:
            continue  # the server holds the program
        call = renderer.calls[piece.key or ""]
        message = "the program that made it is left out"
        assistant_turn.tell(renderer, entry, piece, out, out.answers[call.key], message, "OAR-PROG-002")
        gone = True
    return gone


def pairs(renderer: Renderer, entry: Entry, pieces: list[Piece], out: Out) -> bool:
    """A server's call and the item of its result stay together, whatever took one of them. Whether one had to go."""
    own = [p for p in pieces if p.part.kind in _PAIR and _apart(renderer.server_calls.get(p.key or ""))]
    gone = False
    for piece in own:
        other = next((p for p in own if p.key == piece.key and p is not piece), None)
        lost = piece.key in out.gone if other is None else other.item is None
        if piece.item is not None and lost:
            assistant_turn.drop(
                entry, piece, out, "dropped_server_tool", "its other half is left out", "OAR-PROG-003"
            )
            gone = True
    return gone


def _apart(call: ServerCall | None) -> bool:
    """Whether a call's result is an item of its own."""
    return call is not None and call.part.form not in wire.HOSTED


def _control(entry: Entry) -> bool:
    """Whether an entry is no new word: an output whose call the server holds, or what we told of a call in words."""
    return bool(entry.parts) and all(
        (p.kind == "opaque" and (p.type in wire.OUTPUTS or p.type == "mcp_approval_response"))
        or (p.kind == "text" and (found := read_back(p.text, None)) is not None and found.form != "notice")
        for p in entry.parts
    )


def _cut(step: Step) -> bool:
    return step.reply is not None and step.reply.fact.kind == "reply_cut"


def _result(renderer: Renderer, entry: Entry, piece: Piece, out: Out, *, own: bool) -> None:
    """A server's result: inside its call's item, or an item of its own behind it."""
    call = renderer.server_calls.get(piece.key or "")
    if call is None:
        assistant_turn.drop(
            entry, piece, out, "dropped_orphan", "a server's result without its call", "OAR-PROG-003"
        )
    elif call.part.form in wire.HOSTED and own:
        piece.item = None
    elif call.key not in out.held or not own:
        assistant_turn.drop(entry, piece, out, "dropped_server_tool", "its call is left out", "OAR-PROG-003")
    else:
        piece.item = schema_keys.replay(piece.part.raw.value, out.notes, entry.fact.fact_id)
        out.held.discard(call.key)
        if not schema_keys.complete(piece.item):
            assistant_turn.drop(
                entry, piece, out, "dropped_server_tool", "it lacks what its type demands", "OAR-STRUCT-008"
            )


# ---------------------------------------------------------------- approvals


def _decided(renderer: Renderer, step: Step, key: str) -> bool:
    """Whether somebody answered the server's question: in what was read, or as a fact of the host's."""
    return _recorded(step, key) or renderer.decision(key, step) is not None


def _recorded(step: Step, key: str) -> bool:
    given = [part for entry in step.behind for part in entry.parts if part.kind == "opaque"]
    return any(
        p.type == "mcp_approval_response" and p.raw.value.get("approval_request_id") == key for p in given
    )


def _ask(renderer: Renderer, step: Step, call: ServerCall, out: Out) -> None:
    """The decision of a person or policy behind its request; without one the request waits."""
    if _recorded(step, call.key):
        return
    fact: Any = renderer.decision(call.key, step)
    if fact is None:
        out.open_tail = True
        return
    item: Item = {
        "type": "mcp_approval_response", "approval_request_id": call.part.id, "approve": fact.kind == "approval_given",
    }  # fmt: skip
    if getattr(fact, "reason", None):
        item["reason"] = fact.reason
    out.decisions[call.key] = item
