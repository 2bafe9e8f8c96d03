"""Writes the journal that a release is remembered by: `python tests/release_journal.py fixtures/journals/VERSION.db`.

It is written once for a release, and every later release has to project it to the digests that it recorded.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import anthropic
from living import Agent, tool
from loopback import Loopback, Refusal, Reply, text, thinking

from normalizer.recovery import Answer, recover


def calls(live: Agent) -> None:
    """One turn in which calls end in every way that there is."""
    conversation = live.conversation
    conversation.instructions("Be brief.")
    with conversation.open_turn() as turn:
        turn.user_said("Do it all")
        blocks = (
            thinking("Five things."),
            *(tool(n, name) for n, name in enumerate(("run", "publish", "read", "run", "run"))),
        )
        live.ask(turn, Reply(blocks, "tool_use"))
        done, lost, denied, skipped, stopped = turn.calls_to_run()
        with turn.execute(done) as execution:
            execution.complete("all green\n" * 3)
        with turn.execute(lost, remote=True, recovery="query") as execution:
            execution.lost("the connection broke")
        turn.request_approval(denied)
        turn.deny(denied, by="user", reason="that page is private")
        turn.skip(skipped, reason="not needed any more")
        with turn.execute(stopped) as execution:
            execution.output("half of it")
            execution.cancel_requested("user")
            execution.terminated(by="user", exit_code=143, residue=("a lock file",))
        conversation.steering.queue("and be quick")
        conversation.steering.apply()
        live.ask(turn, Reply((thinking("One is unknown."), text("One thing is unknown."))))


def late_news(live: Agent) -> None:
    """What was told as unknown turns out to be done; a request is refused, a reply cut, a turn cancelled."""
    recover(
        live.journal,
        {"query": lambda _: Answer(evidence="the site", outcome="completed", content="revision 18")},
    )
    conversation = live.conversation
    with conversation.open_turn() as turn:
        turn.user_said("And now?")
        live.ask(turn, Reply((text("It was published."),)))
        turn.user_said("Once more")
        with contextlib.suppress(anthropic.APIError):
            live.ask(turn, Refusal("overloaded", "overloaded_error", 529))
        with contextlib.suppress(anthropic.APIError):
            live.ask(turn, Reply((text("Half a"), text("word " * 9)), cut=0.6, error="overloaded_error"))
        turn.user_said("Go on", by="program")
        live.ask(turn, Reply((tool(1), tool(1)), "tool_use"))
        turn.cancel(by="user")
    with conversation.open_turn() as turn:
        turn.user_said("Enough.")
        live.ask(turn, Reply((text("Yes."),)))


def write(where: Path) -> None:
    """The whole journal."""
    with Loopback() as server:
        live = Agent(server, where)
        calls(live)
        late_news(live)
        live.close()


if __name__ == "__main__":
    write(Path(sys.argv[1]))
