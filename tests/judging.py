"""One row a target: who judges its requests beside our own rules, and how to look at a request without our code.

The laws name no API. A target that the registry gains needs a row here, and a flattener in `views.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from anthropic.types.beta import BetaMessageParam
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter
from views import Piece, of_chat, of_items, of_messages

from normalizer import registry
from normalizer.testing import anthropic_requests, openai_chat_requests, openai_responses_requests

TARGETS: Final = registry.targets()


@dataclass(frozen=True)
class Judge:
    """What the laws have to know of one target.

    `types` are those of the vendor's SDK for one entry of the list under `history`; `fitted` adds to an entry what the
    types demand and the API does not. `pieces` flattens a request. `payloads` are requests, broken or healthy.
    `top` are the keys whose change is a change of the heads, `later` those heads that the API takes in mid-conversation
    too, so that what is on top never has to change for them; `model` a model of it. `answer` is a whole response with a
    text and calls of `run` by id, `events` the same as a stream.
    """

    history: str
    types: TypeAdapter[Any]
    pieces: Callable[[Mapping[str, Any]], list[Piece]]
    payloads: Callable[..., Any]
    model: str
    answer: Callable[[list[str]], dict[str, Any]]
    events: Callable[[list[str]], list[dict[str, Any]]]
    fitted: Callable[[dict[str, Any]], dict[str, Any]] = lambda entry: entry
    later: frozenset[str] = frozenset()

    def check_types(self, request: Mapping[str, Any], unknown: Iterable[str]) -> None:
        """Every entry is of the SDK's types, but for blocks of the types in `unknown`, which no schema knows."""
        types = set(unknown)
        for entry in request[self.history]:
            if entry.get("type") not in types:
                _exhaust(self.types.validate_python(self.fitted(_without(entry, types))))


def _without(entry: dict[str, Any], types: set[str]) -> dict[str, Any]:
    content = entry.get("content")
    if not isinstance(content, list):
        return entry
    kept = [_without(b, types) for b in content if not isinstance(b, dict) or b.get("type") not in types]
    return {**entry, "content": kept}


def _exhaust(value: Any) -> None:
    """Look at everything that the SDKs' types validate only when it is iterated."""
    if isinstance(value, dict):
        value = value.values()
    elif isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        return
    for item in value:
        _exhaust(item)


# ---------------------------------------------------------------- Anthropic


def _message(calls: list[str]) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": "Yes."}]
    content += [{"type": "tool_use", "id": name, "name": "run", "input": {}} for name in calls]
    reason = "tool_use" if calls else "end_turn"
    about = {"id": "m", "type": "message", "role": "assistant", "model": "claude-opus-4-8"}
    return {**about, "content": content, "stop_reason": reason}


def _message_events(calls: list[str]) -> list[dict[str, Any]]:
    body = _message(calls)
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {**body, "content": []}}]
    for index, block in enumerate(body["content"]):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": body["stop_reason"]}})
    return [*events, {"type": "message_stop"}]


# ---------------------------------------------------------------- OpenAI Chat

_CHUNK: Final = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-5.2"}


def _completion(calls: list[str]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "Yes.", "refusal": None}
    if calls:
        function = {"name": "run", "arguments": "{}"}
        message["tool_calls"] = [{"id": name, "type": "function", "function": function} for name in calls]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return {**_CHUNK, "object": "chat.completion", "choices": [choice]}


def _chunks(calls: list[str]) -> list[dict[str, Any]]:
    function = {"name": "run", "arguments": "{}"}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": "Yes."}]
    deltas += [
        {"tool_calls": [{"index": n, "id": name, "type": "function", "function": function}]}
        for n, name in enumerate(calls)
    ]
    made = [{**_CHUNK, "choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas]
    reason = "tool_calls" if calls else "stop"
    return [*made, {**_CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}]


# ---------------------------------------------------------------- OpenAI Responses


def _response(calls: list[str]) -> dict[str, Any]:
    part = {"type": "output_text", "text": "Yes.", "annotations": []}
    done = {"status": "completed"}
    # the ids of items differ from reply to reply, as a server's do
    message = {
        "type": "message",
        "id": f"msg_{'_'.join(calls) or 'end'}",
        "role": "assistant",
        "content": [part],
    }
    items = [{**message, **done}]
    items += [
        {
            "type": "function_call",
            "id": f"fc_{name}",
            "call_id": name,
            "name": "run",
            "arguments": "{}",
            **done,
        }
        for name in calls
    ]
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "gpt-5.2",
        **done,
        "output": items,
    }


def _response_events(calls: list[str]) -> list[dict[str, Any]]:
    body = _response(calls)
    started = {**body, "status": "in_progress", "output": []}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": started}]
    for index, item in enumerate(body["output"]):
        events.append({"type": "response.output_item.added", "output_index": index, "item": item})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": body})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def _item(item: dict[str, Any]) -> dict[str, Any]:
    """An item of Responses with what the SDK's types demand and the API does not."""
    if item.get("type") == "reasoning":
        return {"id": "rs_0", **{key: value for key, value in item.items() if value is not None}}
    if item.get("type") == "message" and item["role"] == "assistant" and isinstance(item["content"], list):
        content = [{"annotations": [], **part} for part in item["content"]]
        return {"id": "msg_0", "status": "completed", **item, "content": content}
    if item.get("type") == "message" and isinstance(item["content"], str):
        # both forms of a message fit; of the two the types would take the one whose content is a list
        return {key: value for key, value in item.items() if key not in ("id", "status")}
    return item


JUDGES: Final[dict[str, Judge]] = {
    "anthropic": Judge(
        "messages", TypeAdapter(BetaMessageParam), of_messages, anthropic_requests, "claude-opus-4-8",
        _message, _message_events,
    ),
    "openai_chat": Judge(
        "messages", TypeAdapter(ChatCompletionMessageParam), of_chat, openai_chat_requests, "gpt-5.2",
        _completion, _chunks, later=frozenset({"instructions"}),
    ),
    "openai_responses": Judge(
        "input", TypeAdapter(ResponseInputItemParam), of_items, openai_responses_requests, "gpt-5.2",
        _response, _response_events, _item, later=frozenset({"instructions"}),
    ),
}  # fmt: skip


def dumped(value: Any) -> str:
    """A JSON value as one text, with no key moved."""
    return json.dumps(value, ensure_ascii=False)
