"""Calls that the provider executes: kept with their result, left open where the server goes on, else left out.

A result is never made up, and never taken from a client. Source:
https://platform.claude.com/docs/en/agents-and-tools/tool-use/server-tools and .../programmatic-tool-calling
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.projection import Adjustment
from normalizer.providers.anthropic import assistant_turn, encoding, wire

if TYPE_CHECKING:
    from normalizer.projecting.incremental import Step
    from normalizer.providers.anthropic.assistant_turn import Piece
    from normalizer.providers.anthropic.render import Flow, Out, Renderer
    from normalizer.transcript import Entry, ServerCall

CHOICE: Final = "server_call"
_SEALED: Final = ("encrypted_content", "encrypted_index", "encrypted_stdout")
_CODE: Final = wire.CODE


def choose(
    renderer: Renderer,
    step: Step,
    flow: Flow,
    entry: Entry,
    pieces: list[Piece],
    out: Out,
    *,
    own: bool,
    border: int,
) -> None:
    """Give server calls and their results blocks, or leave them out; inner calls of left-out code go with it."""
    held: set[str] = set()
    gone: set[str | None] = set()
    results: dict[str | None, Piece] = {
        p.key: p for p in pieces if p.part.kind == "server_tool_result" and p.key is not None
    }
    for at, piece in enumerate(pieces):
        if piece.part.kind != "server_tool_call":
            continue
        call = renderer.server_calls[piece.key or ""]
        verdict = _verdict(
            renderer, step, entry, call, results, own=own, before_fallback=at < border, pieces=pieces
        )
        if (
            verdict is None
            and call.result is None
            and flow.system
            and not (flow.after_user or flow.after_result)
        ):
            verdict = "a system message from before has to stand behind its reply", "ANT-SRV-003"
        if verdict is None:
            piece.block = encoding.replay(piece.part.raw.value, out, entry)
            _need_beta(piece.block, out)
            if call.key not in results:
                held.add(call.key)
        else:
            assistant_turn.drop(entry, piece, out, "dropped_server_tool", *verdict)
            out.choices.append((CHOICE, call.key, None))
            gone.add(call.part.id)
    for piece in pieces:
        if piece.part.kind == "server_tool_result":
            _result(flow, entry, piece, pieces, out)
    _inner_calls(renderer, flow, entry, pieces, gone, out)
    closed = {p.key for p in pieces if p.part.kind == "server_tool_result" and p.block is not None}
    out.held = frozenset(held | {key for key in flow.held if key not in closed})
    if out.held:
        out.container = _container(entry) or flow.container if _runs_code(renderer, out.held) else None
    if waits(step) and (out.held or (_paused(entry) and not gone)):
        out.open_tail = True


def waits(step: Step) -> bool:
    """Whether nobody has said anything behind the newest reply."""
    return step.last and not any(
        e.kind == "summary" or (e.kind == "user" and not encoding.blank(e)) for e in step.behind
    )


def brings(entry: Entry, held: frozenset[str]) -> bool:
    """Whether a reply holds the result of a call that was open before it."""
    return any(key in held for key in entry.calls)


def _paused(entry: Entry) -> bool:
    return getattr(entry.fact, "stop_reason", None) in ("pause_turn", "compaction")


def _need_beta(block: dict[str, Any], out: Out) -> None:
    kind = "advisor_tool_result" if block.get("name") == "advisor" else str(block.get("type"))
    if kind in wire.BETAS:
        out.betas.add(kind)


def _verdict(
    renderer: Renderer, step: Step, entry: Entry, call: ServerCall, results: dict[str | None, Piece], *, own: bool,
    before_fallback: bool, pieces: list[Piece],
) -> tuple[str, str] | None:  # fmt: skip
    """Why a server call is left out, and the rule; None if it stays."""
    raw = call.part.raw.value if call.part.raw is not None else None
    if not own or not isinstance(raw, dict) or wire.word(raw, "type") not in wire.SERVER_CALLS:
        return "it is the call of another provider's server", "ANT-ID-002"
    pattern = wire.SERVER_CALL_ID if raw["type"] == "server_tool_use" else wire.CALL_ID
    if not isinstance(raw.get("id"), str) or not pattern.fullmatch(raw["id"]):
        return "its id does not come from this API", "ANT-ID-002"
    if not isinstance(raw.get("input"), dict):
        return "its input is no object", "ANT-ID-004"
    if call.key != call.part.id:
        return "its id stands in the history already", "ANT-SRV-008"
    verdict = (
        _with_result(renderer, step, call, results, before_fallback=before_fallback)
        if call.result is not None
        else _without_result(renderer, step, entry, call, before_fallback=before_fallback, pieces=pieces)
    )
    # asked last: to be sent changes no reason
    if verdict is None and renderer.chain.chosen(CHOICE, call.key):
        return "a request left it out; it stays out", "ANT-SRV-001"
    return verdict


def _with_result(
    renderer: Renderer,
    step: Step,
    call: ServerCall,
    results: dict[str | None, Piece],
    *,
    before_fallback: bool,
) -> tuple[str, str] | None:
    assert call.result is not None  # noqa: S101 - the caller has looked
    kind = call.result.raw.value.get("type")
    wanted = (
        "mcp_tool_result" if call.part.form == "mcp_tool_use" else wire.RESULT_OF.get(call.part.name, kind)
    )
    if kind != wanted:
        return f"its result is of the kind {kind!r}", "ANT-SRV-005"
    if _unsealed(call.result.raw.value):
        return "its result has lost its seal", "ANT-SRV-006"
    if call.part.form == "mcp_tool_use" and not _words_only(call.result.raw.value.get("content")):
        return "its result holds more than text", "ANT-MCP-005"
    if kind == "tool_search_tool_result" and not _resolves(renderer, call.result.raw.value):
        return "its result names a tool that is not offered", "ANT-RES-008"
    if call.key in results:
        return None
    if before_fallback:
        return "it stands before a fallback block without its result", "ANT-REF-005"
    if _moved_on(renderer, step, call):
        return "its result came after the conversation had moved on", "ANT-SRV-001"
    return None


def _without_result(
    renderer: Renderer, step: Step, entry: Entry, call: ServerCall, *, before_fallback: bool,
    pieces: list[Piece],
) -> tuple[str, str] | None:  # fmt: skip
    """An unanswered call stays only as the open tail that the server goes on from."""
    fact: Any = entry.fact
    if before_fallback:
        return "it stands before a fallback block without its result", "ANT-REF-005"
    if fact.kind == "reply_cut":
        return "the reply was cut before its result came", "ANT-STR-007"
    client = any(p.part.kind == "tool_call" and p.block is not None for p in pieces)
    if not (
        fact.stop_reason == "pause_turn"
        or fact.stop_reason is None
        or (fact.stop_reason == "tool_use" and client)
    ):
        return f"the reply ended ({fact.stop_reason}) without its result", "ANT-SRV-001"
    if (
        fact.stop_reason is None
        and not client
        and pieces[-1].part is not call.part
        and not _is_tail(pieces, call)
    ):
        return "its result never came", "ANT-SRV-001"
    # what depends on later entries comes last: a step that holds no open call is not looked at again
    if not _offered(renderer, call, entry.fact.seq):
        return "its tool is no longer offered", "ANT-SRV-002"
    if call.part.name in _CODE and client and not _inner_offered(renderer, pieces):
        return "a tool that its code called is no longer offered", "ANT-PTC-004"
    if call.part.name in _CODE and client and (renderer.options.container_expired or not _container(entry)):
        return "the container of its code is lost", "ANT-PTC-001"
    if _moved_on(renderer, step, call):
        return "its result never came and the conversation has moved on", "ANT-SRV-001"
    return None


def _words_only(content: Any) -> bool:
    return content is None or isinstance(content, str) or (
        isinstance(content, list) and all(isinstance(b, dict) and b.get("type") == "text" for b in content)
    )  # fmt: skip


def _resolves(renderer: Renderer, block: dict[str, Any]) -> bool:
    """Whether every tool that a search found is still offered."""
    content = block.get("content")
    found = content.get("tool_references", ()) if isinstance(content, dict) else ()
    offered = renderer.head.offered
    return isinstance(found, (list, tuple)) and all(wire.word(f, "tool_name") in offered for f in found)


def _inner_offered(renderer: Renderer, pieces: list[Piece]) -> bool:
    offered = renderer.head.offered
    return all(
        piece.block["name"] in offered
        for piece in pieces
        if piece.part.kind == "tool_call" and piece.block is not None and caller(piece.part) is not None
    )


def _is_tail(pieces: list[Piece], call: ServerCall) -> bool:
    """Whether only other server calls and results stand behind the call."""
    at = next(n for n, p in enumerate(pieces) if p.part is call.part)
    return all(p.part.kind in ("server_tool_call", "server_tool_result") for p in pieces[at:])


def _moved_on(renderer: Renderer, step: Step, call: ServerCall) -> bool:
    """Whether something else than results, or than a reply that goes on with it, stands between call and result.

    A turn that paused again before the model said anything goes on with it too, but not behind results of the client's:
    they wait for its result.
    """
    code = call.part.id
    answered = step.reply is not None and _has_client_calls(step.reply)
    for entry in (*step.behind, *renderer.entries[step.end :]):
        if entry.kind == "summary" or (entry.kind == "user" and not encoding.blank(entry)):
            return True
        if entry.kind == "reply":
            if call.result_reply == entry.fact.fact_id:
                return False
            if _comes_to_nothing(entry):
                continue
            paused = getattr(entry.fact, "stop_reason", None) in ("pause_turn", None) and all(
                part.kind in _OF_SERVER for part in entry.parts
            )
            if not (paused and not answered) and not any(caller(part) == code for part in entry.parts):
                return True
            answered = answered or _has_client_calls(entry)
    return call.result is not None


_OF_SERVER: Final = frozenset({"server_tool_call", "server_tool_result"})


def _has_client_calls(entry: Entry) -> bool:
    return any(part.kind == "tool_call" for part in entry.parts)


def _comes_to_nothing(entry: Entry) -> bool:
    """Whether a reply to a resumed turn is left out whole."""
    if getattr(entry.fact, "stop_reason", None) == "refusal" or not entry.parts:
        return True
    return entry.fact.kind == "reply_cut" and not any(p.kind == "server_tool_result" for p in entry.parts)


def _offered(renderer: Renderer, call: ServerCall, seq: int) -> bool:
    """Whether the request has the tool that the server goes on with, as it had when the call was made (`seq`)."""
    tools = renderer.head.tools_at(seq)
    if call.part.form == "mcp_tool_use":
        raw = call.part.raw.value if call.part.raw is not None else {}
        return any(tool.get("mcp_server_name") == raw.get("server_name") for tool in tools)
    kinds = wire.OFFERED_BY.get(call.part.name)
    if kinds is None:
        return any(tool.get("name") == call.part.name for tool in tools)
    # a client's tool may have the name of a server's: its type tells them apart
    return any((wire.word(tool, "type") or "").startswith(kinds) for tool in tools)


def _result(flow: Flow, entry: Entry, piece: Piece, pieces: list[Piece], out: Out) -> None:
    """A server's result goes with its call."""
    if piece.key is None:
        assistant_turn.drop(
            entry, piece, out, "dropped_orphan", "a server's result without its call", "ANT-SRV-004"
        )
        return
    here = next((p for p in pieces if p.part.kind == "server_tool_call" and p.key == piece.key), None)
    if here.block is None if here is not None else piece.key not in flow.held:
        assistant_turn.drop(entry, piece, out, "dropped_server_tool", "its call is left out", "ANT-SRV-004")
        return
    piece.block = encoding.replay(piece.part.raw.value, out, entry)
    _need_beta(piece.block, out)


def caller(part: Any) -> str | None:
    """The code call that made a client call, if one did."""
    raw = getattr(part, "raw", None)
    if part.kind != "tool_call" or raw is None or not isinstance(raw.value, dict):
        return None
    made_by = raw.value.get("caller")
    if not isinstance(made_by, dict) or made_by.get("type") == "direct":
        return None
    return str(made_by.get("tool_id"))


def _inner_calls(
    renderer: Renderer, flow: Flow, entry: Entry, pieces: list[Piece], gone: set[str | None], out: Out
) -> None:
    """Client calls that code made go where the code goes."""
    known = {p.part.id for p in pieces if p.part.kind == "server_tool_call" and p.block is not None}
    known |= {renderer.server_calls[key].part.id for key in flow.held if key in renderer.server_calls}
    for piece in pieces:
        code = caller(piece.part)
        if code is None or piece.block is None or (code in known and code not in gone):
            continue
        assistant_turn.drop(
            entry,
            piece,
            out,
            "dropped_server_tool",
            "the code that made this call is left out",
            "ANT-PTC-007",
        )
        call = renderer.calls.get(piece.key or "")
        if call is not None:
            out.told_aside.append(call)


def _runs_code(renderer: Renderer, held: frozenset[str]) -> bool:
    return any(renderer.server_calls[key].part.name in _CODE for key in held)


def _container(entry: Entry) -> str | None:
    return getattr(entry.fact, "container", None)


def _unsealed(value: Any) -> bool:
    """Whether a sealed field of a result is empty."""
    if isinstance(value, list):
        return any(_unsealed(item) for item in value)
    if not isinstance(value, dict):
        return False
    if value.get("type") == "web_search_result" and not value.get("encrypted_content"):
        return True
    return any(
        (key in _SEALED and (item == "" or item is None)) or _unsealed(item) for key, item in value.items()
    )


__all__ = ["Adjustment", "choose"]
