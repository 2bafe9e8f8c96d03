"""An MCP server on stdin and stdout that answers as each tool's name says, well or badly. Started as a program."""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any, Final

TEXT: Final = [{"type": "text", "text": "done"}]
RESULTS: Final[dict[str, Any]] = {
    "text": {"content": TEXT},
    "error": {"content": [{"type": "text", "text": "no such page"}], "isError": True},
    "empty": {"content": []},
    "structured": {"content": [], "structuredContent": {"pages": [1, 2]}},
    "malformed": {"content": "nope"},
    "breaks_its_schema": {"content": TEXT, "structuredContent": {"pages": "many"}},
    "long": {"content": [{"type": "text", "text": "é" * 50_000}, {"type": "text", "text": "z" * 50_000}]},
    "mixed": {
        "content": [
            {"type": "text", "text": "a\0b"},
            {"type": "image", "data": "AA==", "mimeType": "image/png"},
            {"type": "audio", "data": "AQ==", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "file:///b.bin", "blob": "Ag==", "mimeType": "x/y"}},
            {"type": "resource_link", "uri": "file:///c.txt", "name": "c"},
        ]
    },
    "late": {"content": [{"type": "text", "text": "done all the same"}]},
}
ERRORS: Final = {
    "refused": {"code": -32602, "message": "no such argument"},
    "broken": {"code": -32603, "message": "the server fell over"},
    "unreadable": {"code": -32700, "message": "what?"},
    "given_up": {"code": -32800, "message": "Request cancelled"},
}
# What answers only when it is cancelled, after these seconds.
ON_CANCEL: Final = {
    "at_once": ("text", 0.0),
    "late": ("late", 0.6),
    "given_up": ("given_up", 0.0),
    "late_given_up": ("given_up", 0.6),
}
SCHEMA: Final = {"type": "object", "properties": {"pages": {"type": "array"}}, "required": ["pages"]}

lock = threading.Lock()
waiting: dict[Any, str] = {}


def say(message: dict[str, Any]) -> None:
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def answer(request_id: Any, name: str) -> None:
    if name in ERRORS:
        say({"id": request_id, "error": ERRORS[name]})
    else:
        say({"id": request_id, "result": RESULTS[name]})


def call(request_id: Any, name: str, arguments: dict[str, Any]) -> None:
    if name == "die":
        os._exit(3)
    if name == "echo":
        say({"id": request_id, "result": {"content": [{"type": "text", "text": json.dumps(arguments)}]}})
    elif name in ON_CANCEL or name == "silent":
        waiting[request_id] = name
    else:
        answer(request_id, name)


def cancelled(request_id: Any) -> None:
    name = waiting.pop(request_id, "")
    if name in ON_CANCEL:
        reply, seconds = ON_CANCEL[name]
        threading.Timer(seconds, answer, (request_id, reply)).start()


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        method, request_id, params = message.get("method"), message.get("id"), message.get("params") or {}
        sys.stderr.write(line)
        sys.stderr.flush()
        if method == "initialize":
            info = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
            say({"id": request_id, "result": {**info, "serverInfo": {"name": "scripted", "version": "1"}}})
        elif method == "tools/list":
            names = [*RESULTS, *ERRORS, *ON_CANCEL, "silent", "die", "echo"]
            tools: list[dict[str, Any]] = [
                {"name": name, "inputSchema": {"type": "object"}} for name in names
            ]
            for tool in tools:
                if tool["name"] == "breaks_its_schema":
                    tool["outputSchema"] = SCHEMA
            say({"id": request_id, "result": {"tools": tools}})
        elif method == "tools/call":
            call(request_id, params["name"], params.get("arguments") or {})
        elif method == "notifications/cancelled":
            cancelled(params["requestId"])


if __name__ == "__main__":
    main()
