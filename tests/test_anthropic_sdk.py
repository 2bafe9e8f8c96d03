"""A real SDK client sends projected requests to a server that is as strict as the API, and reads back what it gets."""

from __future__ import annotations

import asyncio
import copy
from typing import TYPE_CHECKING, Any, Final

import anthropic
import pytest
from loopback import Block, Loopback, Refusal, Reply, call, server_call, server_result, text, thinking

import normalizer
from normalizer.facts import CallCompleted, InstructionsSet, ToolsDeclared, UserSaid
from normalizer.folding.fold_run import fold
from normalizer.parts import Json, Text, Tool
from normalizer.projecting.canonical import encode
from normalizer.projecting.sent_record import request_sent
from normalizer.providers.anthropic.stream import Assembler

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from normalizer.facts import Fact
    from normalizer.findings import Reading
    from normalizer.projection import Projection

pytestmark = pytest.mark.filterwarnings("ignore:The model 'claude-sonnet-4-5' is deprecated")

BOUND, UNBOUND, OLD = "claude-opus-5-5", "claude-opus-4-8", "claude-sonnet-4-5"
WEATHER: Final[dict[str, Any]] = {
    "name": "get_weather",
    "description": "Weather",
    "input_schema": {"type": "object"},
}
SEARCH: Final[dict[str, Any]] = {"type": "web_search_20250305", "name": "web_search"}
LIMIT: Final[dict[str, Any]] = {"max_tokens": 1024}


@pytest.fixture(scope="module")
def server() -> Iterator[Loopback]:
    with Loopback() as found:
        yield found


@pytest.fixture(scope="module")
def client(server: Loopback) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0) as found:
        yield found


@pytest.fixture(autouse=True)
def _forget(server: Loopback) -> None:
    server.forget()


def send(client: anthropic.Anthropic, request: dict[str, Any], **more: Any) -> Any:
    """A request through the client that its betas need."""
    maker: Any = client.beta.messages if "betas" in request else client.messages
    return maker.create(**LIMIT, **request, **more)


def beginning(*said: str) -> list[Fact]:
    """Instructions, tools, and what the user said."""
    raw = Json.of(WEATHER)
    facts: list[Fact] = [
        InstructionsSet(fact_id="i", seq=1, parts=(Text("Be brief."),), string=True),
        ToolsDeclared(fact_id="t", seq=2, tools=(Tool("get_weather", raw=raw),), api="anthropic"),
    ]
    return facts + [
        UserSaid(fact_id=f"u{n}", seq=3 + n, parts=(Text(words),)) for n, words in enumerate(said)
    ]


def projected(facts: Iterable[Fact], model: str, **options: Any) -> Projection:
    return normalizer.project(fold(facts), "anthropic", model=model, **options)


def reply_of(reading: Reading) -> Any:
    """The reply that a reading holds."""
    return next(fact for fact in reading.facts if fact.kind in ("model_replied", "reply_cut"))


class Host:
    """Facts, and one request after another."""

    def __init__(self, model: str, *said: str) -> None:
        self.model, self.facts = model, beginning(*said)
        self.seq = len(self.facts)

    def add(self, kind: type[Any], **about: Any) -> None:
        self.seq += 1
        self.facts.append(kind(fact_id=str(self.seq), seq=self.seq, **about))

    def ask(self) -> tuple[dict[str, Any], Assembler]:
        """The next request, written down as sent, and who collects its reply."""
        found = projected(self.facts, self.model, open_calls="unknown")
        self.seq += 2
        self.facts.append(request_sent(found, fact_id=f"q{self.seq}", seq=self.seq - 1))
        return found.request, Assembler(fact_id=f"r{self.seq}", seq=self.seq, answers=f"q{self.seq}")

    def take(self, assembler: Assembler) -> None:
        self.facts.extend(assembler.reading().facts)


ANSWERS: Final = (
    Reply((thinking("Oslo"), text("Looking."), call("toolu_1", "get_weather", {"c": "Oslo"})), "tool_use"),
    Reply((thinking("cold"), text("4 C."))),
    Reply((text("Bye."),)),
)


@pytest.mark.parametrize("model", [BOUND, UNBOUND, OLD])
@pytest.mark.parametrize("way", ["create", "stream"])
def test_a_conversation_over_the_sdk_is_never_refused(
    server: Loopback, client: anthropic.Anthropic, model: str, way: str
) -> None:
    server.replies(*ANSWERS)
    host = Host(model, "Weather in Oslo?")
    before = b""
    for step in range(3):
        request, assembler = host.ask()
        assert encode(request).startswith(before)
        before = encode(request)
        if way == "create":
            with client.messages.create(**LIMIT, **request, stream=True) as events:
                for event in events:
                    assembler.feed(event)
        else:
            with client.messages.stream(**LIMIT, **request) as stream:
                for event in stream:
                    assembler.feed(event)
        host.take(assembler)
        if step == 0:
            assert assembler.reading().calls_to_run == ("toolu_1",)
            host.add(CallCompleted, call_id="toolu_1", content="4 C, rain")
        else:
            host.add(UserSaid, parts=(Text("Thanks."),))
    assert [exchange.status for exchange in server.exchanges] == [200, 200, 200]
    sent = server.exchanges[-1].request["messages"]
    assert [b["type"] for b in sent[1]["content"]] == ["thinking", "text", "tool_use"]


def test_a_response_object_is_read_beside_the_history_that_it_answers(
    server: Loopback, client: anthropic.Anthropic
) -> None:
    """Plain requests: the SDK's message goes back into the list, as an object."""
    server.replies(*ANSWERS)
    messages: list[Any] = [{"role": "user", "content": "Weather in Oslo?"}]
    first = client.messages.create(**LIMIT, model=UNBOUND, messages=messages, tools=[WEATHER])  # type: ignore[list-item]
    messages.append({"role": "assistant", "content": first.content})
    messages.append({"role": "user", "content": "And in Rome?"})
    payload = {"model": UNBOUND, **LIMIT, "messages": messages, "tools": [WEATHER]}
    with pytest.raises(anthropic.BadRequestError, match="tool_use"):
        client.messages.create(**payload)
    repaired = normalizer.repair(payload)
    assert repaired.transcript.calls["toolu_1"].outcome.kind == "unknown"
    second = client.messages.create(**repaired.request)
    reading = normalizer.read(second)
    assert [part.kind for part in reply_of(reading).parts] == ["reasoning", "text"]
    assert reply_of(normalizer.read(second.model_dump())).stop_reason == "end_turn"


def test_the_async_client(server: Loopback) -> None:
    server.replies(*ANSWERS)

    async def converse() -> None:
        async with anthropic.AsyncAnthropic(base_url=server.url, api_key="k", max_retries=0) as client:
            host = Host(BOUND, "Weather in Oslo?")
            request, assembler = host.ask()
            async with await client.messages.create(**LIMIT, **request, stream=True) as events:
                async for event in events:
                    assembler.feed(event)
            host.take(assembler)
            host.add(CallCompleted, call_id="toolu_1", content="4 C, rain")
            request, assembler = host.ask()
            async with client.messages.stream(**LIMIT, **request) as stream:
                async for found in stream:
                    assembler.feed(found)
            host.take(assembler)
            host.add(UserSaid, parts=(Text("Bye"),))
            request, _ = host.ask()
            reply = await client.messages.create(**LIMIT, **request)
            assert reply.content[0].text == "Bye."  # type: ignore[union-attr]

    asyncio.run(converse())
    assert [exchange.status for exchange in server.exchanges] == [200, 200, 200]


@pytest.mark.parametrize("kind", ["create", "stream"])
def test_events_of_the_sdk_say_the_same_as_its_message(
    server: Loopback, client: anthropic.Anthropic, kind: str
) -> None:
    found = server_call("srvtoolu_1", "web_search", {"query": "Oslo"})
    content = (thinking("hm"), found, server_result(found), text("Rain."))
    server.replies(Reply(content), Reply(content))
    request = {"model": OLD, "messages": [{"role": "user", "content": "Oslo?"}], "tools": [SEARCH]}
    if kind == "create":
        live = normalizer.read_stream(client.messages.create(**LIMIT, **request, stream=True), "anthropic")
    else:
        with client.messages.stream(**LIMIT, **request) as stream:
            live = normalizer.read_stream(stream, "anthropic")
    whole = normalizer.read(client.messages.create(**LIMIT, **request))
    assert live.turn == "ended"
    kinds = [part.kind for part in reply_of(live).parts]
    assert kinds == ["reasoning", "server_tool_call", "server_tool_result", "text"]
    for one, other in zip(reply_of(live).parts, reply_of(whole).parts, strict=True):
        assert one.kind == other.kind
        assert getattr(one, "text", None) == getattr(other, "text", None)
    facts = [
        UserSaid(fact_id="u", parts=(Text("Oslo?"),)),
        *live.facts,
        UserSaid(fact_id="v", seq=9, parts=(Text("And?"),)),
    ]
    server.replies(Reply((text("Yes."),)))
    tools = ToolsDeclared(
        fact_id="t", seq=-1, tools=(Tool("web_search", raw=Json.of(SEARCH), server=True),), api="anthropic"
    )
    assert send(client, projected([tools, *facts], OLD).request).content[0].text == "Yes."


def test_a_cut_stream_goes_on_with_what_came_whole(server: Loopback, client: anthropic.Anthropic) -> None:
    server.replies(
        Reply(
            (thinking("hm"), text("Rain."), call("toolu_1", "get_weather", {"c": "Oslo"})),
            "tool_use",
            cut=0.75,
        )
    )
    host = Host(BOUND, "Weather?")
    request, assembler = host.ask()
    with client.messages.create(**LIMIT, **request, stream=True) as events:
        for event in events:
            assembler.feed(event)
    live = assembler.reading()
    assert live.turn == "cut"
    assert [fragment.call_id for fragment in live.fragments] == ["toolu_1"]
    host.take(assembler)
    host.add(UserSaid, parts=(Text("Go on."),))
    server.replies(Reply((text("Yes."),)))
    assert send(client, host.ask()[0]).content[0].text == "Yes."


# ---------------------------------------------------------------- signatures


def signed(
    server: Loopback, client: anthropic.Anthropic, model: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A request in a tool loop and the history behind its reply, put together by hand as hosts do it."""
    server.replies(ANSWERS[0])
    request = {
        "model": model,
        "system": "Be brief.",
        "tools": [WEATHER],
        "messages": [{"role": "user", "content": "Oslo?"}],
    }
    reply = send(client, request)
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "4 C"}
    behind = [
        {"role": "assistant", "content": [b.model_dump(exclude_none=True) for b in reply.content]},
        {"role": "user", "content": [result]},
    ]
    return request, {**request, "messages": [*request["messages"], *behind]}  # type: ignore[misc]


EDITS: Final[dict[str, Any]] = {
    "other instructions": lambda r: r.update(system="Be long."),
    "other tools": lambda r: r["tools"].append({"name": "other", "input_schema": {"type": "object"}}),
    "another first message": lambda r: r["messages"].__setitem__(0, {"role": "user", "content": "Rome?"}),
    "something in front": lambda r: r["messages"].insert(0, {"role": "user", "content": "Hello."}),
}


@pytest.mark.parametrize("edit", EDITS)
def test_thinking_is_bound_to_its_prefix(server: Loopback, client: anthropic.Anthropic, edit: str) -> None:
    for model, refused in ((BOUND, True), (UNBOUND, False)):
        _, history = signed(server, client, model)
        edited = copy.deepcopy(history)
        EDITS[edit](edited)
        server.replies(Reply((text("ok"),)), Reply((text("ok"),)), Reply((text("ok"),)))
        send(client, history)
        if refused:
            with pytest.raises(anthropic.BadRequestError, match="Invalid `signature` in `thinking` block"):
                send(client, edited)
        else:
            send(client, edited)


def test_borders_marks_and_strings_are_no_part_of_the_prefix(
    server: Loopback, client: anthropic.Anthropic
) -> None:
    _, history = signed(server, client, BOUND)
    other = copy.deepcopy(history)
    other["messages"][0]["content"] = [
        {"type": "text", "text": "Oslo?", "cache_control": {"type": "ephemeral"}}
    ]
    other["messages"].insert(1, {"role": "user", "content": [{"type": "text", "text": " "}]})
    other["system"] = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    server.replies(Reply((text("ok"),)))
    with pytest.raises(anthropic.BadRequestError, match="text content blocks must"):
        send(client, other)
    other["messages"].pop(1)
    assert send(client, other).content[0].text == "ok"


def test_an_edited_history_is_sent_without_the_thinking_that_it_broke(
    server: Loopback, client: anthropic.Anthropic
) -> None:
    """The host's own facts: a rewind and a new beginning. The library leaves the thinking out, and is not refused."""
    server.replies(*ANSWERS)
    host = Host(BOUND, "Weather in Oslo?")
    request, assembler = host.ask()
    with client.messages.create(**LIMIT, **request, stream=True) as events:
        for event in events:
            assembler.feed(event)
    host.take(assembler)
    host.facts[2] = UserSaid(
        fact_id="u0", seq=3, parts=(Text("Weather in Rome?"),)
    )  # somebody edits the record
    request, _ = host.ask()
    send(client, request)
    kinds = [b["type"] for b in server.exchanges[-1].request["messages"][1]["content"]]
    assert kinds == ["text", "tool_use"]


def test_thinking_of_the_latest_turn_comes_back_whole_or_not_at_all(
    server: Loopback, client: anthropic.Anthropic
) -> None:
    server.replies(Reply((thinking("a"), thinking("b"), call("toolu_1", "get_weather")), "tool_use"))
    request = {"model": UNBOUND, "tools": [WEATHER], "messages": [{"role": "user", "content": "Oslo?"}]}
    blocks = [b.model_dump(exclude_none=True) for b in send(client, request).content]
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "4 C"}

    def history(*kept: Block) -> dict[str, Any]:
        behind = [{"role": "assistant", "content": list(kept)}, {"role": "user", "content": [result]}]
        return {**request, "messages": [*request["messages"], *behind]}

    with pytest.raises(anthropic.BadRequestError, match="cannot be modified"):
        send(client, history(blocks[0], blocks[2]))
    server.replies(Reply((text("ok"),)), Reply((text("ok"),)))
    send(client, history(*blocks))
    send(client, history(blocks[2]))


def test_a_refusal_of_the_api_reaches_the_facts(server: Loopback, client: anthropic.Anthropic) -> None:
    server.replies(Refusal("prompt is too long"), Reply((text("ok"),)))
    host = Host(BOUND, "Weather?")
    request, assembler = host.ask()
    with pytest.raises(anthropic.BadRequestError) as caught:
        send(client, request)
    assembler.feed(caught.value.body)
    fact: Any = assembler.reading().facts[0]
    assert (fact.kind, fact.refused, fact.parts) == ("reply_cut", True, ())
    host.take(assembler)
    found = projected(host.facts, BOUND)
    assert [note.kind for note in found.adjustments] == ["prefix_changed"]
    assert send(client, found.request).content[0].text == "ok"


# ---------------------------------------------------------------- what is broken, and its repair


def loop(*behind: Any, calls: int = 1) -> list[Any]:
    """A question, a reply with calls, and what stands behind it."""
    made = [call(f"toolu_{n}", "get_weather", {"n": n}) for n in range(calls)]
    return [{"role": "user", "content": "Oslo?"}, {"role": "assistant", "content": made}, *behind]


def result(number: int = 0, content: Any = "4 C", **more: Any) -> Block:
    return {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": content, **more}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def said(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


SEARCHED: Final = server_call("srvtoolu_1", "web_search", {"query": "x"})
MARK: Final = {"cache_control": {"type": "ephemeral"}}
PIXEL: Final = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
}


def chat(*blocks: Any, then: tuple[Any, ...] = (text("So?"),)) -> list[Any]:
    """A greeting, a reply of these blocks, and what the user's side says then."""
    return [{"role": "user", "content": "Hi"}, said(*blocks), user(*then)]


ODD_ID: Final = {**result(), "tool_use_id": "call:0|x"}
OPEN: Final = (text("Let me see."), SEARCHED)

HISTORIES: Final[dict[str, list[Any]]] = {
    "missing result": loop(user(text("And Rome?"))),
    "one of three results missing": loop(user(result(0), result(2)), calls=3),
    "result behind a reply": loop(user(text("And Rome?")), said(text("Wait.")), user(result(), text("So?"))),
    "text in front of the result": loop(user(text("Here:"), result())),
    "message between call and result": loop(user(text("Hurry.")), user(result())),
    "orphan result": [user(result(9), text("Hi"))],
    "two results": loop(user(result(), result(0, "5 C"))),
    "id used again": [*loop(user(result())), *loop(user(result(0, "9 C")))],
    "blank text": chat(text(" ")),
    "empty message": chat(),
    "unsigned thinking": chat({"type": "thinking", "thinking": "hm"}, text("Yes")),
    "empty signature": chat({"type": "thinking", "thinking": "hm", "signature": ""}, text("Yes")),
    "thinking at the end": chat(text("Yes"), {"type": "redacted_thinking", "data": ""}),
    "foreign block": chat({"type": "output_text", "text": "Yes"}, text("Yes")),
    "foreign role": loop({"role": "tool", "tool_call_id": "toolu_0", "content": "4 C"}),
    "unknown key": loop(user(result(0, duration_ms=4))),
    "search without result": chat(*OPEN),
    "result of a search as a tool's": chat(*OPEN, then=({**result(), "tool_use_id": "srvtoolu_1"},)),
    "search result without search": chat(server_result(SEARCHED), text("Rain")),
    "five cache marks": [user(*({**text(f"{n}"), **MARK} for n in range(5)))],
    "arguments as text": chat({**call("toolu_0", "get_weather"), "input": '{"c": 1}'}, then=(result(),)),
    "id of another API": chat(call("call:0|x", "get_weather"), then=(ODD_ID,)),
    "picture in an error": loop(user(result(0, [PIXEL, text("no")], is_error=True))),
    "results in an assistant message": chat(call("toolu_0", "get_weather"), result(), text("4 C.")),
}
BROKEN: Final[dict[str, dict[str, Any]]] = {
    **{fault: {"messages": history} for fault, history in HISTORIES.items()},
    "no tools": {"messages": loop(user(result())), "tools": None},
    "system message on an old model": {
        "model": OLD,
        "messages": [
            user(text("Hi")),
            {"role": "system", "content": "Be brief."},
            said(text("Hi.")),
            user(text("So?")),
        ],
    },
}


@pytest.mark.parametrize("fault", BROKEN)
def test_the_broken_history_is_refused_and_its_repair_is_not(
    server: Loopback, client: anthropic.Anthropic, fault: str
) -> None:
    payload = {"model": UNBOUND, **LIMIT, "tools": [WEATHER, SEARCH], **BROKEN[fault]}
    payload = {key: value for key, value in payload.items() if value is not None}
    with pytest.raises(anthropic.BadRequestError):
        client.messages.create(**copy.deepcopy(payload))
    repaired = normalizer.repair(copy.deepcopy(payload), format="anthropic")
    assert repaired.violations_before
    server.replies(Reply((text("ok"),)))
    maker: Any = client.beta.messages if "betas" in repaired.request else client.messages
    assert maker.create(**repaired.request).content[0].text == "ok"
    assert [exchange.status for exchange in server.exchanges] == [400, 200]


def test_betas_go_as_a_header_and_come_back_as_what_the_rules_know(
    server: Loopback, client: anthropic.Anthropic
) -> None:
    """Tools that come later are told inside the history, which needs betas."""
    server.replies(Reply((text("Hi."),)), Reply((text("Ok."),)))
    host = Host(UNBOUND, "Hi")
    request, assembler = host.ask()
    assert "betas" not in request
    with client.messages.create(**LIMIT, **request, stream=True) as events:
        for event in events:
            assembler.feed(event)
    host.take(assembler)
    later = {"name": "deploy", "input_schema": {"type": "object"}}
    tools = (Tool("get_weather", raw=Json.of(WEATHER)), Tool("deploy", raw=Json.of(later)))
    host.add(ToolsDeclared, tools=tools, api="anthropic")
    host.add(UserSaid, parts=(Text("Deploy"),))
    request, _ = host.ask()
    asked = [name.partition("-2026")[0] for name in request["betas"]]
    assert asked == ["inline-tools", "mid-conversation-tool-changes"]
    assert send(client, request).content[0].text == "Ok."
    assert server.exchanges[-1].request["betas"] == request["betas"]
    without = {key: value for key, value in request.items() if key != "betas"}
    with pytest.raises(anthropic.BadRequestError, match="need the beta"):
        send(client, without)
