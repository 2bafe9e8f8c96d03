"""A live agent for tests: a journal in a real file, the loopback model server, and the SDK between them."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any

import anthropic
from journaling import address
from loopback import Loopback, Reply, call, text

from normalizer.journal import open_journal
from normalizer.parts import Json, Tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from loopback import Answer, Block

    from normalizer.findings import Reading
    from normalizer.journal.journal import Journal
    from normalizer.live.conversation import Conversation
    from normalizer.live.turn import Turn
    from normalizer.transcript import Call

MODEL = "claude-opus-5-5"
TOOLS = tuple(Tool(name, name, Json.of({"type": "object"})) for name in ("run", "publish", "read"))


class Agent:
    """One conversation, and the model that it talks to."""

    def __init__(self, server: Loopback, where: Path | str, *, afresh: bool = False) -> None:
        """`afresh`: each request is projected from what a new opening of the journal reads from the disk."""
        self.server = server
        self.where = where
        self.afresh = afresh
        self.client = anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0)
        self.journal: Journal = open_journal(where)
        self.conversation: Conversation = self.journal.conversation("c-1")
        self.conversation.tools(*TOOLS)

    def close(self) -> None:
        self.client.close()
        self.journal.close()

    def reopen(self) -> None:
        """As another process would find it."""
        self.journal.close()
        self.journal = open_journal(self.where)
        self.conversation = self.journal.conversation("c-1")

    def ask(self, turn: Turn, *answers: Answer) -> Reading:
        """One request and its reply; the server refuses what the real one would."""
        if answers:
            self.server.replies(*answers)
        projection = self.conversation.project("anthropic", model=MODEL)
        if self.afresh:
            with open_journal(self.where, read_only=True) as other:
                read = other.conversation("c-1").project("anthropic", model=MODEL)
            assert read.request == projection.request
            projection = read
        self.conversation.sent(projection)
        return turn.receive(
            "anthropic",
            lambda: self.client.messages.create(**projection.request, max_tokens=1000, stream=True),
        )

    def calls(self, turn: Turn, *blocks: Block) -> tuple[Call, ...]:
        """The user asks, and the model makes these calls."""
        turn.user_said("Do it")
        self.ask(turn, Reply((text("Yes."), *blocks), "tool_use"))
        found = turn.calls_to_run()
        assert len(found) == len(blocks)
        return found

    def outcome(self, key: str = "toolu_1") -> str:
        """What is known about a call, as a later process reads it."""
        return str(self.conversation.transcript.calls[key].outcome.kind)

    def kinds(self, key: str | None = None) -> list[str]:
        """The kinds of the facts, or of those of one call, output aside."""
        return [
            fact.kind
            for fact in self.conversation.facts
            if (key is None or getattr(fact, "call_id", None) == key) and fact.kind != "output_observed"
        ]

    def told(self) -> str:
        """All that the model is told on the user's side."""
        request = self.conversation.project("anthropic", model=MODEL).request
        return "\n".join(str(m["content"]) for m in request["messages"] if m["role"] == "user")

    def accepted(self) -> bool:
        """Whether the server took every request."""
        return all(exchange.status == 200 for exchange in self.server.exchanges)

    def go_on(self) -> None:
        """Another turn, whose request the server takes: the conversation is not stuck."""
        with self.conversation.open_turn() as turn:
            turn.user_said("And?")
            self.ask(turn, Reply((text("So."),)))
        assert self.accepted()


@contextlib.contextmanager
def agent(folder: Path, kind: str = "sqlite") -> Iterator[Agent]:
    with Loopback() as server:
        made = Agent(server, address(kind, folder))
        try:
            yield made
        finally:
            made.close()


def tool(number: int = 1, name: str = "run", **given: Any) -> Block:
    return call(f"toolu_{number}", name, given)


class Beside:
    """Work in a thread beside the test. What it raised is raised by `join`."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self.value: Any = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.value = self._work()
        except BaseException as error:  # noqa: BLE001 - raised by `join`
            self.error = error

    def join(self) -> Any:
        self._thread.join(30)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error
        return self.value


def until(happened: Callable[[], Any], within: float = 60.0) -> Any:
    """Wait for it."""
    deadline = time.monotonic() + within
    while not (found := happened()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
    return found
