"""As cost.py, for Chat Completions and Responses against the openai SDK's own request building in the same run.

    python benchmarks/cost_openai.py [--messages 200,2000] [--rounds 5]

The history is that of cost.py in the words of each API. "Building" is what `create` does up to the transport (a
mock). Ratios are medians of rounds, each against the building of its round. The SDK goes through every item of a
request with its types, which takes much longer than with Anthropic's; the seconds are printed beside the ratios.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import cost
import httpx2 as httpx
import openai

import normalizer

if TYPE_CHECKING:
    from collections.abc import Callable

MODEL = "gpt-5.2"
SCHEMA = {"type": "object"}
CHAT_TOOLS = [
    {
        "type": "function",
        "function": {"name": "run_command", "description": "Run a command", "parameters": SCHEMA},
    }
]
RESPONSES_TOOLS = [
    {
        "type": "function",
        "name": "run_command",
        "description": "Run a command",
        "parameters": SCHEMA,
        "strict": False,
    }
]


def chat(length: int) -> dict[str, Any]:
    """The coding agent's history as a Chat request."""
    messages: list[dict[str, Any]] = []
    for message in cost.history(length):
        content = message["content"]
        if isinstance(content, str):
            messages.append(message)
        elif message["role"] == "user":
            messages.extend(
                {"role": "tool", "tool_call_id": block["tool_use_id"], "content": block["content"]}
                for block in content
            )
        else:
            calls = [
                {
                    "id": block["id"],
                    "type": "function",
                    "function": {"name": block["name"], "arguments": json.dumps(block["input"])},
                }
                for block in content
                if block["type"] == "tool_use"
            ]
            words = {"role": "assistant", "content": content[0]["text"]}
            messages.append({**words, "tool_calls": calls} if calls else words)
    return {"model": MODEL, "messages": messages, "tools": CHAT_TOOLS}


def responses(length: int) -> dict[str, Any]:
    """The coding agent's history as a Responses request, items as the API returned them."""
    items: list[dict[str, Any]] = []
    for number, message in enumerate(cost.history(length)):
        content = message["content"]
        if isinstance(content, str):
            items.append({"role": "user", "content": content})
            continue
        for block in content:
            if block["type"] == "text":
                part = {"type": "output_text", "text": block["text"], "annotations": []}
                said = {"role": "assistant", "status": "completed", "content": [part]}
                items.append({"type": "message", "id": f"msg_{number}", **said})
            elif block["type"] == "tool_use":
                given = {
                    "name": block["name"],
                    "arguments": json.dumps(block["input"]),
                    "status": "completed",
                }
                ids = {"id": f"fc_{number}", "call_id": block["id"]}
                items.append({"type": "function_call", **ids, **given})
            else:
                answer = {"call_id": block["tool_use_id"], "output": block["content"]}
                items.append({"type": "function_call_output", **answer})
    return {"model": MODEL, "input": items, "tools": RESPONSES_TOOLS, "store": False}


APIS: dict[str, Callable[[int], dict[str, Any]]] = {"openai_chat": chat, "openai_responses": responses}


def building(api: str) -> Callable[..., object]:
    """The SDK's method that sends a request, over a transport that answers at once."""
    answer = {"id": "r_1", "object": "response", "created_at": 1, "output": [], "choices": []}

    def respond(request: httpx.Request) -> httpx.Response:
        request.read()
        return httpx.Response(200, json=answer)

    transport = httpx.Client(transport=httpx.MockTransport(respond))
    sdk = openai.OpenAI(api_key="none", base_url="http://127.0.0.1", http_client=transport, max_retries=0)
    found: Callable[..., object] = (
        sdk.chat.completions.create if api == "openai_chat" else sdk.responses.create
    )
    return found


def measure(api: str, length: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of each round for each kind of work."""
    request, build = APIS[api](length), building(api)
    found: dict[str, list[float]] = {"SDK building": [], "cold": [], "check": [], "repair": [], "warm": []}

    def cold() -> normalizer.Projection:
        return normalizer.project(
            normalizer.fold(normalizer.read(request).facts), api, model=MODEL, open_calls="unknown"
        )

    for _ in range(rounds):
        found["SDK building"].append(cost.timed(lambda: build(**request)))
        found["cold"].append(cost.timed(cold))
        found["check"].append(cost.timed(lambda: normalizer.check(request, api, context=cost.HISTORY)))
        found["repair"].append(cost.timed(lambda: normalizer.repair(request)))
        gc.collect()
    facts = normalizer.read(request).facts
    transcript = normalizer.fold(facts)
    projection = normalizer.project(transcript, api, model=MODEL, open_calls="unknown")
    seq = max(fact.seq for fact in facts)
    for number in range(max(rounds, 15) * 3):
        reply, result = cost.turn(number, seq + 1)
        assert reply.kind == "model_replied"
        new = [replace(reply, api=api, provider="openai", model=MODEL), result]
        seq += 2
        start = time.perf_counter()
        transcript = normalizer.fold(new, onto=transcript)
        projection = normalizer.project(
            transcript, api, model=MODEL, open_calls="unknown", previous=projection
        )
        found["warm"].append(time.perf_counter() - start)
    return found


def tell(api: str, lengths: list[int], rounds: int) -> None:
    """Print the table of one API."""
    warm: dict[int, float] = {}
    for length in lengths:
        found = measure(api, length, rounds)
        middle_building = statistics.median(found["SDK building"])
        print(f"{api}, {length} messages")
        for name, seconds in found.items():
            middle = statistics.median(seconds)
            pairs = zip(seconds, found["SDK building"], strict=False)
            ratio = middle / middle_building if name == "warm" else statistics.median(a / b for a, b in pairs)
            print(f"  {name:<14} {middle * 1e3:9.3f} ms   {ratio:7.4f} x the SDK's building")
        cost.tell_check(found)
        warm[length] = statistics.median(found["warm"])
    if len(warm) > 1:
        first, last = min(warm), max(warm)
        print(f"{api}: warm at {last} messages is {warm[last] / warm[first]:.2f} x warm at {first}")


def main() -> None:
    """Print a table for each API, and the limits."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--messages", default="200,2000")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    for api in APIS:
        tell(api, [int(length) for length in options.messages.split(",")], options.rounds)
    print(
        f"limits: cold {cost.COLD_LIMIT} x, warm {cost.WARM_LIMIT} x at 2000 messages"
        f" and {cost.GROWTH_LIMIT} x its time at 200, check {cost.CHECK_LIMIT} x read+fold+project"
    )


if __name__ == "__main__":
    main()
