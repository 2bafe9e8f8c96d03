"""Calls that the provider executes: kept with their result, left open where the server goes on, else left out.

A result is never made up, and never taken from a client. Source:
https://platform.claude.com/docs/en/agents-and-tools/tool-use/server-tools and .../programmatic-tool-calling
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.projecting.draft import SERVER_CALL, Refusal
from normalizer.providers.anthropic import calls, encoding, wire
from normalizer.providers.anthropic.context import handed, notes_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from normalizer.projecting.draft import Draft, Flow, Piece, Value
    from normalizer.projecting.incremental import Step
    from normalizer.providers.anthropic.context import ClaudeContext
    from normalizer.transcript import Entry, ServerCall

_SEALED: Final = ("encrypted_content", "encrypted_index", "encrypted_stdout")
_CODE: Final = wire.CODE


def unfit(call: ServerCall) -> Refusal | None:
    """Why a server's call does not go back by itself, whatever stands beside it."""
    raw = call.part.raw.value if call.part.raw is not None else None
    if not isinstance(raw, dict) or wire.word(raw, "type") not in wire.SERVER_CALLS:
        return _left_out("it is the call of another provider's server", "foreign-server-call")
    pattern = wire.SERVER_CALL_ID if raw["type"] == "server_tool_use" else wire.CALL_ID
    if not isinstance(raw.get("id"), str) or not pattern.fullmatch(raw["id"]):
        return _left_out("its id does not come from this API", "ANT-ID-002")
    if not isinstance(raw.get("input"), dict):
        return _left_out("its input is no object", "ANT-ID-004")
    if call.key != call.part.id:
        return _left_out("its id stands in the history already", "ANT-SRV-008")
    return None


def _left_out(message: str, rule: str) -> Refusal:
    return Refusal("dropped_server_tool", message, rule)


def settle(claude: ClaudeContext, flow: Flow, pieces: list[Piece], draft: Draft) -> None:
    """Give server calls and their results blocks, or leave them out; inner calls of left-out code go with it."""
    results = {p.key: p for p in pieces if p.part.kind == "server_tool_result" and p.key is not None}
    asked = [p for p in pieces if p.part.kind == "server_tool_call"]
    if draft.own:
        for piece in asked:
            if piece.key not in draft.gone:
                _call(claude, flow, piece, pieces, results, draft)
        for piece in pieces:
            if piece.part.kind == "server_tool_result":
                _result(flow, piece, asked, draft)
    _inner_calls(claude, flow, pieces, asked, draft)
    draft.held.difference_update(key for key, piece in results.items() if piece.value is not None)
    if waits(draft.step) and (draft.held or (_paused(draft.entry) and not draft.gone)):
        draft.open_tail = True


def _call(
    claude: ClaudeContext, flow: Flow, piece: Piece, pieces: list[Piece], results: dict[str, Piece],
    draft: Draft,
) -> None:  # fmt: skip
    """One call of the server's: its block, or the report that it is left out."""
    call, before = claude.server_calls[piece.key or ""], handed(flow)
    why = (
        _with_result(claude, call, results, draft, before_fallback=piece.number < draft.cutoff)
        if call.result is not None
        else _without_result(claude, call, pieces, draft, before_fallback=piece.number < draft.cutoff)
    )
    # asked last: to be sent changes no reason
    if why is None and claude.history.chosen(SERVER_CALL, call.key):
        why = "a request left it out; it stays out", "ANT-SRV-001"
    if (
        why is None
        and call.result is None
        and before.system
        and not (before.after_user or before.after_result)
    ):
        why = "a system message from before has to stand behind its reply", "ANT-SRV-003"
    if why is not None:
        draft.refuse(piece, _left_out(*why))
        return
    piece.value = _replayed(piece, draft)
    if call.key not in results:
        draft.held.add(call.key)


def _replayed(piece: Piece, draft: Draft) -> Value:
    """The block as it was received, and the beta that it needs."""
    block = encoding.replay(piece.part.raw.value, draft, draft.entry)
    kind = "advisor_tool_result" if block.get("name") == "advisor" else str(block.get("type"))
    if kind in wire.BETAS:
        notes_of(draft).betas.add(kind)
    return block


def waits(step: Step) -> bool:
    """Whether nobody has said anything behind the newest reply."""
    return step.last and not any(
        e.kind == "summary" or (e.kind == "user" and not encoding.blank(e)) for e in step.behind
    )


def _paused(entry: Entry) -> bool:
    return getattr(entry.fact, "stop_reason", None) in ("pause_turn", "compaction")


def _with_result(
    claude: ClaudeContext, call: ServerCall, results: dict[str, Piece], draft: Draft, *,
    before_fallback: bool,
) -> tuple[str, str] | None:  # fmt: skip
    """Why a call that has a result is left out, and the rule; None if it stays."""
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
    if kind == "tool_search_tool_result" and not _resolves(claude, call.result.raw.value):
        return "its result names a tool that is not offered", "ANT-RES-008"
    if call.key in results:
        return None
    if before_fallback:
        return "it stands before a fallback block without its result", "ANT-REF-005"
    if _moved_on(claude, draft.step, call):
        return "its result came after the conversation had moved on", "ANT-SRV-001"
    return None


def _without_result(
    claude: ClaudeContext, call: ServerCall, pieces: list[Piece], draft: Draft, *, before_fallback: bool
) -> tuple[str, str] | None:
    """An unanswered call stays only as the open tail that the server goes on from."""
    fact: Any = draft.entry.fact
    if before_fallback:
        return "it stands before a fallback block without its result", "ANT-REF-005"
    if fact.kind == "reply_cut":
        return "the reply was cut before its result came", "ANT-STR-007"
    client = any(p.part.kind == "tool_call" and p.value is not None for p in pieces)
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
    if not _offered(claude, call, fact.seq):
        return "its tool is no longer offered", "ANT-SRV-002"
    if call.part.name in _CODE and client and not _inner_offered(claude, pieces):
        return "a tool that its code called is no longer offered", "ANT-PTC-004"
    if (
        call.part.name in _CODE
        and client
        and (claude.options.container_expired or not container(draft.entry))
    ):
        return "the container of its code is lost", "ANT-PTC-001"
    if _moved_on(claude, draft.step, call):
        return "its result never came and the conversation has moved on", "ANT-SRV-001"
    return None


def _words_only(content: Any) -> bool:
    return content is None or isinstance(content, str) or (
        isinstance(content, list) and all(isinstance(b, dict) and b.get("type") == "text" for b in content)
    )  # fmt: skip


def _resolves(claude: ClaudeContext, block: Value) -> bool:
    """Whether every tool that a search found is still offered."""
    content = block.get("content")
    found = content.get("tool_references", ()) if isinstance(content, dict) else ()
    offered = claude.head.offered
    return isinstance(found, (list, tuple)) and all(wire.word(f, "tool_name") in offered for f in found)


def _inner_offered(claude: ClaudeContext, pieces: list[Piece]) -> bool:
    offered = claude.head.offered
    return all(
        piece.value["name"] in offered
        for piece in pieces
        if piece.part.kind == "tool_call" and piece.value is not None and calls.caller(piece.part) is not None
    )


def _is_tail(pieces: list[Piece], call: ServerCall) -> bool:
    """Whether only other server calls and results stand behind the call."""
    at = next(n for n, p in enumerate(pieces) if p.part is call.part)
    return all(p.part.kind in ("server_tool_call", "server_tool_result") for p in pieces[at:])


def _moved_on(claude: ClaudeContext, step: Step, call: ServerCall) -> bool:
    """Whether something else than results, or than a reply that goes on with it, stands between call and result.

    A turn that paused again before the model said anything goes on with it too, but not behind results of the client's:
    they wait for its result.
    """
    code = call.part.id
    answered = step.reply is not None and _has_client_calls(step.reply)
    for entry in (*step.behind, *claude.entries[step.end :]):
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
            if not (paused and not answered) and not any(calls.caller(part) == code for part in entry.parts):
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


def _offered(claude: ClaudeContext, call: ServerCall, seq: int) -> bool:
    """Whether the request has the tool that the server goes on with, as it had when the call was made (`seq`)."""
    tools = claude.head.tools_at(seq)
    if call.part.form == "mcp_tool_use":
        raw = call.part.raw.value if call.part.raw is not None else {}
        return any(tool.get("mcp_server_name") == raw.get("server_name") for tool in tools)
    kinds = wire.OFFERED_BY.get(call.part.name)
    if kinds is None:
        return any(tool.get("name") == call.part.name for tool in tools)
    # a client's tool may have the name of a server's: its type tells them apart
    return any((wire.word(tool, "type") or "").startswith(kinds) for tool in tools)


def _result(flow: Flow, piece: Piece, asked: list[Piece], draft: Draft) -> None:
    """A server's result goes with its call."""
    if piece.key is None:
        draft.drop(piece, "dropped_orphan", "a server's result without its call", "ANT-SRV-004")
        return
    here = next((p for p in asked if p.key == piece.key), None)
    if here.value is None if here is not None else piece.key not in flow.held:
        draft.refuse(piece, _left_out("its call is left out", "ANT-SRV-004"))
        return
    piece.value = _replayed(piece, draft)


def _inner_calls(
    claude: ClaudeContext, flow: Flow, pieces: list[Piece], asked: list[Piece], draft: Draft
) -> None:
    """Client calls that code made go where the code goes."""
    known = {p.part.id for p in asked if p.value is not None}
    known |= {claude.server_calls[key].part.id for key in flow.held if key in claude.server_calls}
    known -= {p.part.id for p in asked if p.value is None}
    for piece in pieces:
        code = calls.caller(piece.part)
        if code is None or piece.value is None or code in known:
            continue
        draft.refuse(piece, _left_out("the code that made this call is left out", "ANT-PTC-007"))
        if piece.key is not None and piece.key in claude.calls:
            draft.discarded.append(piece.key)


def runs_code(claude: ClaudeContext, held: Iterable[str]) -> bool:
    """Whether one of these calls runs code in a container."""
    return any(claude.server_calls[key].part.name in _CODE for key in held)


def container(entry: Entry) -> str | None:
    """The container that the code of a reply runs in."""
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
