"""The Responses rulebook against its cases: requests that the API refuses, and requests that it takes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruling import SEVERITIES, expanded, lines, resolves

from normalizer.providers.openai_responses.rules import RULES
from normalizer.rules import Rule, Violation, judge, rejects

CASES = lines("openai_responses_cases.jsonl")
REFUSED = [case for case in CASES if case["violates"]]
ACCEPTED = [case for case in CASES if not case["violates"]]


def found(case: dict[str, Any]) -> tuple[dict[str, Any], tuple[Violation, ...]]:
    request = expanded(case["request"])
    return request, judge(RULES, request, case.get("context") or {})


@pytest.mark.parametrize("case", REFUSED, ids=[case["id"] for case in REFUSED])
def test_a_refused_request_breaks_its_rule(case: dict[str, Any]) -> None:
    request, violations = found(case)
    broken = {violation.rule for violation in violations}
    assert broken & {case["rule"], *case.get("also", ())}
    assert [v.pointer for v in violations if not resolves(request, v.pointer)] == []


@pytest.mark.parametrize("case", REFUSED, ids=[case["id"] for case in REFUSED])
def test_a_refused_request_breaks_the_very_rule(case: dict[str, Any]) -> None:
    assert case["rule"] in {violation.rule for violation in found(case)[1]}


@pytest.mark.parametrize("case", ACCEPTED, ids=[case["id"] for case in ACCEPTED])
def test_an_accepted_request_is_not_rejected(case: dict[str, Any]) -> None:
    _, violations = found(case)
    assert rejects(violations) == ()
    assert case["rule"] not in {violation.rule for violation in violations}


@pytest.mark.parametrize("rule", RULES, ids=[rule.id for rule in RULES])
def test_a_rule_is_explained_and_has_cases(rule: Rule) -> None:
    cases = [case for case in CASES if case["rule"] == rule.id]
    assert {case["violates"] for case in cases} == {True, False}
    assert {SEVERITIES.get(case["severity"], case["severity"]) for case in cases} == {rule.severity}
    assert rule.static == any(case["static"] for case in cases if case["violates"])
    assert rule.statement.endswith(".")
    assert "\n" not in rule.statement
    assert "## Repair" in rule.explanation
    assert rule.source
    assert rule.name == rule.name.lower().replace(" ", "-").replace("_", "-")


def test_ids_and_names_are_unique_and_every_case_has_its_rule() -> None:
    assert len({rule.id for rule in RULES}) == len({rule.name for rule in RULES}) == len(RULES)
    assert {case["rule"] for case in CASES if not case["rule"].startswith("OAR-OK")} == {
        rule.id for rule in RULES
    }


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3)
    | st.sampled_from(["message", "reasoning", "function_call", "function_call_output", "web_search_call", "program"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["type", "role", "content", "id", "call_id", "output", "summary", "action", "tools", "x"]),
        inner, max_size=5,
    ),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["input", "tools", "tool_choice", "store", "conversation", "type"]), JUNK, max_size=5
    ),
    st.dictionaries(
        st.sampled_from(["native", "outcomes", "truth", "previous_response", "order", "sent"]),
        JUNK,
        max_size=3,
    ),
)
def test_no_request_makes_a_rule_raise(request_: dict[str, Any], context: dict[str, Any]) -> None:
    judge(RULES, request_, context)
