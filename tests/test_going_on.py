"""Going on from an earlier projection, or from several, is projecting from scratch, and changes none of them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lawful import within

import normalizer
from normalizer import registry
from normalizer.facts import CallCompleted, ModelReplied, ReplyCut, Told, ToolsDeclared, UserSaid
from normalizer.parts import Json, Reasoning, ServerToolCall, Text, Tool, ToolCall
from normalizer.projecting.call_ids import wire_ids
from normalizer.projecting.dialect_policies import IdPolicy
from normalizer.projecting.incremental import Rendered, Rendering, Slot
from normalizer.projecting.sent_record import request_sent
from normalizer.testing import histories
from normalizer.util.sharing import SharedDict, SharedList

if TYPE_CHECKING:
    from collections.abc import Sequence

    from normalizer.facts import Fact


def told_by(projection: normalizer.Projection) -> str:
    """Everything that a projection says, as one text."""
    about = (projection.adjustments, projection.late_news, projection.ready, projection.sending())
    return json.dumps([projection.request, projection.ids, list(map(repr, about))])


def projected(
    transcript: normalizer.Transcript, target: str, previous: normalizer.Projection | None = None
) -> normalizer.Projection | None:
    """The projection, or None where there is nothing to send."""
    try:
        return normalizer.project(transcript, target, open_calls="say_running", previous=previous)
    except normalizer.CannotProject as error:
        if error.reason != "no_messages":
            raise
        return None


@pytest.mark.parametrize("target", registry.targets())
@within(25, derandomize=True)
@given(st.data(), st.randoms(use_true_random=False))
def test_projections_that_go_on_from_the_same_one_do_not_touch_each_other(
    target: str, data: st.DataObject, chance: Any
) -> None:
    conversations: list[list[Fact]] = data.draw(st.lists(histories(target), min_size=1, max_size=2))
    known: list[tuple[list[Fact], int, normalizer.Transcript, normalizer.Projection | None, str]] = [
        (facts, 0, normalizer.fold([]), None, "") for facts in conversations
    ]
    for _ in range(12):
        facts, at, transcript, _, _ = known[chance.randrange(len(known))]
        upto = at + chance.randint(0, 4)
        transcript = normalizer.fold(facts[at:upto], onto=transcript)
        scratch = projected(normalizer.fold(facts[:upto]), target)
        if scratch is None:
            continue
        for previous in {id(k[3]): k[3] for k in chance.sample(known, min(3, len(known)))}.values():
            found = projected(transcript, target, previous)
            assert found is not None
            assert told_by(found) == told_by(scratch)
            known.append((facts, min(upto, len(facts)), transcript, found, told_by(scratch)))
    for _, _, _, earlier, said in known:
        assert earlier is None or told_by(earlier) == said


@within(100, derandomize=True)
@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 9), st.lists(st.integers(), max_size=4)), max_size=12
    )
)
def test_a_shared_list_is_a_list_whoever_goes_on_from_it(steps: Sequence[tuple[int, int, list[int]]]) -> None:
    shared: list[tuple[SharedList[int], list[int]]] = [(SharedList(), [])]
    for which, count, more in steps:
        base, items = shared[which % len(shared)]
        upto = min(count, len(items))
        new, expected = base.beginning(upto), items[:upto] + more
        new.own.extend(more)
        shared.append((new, expected))
    for found, items in shared:
        assert found.listed() == items
        assert len(found) == len(items)
        assert [found[n] for n in range(len(items))] == items
        for start in range(-1, len(items) + 1):
            assert found[start:] == items[start:]
            assert found[start:-1] == items[start:-1]
        if items:
            assert found[-1] == items[-1]
    with pytest.raises(IndexError):
        SharedList[int]()[-1]


@within(100, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 5), st.lists(st.integers(0, 50), max_size=4)), max_size=12))
def test_a_shared_dict_holds_what_its_holder_knows(steps: Sequence[tuple[int, list[int]]]) -> None:
    shared: list[tuple[SharedDict[int, int], dict[int, int]]] = [(SharedDict(), {})]
    for which, keys in steps:
        base, items = shared[which % len(shared)]
        new, expected = base.continued(), dict(items)
        for key in keys:
            if key not in expected:
                expected[key] = len(shared)
                new.lookup[key] = len(shared)
        new.settle()
        assert new.lookup == expected
        shared.append((new, expected))
    for found, items in shared:
        assert found.made() == items
        assert list(found.made()) == list(items)
        assert len(found) == len(items)


def test_two_that_go_on_at_the_same_time_share_with_one_of_them_only() -> None:
    base: SharedDict[str, str] = SharedDict()
    base.lookup["first"] = "first"
    base.settle()
    both = [base.continued(), base.continued()]
    for number, each in enumerate(both):
        each.lookup[f"own {number}"] = "own"
    for each in both:
        each.settle()
    assert [list(each.made()) for each in both] == [["first", "own 0"], ["first", "own 1"]]
    assert list(base.made()) == ["first"]


def test_digests_that_two_threads_make_at_the_same_time_are_made_once() -> None:
    class Interrupted(Rendered[Any]):
        """A step at whose digest another thread was quicker."""

        def block_bytes(self) -> list[bytes]:
            if self.blocks is None:
                self.blocks = [b"block"]
                rendering.digest(2)
            return self.blocks

    rendering: Rendering[Any] = Rendering()
    for number in range(2):
        rendering.slots.own.append(Slot(number, None, Interrupted([], None), 0, 0))
    rendering.digest(2)
    assert [count for count, _ in rendering.digests[:]] == [0, 1, 2]


def said(seq: int, *parts: ToolCall | ServerToolCall) -> ModelReplied:
    return ModelReplied(
        fact_id=f"reply/{seq}", seq=seq, turn_id="t", api="anthropic", model="claude-opus-4-8", parts=parts
    )


def done(seq: int, call_id: str) -> CallCompleted:
    return CallCompleted(
        fact_id=f"result/{seq}", seq=seq, turn_id="t", call_id=call_id, content="ok", is_error=False
    )


@pytest.mark.parametrize("target", registry.targets())
def test_a_projection_of_another_conversation_is_no_projection_to_go_on_from(target: str) -> None:
    user = UserSaid(fact_id="user", seq=1, turn_id="t", parts=(Text("Go."),))
    one, other = (
        normalizer.fold([user, said(2, ToolCall(key, "run", Json("{}"))), done(3, key)])
        for key in ("one", "other")
    )
    found = normalizer.project(one, target, previous=normalizer.project(other, target))
    assert told_by(found) == told_by(normalizer.project(one, target))
    assert found.ids == {"one": "one"}


def spoken(name: str, seq: int) -> list[Fact]:
    """A reply without a call, and an answer to it."""
    reply = ModelReplied(fact_id=f"{name}/{seq}", seq=seq, turn_id="t", parts=(Text(f"{name} says {seq}."),))
    return [
        reply,
        UserSaid(fact_id=f"{name}/{seq + 1}", seq=seq + 1, turn_id="t", parts=(Text(f"To {name}."),)),
    ]


@pytest.mark.parametrize("target", registry.targets())
def test_an_older_transcript_and_one_beside_it_are_projected_from_scratch(target: str) -> None:
    older = normalizer.fold([UserSaid(fact_id="user", seq=1, turn_id="t", parts=(Text("Go."),))])
    one, beside = (
        normalizer.fold([*spoken(name, 2), *spoken(name, 4)], onto=older) for name in ("one", "beside")
    )
    previous = normalizer.project(one, target, previous=normalizer.project(older, target))
    for transcript in (older, beside, one):
        found = normalizer.project(transcript, target, previous=previous)
        assert told_by(found) == told_by(normalizer.project(transcript, target))


@pytest.mark.parametrize("target", registry.targets())
def test_equal_calls_do_not_make_two_conversations_one(target: str) -> None:
    def began(words: str) -> list[Fact]:
        user = UserSaid(fact_id="user", seq=1, turn_id="t", parts=(Text(words),))
        return [user, said(2, ToolCall("one", "run", Json("{}"))), done(3, "one")]

    one, other = (normalizer.fold(began(words)) for words in ("Go.", "Stop."))
    sent = request_sent(normalizer.project(one, target, model="m"), fact_id="sent", seq=4)
    more = UserSaid(fact_id="more", seq=5, turn_id="t", parts=(Text("Well?"),))
    one = normalizer.fold([sent, more], onto=one)
    other_sent = request_sent(normalizer.project(other, target, model="m"), fact_id="other", seq=4)
    other = normalizer.fold([other_sent, more], onto=other)
    found = normalizer.project(other, target, model="m", previous=normalizer.project(one, target, model="m"))
    assert told_by(found) == told_by(normalizer.project(other, target, model="m"))


def test_what_was_projected_before_a_refusal_is_nothing_to_go_on_from() -> None:
    model = "claude-opus-4-8"
    thought = Reasoning("Hm.", Json.of({"type": "thinking", "thinking": "Hm.", "signature": "c2VhbA=="}))
    user = UserSaid(fact_id="user", seq=1, turn_id="t", parts=(Text("Go."),))
    reply = ModelReplied(
        fact_id="reply", seq=2, turn_id="t", provider="anthropic", api="anthropic", model=model,
        parts=(thought, Text("Gone.")),
    )  # fmt: skip
    transcript = normalizer.fold([user, reply, *spoken("one", 3), *spoken("one", 5)][:-1])
    more = UserSaid(fact_id="more", seq=7, turn_id="t", parts=(Text("Well?"),))
    transcript = normalizer.fold([more], onto=transcript)
    before = normalizer.project(transcript, "anthropic", model=model)
    refused = ReplyCut(
        fact_id="cut", seq=9, refused=True, answers="sent", error="invalid signature in thinking block"
    )
    transcript = normalizer.fold([request_sent(before, fact_id="sent", seq=8), refused], onto=transcript)
    again = request_sent(normalizer.project(transcript, "anthropic", model=model), fact_id="again", seq=10)
    transcript = normalizer.fold([again, *spoken("one", 11)], onto=transcript)
    found = normalizer.project(transcript, "anthropic", model=model, previous=before)
    assert "c2VhbA==" in json.dumps(before.request)
    assert "c2VhbA==" not in json.dumps(found.request)
    assert told_by(found) == told_by(normalizer.project(transcript, "anthropic", model=model))


@pytest.mark.parametrize("target", registry.targets())
def test_what_a_host_adds_to_the_lists_of_a_request_is_in_no_later_one(target: str) -> None:
    tools = ToolsDeclared(fact_id="tools", seq=1, tools=(Tool("run", "Runs.", Json.of({"type": "object"})),))
    transcript = normalizer.fold([tools, UserSaid(fact_id="user", seq=2, turn_id="t", parts=(Text("Go."),))])
    first = normalizer.project(transcript, target)
    for value in first.request.values():
        if isinstance(value, list):
            value.append({"added": True})
    again = normalizer.project(transcript, target, previous=first)
    assert again.request == normalizer.project(transcript, target).request


def test_the_id_of_a_later_server_call_is_taken_from_the_call_that_had_it() -> None:
    before = normalizer.fold([said(1, ToolCall(None, "run", Json("{}")))])
    (key,) = before.calls
    policy = IdPolicy(pattern=re.compile(r"\w+"), prefix="id_")
    given_first = wire_ids(before.calls, {}, {}, policy, None)
    same = given_first[key]
    after = normalizer.fold([said(2, ServerToolCall(same, "web_search", Json("{}")))], onto=before)
    assert same.startswith("id_")
    assert wire_ids(after.calls, after.server_calls, {}, policy, given_first)[key] != same
    assert wire_ids(after.calls, after.server_calls, {}, policy, None)[key] != same


def test_a_call_goes_on_under_the_id_that_it_was_sent_with() -> None:
    transcript = normalizer.fold([said(1, ToolCall("own", "run", Json("{}")))])
    policy = IdPolicy(pattern=re.compile(r"\w+"), prefix="id_")
    given_first = wire_ids(transcript.calls, {}, {}, policy, None)
    told = {"own": Told("own", "completed", wire_id="sent_as")}
    assert wire_ids(transcript.calls, {}, told, policy, given_first, ["own"])["own"] == "sent_as"
    assert wire_ids(transcript.calls, {}, told, policy, None)["own"] == "sent_as"
