"""The Responses rulebook against its cases: requests that the API refuses, and requests that it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruling import astray, by_group, expanded, faults, flaws, lines

from normalizer.providers.openai_responses.rules import RULES
from normalizer.rules import Violation, judge, rejects

if TYPE_CHECKING:
    from collections.abc import Iterator

CASES = lines("openai_responses_cases.jsonl")
BY_GROUP = by_group(CASES)


def found(case: dict[str, Any]) -> tuple[dict[str, Any], tuple[Violation, ...]]:
    request = expanded(case["request"])
    return request, judge(RULES, request, case.get("context") or {})


@pytest.mark.parametrize("cases", BY_GROUP.values(), ids=BY_GROUP)
def test_a_refused_request_breaks_its_rule_and_an_accepted_one_is_not_rejected(
    cases: list[dict[str, Any]],
) -> None:
    def wrong(case: dict[str, Any]) -> Iterator[str]:
        request, violations = found(case)
        broken = {violation.rule for violation in violations}
        if (case["rule"] in broken) is not case["violates"]:
            yield f"breaks {sorted(broken)}"
        if not case["violates"] and (refused := rejects(violations)):
            yield f"is rejected: {refused}"
        if case["violates"]:
            yield from astray(request, violations)

    assert faults(cases, wrong) == {}


def test_every_rule_is_explained_and_has_cases() -> None:
    def wrong() -> Iterator[str]:
        for rule in RULES:
            cases = [case for case in CASES if case["rule"] == rule.id]
            yield from (f"{rule.id} {flaw}" for flaw in flaws(rule, cases))
            if rule.static != any(case["static"] for case in cases if case["violates"]):
                yield f"{rule.id} and its cases differ about being static"
            if "## Repair" not in rule.explanation:
                yield f"{rule.id} does not say how it is repaired"
            if not any("severity" in case for case in cases):
                yield f"{rule.id} has no severity in its cases"

    assert list(wrong()) == []


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
