"""Where results and late updates stand, and what is reported of it, on every wire that has the engine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import normalizer
from normalizer import facts as f
from normalizer import registry
from normalizer.parts import Json, Reasoning, Text, ToolCall
from normalizer.projecting.sent_record import request_sent

if TYPE_CHECKING:
    from normalizer.facts import Fact

TARGETS = tuple(registry.PROVIDERS)


class Story:
    """Facts as they come in, and requests that go out."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.facts: list[Fact] = []

    def add(self, kind: Any, **fields: Any) -> None:
        number = len(self.facts) + 1
        self.facts.append(kind(fact_id=f"f{number}", seq=number, turn_id="t", **fields))

    def said(self, text: str) -> None:
        self.add(f.UserSaid, parts=(Text(text),), string=True)

    def called(self, **fields: Any) -> None:
        self.add(f.ModelReplied, parts=(Text("In it goes."), ToolCall("c1", "bake", Json("{}"))), **fields)

    def project(self, open_calls: Any = "say_running") -> normalizer.Projection:
        return normalizer.project(normalizer.fold(self.facts), self.target, open_calls=open_calls)

    def sent(self) -> list[Any]:
        """Let the request go out, and give its history."""
        projection = self.project()
        number = len(self.facts) + 1
        self.facts.append(request_sent(projection, fact_id=f"f{number}", seq=number))
        return history(projection)


def history(projection: normalizer.Projection) -> list[Any]:
    """The items of a request, block by block: a last message may grow at its end (the prefix is one of blocks)."""
    items: list[Any] = projection.request.get("input") or projection.request["messages"]
    found = []
    for item in items:
        content = item.get("content")
        parted = isinstance(content, list)
        found.extend([{**item, "content": block} for block in content] if parted else [item])
    return found


def kinds(projection: normalizer.Projection) -> set[str]:
    return {note.kind for note in projection.adjustments}


@pytest.mark.parametrize("target", TARGETS)
def test_a_lost_run_is_told_behind_what_was_sent(target: str) -> None:
    story = Story(target)
    story.add(f.TurnOpened, gated=True)
    story.said("Bake the bread.")
    story.called()
    story.add(f.StartPermitted, call_id="c1", may_have_effects=True)
    story.said("How far is it?")
    before = story.sent()
    story.add(f.RunLost)
    story.said("Well?")
    after = story.project()
    assert history(after)[: len(before)] == before
    assert "prefix_changed" not in kinds(after)
    texts = [json.dumps(message) for message in history(after)[len(before) :]]
    assert ["late, call c1" in text for text in texts] == [True, False]


@pytest.mark.parametrize("target", TARGETS)
def test_an_update_leaves_a_summary_before_what_it_kept(target: str) -> None:
    story = Story(target)
    story.said("One.")
    story.called()
    story.said("Two.")
    story.add(f.StartPermitted, call_id="c1")
    story.add(f.Summarised, parts=(Text("The first was baked."),), through=1)
    before = story.sent()
    story.add(f.CallCompleted, call_id="c1", content="done")
    after = story.project()
    assert history(after)[:-1] == before
    assert "done" in json.dumps(history(after)[-1])


@pytest.mark.parametrize("target", TARGETS)
def test_a_summary_at_the_beginning_keeps_its_place_when_an_update_comes(target: str) -> None:
    story = Story(target)
    story.said("One.")
    story.called()
    story.add(f.StartPermitted, call_id="c1")
    story.said("Two.")
    story.sent()
    story.add(f.Summarised, parts=(Text("Bread is in the oven."),), through=3)
    story.said("Three.")
    order = [json.dumps(message) for message in history(story.project())]
    assert [
        next(n for n, text in enumerate(order) if word in text) for word in ("oven", "Two.", "Three.")
    ] == [0, 1, 2]


@pytest.mark.parametrize("target", TARGETS)
def test_a_result_that_stood_behind_talk_is_reported_as_moved_only_where_it_is_sent(target: str) -> None:
    story = Story(target)
    story.said("Bake.")
    story.called()
    story.said("Are you there?")
    before = story.sent()
    story.add(f.CallCompleted, call_id="c1", content="done")
    late = story.project()
    assert history(late)[: len(before)] == before
    assert kinds(late) >= {"late_news"}
    assert "moved" not in kinds(late)
    story.facts = [fact for fact in story.facts if fact.kind != "request_sent"]
    fresh = story.project()
    assert [note.call_id for note in fresh.adjustments if note.kind == "moved"] == ["c1"]
    assert "moved" not in kinds(late)


@pytest.mark.parametrize("target", TARGETS)
def test_an_error_without_text_is_no_output_that_was_not_recorded(target: str) -> None:
    story = Story(target)
    story.said("Pump.")
    story.called()
    story.add(f.CallCompleted, call_id="c1", content="", is_error=True)
    answer = json.dumps(history(story.project())[-1])
    assert "put out no text" in answer
    assert "ended with an error" in answer
    assert "not recorded" not in answer


# ---------------------------------------------------------------- what only Responses has


def asynchronous() -> ToolCall:
    item = {"type": "function_call", "call_id": "c1", "name": "bake", "arguments": "{}", "async": True}
    return ToolCall("c1", "bake", Json("{}"), Json.of(item))


def test_a_reply_whose_only_call_stays_open_asks_nothing() -> None:
    story = Story("openai_responses")
    story.said("Bake.")
    story.add(f.ModelReplied, parts=(asynchronous(),), api="openai_responses")
    assert not story.project().ready
    story.said("And?")
    before = story.sent()
    story.add(f.CallCompleted, call_id="c1", content="done")
    after = story.project()
    assert history(after)[:-1] == before
    assert history(after)[-1] == {"type": "function_call_output", "call_id": "c1", "output": "done"}
    assert after.ready


def test_a_stored_update_of_an_open_call_stays_its_output() -> None:
    story = Story("openai_responses")
    story.said("Bake.")
    story.add(f.ModelReplied, parts=(asynchronous(),), api="openai_responses")
    story.said("And?")
    story.sent()
    story.add(f.CallCompleted, call_id="c1", content="done")
    before = story.sent()
    story.said("Thanks.")
    assert history(story.project())[:-1] == before


def test_a_cut_text_loses_the_white_space_at_its_end() -> None:
    story = Story("openai_responses")
    story.said("Bake.")
    story.add(f.ReplyCut, parts=(Text("In it \n"),), api="openai_responses")
    projection = story.project()
    assert history(projection)[-1] == {"role": "assistant", "content": "In it"}
    assert [note.content for note in projection.adjustments if note.kind == "trimmed"] == ["In it \n"]


def test_a_cut_text_is_not_parted_from_its_reasoning() -> None:
    story = Story("openai_responses")
    story.said("Bake.")
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    story.add(f.ReplyCut, parts=(Reasoning("", Json.of(thought)), Text(" \n")), api="openai_responses")
    assert history(story.project())[1:] == [thought, {"role": "assistant", "content": " \n"}]


def test_a_refused_reply_of_another_api_cites_no_rule_of_that_api() -> None:
    story = Story("openai_responses")
    story.said("Bake.")
    story.called(api="anthropic", stop_reason="refusal")
    story.add(f.CallCompleted, call_id="c1", content="done")
    projection = story.project()
    assert "done" in json.dumps(history(projection)[-1])
    assert not [note for note in projection.adjustments if (note.because or "").startswith("ANT")]


ASKED = {
    "type": "mcp_approval_request",
    "id": "mcpr_1",
    "server_label": "till",
    "name": "pay",
    "arguments": "{}",
}


def answer(*, approve: bool) -> dict[str, Any]:
    return {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": approve}


USER = {"role": "user", "content": "Pay."}


@pytest.mark.parametrize("first", [True, False])
def test_of_two_answers_at_the_end_the_refusal_holds(first: bool) -> None:
    items = [USER, ASKED, answer(approve=first), answer(approve=not first)]
    repaired = normalizer.repair({"model": "gpt-5", "input": items}, format="openai_responses")
    assert repaired.request["input"] == [USER, ASKED, answer(approve=False)]
    assert [note.because for note in repaired.adjustments] == ["OAR-MCP-002"]


def test_an_answer_that_something_followed_stays() -> None:
    done = {"role": "assistant", "content": "Paid."}
    items = [USER, ASKED, answer(approve=True), answer(approve=False), done, USER]
    repaired = normalizer.repair({"model": "gpt-5", "input": items}, format="openai_responses")
    assert repaired.request["input"] == [USER, ASKED, answer(approve=True), done, USER]


def test_a_refusal_that_was_sent_stays_when_the_reply_comes() -> None:
    facts = list(
        normalizer.read(
            {"model": "gpt-5", "input": [USER, ASKED, answer(approve=True), answer(approve=False)]},
            format="openai_responses",
        ).facts
    )
    story = Story("openai_responses")
    story.facts = facts
    before = story.sent()
    story.add(f.ModelReplied, parts=(Text("Not paid."),), api="openai_responses")
    assert history(story.project())[: len(before)] == before
