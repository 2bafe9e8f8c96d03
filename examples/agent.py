"""An agent that survives being stopped: `python examples/agent.py [JOURNAL]`.

It talks to a model server that this file starts on 127.0.0.1, and runs the one command that the model asks for. Press
Ctrl-C while the command runs, start it again with the same journal, and it says what became of the command.
"""

from __future__ import annotations

import json
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

import normalizer
from normalizer.execution.local import LocalCommand
from normalizer.parts import Json, Tool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from normalizer.live.conversation import Conversation
    from normalizer.live.turn import Turn

MODEL: Final = "claude-opus-4-8"
SHELL: Final = Tool(
    "shell",
    "Run a command.",
    Json.of({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}),
)
COMMAND: Final = "echo step one; sleep 20; echo step two"


# ---------------------------------------------------------------- the agent


def main(where: str) -> None:
    """Say what happened the last time, then go on."""
    with scripted_model() as url, normalizer.open_journal(where) as journal:
        conversation = journal.conversation("example")
        conversation.tools(SHELL)
        again = bool(conversation.transcript.calls)
        with conversation.open_turn() as turn:  # a turn whose process is gone is recorded as lost first
            tell_what_happened(conversation)
            turn.user_said("What became of it?" if again else "Run the steps.")
            try:
                converse(conversation, turn, url)
            except KeyboardInterrupt:
                turn.cancel(by="user")
                print("\nstopped; start me again to hear what happened")


def converse(conversation: Conversation, turn: Turn, url: str) -> None:
    """Ask the model, run what it calls, until it calls nothing more."""
    while True:
        projection = conversation.project("anthropic", model=MODEL)
        conversation.sent(projection)  # on disk before the request leaves
        turn.receive("anthropic", lambda body=projection.request: events(url, body), on_event=show)
        calls = turn.calls_to_run()
        if not calls:
            return
        for call in calls:
            print(f"[running: {call.arguments['command']}]", flush=True)
            turn.run(call, LocalCommand(call.arguments["command"]))


def tell_what_happened(conversation: Conversation) -> None:
    """Each call of earlier runs, with what is known about it."""
    for call in conversation.transcript.calls.values():
        by = f" by {call.outcome.by}" if call.outcome.by else ""
        print(f"[last time: {call.name} {call.arguments['command']!r}: {call.outcome.kind}{by}]")
        if call.output:
            print(f"[its output so far: {call.output.strip()}]")


def show(event: dict[str, Any]) -> None:
    """Print the model's words as they come."""
    if event["type"] == "content_block_delta" and event["delta"]["type"] == "text_delta":
        print(event["delta"]["text"], end="", flush=True)
    elif event["type"] == "message_stop":
        print()


def events(url: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A streamed request without an SDK; `client.messages.create(stream=True)` goes into `receive` just as well."""
    data = json.dumps({**body, "max_tokens": 1000, "stream": True}).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data)) as response:  # noqa: S310 - on 127.0.0.1
        for line in response:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])


# ---------------------------------------------------------------- a model that is not one


class scripted_model:  # noqa: N801 - used like a function
    """A Messages API that asks for one command and then repeats what it was told about it."""

    def __enter__(self) -> str:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1/messages"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        """Answer one request as a stream."""
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        results = [
            block
            for message in request["messages"]
            for block in message["content"]
            if isinstance(block, dict) and block.get("type") == "tool_result"
        ]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for event in _reply(results):
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _reply(results: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "content": []}
    yield {"type": "message_start", "message": message}
    words = f"I was told: {_words(results[-1]['content'])}" if results else "I run the steps."
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": words}}
    yield {"type": "content_block_stop", "index": 0}
    if not results:
        block = {"type": "tool_use", "id": "toolu_1", "name": "shell", "input": {}}
        given = {"type": "input_json_delta", "partial_json": json.dumps({"command": COMMAND})}
        yield {"type": "content_block_start", "index": 1, "content_block": block}
        yield {"type": "content_block_delta", "index": 1, "delta": given}
        yield {"type": "content_block_stop", "index": 1}
    yield {"type": "message_delta", "delta": {"stop_reason": "end_turn" if results else "tool_use"}}
    yield {"type": "message_stop"}


def _words(content: Any) -> str:
    return content if isinstance(content, str) else " ".join(block.get("text", "") for block in content)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "agent.db")
