"""The fast path makes what the long way makes: request, adjustments and the record of sending, for every API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lawful import within

import normalizer
from normalizer import testing
from normalizer.facts import CallCompleted, InstructionsSet, ModelReplied, ReplyCut, ToolsDeclared, UserSaid
from normalizer.parts import Json, Media, Text, Tool, ToolCall
from normalizer.projecting import fast_path, steps
from normalizer.testing.strategies import MODELS

if TYPE_CHECKING:
    from normalizer.facts import Fact
    from normalizer.projecting.incremental import Step
    from normalizer.transcript import Transcript

TARGETS = [
    ("anthropic", None),
    ("openai_responses", None),
    ("openai_chat", None),
    *(("openai_chat", name) for name in ("azure", "vllm")),
]
WORDS = ["ok", "", " ", "done\n", "[tool outcome: unknown]", "{"]
ARGUMENTS = ['{"a":1}', "{}", "", "null", "[1]", '{"a":1,"a":2}', '{"a":', "no JSON"]
SAID_AS = Json.of({"role": "assistant", "content": None, "name": "Ada"})

# What may be odd about one step; the first two of them are as common as can be.
ODD = [
    "nothing", "no call", "no text", "two texts", "blank text", "call before text", "two calls", "text as string",
    "block of text", "block of call", "no id", "id again", "odd id", "custom", "arguments", "twice", "refusal", "cut",
    "message keys", "no result", "error", "block of result", "media", "odd result", "order", "two messages",
    "result after next", "result behind words", "words beside results", "words of no message", "odd words",
    "words with keys", "no words", "two words", "tools later", "instructions later", "call twice", "string of no text",
]  # fmt: skip


def step(number: int, odd: str, pick: int, api: str | None, *, at: int) -> list[Fact]:
    """A reply with its results and what is said behind it, from `seq` `at` on, with one oddity; `pick` varies it."""
    text = Text({"blank text": [" ", ""][pick % 2]}.get(odd, f"Step {number}."))
    if odd == "block of text":
        text = Text("See.", raw=Json.of({"type": "text", "text": "See.", "more": 1}))
    texts = [text] * {"no text": 0, "string of no text": 0, "two texts": 2}.get(odd, 1)
    calls = [call(number, n, odd, pick) for n in range(call_count(odd))]
    parts = [*calls, *texts] if odd == "call before text" else [*texts, *calls]
    reply: dict[str, Any] = {
        "fact_id": f"r{number}", "seq": at, "api": api, "provider": api, "parts": tuple(parts),
        "string": odd in ("text as string", "string of no text") or (odd == "no call" and pick % 2 == 0),
    }  # fmt: skip
    if odd == "cut":
        told: list[Fact] = [ReplyCut(**{k: v for k, v in reply.items() if k != "string"})]
    else:
        stop = "refusal" if odd == "refusal" else None
        told = [ModelReplied(**reply, stop_reason=stop, raw=SAID_AS if odd == "message keys" else None)]
    for n, one in enumerate(calls):
        if odd != "no result" and one.id is not None and not (odd == "call twice" and n):
            told.append(result(number, n, one.id, odd, pick, at=at))
    if odd not in ("no words", "result after next", "tools later", "instructions later"):
        told.append(words(number, odd, pick, at=at))
    if odd == "two words":
        told.append(UserSaid(fact_id=f"v{number}", seq=at + 8, parts=(Text("Now."),), group=at + 8))
    if odd == "tools later":
        told.append(
            ToolsDeclared(fact_id=f"t{number}", seq=at + 8, tools=(Tool("run", None, None),), api=api)
        )
    if odd == "instructions later":
        told.append(
            InstructionsSet(fact_id=f"i{number}", seq=at + 8, parts=(Text("Be brief."),), string=pick == 0)
        )
    return told


def call_count(odd: str) -> int:
    return {"no call": 0, "two calls": 2, "order": 2, "two messages": 2, "id again": 2, "call twice": 2}.get(
        odd, 1
    )


def call(number: int, n: int, odd: str, pick: int) -> ToolCall:
    own: str | None = f"c{number}_{n}"
    own = {
        "no id": None,
        "id again": f"c{number}_0",
        "call twice": f"c{number}_0",
        "odd id": "c é",
    }.get(odd, own)
    given = Json.of({"path": f"/srv/{0 if odd == 'call twice' else n}"})
    if odd in ("arguments", "twice", "id again"):
        given = Json(ARGUMENTS[pick % len(ARGUMENTS)] if odd == "arguments" else f'{{"a":{n},"a":2}}')
        _ = given.valid
    raw = (
        {"type": "tool_use", "id": own, "name": "run", "input": given.value}
        if odd == "block of call"
        else None
    )
    form = "custom" if odd == "custom" else None
    return ToolCall(own, "run", given, form=form, raw=Json.of(raw) if raw else None)


def result(number: int, n: int, call_id: str, odd: str, pick: int, *, at: int) -> Fact:
    seq = at + 3 + (-n if odd == "order" else n)
    seq = {"result after next": at + 15, "result behind words": at + 7}.get(odd, seq)
    group = at + 3 + (n if odd == "two messages" else 0)
    content: Any = WORDS[pick % len(WORDS)] if odd == "odd result" else "ok"
    if odd == "media":
        content = (Media("image", "image/png", url="https://example.test/a.png"),)
    raw = {"type": "tool_result", "tool_use_id": call_id, "content": "ok", "more": 1}
    return CallCompleted(
        fact_id=f"d{number}_{n}", seq=seq, call_id=call_id, content=content, is_error=odd == "error", group=group,
        raw=Json.of(raw) if odd == "block of result" else None,
    )  # fmt: skip


def words(number: int, odd: str, pick: int, *, at: int) -> Fact:
    said = WORDS[pick % len(WORDS)] if odd == "odd words" else "Go on."
    group = {"words beside results": at + 3, "words of no message": None}.get(odd, at + 6)
    raw = Json.of({"role": "user", "content": "Go on.", "name": "Ada"}) if odd == "words with keys" else None
    return UserSaid(
        fact_id=f"u{number}", seq=at + 6, parts=(Text(said),), string=pick % 2 == 0, group=group, raw=raw
    )


def history(odds: list[tuple[str, int]], api: str | None, begins: str = "Find it.") -> list[Fact]:
    """A history of such steps, with a plain one at its end, since the last step always takes the long way."""
    told: list[Fact] = [UserSaid(fact_id="u", seq=1, parts=(Text(begins),), group=1)]
    for number, (odd, pick) in enumerate([*odds, ("nothing", 0)]):
        told += step(number, odd, pick, api, at=10 * number + 2)
    return told


def outcome(transcript: Transcript, target: str, **options: Any) -> Any:
    """All that there is of a projection, or why there is none."""
    try:
        projection = normalizer.project(transcript, target, **options)
    except normalizer.CannotProject as error:
        return str(error)
    request = json.dumps(projection.request)  # with the order of keys
    return request, projection.adjustments, projection.ready, projection.late_news, projection.sending()


def assert_both_ways(transcript: Transcript, **options: Any) -> None:
    """Every target gets the same by both ways."""
    for target, profile in TARGETS:
        given = {"profile": profile, "open_calls": "unknown", **options}
        fast = outcome(transcript, target, **given)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fast_path, "in_front_of", lambda long, *_: long)
            assert outcome(transcript, target, **given) == fast, (target, profile)


@pytest.mark.parametrize("api", ["anthropic", "openai_chat"])
@pytest.mark.parametrize("odd", ODD)
def test_one_odd_step(odd: str, api: str | None) -> None:
    for pick in range(8 if odd.startswith(("odd", "arg")) else 2):
        assert_both_ways(normalizer.fold(history([("nothing", 0), (odd, pick)], api)))
        assert_both_ways(normalizer.fold(history([(odd, pick), ("nothing", 0)], api)))


def test_a_history_of_which_the_beginning_says_nothing() -> None:
    assert_both_ways(normalizer.fold(history([("nothing", 0), ("nothing", 0)], "anthropic", begins=" ")))


@within(80, derandomize=True)
@given(
    st.lists(st.tuples(st.sampled_from(ODD), st.integers(0, 7)), max_size=4),
    st.sampled_from(["anthropic", "openai_chat", None]),
    st.sampled_from([None, *MODELS]),
)
def test_odd_steps_behind_one_another(
    odds: list[tuple[str, int]], api: str | None, model: str | None
) -> None:
    assert_both_ways(normalizer.fold(history(odds, api)), model=model)


@within(60, derandomize=True)
@given(testing.histories(), st.sampled_from(["say_running", "unknown"]), st.sampled_from(["drop", "quote"]))
def test_any_history(told: list[Fact], open_calls: str, server_tools: str) -> None:
    assert_both_ways(normalizer.fold(told), open_calls=open_calls, server_tools=server_tools)


@within(25, derandomize=True)
@given(
    st.one_of(
        testing.anthropic_requests().map(lambda payload: ("anthropic", payload)),
        testing.openai_chat_requests().map(lambda payload: ("openai_chat", payload)),
        testing.openai_responses_requests().map(lambda payload: ("openai_responses", payload)),
    )
)
def test_any_request(given_as: tuple[str, Any]) -> None:
    api, payload = given_as
    assert_both_ways(normalizer.fold(normalizer.read(payload, format=api).facts))


@pytest.mark.parametrize("target", ["anthropic", "openai_chat"])
def test_most_steps_of_an_ordinary_history_take_it(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    long_way = []
    render = steps.Renderer.__call__

    def counted(self: steps.Renderer, step: Step, *given: Any) -> Any:
        long_way.append(step.index)
        return render(self, step, *given)

    monkeypatch.setattr(steps.Renderer, "__call__", counted)
    facts: list[Fact] = [UserSaid(fact_id="u", seq=1, parts=(Text("Find it."),), string=True)]
    for n in range(20):
        call = ToolCall(f"toolu_{n}", "run", Json.of({"command": f"ls {n}"}))
        reply = ModelReplied(
            fact_id=f"r{n}", seq=3 * n + 2, api=target, parts=(Text("I look."), call), stop_reason="tool_use"
        )
        facts += [
            reply,
            CallCompleted(fact_id=f"d{n}", seq=3 * n + 3, call_id=f"toolu_{n}", content="ok", is_error=False),
        ]
    normalizer.project(normalizer.fold(facts), target)
    assert long_way == [0, 20]  # the beginning, and the end, where anything may still come


def test_cases_take_both_ways() -> None:
    for path in sorted((Path(__file__).parents[1] / "fixtures" / "cases").glob("*/input.json")):
        assert_both_ways(normalizer.fold(normalizer.read(path).facts))
