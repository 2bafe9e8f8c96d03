"""The calls of a transcript while facts are folded: their keys, what was said about each, and what that decides."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from normalizer.findings import Finding
from normalizer.outcomes import NOT_RECORDED, Outcome, conflicts, decide
from normalizer.transcript import Call, ServerCall
from normalizer.util.ids import next_key
from normalizer.util.redaction import named
from normalizer.util.speed import maker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from normalizer.facts import CallFact
    from normalizer.findings import FindingKind
    from normalizer.folding.state import Kept
    from normalizer.parts import ServerToolCall, ServerToolResult, ToolCall
    from normalizer.transcript import Transcript, Turn

_call = maker(Call)
_by_seq = attrgetter("seq")
_FINAL: Final = frozenset({"completed", "terminated", "attested"})
_SERVER_OK: Final = Outcome("completed", "completed", is_error=False)
_SERVER_FAILED: Final = Outcome("completed", "completed", is_error=True)
_SERVER_WAITS: Final = Outcome("pending", "waiting")


class FoldedCalls:
    """The calls so far, ours and the servers'. `fresh` are the facts about each that nothing has decided on yet."""

    def __init__(self, kept: Kept, onto: Transcript) -> None:
        self.kept = kept
        self.calls = dict(onto.calls)
        self.server_calls = dict(onto.server_calls)
        self.fresh: dict[str, list[CallFact]] = {}

    def add(self, fact: Any, number: int, part: Any) -> str | None:
        """The key of the call that a part of a reply is or answers; None where it repeats one or answers none."""
        kind = part.kind
        if kind == "tool_call":
            return self._new_call(fact, number, part)
        if kind == "server_tool_call":
            return self._new_server_call(fact, number, part)
        return self._server_result(fact, part)

    def _key(self, part: ToolCall | ServerToolCall, fact: Any, number: int) -> str:
        """The key of a call whose id is missing, or is another's."""
        if not part.id:
            return f"{fact.fact_id}:{number}"
        key = next_key(part.id, lambda key: key in self.calls or key in self.server_calls, self.kept.repeats)
        message = f"the id {named(part.id)} is used by more than one call; this one is {named(key)}"
        self._note("duplicate_id", message, fact, key)
        return key

    def _new_call(self, fact: Any, number: int, part: ToolCall) -> str | None:
        key = part.id
        if not key or key in self.calls or key in self.server_calls:
            if key and (twin := self._same_call(fact, part)):
                self._note("duplicate_call", f"call {named(twin)} stands twice in one reply", fact, twin)
                return None
            key = self._key(part, fact, number)
        self.calls[key] = _call(key, part, fact.fact_id, fact.turn_id, (), NOT_RECORDED)
        if key not in self.fresh:
            self.fresh[key] = []
        return key

    def _note(self, kind: FindingKind, message: str, fact: Any, call_id: str | None) -> None:
        self.kept.notes.append(Finding(kind, message, call_id=call_id, facts=(fact.fact_id,)))

    def _same_call(self, fact: Any, part: ToolCall) -> str | None:
        """The call of the same reply with the same id, name and arguments."""
        for key in (
            part.id,
            *(f"{part.id}#{n}" for n in range(2, self.kept.repeats.get(part.id or "", 1) + 1)),
        ):
            call = self.calls.get(key or "")
            if call is None or call.reply != fact.fact_id:
                continue
            if call.part.name == part.name and call.part.arguments == part.arguments:
                return key
        return None

    def _new_server_call(self, fact: Any, number: int, part: ServerToolCall) -> str:
        key = part.id
        if not key or key in self.server_calls or key in self.calls:
            key = self._key(part, fact, number)
        self.server_calls[key] = ServerCall(key, part, fact.fact_id, NOT_RECORDED)
        if not _void(fact):
            self._give_up(self.kept.open_server.get(part.id or key))
            self.kept.open_server[part.id or key] = key
        return key

    def _give_up(self, key: str | None) -> None:
        """A call whose id a later one has does not wait any more: a result goes to the later one."""
        call = self.server_calls[key] if key is not None else None
        if call is not None and call.outcome != NOT_RECORDED:
            self.server_calls[call.key] = ServerCall(call.key, call.part, call.reply, NOT_RECORDED)
            self.kept.touched.append(call.key)

    def _server_result(self, fact: Any, part: ServerToolResult) -> str | None:
        if _void(fact):
            return None  # a refused reply is no history: what it brought answers nothing
        key = self.kept.open_server.pop(part.call_id or "", None)
        if key is None:
            self._note(
                "orphan_result",
                f"a server tool's result names {named(part.call_id)}, which no open call has",
                fact,
                part.call_id,
            )
            return None
        call = self.server_calls[key]
        self.server_calls[key] = ServerCall(
            key, call.part, call.reply, _SERVER_FAILED if part.is_error else _SERVER_OK, part, fact.fact_id
        )
        self.kept.touched.append(key)
        return key

    def settle(self, turns: Mapping[str, Turn]) -> None:
        """Give every call that something was said about its facts and outcome."""
        kept, calls = self.kept, self.calls
        for key, new in self.fresh.items():
            call = calls.get(key)
            if call is None:
                kept.waiting[key] = tuple(sorted((*kept.waiting.get(key, ()), *new), key=_by_seq))
                continue
            facts = (
                (*call.facts, *kept.waiting.pop(key, ()), *new) if call.facts or kept.waiting else tuple(new)
            )
            if len(facts) > 1:
                facts = tuple(sorted(facts, key=_by_seq))
            turn = turns.get(call.turn_id) if call.turn_id else None
            plain = len(facts) == 1 and facts[0].kind == "call_completed"
            outcome = decide(facts, turn, valid_arguments=plain or _parses(call.part))
            calls[key] = _call(key, call.part, call.reply, call.turn_id, facts, outcome)
            kept.touched.append(key)
            if outcome.kind == "pending":
                kept.pending[key] = None
            elif kept.pending:
                kept.pending.pop(key, None)
            if not plain:
                self._keep_watch(key, call.turn_id, outcome)
            speaks = not plain or (turn is not None and turn.gated)
            if speaks and (found := conflicts(key, facts, turn)):
                kept.conflicts[key] = found

    def _keep_watch(self, key: str, turn_id: str | None, outcome: Outcome) -> None:
        """Remember that the end of its turn may still decide about this call."""
        if turn_id and outcome.basis not in _FINAL and key not in self.kept.undecided.get(turn_id, ()):
            self.kept.undecided[turn_id] = (*self.kept.undecided.get(turn_id, ()), key)

    def settle_servers(self, last: Any, turns: Mapping[str, Turn]) -> None:
        """A call that the newest reply, `last`, left paused waits at its server; other open ones are unknown."""
        for key in self.kept.open_server.values():
            call = self.server_calls[key]
            turn = turns.get(getattr(last, "turn_id", None) or "")
            waits = (
                last is not None
                and call.reply == last.fact_id
                and getattr(last, "stop_reason", None) == "pause_turn"
                and not (turn and turn.over)
            )
            outcome = _SERVER_WAITS if waits else NOT_RECORDED
            if outcome != call.outcome:
                self.server_calls[key] = ServerCall(key, call.part, call.reply, outcome)
                self.kept.touched.append(key)


def _void(fact: Any) -> bool:
    """Whether a reply ended in a refusal, so that nothing in it counts."""
    return getattr(fact, "stop_reason", None) == "refusal"


def _parses(part: ToolCall) -> bool:
    """Whether the arguments are JSON; an empty text means none, which is fine."""
    arguments = part.arguments
    return arguments.valid or not arguments.text.strip()
