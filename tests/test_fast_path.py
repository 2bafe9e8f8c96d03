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
from normalizer.facts import CallCompleted, ModelReplied, UserSaid
from normalizer.parts import Json, Text, ToolCall
from normalizer.projecting import fast_path
from normalizer.testing.strategies import MODELS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from normalizer.facts import Fact
    from normalizer.transcript import Transcript

TARGETS = [
    ("anthropic", None),
    ("openai_responses", None),
    ("openai_chat", None),
    *(("openai_chat", name) for name in ("azure", "vllm")),
]
WORDS = st.sampled_from(["ok", "", " ", "done\n", "[tool outcome: unknown]", "{"])
ARGUMENTS = st.sampled_from(['{"a":1}', "{}", "", "null", "[1]", '{"a":1,"a":2}', '{"a":', "no JSON"])
APIS = st.sampled_from(["anthropic", "openai_chat", "openai_responses", None])


@st.composite
def plain_histories(draw: st.DrawFn) -> list[Fact]:
    """Mostly plain steps, with now and then what takes the long way: an odd text, id, order, border or result."""
    api = draw(APIS)
    told: list[Fact] = [_said(draw, 0, 1)]
    for number in range(1, draw(st.integers(2, 5))):
        told.extend(_step(draw, number, len(told) + 1, api))
    return told


def _step(draw: st.DrawFn, number: int, seq: int, api: str | None) -> Iterator[Fact]:
    odd = draw(st.integers(0, 9)) == 0
    texts = [Text(draw(WORDS) if odd else "I look.")] * draw(st.sampled_from([1, 1, 0, 2]))
    calls = [
        ToolCall(
            f"c{number}_{n}" if not odd else draw(st.sampled_from([None, "c1_0", "é", f"x{n}"])),
            "run", _arguments(draw, odd=odd), form="custom" if odd and draw(st.booleans()) else None,
        )
        for n in range(draw(st.sampled_from([1, 1, 0, 2])))
    ]  # fmt: skip
    parts = [*texts, *calls] if draw(st.integers(0, 4)) else [*calls, *texts]
    yield ModelReplied(
        fact_id=f"r{number}", seq=seq, api=api, provider=api, model=draw(st.sampled_from([None, *MODELS])),
        stop_reason=draw(st.sampled_from(["tool_use", "tool_use", None, "refusal" if odd else None])),
        parts=tuple(parts), string=draw(st.booleans()),
        raw=Json.of({"role": "assistant", "content": None, "name": "Ada"}) if odd and draw(st.booleans()) else None,
    )  # fmt: skip
    group = draw(st.sampled_from([None, seq, seq]))
    order = range(len(calls)) if draw(st.integers(0, 4)) else reversed(range(len(calls)))
    late = draw(st.integers(0, 9)) == 0
    if late:
        yield _said(draw, number, seq + 1)
    for place, n in enumerate(order):
        if calls[n].id is not None and draw(st.integers(0, 9)):
            yield CallCompleted(
                fact_id=f"d{number}_{n}", seq=seq + 2 + place, call_id=calls[n].id, content=draw(WORDS),
                is_error=odd and draw(st.booleans()), group=group if draw(st.integers(0, 4)) else seq + 90,
            )  # fmt: skip
    if not late and draw(st.booleans()):
        yield _said(draw, number, seq + 5, draw(st.sampled_from([None, group, seq + 7])))


def _arguments(draw: st.DrawFn, *, odd: bool) -> Json:
    given = Json(draw(ARGUMENTS)) if odd else Json.of({"path": "/srv"})
    if draw(st.booleans()):
        _ = given.valid
    return given


def _said(draw: st.DrawFn, number: int, seq: int, group: int | None = None) -> Fact:
    odd = draw(st.integers(0, 9)) == 0
    return UserSaid(
        fact_id=f"u{number}", seq=seq, parts=(Text(draw(WORDS) if odd else "Go on."),), string=draw(st.booleans()),
        group=group, raw=Json.of({"role": "user", "content": "x", "name": "Ada"}) if odd else None,
    )  # fmt: skip


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
            patch.setattr(fast_path.FastPath, "render", lambda *_: None)
            assert outcome(transcript, target, **given) == fast, (target, profile)


@within(150, derandomize=True)
@given(plain_histories(), st.sampled_from([None, *MODELS]))
def test_plain_histories(told: list[Fact], model: str | None) -> None:
    assert_both_ways(normalizer.fold(told), model=model)


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
    taken = []
    render = fast_path.FastPath.render

    def counted(self: fast_path.FastPath, *given: Any) -> Any:
        found = render(self, *given)
        taken.append(found is not None)
        return found

    monkeypatch.setattr(fast_path.FastPath, "render", counted)
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
    assert taken.count(False) == 2  # the beginning, and the end, where anything may still come


def test_cases_take_both_ways() -> None:
    for path in sorted((Path(__file__).parents[1] / "fixtures" / "cases").glob("*/input.json")):
        assert_both_ways(normalizer.fold(normalizer.read(path).facts))
