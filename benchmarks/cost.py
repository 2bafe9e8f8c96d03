"""What a projection costs, as ratios against the SDK's own request building in the same run.

    python benchmarks/cost.py [--messages 200,2000] [--rounds 15]

The history is that of a coding agent: text and a call with arguments in each reply, a result of some forty
lines behind it, now and then words of a person. "Building" is what `client.messages.create` does up to the
transport (a mock). Cold is read, fold and project from parsed JSON; warm is folding and projecting one more
turn on top of what was projected before. Check is judging the request; its price is told in read, fold and project of
the same round. Ratios are medians of rounds, each against the building of its round.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from typing import TYPE_CHECKING, Any

import anthropic
import httpx2 as httpx

import normalizer
from normalizer.facts import CallCompleted, ModelReplied
from normalizer.parts import Json, Text, ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable

    from normalizer.facts import Fact

MODEL = "claude-opus-4-8"
TOOLS = [{"name": "run_command", "description": "Run a command", "input_schema": {"type": "object"}}]
COLD_LIMIT, WARM_LIMIT, GROWTH_LIMIT, CHECK_LIMIT = 1.0, 0.02, 1.5, 1.0
HISTORY = {"history": True}


def history(length: int) -> list[dict[str, Any]]:
    """A coding agent's messages: every twentieth step begins with words of a person."""
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Find out why the nightly build fails and mend it."}
    ]
    step = 0
    while len(messages) < length - 1:
        step += 1
        call = {
            "command": f"grep -rn 'error {step}' /srv/app/logs --include='*.log' | head -40",
            "timeout": 30,
        }
        messages.append(
            {
                "role": "assistant",
                "content": [
                    {
                        "type": "text",
                        "text": f"Step {step}: I look at the log lines around this error first.",
                    },
                    {"type": "tool_use", "id": f"toolu_{step:05}", "name": "run_command", "input": call},
                ],
            }
        )
        output = "".join(f"{n:03} step={step} worker started, queue has items\n" for n in range(40))
        messages.append(
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": f"toolu_{step:05}", "content": output}],
            }
        )
        if step % 20 == 0:
            messages.append(
                {"role": "assistant", "content": [{"type": "text", "text": "This part is done."}]}
            )
            messages.append({"role": "user", "content": "Good. Go on with the next one."})
    return messages[:length]


def turn(number: int, seq: int) -> list[Fact]:
    """One more reply with a call, and its result."""
    key, turn_id = f"toolu_live_{number}", "live"
    call = ToolCall(key, "run_command", Json('{"command":"make test"}'))
    return [
        ModelReplied(
            fact_id=f"live/{number}/reply", seq=seq, turn_id=turn_id, api="anthropic", provider="anthropic",
            model=MODEL,
            stop_reason="tool_use", parts=(Text("I run the tests."), call),
        ),
        CallCompleted(
            fact_id=f"live/{number}/result", seq=seq + 1, turn_id=turn_id, call_id=key, content="ok", is_error=False
        ),
    ]  # fmt: skip


def client() -> anthropic.Anthropic:
    """The SDK's client over a transport that answers at once."""
    answer = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "stop_reason": "end_turn",
        "stop_sequence": None, "content": [{"type": "text", "text": "ok"}],
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip

    def respond(request: httpx.Request) -> httpx.Response:
        request.read()
        return httpx.Response(200, json=answer)

    transport = httpx.Client(transport=httpx.MockTransport(respond))
    return anthropic.Anthropic(
        api_key="none", base_url="http://127.0.0.1", http_client=transport, max_retries=0
    )


def timed(work: Callable[[], object]) -> float:
    """Seconds of one run."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(length: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of each round for each kind of work."""
    messages = history(length)
    request = {"model": MODEL, "max_tokens": 1024, "messages": messages, "tools": TOOLS}
    sdk = client()
    found: dict[str, list[float]] = {"SDK building": [], "cold": [], "check": [], "repair": [], "warm": []}

    def cold() -> normalizer.Projection:
        return normalizer.project(
            normalizer.fold(normalizer.read(request).facts), "anthropic", open_calls="unknown"
        )

    for _ in range(rounds):
        found["SDK building"].append(timed(lambda: sdk.messages.create(**request)))
        found["cold"].append(timed(cold))
        found["check"].append(timed(lambda: normalizer.check(request, "anthropic", context=HISTORY)))
        found["repair"].append(timed(lambda: normalizer.repair(request)))
        gc.collect()
    facts = normalizer.read(request).facts
    transcript = normalizer.fold(facts)
    projection = normalizer.project(transcript, "anthropic", open_calls="unknown")
    seq = max(fact.seq for fact in facts)
    for number in range(max(rounds, 15) * 3):
        new = turn(number, seq + 1)
        seq += 2
        start = time.perf_counter()
        transcript = normalizer.fold(new, onto=transcript)
        projection = normalizer.project(transcript, "anthropic", open_calls="unknown", previous=projection)
        found["warm"].append(time.perf_counter() - start)
    return found


def tell_check(found: dict[str, list[float]]) -> None:
    """Print what a check costs in read+fold+project of its round: the lower quartile, since a busy machine adds."""
    ratios = sorted(check / cold for check, cold in zip(found["check"], found["cold"], strict=True))
    print(f"  a check is {ratios[len(ratios) // 4]:.3f} x read+fold+project")


def main() -> None:
    """Print a table and the limits."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--messages", default="200,2000")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    warm: dict[int, float] = {}
    for length in map(int, options.messages.split(",")):
        found = measure(length, options.rounds)
        building = statistics.median(found["SDK building"])
        print(f"{length} messages")
        for name, seconds in found.items():
            middle = statistics.median(seconds)
            pairs = zip(seconds, found["SDK building"], strict=False)
            ratio = middle / building if name == "warm" else statistics.median(a / b for a, b in pairs)
            print(f"  {name:<14} {middle * 1e3:9.3f} ms   {ratio:7.4f} x the SDK's building")
        tell_check(found)
        warm[length] = statistics.median(found["warm"])
    if len(warm) > 1:
        first, last = min(warm), max(warm)
        print(f"warm at {last} messages is {warm[last] / warm[first]:.2f} x warm at {first}")
    print(
        f"limits: cold {COLD_LIMIT} x, warm {WARM_LIMIT} x at 2000 messages and {GROWTH_LIMIT} x its time at 200,"
        f" check {CHECK_LIMIT} x read+fold+project"
    )


if __name__ == "__main__":
    main()
