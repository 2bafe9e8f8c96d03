"""Random live conversations against the signing server, each request projected from what a fresh opening reads."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from living import MODEL, Agent, tool
from loopback import Loopback, Refusal, Reply, text, thinking

from normalizer.recovery import Answer, recover

if TYPE_CHECKING:
    from collections.abc import Callable

    from normalizer.live.tool_run import Execution
    from normalizer.live.turn import Turn


class Host:
    """A host that decides by dice."""

    def __init__(self, live: Agent, dice: Random) -> None:
        self.live, self.dice = live, dice
        self.late: list[Execution] = []

    def talk(self, turns: int) -> None:
        """That many turns."""
        for _ in range(turns):
            self._news_from_before()
            turn = self.live.conversation.open_turn()
            turn.user_said(self.dice.choice(["Go on", "And Rome?", "Once more"]))
            for _ in range(self.dice.randint(1, 4)):
                if not self._step(turn):
                    break
            if not turn.over:
                self.dice.choice([turn.close, turn.cancel, turn.fail])()

    def _news_from_before(self) -> None:
        while self.late and self.dice.random() < 0.5:
            self.late.pop().complete(f"late {self.dice.random()}")
        if self.dice.random() < 0.3:
            recover(self.live.journal, {"publish": lambda _: Answer(evidence="looked", effects="happened")})

    def _step(self, turn: Turn) -> bool:
        """A request, its reply, and what becomes of the calls. False: there is nothing to go on with."""
        if self.dice.random() < 0.5:  # as if another process went on
            self.live.conversation = self.live.journal.conversation("c-1")
        kind = self.dice.random()
        if kind < 0.1:
            with pytest.raises(Exception, match="overloaded"):
                self.live.ask(turn, Refusal("overloaded", "overloaded_error", 529))
            return True
        names = [self.dice.choice(["run", "publish", "read"]) for _ in range(self.dice.randint(0, 3))]
        first = len(self.live.conversation.transcript.calls)
        blocks = [tool(first + n, name, given=n) for n, name in enumerate(names)]
        spoken = [thinking("Hm."), text("So.")][self.dice.randint(0, 1) :]
        reply = Reply(
            (*spoken, *blocks), "tool_use" if blocks else "end_turn", cut=0.6 if kind < 0.2 else None
        )
        reading = self.live.ask(turn, reply)
        self.live.conversation.steering.queue("Faster")
        for call in turn.calls_to_run():
            self._run(turn, turn.execute(call))
            if turn.over:
                return False
        self.live.conversation.steering.apply()
        if reading.turn == "cut":
            turn.user_said("You were cut off", by="program")
        return bool(blocks) or reading.turn == "cut"

    def _run(self, turn: Turn, execution: Execution) -> None:
        call = execution.call
        never: list[Callable[[], object]] = [
            lambda: turn.deny(call, by="user"),
            lambda: turn.skip(call),
            lambda: turn.cancel(by="user", budget=0),
        ]
        if self.dice.random() < 0.25:
            self.dice.choice(never)()
            return
        ends: list[Callable[[], object]] = [
            lambda: execution.complete("ok"),
            lambda: execution.complete({"pages": 3}),
            lambda: execution.complete("no such page", is_error=True),
            execution.terminated,
            lambda: self.late.append(execution) or execution.lost("the line went dead"),
        ]
        with execution:
            execution.output("some output")
            self.dice.choice(ends)()


def play(games: range) -> None:
    with Loopback() as server, tempfile.TemporaryDirectory() as folder:
        for game in games:
            server.forget()
            live = Agent(server, Path(folder) / f"{game}.db", afresh=True)
            try:
                Host(live, Random(game)).talk(4)  # noqa: S311 - dice
                refused = [one.why for one in server.exchanges if one.status == 400]
                assert not refused, (game, refused)
                before = live.conversation.project("anthropic", model=MODEL).request
                live.reopen()
                assert live.conversation.project("anthropic", model=MODEL).request == before
            finally:
                live.close()


def test_no_live_conversation_is_refused() -> None:
    play(range(16))


@pytest.mark.soak
def test_no_live_conversation_is_refused_for_long() -> None:
    play(range(1000))
