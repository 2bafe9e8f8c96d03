"""A Messages API on 127.0.0.1, as strict as the real one; its replies are scripted.

It refuses what the rulebook rejects, and minds its own signatures: over everything before a thinking block on
prefix-bound models, over the text elsewhere. How it writes down a prefix is its own affair and shares no
code with the library.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self, TypeAlias
from urllib.parse import urlsplit

from normalizer.providers.anthropic import wire
from normalizer.providers.anthropic.rules import RULES
from normalizer.rules import judge, rejects

Block: TypeAlias = dict[str, Any]
Request: TypeAlias = dict[str, Any]

_KEY: Final = "the key of the loopback server"
_SEALS: Final = {"thinking": "signature", "redacted_thinking": "data"}
_NOT_IN_BODY: Final = frozenset({"betas", "extra_headers", "extra_query", "extra_body", "timeout"})
_PIECES: Final = {"text": "text_delta", "thinking": "thinking_delta", "input": "input_json_delta"}


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model says. Thinking is signed by the server.

    A call whose block has the key `_json` streams that text as its input, whole JSON or not. `cut` is the part of the
    stream's events (0 to 1) after which the connection ends, `abrupt` how. `error` comes as an event where it is cut.
    """

    content: tuple[Block, ...] = ()
    stop_reason: str = "end_turn"
    container: str | None = None
    cut: float | None = None
    abrupt: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """The API does not take the request, whatever is in it."""

    message: str
    kind: str = "invalid_request_error"
    status: int = 400


Answer: TypeAlias = Reply | Refusal
Script: TypeAlias = Callable[[Request], Answer]


def text(words: str) -> Block:
    """A text block."""
    return {"type": "text", "text": words}


def thinking(words: str) -> Block:
    """A thinking block that the server will sign."""
    return {"type": "thinking", "thinking": words}


def call(call_id: str, name: str, given: Any = None, **more: Any) -> Block:
    """A call of a client tool."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": given or {}, **more}


def server_call(call_id: str, name: str, given: Any = None) -> Block:
    """A call that the server runs."""
    return {"type": "server_tool_use", "id": call_id, "name": name, "input": given or {}}


def server_result(call_block: Block) -> Block:
    """What the server found for its own call."""
    name, call_id = call_block["name"], call_block["id"]
    if name == "web_search":
        page = {
            "type": "web_search_result",
            "url": "https://example.org/",
            "title": "Example",
            "encrypted_content": f"enc{call_id}",
            "page_age": None,
        }
        return {"type": "web_search_tool_result", "tool_use_id": call_id, "content": [page]}
    ran = {"type": "code_execution_result", "stdout": "4\n", "stderr": "", "return_code": 0, "content": []}
    return {"type": "code_execution_tool_result", "tool_use_id": call_id, "content": ran}


@dataclass(slots=True)
class Exchange:
    """One request and what became of it. `why` is the error's text."""

    request: Request
    status: int
    why: str = ""


# ---------------------------------------------------------------- the order of what was said


def flat(request: Mapping[str, Any]) -> Iterator[tuple[str, str, Block]]:
    """Pointer, role and block of everything in the messages; one text is one block."""
    for number, message in enumerate(request["messages"]):
        content = message["content"]
        if isinstance(content, str):
            yield f"messages.{number}.content", message["role"], text(content)
        else:
            for at, block in enumerate(content):
                yield f"messages.{number}.content.{at}", message["role"], block


def _essence(block: Any) -> Any:
    """A block as the server remembers it: no cache marks, no nulls, one text as one block."""
    if not isinstance(block, dict):
        return block
    plain = {k: v for k, v in block.items() if v is not None and k != "cache_control"}
    if "content" in plain and plain.get("type") == "tool_result":
        held = plain["content"]
        plain["content"] = [text(held)] if isinstance(held, str) else [_essence(one) for one in held]
    return plain


def _blank(block: Block) -> bool:
    return block.get("type") == "text" and not block["text"].strip()


class _Prefix:
    """Everything so far, as one running hash."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self._family = wire.family(request["model"])
        self._bound = wire.capability(request["model"]).prefix_bound
        system = request.get("system") or []
        self._sofar = hashlib.sha256(_KEY.encode())
        self._write([text(system)] if isinstance(system, str) else [_essence(one) for one in system])
        self._write([_essence(tool) for tool in request.get("tools") or []])

    def _write(self, value: Any) -> None:
        self._sofar.update(json.dumps(value, sort_keys=True).encode() + b"\n")

    def add(self, role: str, block: Block) -> None:
        """Go on behind this block."""
        if not _blank(block):
            self._write([role, _essence(block)])

    def seal(self, block: Block, nonce: str) -> str:
        """The signature of a thinking block that stands here; a nonce makes each one unique."""
        before = self._sofar.hexdigest() if self._bound else ""
        words = block.get("thinking", block["type"])
        digest = hashlib.sha256(f"{_KEY}\0{nonce}\0{self._family}\0{before}\0{words}".encode()).digest()
        return f"{nonce}/{base64.b64encode(digest).decode()}"

    def fits(self, block: Block) -> bool:
        """Whether a thinking block may stand here."""
        found = block.get(_SEALS[block["type"]]) or ""
        return bool(found == self.seal(block, found.partition("/")[0]))


def open_server_calls(request: Mapping[str, Any]) -> dict[str, Block]:
    """The server's calls that wait at the end of a history, by id."""
    waiting: dict[str, Block] = {}
    said: list[tuple[str, Block]] = [(role, block) for _, role, block in flat(request)]
    for role, block in said:
        kind = block["type"]
        if role == "assistant" and kind in wire.SERVER_CALLS:
            waiting[block["id"]] = block
        elif role == "assistant" and kind in wire.SERVER_RESULTS:
            waiting.pop(block["tool_use_id"], None)
        elif role != "assistant" and kind != "tool_result":
            waiting.clear()
    return waiting


# ---------------------------------------------------------------- the model behind it


@dataclass(slots=True)
class Service:
    """What the server knows and decides; no sockets."""

    script: Script
    exchanges: list[Exchange] = field(default_factory=list)
    replies: list[tuple[str, list[Block]]] = field(default_factory=list)
    """By family of the model, what reached the client."""
    containers: dict[str, str] = field(default_factory=dict)

    def objection(self, request: Request) -> str:
        """Why the API refuses this request; empty if it does not."""
        if stray := _NOT_IN_BODY & (request.keys() - {"betas"}):
            return f"{min(stray)}: Extra inputs are not permitted"
        broken = rejects(judge(RULES, request))
        if broken:
            rule = next(rule for rule in RULES if rule.id == broken[0].rule)
            return f"{broken[0].pointer}: {rule.error or 'invalid'} [{rule.id}: {broken[0].message}]"
        return self._bad_seal(request) or self._changed_thinking(request) or self._strange(request)

    def _bad_seal(self, request: Request) -> str:
        prefix = _Prefix(request)
        for pointer, role, block in flat(request):
            if (key := _SEALS.get(block["type"])) is not None and not prefix.fits(block):
                return f"{pointer}: Invalid `{key}` in `{block['type']}` block"
            prefix.add(role, block)
        return ""

    def _changed_thinking(self, request: Request) -> str:
        """The thinking of the latest assistant turn is there as it was written, or not at all (ANT-THK-001).

        On prefix-bound models the seals see to it, and a beginning of the thinking may stay (ANT-THK-017).
        """
        spoken = list(flat(request))
        last = max((n for n, (_, role, _) in enumerate(spoken) if role == "assistant"), default=-1)
        first = last
        while first > 0 and spoken[first - 1][1] == "assistant":
            first -= 1
        turn = [block for _, _, block in spoken[first : last + 1]]
        if (
            last < 0
            or wire.capability(request["model"]).prefix_bound
            or not any(block["type"] in _SEALS for block in turn)
        ):
            return ""
        known = {_name(block) for block in turn} - {None}
        written = [
            block
            for family, reply in self.replies
            if known & {_name(b) for b in reply}
            for block in reply
            if block["type"] not in _SEALS or family == wire.family(request["model"])
        ]
        sent, expected = _outline(turn), _outline(written)
        looping = any(block["type"] == "tool_use" for block in turn)
        # what is given up at the end of a turn takes the thinking before it along (ANT-THK-007)
        if sent == (expected if looping else expected[: len(sent)]):
            return ""
        return (
            f"{spoken[first][0]}: `thinking` or `redacted_thinking` blocks in the latest assistant message"
            " cannot be modified. These blocks must remain as they were in the original response."
        )

    def _strange(self, request: Request) -> str:
        """Containers and results that are not those of this server."""
        returned = {
            b["tool_use_id"]: b
            for _, reply in self.replies
            for b in reply
            if b["type"] in wire.SERVER_RESULTS
        }
        for pointer, _, block in flat(request):
            found = returned.get(block.get("tool_use_id")) if block["type"] in wire.SERVER_RESULTS else None
            if found is not None and _essence(block) != _essence(found):
                return f"{pointer}.content: Invalid `encrypted_content` in result block"
        for call_id in open_server_calls(request):
            wanted = self.containers.get(call_id)
            if wanted is not None and request.get("container") != wanted and _inner(request, call_id):
                return "container: container_id is required when there are pending tool uses"
        return ""

    def answer(self, request: Request) -> tuple[Answer, list[Block]]:
        """The scripted reply with the thinking signed, or a refusal."""
        if why := self.objection(request):
            self.exchanges.append(Exchange(request, 400, why))
            return Refusal(why), []
        reply = self.script(request)
        if isinstance(reply, Refusal):
            self.exchanges.append(Exchange(request, reply.status, reply.message))
            return reply, []
        self.exchanges.append(Exchange(request, 200))
        prefix = _Prefix(request)
        for _, role, block in flat(request):
            prefix.add(role, block)
        content: list[Block] = []
        for block in reply.content:
            key = _SEALS.get(block["type"])
            nonce = f"{len(self.exchanges)}x{len(content)}"
            made = {**block, key: prefix.seal(block, nonce)} if key is not None else _parsed(block)
            prefix.add("assistant", {k: v for k, v in made.items() if k != "_json"})
            content.append(made)
        return reply, content

    def delivered(self, request: Request, reply: Reply, content: list[Block]) -> None:
        """These blocks reached the client whole. A call that a limit cut off does not count (ANT-STR-006)."""
        if reply.stop_reason == "max_tokens" and reply.cut is None and content and not _whole(content[-1]):
            content = content[:-1]
        self.replies.append((wire.family(request["model"]), content))
        held = {b["id"] for b in content if b["type"] in wire.SERVER_CALLS} | open_server_calls(
            request
        ).keys()
        if reply.container:
            self.containers.update(dict.fromkeys(held, reply.container))


def _whole(block: Block) -> bool:
    given = block.get("_json")
    return given is None or bool(given and "INVALID_JSON" not in block["input"])


def _parsed(block: Block) -> Block:
    """A call with its input as the API wants it back: broken JSON is wrapped."""
    given = block.get("_json")
    if given is None:
        return dict(block)
    try:
        return {**block, "input": json.loads(given or "{}")}
    except ValueError:
        return {**block, "input": {"INVALID_JSON": given}}


def _inner(request: Request, call_id: str) -> bool:
    return any((block.get("caller") or {}).get("tool_id") == call_id for _, _, block in flat(request))


def _name(block: Block) -> tuple[str, str] | None:
    """What tells a block from all others; ids of client calls may be used again."""
    key = _SEALS.get(block["type"], "id")
    if block["type"] == "tool_use":
        return None
    return (block["type"], block[key]) if block.get(key) else None


def _outline(blocks: list[Block]) -> list[str]:
    """The seals in order, with a stroke for whatever stands between; what only ends or opens a turn does not count."""
    found: list[str] = []
    gap = False
    for block in blocks:
        if block["type"] in _SEALS:
            found += (["|"] if gap and found else []) + [block[_SEALS[block["type"]]]]
            gap = False
        elif not _blank(block):
            gap = True
    while not gap and found:  # thinking at the very end cannot be sent back (ANT-THK-007)
        gap = found.pop() == "|"
    return found


# ---------------------------------------------------------------- what goes over the wire


def message(request: Request, reply: Reply, content: list[Block], number: int) -> dict[str, Any]:
    """The JSON of a whole reply."""
    made: dict[str, Any] = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": [{k: v for k, v in block.items() if k != "_json"} for block in content],
        "stop_reason": reply.stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 7, "output_tokens": 9},
    }
    if reply.container:
        made["container"] = {"id": reply.container, "expires_at": "2027-01-01T00:00:00Z"}
    return made


def events(request: Request, reply: Reply, content: list[Block], number: int) -> Iterator[dict[str, Any]]:
    """The events of a streamed reply."""
    whole = message(request, reply, content, number)
    stops = {"stop_reason": whole.pop("stop_reason"), "stop_sequence": None}
    yield {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
    yield {"type": "ping"}
    for index, block in enumerate(content):
        start, deltas = _deltas(block)
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": stops, "usage": {"output_tokens": 9}}
    yield {"type": "message_stop"}


def _deltas(block: Block) -> tuple[Block, list[Block]]:
    """How a block starts, and the pieces in which the rest comes."""
    kind = block["type"]
    start = {k: v for k, v in block.items() if k != "_json"}
    if kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
        start["input"] = {}
        given = block.get("_json")
        return start, _pieces("input", "partial_json", json.dumps(block["input"]) if given is None else given)
    if kind in ("text", "thinking"):
        start[kind] = ""
        found = _pieces(kind, kind, block[kind])
        if kind == "thinking":
            start["signature"] = ""
            found.append({"type": "signature_delta", "signature": block["signature"]})
        return start, found
    return start, []


def _pieces(what: str, key: str, words: str) -> list[Block]:
    half = len(words) // 2
    return [{"type": _PIECES[what], key: piece} for piece in (words[:half], words[half:]) if piece]


class Loopback:
    """The server, as a context manager. `script` is a callable or a queue of answers, and may be replaced."""

    def __init__(self, script: Script | Iterable[Answer] = ()) -> None:
        self.service = Service(as_script(script))
        service, lock = self.service, threading.Lock()

        class Handler(_Handler):
            pass

        Handler.service, Handler.lock = service, lock
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """The base URL for a client."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def exchanges(self) -> list[Exchange]:
        """All requests so far."""
        return self.service.exchanges

    def replies(self, *answers: Answer) -> None:
        """Answer the next requests so."""
        self.service.script = as_script(answers)

    def forget(self) -> None:
        """Begin as if nothing had been asked."""
        self.service.exchanges.clear()
        self.service.replies.clear()
        self.service.containers.clear()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def as_script(script: Script | Iterable[Answer]) -> Script:
    """A queue as a callable."""
    if callable(script):
        return script
    queue = deque(script)
    return lambda _request: queue.popleft()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    service: Service
    lock: threading.Lock

    def do_POST(self) -> None:
        """`POST /v1/messages`, whatever its query (the beta client adds one)."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if urlsplit(self.path).path != "/v1/messages":
            self._json(404, _error("not_found_error", self.path))
            return
        if "betas" in body:
            self._json(400, _error("invalid_request_error", "betas: Extra inputs are not permitted"))
            return
        if named := self.headers.get("anthropic-beta"):
            body["betas"] = [one.strip() for one in named.split(",")]
        with self.lock:
            self._answer(body, stream=body.get("stream") is True)

    def _answer(self, request: Request, *, stream: bool) -> None:
        reply, content = self.service.answer(request)
        number = len(self.service.exchanges)
        if isinstance(reply, Refusal):
            self._json(reply.status, _error(reply.kind, reply.message))
        elif stream:
            found = list(events(request, reply, content, number))
            if reply.cut is not None:
                found = found[: int(len(found) * reply.cut)]
            closed = {event["index"] for event in found if event["type"] == "content_block_stop"}
            self.service.delivered(request, reply, [b for n, b in enumerate(content) if n in closed])
            if reply.error is not None:
                found.append({"type": "error", "error": {"type": reply.error, "message": "sorry"}})
            self._stream(found, abrupt=reply.abrupt)
        else:
            self.service.delivered(request, reply, content)
            self._json(200, message(request, reply, content, number))

    def _json(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, found: list[dict[str, Any]], *, abrupt: bool) -> None:
        data = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in found).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        chunk = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
        self.wfile.write(chunk if abrupt else chunk + b"0\r\n\r\n")
        self.close_connection = abrupt

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def _error(kind: str, words: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": words}, "request_id": "req_1"}
