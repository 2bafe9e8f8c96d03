"""What other projects get for their own tests."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings

from normalizer import fold, project
from normalizer.facts import UserSaid
from normalizer.parts import Text
from normalizer.testing import anthropic_requests, assert_accepts, facts, history

if TYPE_CHECKING:
    from normalizer.facts import Fact

ACCEPTED: dict[str, Any] = {
    "model": "claude-opus-4-8",
    "max_tokens": 10,
    "messages": [{"role": "user", "content": "hi"}],
}


def test_an_accepted_request_passes() -> None:
    assert_accepts(ACCEPTED, "anthropic")


def test_a_refused_request_fails_with_every_reason() -> None:
    orphan = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "?"}
    blank = {"type": "text", "text": " "}
    with pytest.raises(AssertionError) as caught:
        assert_accepts({**ACCEPTED, "messages": [{"role": "user", "content": [orphan, blank]}]}, "anthropic")
    assert "ANT-PAIR-002 at /messages/0/content/0" in str(caught.value)
    assert "ANT-BLK-002 at /messages/0/content/1" in str(caught.value)


def test_the_context_is_passed_on() -> None:
    body = {"messages": ACCEPTED["messages"]}
    assert_accepts(body, "anthropic", context={"history": True})
    with pytest.raises(AssertionError, match="ANT-MSG-007"):
        assert_accepts(body, "anthropic")


def test_without_hypothesis_the_message_says_what_to_install() -> None:
    code = "import sys; sys.modules['hypothesis'] = None\nimport normalizer\nimport normalizer.testing"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert "transcript-normalizer[testing]" in done.stderr.splitlines()[-1]


LOOSE = settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@LOOSE
@given(history(actions=["user", "reply", "results"]))
def test_a_history_may_be_limited_to_some_actions(told: list[Fact]) -> None:
    assert {fact.kind for fact in told} <= {"user_said", "model_replied", "call_completed"}
    assert [fact.seq for fact in told] == sorted({fact.seq for fact in told})
    assert len({fact.fact_id for fact in told}) == len(told)
    fold(told)


@LOOSE
@given(facts())
def test_a_fact_is_a_fact(fact: Fact) -> None:
    assert fact.kind
    fold([fact])


@LOOSE
@given(anthropic_requests(broken=False))
def test_healthy_requests_are_accepted(body: dict[str, Any]) -> None:
    assert_accepts(body, "anthropic")


def test_a_projection_is_accepted() -> None:
    told = [UserSaid(fact_id="u", seq=1, parts=(Text("Deploy it."),))]
    assert_accepts(project(fold(told), "anthropic").request, "anthropic", context={"history": True})
