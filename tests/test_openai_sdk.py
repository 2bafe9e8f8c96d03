"""The real openai client sends projected requests to a server that applies the rules, and we read what it gets."""

from __future__ import annotations

import asyncio
import copy
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import openai
import pytest
from loopback_openai import Loopback, Say

import normalizer
from normalizer.facts import CallCompleted, InstructionsSet, ToolsDeclared, UserSaid
from normalizer.parts import Json, Text, Tool
from normalizer.projecting.canonical import encode
from normalizer.projecting.sent_record import request_sent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from normalizer.facts import Fact
    from normalizer.findings import Reading

MODEL: Final = "gpt-5.2"
APIS: Final = ("openai_chat", "openai_responses")
CALLS: Final = (("call_1", "weather", '{"city": "Oslo"}'), ("call_2", "weather", '{"city": "Rome"}'))
CHAT_TOOL: Final = {
    "type": "function", "function": {"name": "weather", "parameters": {"type": "object"}},
}  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[Loopback]:
    with Loopback() as found:
        yield found


@pytest.fixture(scope="module")
def client(server: Loopback) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server.url, api_key="k", max_retries=0) as found:
        yield found


@pytest.fixture(autouse=True)
def _forget(server: Loopback) -> None:
    server.replies()


def maker(client: Any, api: str) -> Any:
    """What sends a request."""
    return client.chat.completions.create if api == "openai_chat" else client.responses.create


def response(client: openai.OpenAI, api: str, request: dict[str, Any]) -> Any:
    """The SDK's object for a whole reply."""
    return maker(client, api)(**request)


# ---------------------------------------------------------------- a conversation


class Host:
    """Facts, and one request after another, as an agent keeps them."""

    def __init__(self, api: str) -> None:
        self.api = api
        tool = Tool("weather", "The weather.", Json.of({"type": "object"}))
        self.facts: list[Fact] = [
            InstructionsSet(fact_id="i", seq=1, parts=(Text("Be brief."),)),
            ToolsDeclared(fact_id="t", seq=2, tools=(tool,)),
            UserSaid(fact_id="u", seq=3, parts=(Text("Weather in Oslo and Rome?"),)),
        ]
        self.seq = 3
        self.requests: list[dict[str, Any]] = []

    def add(self, kind: Any, **about: Any) -> None:
        self.seq += 1
        self.facts.append(kind(fact_id=f"f{self.seq}", seq=self.seq, **about))

    def ask(self) -> dict[str, Any]:
        found = normalizer.project(normalizer.fold(self.facts), self.api, model=MODEL, open_calls="unknown")
        self.seq += 1
        self.facts.append(request_sent(found, fact_id=f"q{self.seq}", seq=self.seq))
        self.requests.append(found.request)
        more: dict[str, Any] = {"store": False} if self.api == "openai_responses" else {}
        return {"model": MODEL, **found.request, **more}

    def take(self, reading: Reading) -> None:
        for fact in reading.facts:
            if fact.kind in ("model_replied", "reply_cut"):
                self.seq += 1
                asked = f"q{self.seq - 1}"
                self.facts.append(replace(fact, fact_id=f"f{self.seq}", seq=self.seq, answers=asked))

    def after(self, step: int) -> None:
        if step == 0:
            self.add(CallCompleted, call_id="call_2", content="21 C")
            self.add(UserSaid, parts=(Text("Hurry."),))
        else:
            self.add(UserSaid, parts=(Text("Thanks."),))


SCRIPT: Final = (Say("Looking.", CALLS), Say("Rome has 21 C."), Say("Bye."))


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("way", ["plain", "stream"])
def test_a_conversation_over_the_sdk_is_never_refused(
    server: Loopback, client: openai.OpenAI, api: str, way: str
) -> None:
    server.replies(*SCRIPT)
    host = Host(api)
    before = b""
    for step in range(3):
        request = host.ask()
        now = encode(host.requests[-1])
        assert now.startswith(before)
        before = now
        if way == "plain":
            host.take(normalizer.read(response(client, api, request), format=api))
        else:
            with maker(client, api)(**request, stream=True) as stream:
                reading = normalizer.read_stream(stream, api)
            assert reading.calls_to_run == (("call_1", "call_2") if step == 0 else ())
            host.take(reading)
        host.after(step)
    assert [exchange.status for exchange in server.exchanges] == [200, 200, 200]
    calls = normalizer.fold(host.facts).calls
    assert {key: call.arguments for key, call in calls.items()} == {
        "call_1": {"city": "Oslo"}, "call_2": {"city": "Rome"},
    }  # fmt: skip
    assert "[tool outcome: unknown]" in json.dumps(server.exchanges[1].request)


def test_the_helpers_stream_of_responses_is_read_like_the_raw_one(
    server: Loopback, client: openai.OpenAI
) -> None:
    server.replies(SCRIPT[0])
    host = Host("openai_responses")
    request = host.ask()
    with client.responses.stream(**request) as stream:
        reading = normalizer.read_stream(stream, "openai_responses")
    assert reading.calls_to_run == ("call_1", "call_2")


@pytest.mark.parametrize("api", APIS)
def test_the_async_client_gets_the_same(server: Loopback, api: str) -> None:
    server.replies(SCRIPT[0], SCRIPT[0])

    async def both() -> tuple[Any, list[Any]]:
        request = Host(api).ask()
        async with openai.AsyncOpenAI(base_url=server.url, api_key="k", max_retries=0) as client:
            whole = await maker(client, api)(**request)
            stream = await maker(client, api)(**request, stream=True)
            return whole, [event async for event in stream]

    whole, events = asyncio.run(both())
    plain = normalizer.fold(normalizer.read(whole, format=api).facts)
    streamed = normalizer.fold(normalizer.read_stream(events, api).facts)
    assert list(plain.calls) == list(streamed.calls) == ["call_1", "call_2"]
    assert [call.arguments for call in plain.calls.values()] == [
        call.arguments for call in streamed.calls.values()
    ]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("cut", range(1, 12))
def test_a_cut_stream_leads_to_a_request_that_is_accepted(
    server: Loopback, client: openai.OpenAI, api: str, cut: int
) -> None:
    server.replies(Say("Looking.", CALLS, cut=cut), Say("Fine."))
    host = Host(api)
    with maker(client, api)(**host.ask(), stream=True) as stream:
        reading = normalizer.read_stream(stream, api)
    host.take(reading)
    host.add(UserSaid, parts=(Text("Go on."),))
    response(client, api, host.ask())
    assert [exchange.status for exchange in server.exchanges] == [200, 200]


# ---------------------------------------------------------------- broken inputs


def chat(*messages: dict[str, Any]) -> dict[str, Any]:
    first = {"role": "user", "content": "Weather in Oslo and Rome?"}
    return {"model": MODEL, "messages": [first, *messages], "tools": [CHAT_TOOL]}


def responses(*entries: dict[str, Any]) -> dict[str, Any]:
    first = {"role": "user", "content": "Weather in Oslo and Rome?"}
    tool = {"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": False}
    return {"model": MODEL, "input": [first, *entries], "tools": [tool], "store": False}


def asks(*calls: tuple[str, str, str], content: str | None = None) -> dict[str, Any]:
    made = [
        {"id": wire_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for wire_id, name, arguments in calls
    ]
    return {"role": "assistant", "content": content, "tool_calls": made}


def tells(wire_id: str, content: Any = "4 C") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": wire_id, "content": content}


def call(wire_id: str, **more: Any) -> dict[str, Any]:
    given = {"type": "function_call", "call_id": wire_id, "name": "weather", "arguments": "{}"}
    return {**given, **more}


def output(wire_id: str, words: Any = "4 C", kind: str = "function_call_output") -> dict[str, Any]:
    return {"type": kind, "call_id": wire_id, "output": words}


SAYS: Final = {"role": "user", "content": "Hurry."}
PICTURE: Final = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
ALONE: Final = {"type": "reasoning", "id": "rs_1", "summary": []}
CUSTOM: Final = {"type": "custom_tool_call", "call_id": "call_1", "name": "weather", "input": "x"}

BROKEN: Final[dict[str, dict[str, Any]]] = {
    "chat: no result": chat(asks(*CALLS), SAYS),
    "chat: one of two results": chat(asks(*CALLS), tells("call_2"), SAYS),
    "chat: a message before the results": chat(asks(CALLS[0]), SAYS, tells("call_1")),
    "chat: a result that nobody asked for": chat({"role": "assistant", "content": "Hm."}, tells("call_9"), SAYS),
    "chat: begins with a result": {**chat(), "messages": [tells("call_1"), SAYS]},
    "chat: an id that is too long": chat(asks(("x" * 60, "weather", "{}")), tells("x" * 60)),
    "chat: a result twice": chat(asks(CALLS[0]), tells("call_1"), tells("call_1", "5 C")),
    "chat: a reply of nothing": chat({"role": "assistant", "content": None}, SAYS),
    "chat: an empty list of calls": chat({"role": "assistant", "content": "Hm.", "tool_calls": []}, SAYS),
    "chat: a picture in a result": chat(asks(CALLS[0]), tells("call_1", [PICTURE])),
    "chat: a name that is none": chat(asks(("call_1", "get weather!", "{}")), tells("call_1")),
    "chat: a result without id": chat(asks(CALLS[0]), {"role": "tool", "content": "4 C"}),
    "responses: no output": responses(call("call_1"), SAYS),
    "responses: one of two outputs": responses(call("call_1"), call("call_2"), output("call_2"), SAYS),
    "responses: an output that nobody asked for": responses(output("call_9"), SAYS),
    "responses: an output before its call": responses(output("call_1"), call("call_1")),
    "responses: an output of another type": responses(CUSTOM, output("call_1")),
    "responses: reasoning alone": responses(ALONE, SAYS),
    "responses: an id that is too long": responses(call("x" * 70), output("x" * 70)),
    "responses: an id twice": responses(call("call_1", id="fc_1"), output("call_1"), call("call_2", id="fc_1"),
                                        output("call_2")),
    "responses: a call twice": responses(call("call_1"), call("call_1"), output("call_1"), output("call_1")),
    "responses: input words of the model": responses(
        {"role": "assistant", "content": [{"type": "input_text", "text": "Hm."}]}, SAYS
    ),
    "responses: arguments that are an object": responses(call("call_1", arguments={}), output("call_1")),
    "responses: a name that is none": responses(call("call_1", name="get weather!"), output("call_1")),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_the_api_refuses_is_accepted_when_it_is_repaired(
    server: Loopback, client: openai.OpenAI, name: str
) -> None:
    api = f"openai_{name.partition(':')[0]}"
    with pytest.raises(openai.BadRequestError) as refused:
        response(client, api, copy.deepcopy(BROKEN[name]))
    assert refused.value.type == "invalid_request_error"
    repaired = normalizer.repair(copy.deepcopy(BROKEN[name]), format=api)
    assert server.exchanges[0].rule in {found.rule for found in repaired.violations_before}
    response(client, api, repaired.request)
    assert [exchange.status for exchange in server.exchanges] == [400, 200]


@pytest.mark.parametrize("name", BROKEN)
def test_the_other_api_accepts_it_too(server: Loopback, client: openai.OpenAI, name: str) -> None:
    api = f"openai_{name.partition(':')[0]}"
    other = next(one for one in APIS if one != api)
    repaired = normalizer.repair(copy.deepcopy(BROKEN[name]), format=api, to=other)
    response(client, other, {"model": MODEL, **repaired.request})
    assert [exchange.status for exchange in server.exchanges] == [200]


# ---------------------------------------------------------------- objects in the history


@pytest.mark.parametrize("api", APIS)
def test_a_response_object_goes_back_into_the_history(
    server: Loopback, client: openai.OpenAI, api: str
) -> None:
    server.replies(SCRIPT[0], Say("Fine."))
    history: list[Any] = [{"role": "user", "content": "Weather in Oslo and Rome?"}]
    key = "messages" if api == "openai_chat" else "input"
    found = response(client, api, {**(chat() if api == "openai_chat" else responses()), key: history})
    history += [found.choices[0].message] if api == "openai_chat" else found.output
    history.append(SAYS)
    repaired = normalizer.repair({"model": MODEL, key: history}, to=api)
    assert set(repaired.transcript.calls) == {"call_1", "call_2"}
    response(client, api, repaired.request)
    assert [exchange.status for exchange in server.exchanges] == [200, 200]
