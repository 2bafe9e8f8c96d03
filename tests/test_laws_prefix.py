"""What was sent is the beginning of what is sent later, whatever happens, but for the reasons that the design lists.

Each excuse is looked for in the facts and in the two requests, not taken from the report, and each is counted: most
projections need none, which is asserted too.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from judging import JUDGES
from known_gaps import gap
from lawful import Case, law, projected
from views import heads, lines, unmarked

import normalizer
from normalizer.rules import rejects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from normalizer.facts import Fact, RequestSent
    from normalizer.projection import Projection


@dataclass(frozen=True)
class Later:
    """A request that went out, what is sent at some later time to the same model, and the facts in between."""

    case: Case
    sent: RequestSent
    before: dict[str, Any]
    now: Projection | None
    since: list[Fact]

    @property
    def history(self) -> str:
        return self.case.judge.history

    def changed(self) -> set[str]:
        """What of the sent bytes is not as it was: keys of heads, and `history`."""
        assert self.now is not None
        old, new = heads(self.before, self.history), heads(self.now.request, self.history)
        found = {key for key in {*old, *new} if old.get(key) != new.get(key)}
        was, now = lines(self.before, self.history), lines(self.now.request, self.history)
        return found | (set() if now[: len(was)] == was else {"history"})

    def excuse(self, what: str) -> str | None:
        """The reason for which this part may have changed, if there is one."""
        kinds = {fact.kind for fact in self.since}
        for cause in ("summarised", "rewound"):
            if cause in kinds:
                return cause
        if what == "history":
            return self._given_up() or self._tools_in_it(kinds) or self._unbound() or self._rule_would_break()
        if what == "tools":
            declared = "tools_declared" in kinds and "tools" not in self.case.judge.later
            return "tools" if declared else self._undeclared_call()
        instructed = "instructions_set" in kinds and "instructions" not in self.case.judge.later
        return "instructions" if instructed else None

    def _undeclared_call(self) -> str | None:
        """A tool was called that nobody had declared, so that it has to be."""
        parts = (part for fact in self.since for part in getattr(fact, "parts", ()))
        names = {
            tool.get("name") or tool.get("function", {}).get("name") for tool in self.before.get("tools", ())
        }
        called = {part.name for part in parts if part.kind == "tool_call"}
        return "undeclared tool" if called - names else None

    def _unbound(self) -> str | None:
        """Only reasoning went, which is bound to heads that changed, for a reason that is asked for by itself."""
        assert self.now is not None
        was, now = (
            [
                unmarked(piece.raw)
                for piece in self.case.judge.pieces(request)
                if piece.kind != "reasoning" and piece.entry >= 0
            ]
            for request in (self.before, self.now.request)
        )
        heads_changed = self.changed() - {"history"}
        return "reasoning behind changed heads" if heads_changed and now[: len(was)] == was else None

    def _tools_in_it(self, kinds: set[str]) -> str | None:
        """Tools that came later were declared in the history, and others are offered now."""
        held = any(isinstance(entry.get("tools"), list) for entry in self.before[self.history])
        return "tools" if held and "tools_declared" in kinds else None

    def _given_up(self) -> str | None:
        """A call that the provider's server had not ended was sent, and is not there any more."""
        judge = self.case.judge
        was = judge.pieces(self.before)
        assert self.now is not None
        there = {piece.id for piece in judge.pieces(self.now.request) if piece.kind == "server"}
        ended = {piece.id for piece in was if piece.kind == "found"}
        opened = {piece.id for piece in was if piece.kind == "server"} - ended
        return "given up" if opened - there else None

    def _rule_would_break(self) -> str | None:
        """Behind what was sent nobody may speak any more."""
        spoken = copy.copy(self.before)
        spoken[self.history] = [*spoken[self.history], {"role": "user", "content": "And?"}]
        broken = rejects(normalizer.check(spoken, self.case.target, context=self.case.context))
        return f"rule {broken[0].rule}" if broken else None


def walk(case: Case) -> Iterator[Later]:
    """Everything that can be sent behind each request that a case holds."""
    sent: dict[str | None, tuple[RequestSent, dict[str, Any]]] = {}
    owners: dict[str, str | None] = {}
    for number, fact in enumerate(case.told, start=1):
        if fact.kind == "reply_cut" and fact.refused:
            sent.pop(owners.get(fact.answers or ""), None)  # it is no base: the prefix begins anew
        if fact.kind == "request_sent":
            owners[fact.fact_id] = fact.model
            assert fact.options is not None
            held = projected(
                normalizer.fold([x for x in case.told if x.seq <= fact.through]),
                case.target,
                **fact.options.value,
            )
            assert held is not None
            sent[fact.model] = fact, held.request
        for base, before in sent.values():
            assert base.options is not None
            told = case.told[:number]
            now = projected(normalizer.fold(told), case.target, **base.options.value)
            yield Later(case, base, before, now, [x for x in told if x.seq > base.through])


@law(least={"as it was": 0.5, "as it was, late": 0.03})
def test_what_was_sent_is_a_prefix_of_what_is_sent_later(case: Case) -> None:
    for later in walk(case):
        kinds = {fact.kind for fact in later.since}
        if later.now is None:
            assert kinds & {"summarised", "rewound"} or any(
                piece.kind == "server" for piece in case.judge.pieces(later.before)
            )
            case.count("nothing left to send")
            continue
        reported = [note for note in later.now.adjustments if note.kind == "prefix_changed"]
        changed = later.changed()
        assert bool(reported) == bool(changed), (changed, reported)
        if not changed:
            case.count("as it was, late" if later.now.late_news else "as it was")
        for what in changed:
            excuse = later.excuse(what)
            wrong = f"nothing happened that may change the {what}: {sorted(kinds)}"
            if excuse is None and (known := gap(case.target, wrong)):
                excuse = f"known gap: {known}"
            assert excuse is not None, wrong
            case.count(f"{what} changed: {excuse}")
        if changed:
            (told,) = (set((note.because or "").split(", ")) for note in reported)
            assert ("tools" in told) == ("tools" in changed), told
            assert ("instructions" in told) == bool(changed - {"tools", "history"}), told
            assert bool(told - {"tools", "instructions"}) == ("history" in changed), told


def test_no_target_may_change_its_prefix_for_a_reason_of_its_own() -> None:
    """What a target takes in mid-conversation is data of its judge, and only heads are."""
    assert all(judge.later <= {"instructions", "tools"} for judge in JUDGES.values())
