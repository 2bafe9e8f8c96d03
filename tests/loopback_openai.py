"""Chat Completions and Responses on 127.0.0.1, as strict as their rulebooks; the replies are scripted.

It refuses what the rules reject, in OpenAI's words, and else says what the script says: whole, or piece by piece.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final, Self

from normalizer import registry
from normalizer.rules import judge, rejects

if TYPE_CHECKING:
    from collections.abc import Iterator

Body = dict[str, Any]
PATHS: Final = {"/v1/chat/completions": "openai_chat", "/v1/responses": "openai_responses"}
_USAGE: Final = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


@dataclass(frozen=True, slots=True)
class Say:
    """What the model says: words, and calls as (id, name, arguments). `cut` ends the stream after that many events."""

    words: str = ""
    calls: tuple[tuple[str, str, str], ...] = ()
    cut: int | None = None


@dataclass(slots=True)
class Exchange:
    """One request and what became of it."""

    api: str
    request: Body
    status: int
    rule: str = ""


@dataclass(slots=True)
class State:
    """What the server was asked, and what it will say next."""

    script: deque[Say] = field(default_factory=deque)
    exchanges: list[Exchange] = field(default_factory=list)


def halves(text: str) -> list[str]:
    """A text in two pieces; an empty one in none."""
    middle = len(text) // 2
    return [piece for piece in (text[:middle], text[middle:]) if piece]


# ---------------------------------------------------------------- Chat Completions


def completion(said: Say, number: int, model: str) -> Body:
    """The whole reply."""
    message: Body = {"role": "assistant", "content": said.words or None, "refusal": None, "annotations": []}
    if said.calls:
        message["tool_calls"] = [
            {"id": wire_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for wire_id, name, arguments in said.calls
        ]
    ending = "tool_calls" if said.calls else "stop"
    choice = {"index": 0, "message": message, "finish_reason": ending, "logprobs": None}
    head = {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1, "model": model}
    return {**head, "choices": [choice], "usage": _USAGE}


def chunks(said: Say, number: int, model: str) -> Iterator[Body]:
    """The same in pieces; the arguments of parallel calls take turns."""
    head = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 1, "model": model}

    def chunk(delta: Body, ending: str | None = None) -> Body:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": ending, "logprobs": None}]}

    yield chunk({"role": "assistant", "content": "" if said.words else None, "refusal": None})
    for piece in halves(said.words):
        yield chunk({"content": piece})
    for at, (wire_id, name, _) in enumerate(said.calls):
        opened = {"index": at, "id": wire_id, "type": "function", "function": {"name": name, "arguments": ""}}
        yield chunk({"tool_calls": [opened]})
    for turn in (0, 1):
        for at, (_, _, arguments) in enumerate(said.calls):
            for piece in halves(arguments)[turn : turn + 1]:
                yield chunk({"tool_calls": [{"index": at, "function": {"arguments": piece}}]})
    yield chunk({}, "tool_calls" if said.calls else "stop")


# ---------------------------------------------------------------- Responses


def items(said: Say, number: int) -> list[Body]:
    """The output of a reply."""
    found: list[Body] = []
    if said.words:
        part = {"type": "output_text", "text": said.words, "annotations": [], "logprobs": []}
        head = {"id": f"msg_{number}", "type": "message", "status": "completed", "role": "assistant"}
        found.append({**head, "content": [part]})
    for at, (wire_id, name, arguments) in enumerate(said.calls):
        ids = {"id": f"fc_{number}_{at}", "type": "function_call", "status": "completed"}
        found.append({**ids, "call_id": wire_id, "name": name, "arguments": arguments})
    return found


def response(output: list[Body], number: int, model: str, status: str = "completed") -> Body:
    """The whole reply."""
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {
        "id": f"resp_{number}", "object": "response", "created_at": 1, "status": status, "model": model,
        "output": output, "error": None, "incomplete_details": None, "instructions": None, "metadata": {},
        "parallel_tool_calls": True, "temperature": 1.0, "tool_choice": "auto", "tools": [], "top_p": 1.0,
        "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, **details},
    }  # fmt: skip


def events(said: Say, number: int, model: str) -> Iterator[Body]:
    """The same in pieces, numbered."""
    for sequence, event in enumerate(_events(said, number, model)):
        yield {**event, "sequence_number": sequence}


def _events(said: Say, number: int, model: str) -> Iterator[Body]:
    output = items(said, number)
    yield {"type": "response.created", "response": response([], number, model, "in_progress")}
    for at, item in enumerate(output):
        place = {"output_index": at, "item_id": item["id"]}
        words = item["type"] == "message"
        empty = {"content": []} if words else {"arguments": ""}
        started = {**item, **empty, "status": "in_progress"}
        yield {"type": "response.output_item.added", "output_index": at, "item": started}
        if words:
            yield from _words(place, item["content"][0])
        else:
            for piece in halves(item["arguments"]):
                yield {"type": "response.function_call_arguments.delta", **place, "delta": piece}
            whole = {"arguments": item["arguments"], "name": item["name"]}
            yield {"type": "response.function_call_arguments.done", **place, **whole}
        yield {"type": "response.output_item.done", "output_index": at, "item": item}
    yield {"type": "response.completed", "response": response(output, number, model)}


def _words(place: Body, part: Body) -> Iterator[Body]:
    place = {**place, "content_index": 0}
    yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
    for piece in halves(part["text"]):
        yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": part}


# ---------------------------------------------------------------- the server


class Loopback:
    """The server, as a context manager."""

    def __init__(self) -> None:
        self.state = State()

        class Handler(_Handler):
            state = self.state

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """The base URL for a client."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def exchanges(self) -> list[Exchange]:
        """All requests so far."""
        return self.state.exchanges

    def replies(self, *said: Say) -> None:
        """Forget everything, and answer the next requests so."""
        self.state.exchanges.clear()
        self.state.script.clear()
        self.state.script.extend(said)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    state: State

    def do_POST(self) -> None:
        """Judge a request, and answer it."""
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        api = PATHS.get(self.path)
        if api is None:
            self._json(404, _error(f"Unknown request URL: POST {self.path}", None))
            return
        broken = rejects(judge(registry.provider(api).rules, request))
        if broken:
            self.state.exchanges.append(Exchange(api, request, 400, broken[0].rule))
            self._json(400, _error(f"{broken[0].message} [{broken[0].rule}]", broken[0].pointer))
            return
        self.state.exchanges.append(Exchange(api, request, 200))
        said = self.state.script.popleft() if self.state.script else Say("Fine.")
        self._answer(api, said, request)

    def _answer(self, api: str, said: Say, request: Body) -> None:
        number, model = len(self.state.exchanges), str(request.get("model"))
        if not request.get("stream"):
            whole = completion(said, number, model) if api == "openai_chat" else None
            self._json(200, whole or response(items(said, number), number, model))
            return
        make = chunks if api == "openai_chat" else events
        told = list(make(said, number, model))[: said.cut]
        names = [f"event: {event['type']}\n" if "type" in event else "" for event in told]
        lines = [f"{name}data: {json.dumps(event)}\n\n" for name, event in zip(names, told, strict=True)]
        if api == "openai_chat" and said.cut is None:
            lines.append("data: [DONE]\n\n")
        self._send(200, "text/event-stream", "".join(lines).encode())

    def _json(self, status: int, value: Any) -> None:
        self._send(status, "application/json", json.dumps(value).encode())

    def _send(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def _error(words: str, param: str | None) -> Body:
    return {"error": {"message": words, "type": "invalid_request_error", "param": param, "code": None}}
