"""Who answers whom in a history: client calls by the next user turn, server calls by the server.

A server call may stay open over more than one turn: after a reply that also holds client calls, the next user
turn holds nothing but their results, and the server's own result opens the assistant turn behind it. While
code runs in a container and calls client tools this repeats. Anything else means that the conversation moved
on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from normalizer.providers.anthropic import wire
from normalizer.providers.anthropic.rules import view
from normalizer.rules import remembered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from normalizer.providers.anthropic.rules.view import Block, Placed, Turn
    from normalizer.rules import Request

_SERVED: Final = wire.SERVER_CALLS | wire.SERVER_RESULTS | {"tool_use"}
CALLS: Final = wire.SERVER_CALLS | {"tool_use"}
SERVER_ID: Final = ("srvtoolu_", "mcptoolu_")


def answers(turns: list[Turn]) -> Iterator[tuple[Turn, Turn | None]]:
    """Each assistant turn with the user turn right behind it, None if no such turn stands there."""
    for at, turn in enumerate(turns):
        if turn.role == "assistant":
            behind = turns[at + 1] if at + 1 < len(turns) else None
            yield turn, behind if behind is not None and behind.role == "user" else None


def asked(turns: list[Turn]) -> Iterator[tuple[Turn, Turn | None]]:
    """Each user turn with the assistant turn right before it, None if no such turn stands there."""
    for at, turn in enumerate(turns):
        if turn.role == "user":
            before = turns[at - 1] if at else None
            yield turn, before if before is not None and before.role == "assistant" else None


def calls(turn: Turn | None) -> dict[str, Block]:
    """The client calls of a turn by their ids."""
    found = turn.of_type("tool_use") if turn is not None else ()
    return {call_id: call for _, call in found if (call_id := view.text(call.get("id")))}


@dataclass(slots=True)
class Order:
    """What is in order in the turns of a history, as mostly: rules about faults in it need not look then."""

    single: bool = True
    """No two neighbouring messages have the same role."""
    paired: bool = True
    """Each client call has an id of its own, and one result in the user turn right behind it; there are no others."""
    results_first: bool = True
    """In the user's turns no result stands behind something else."""
    calls_last: bool = True
    """In the assistant's turns nothing but calls stands behind a client call."""


@remembered
def order(request: Request) -> Order:
    """Look through the turns once, block by block."""
    found = Order()
    asked: dict[str, int] = {}
    told: set[str] = set()
    turn, before, behind = 0, "", False
    for number, (_, speaker, items) in enumerate(view.spoken(request)):
        if number and speaker == before:
            found.single = False
        else:
            turn, before, behind = turn + 1, speaker, False
        for _, block in items:
            kind = block.get("type")
            if kind == "tool_use":
                own = view.text(block.get("id"))
                found.paired = found.paired and speaker == "assistant" and bool(own) and own not in asked
                asked[own] = turn
            elif kind == "tool_result":
                own = view.text(block.get("tool_use_id"))
                right = speaker == "user" and asked.get(own) == turn - 1 and own not in told
                found.paired = found.paired and right
                told.add(own)
            # `behind`: in the assistant's turn a client call stands before, in the user's something else than results
            if speaker == "assistant":
                found.calls_last = found.calls_last and not (behind and view.text(kind) not in CALLS)
                behind = behind or kind == "tool_use"
            elif speaker == "user":
                found.results_first = found.results_first and not (behind and kind == "tool_result")
                behind = behind or kind != "tool_result"
    found.paired = found.paired and len(told) == len(asked)
    return found


@remembered
def answered(request: Request) -> list[tuple[Placed, Block]]:
    """Each client result with the call that it answers."""
    found: list[tuple[Placed, Block]] = []
    for turn, before in asked(view.turns(request)):
        waiting = calls(before)
        for pointer, result in turn.of_type("tool_result"):
            call = waiting.get(view.text(result.get("tool_use_id")))
            if call is not None:
                found.append(((pointer, result), call))
    return found


@remembered
def all_paired(request: Request) -> bool:
    """Whether every client result stands in the user turn right behind its call, as mostly."""
    if order(request).paired:
        return True
    results = view.of_type(request, frozenset({"tool_result"}), "user")
    return len(answered(request)) == len(results)


def code_run(call: Block) -> str:
    """The id of the code run that made this call; empty if the model made it directly."""
    caller = call.get("caller")
    if view.text(view.member(caller, "type")).startswith("code_execution"):
        return view.text(view.member(caller, "tool_id"))
    return ""


def results_only(turn: Turn) -> bool:
    """Whether a turn is a user turn that holds client results and nothing else."""
    return turn.role == "user" and all(block.get("type") == "tool_result" for _, block in turn.items)


def available(request: Request) -> list[Block]:
    """The tools that the request declares, and those that its system messages add in full."""
    added = (
        view.member(block, "tool", "definition")
        for _, block in view.of_type(request, frozenset({"tool_addition"}), "system")
    )
    return [*(tool for _, tool in view.tools(request)), *(tool for tool in added if isinstance(tool, dict))]


def offers(request: Request, call: Block) -> bool:
    """Whether the tools of the request let the server go on with this server call."""
    tools = available(request)
    if call.get("type") == "mcp_tool_use":
        servers = [tool.get("mcp_server_name") for tool in tools]
        servers += [
            server.get("name") for _, server in view.objects(request.get("mcp_servers"), "/mcp_servers")
        ]
        return call.get("server_name") in servers
    name = view.text(call.get("name"))
    kinds = wire.OFFERED_BY.get(name)
    if kinds is None:
        return any(tool.get("name") == name for tool in tools)
    return any(view.kind(tool).startswith(kinds) for tool in tools)


def result_type(call: Block) -> str | None:
    """The type of the block in which the server answers this call; None for a tool that we do not know."""
    if call.get("type") == "mcp_tool_use":
        return "mcp_tool_result"
    name = view.text(call.get("name"))
    kind = "tool_search_tool_result" if name.startswith("tool_search_") else f"{name}_tool_result"
    return kind if kind in wire.SERVER_RESULTS else None


@dataclass(slots=True)
class ServerCalls:
    """What became of the server calls of a history."""

    pairs: list[tuple[Placed, Placed]] = field(default_factory=list)
    """Calls with their results."""
    abandoned: list[Placed] = field(default_factory=list)
    """Calls without result although the conversation moved on."""
    orphans: list[Placed] = field(default_factory=list)
    """Results without a call that waits for them."""
    repeated: list[Placed] = field(default_factory=list)
    """Calls with an id that a call before them has."""
    strays: list[Placed] = field(default_factory=list)
    """Calls that name as their caller a code run which their open turn does not hold."""
    open: dict[str, Placed] = field(default_factory=dict)
    """Calls that wait at the end of the history, by id."""
    inner: dict[str, list[Placed]] = field(default_factory=dict)
    """Client calls that code runs made, by the id of the run."""

    @property
    def pending(self) -> dict[str, list[Placed]]:
        """Client calls of the code runs that wait at the end of the history."""
        return {run: self.inner[run] for run in self.open if run in self.inner}

    def end(self, *ids: str) -> None:
        """These calls get no result any more."""
        self.abandoned.extend(self.open.pop(call_id) for call_id in ids)


@remembered
def server_calls(request: Request) -> ServerCalls:
    """Follow the server calls of a history from its first message to its last."""
    found = ServerCalls()
    concerned = view.where(
        request, lambda sort, keys: sort.role == "assistant" and sort.kind in _SERVED
        and (sort.kind != "tool_use" or "caller" in keys),
    )  # fmt: skip
    if not any(_concerns(block) for _, block in concerned):
        return found  # most histories; the rest of the way is several times as long
    seen: set[str] = set()
    code: set[str] = set()
    for turn in view.turns(request):
        if turn.role == "assistant":
            _go_on(found, turn)
            for placed in turn.items:
                _take(found, placed, seen, code)
        elif not results_only(turn):
            found.end(*found.open)
            code.clear()
    found.abandoned.sort(key=_place)
    return found


def _concerns(block: Block) -> bool:
    return block.get("type") != "tool_use" or bool(code_run(block))


def _go_on(found: ServerCalls, turn: Turn) -> None:
    """Give up the calls with which this assistant turn does not go on."""
    if not found.open:
        return
    going = {view.text(block.get("tool_use_id")) for _, block in turn.of_type(*wire.SERVER_RESULTS)}
    going |= {code_run(block) for _, block in turn.items}
    found.end(*[call_id for call_id in found.open if call_id not in going])


def _take(found: ServerCalls, placed: Placed, seen: set[str], code: set[str]) -> None:
    """Enter one block of an assistant turn."""
    block = placed[1]
    kind = view.kind(block)
    run = code_run(block)
    if run and kind in ("tool_use", "server_tool_use"):
        if run in code:
            found.inner.setdefault(run, []).append(placed)
        else:
            found.strays.append(placed)
    if kind in wire.SERVER_CALLS:
        call_id = view.text(block.get("id"))
        if call_id and call_id in seen:
            found.repeated.append(placed)
        seen.add(call_id)
        found.open[call_id] = placed
        if view.text(block.get("name")) in wire.CODE:
            code.add(call_id)
    elif kind in wire.SERVER_RESULTS:
        call = found.open.pop(view.text(block.get("tool_use_id")), None)
        if call is None:
            found.orphans.append(placed)
        else:
            found.pairs.append((call, placed))


def _place(placed: Placed) -> tuple[int, int]:
    steps = placed[0].split("/")
    return int(steps[2]), int(steps[4]) if len(steps) > 4 else 0
