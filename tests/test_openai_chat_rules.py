"""The rulebook of Chat Completions, and of compatible servers, against its cases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruling import astray, by_group, expanded, faults, flaws, lines, resolves

from normalizer.providers.openai_chat import schema_keys, wire
from normalizer.providers.openai_chat.rules import RULES, view
from normalizer.rules import Violation, judge, rejects

if TYPE_CHECKING:
    from collections.abc import Iterator

CASES = lines("openai_chat_cases.jsonl")
SERVERS = lines("openai_compatible_cases.jsonl")
ALL = [*CASES, *SERVERS]
BY_GROUP = by_group(ALL)


def context(case: dict[str, Any]) -> dict[str, Any]:
    profile = {"profile": case["profile"]} if "profile" in case else {}
    return {**(case.get("context") or {}), **profile}


def found(case: dict[str, Any]) -> tuple[dict[str, Any], tuple[Violation, ...]]:
    """The expanded request of a case and its violations."""
    request = expanded(case["request"])
    return request, judge(RULES, request, context(case))


@pytest.mark.parametrize("cases", BY_GROUP.values(), ids=BY_GROUP)
def test_a_refused_request_breaks_its_rule_and_an_accepted_one_neither_breaks_it_nor_is_rejected(
    cases: list[dict[str, Any]],
) -> None:
    def wrong(case: dict[str, Any]) -> Iterator[str]:
        request, violations = found(case)
        broken = {violation.rule for violation in violations}
        if case["violates"]:
            if not broken & {case["rule"], *case.get("also", ())}:
                yield f"breaks {sorted(broken)}"
            yield from astray(request, violations)
        elif case["rule"] in broken or rejects(violations):
            yield f"breaks {violations}"

    assert faults(cases, wrong) == {}


@pytest.mark.parametrize("cases", by_group(SERVERS).values(), ids=by_group(SERVERS))
def test_a_servers_rule_applies_under_its_profile_only(cases: list[dict[str, Any]]) -> None:
    def wrong(case: dict[str, Any]) -> Iterator[str]:
        request = expanded(case["request"])
        known = case.get("context") or {}
        for profile in (None, *wire.PROFILES, "mistral", "gateway", "local"):
            if profile != case["profile"]:
                broken = {one.rule for one in judge(RULES, request, {**known, "profile": profile})}
                if case["rule"] in broken:
                    yield f"breaks it under {profile}"

    assert faults(cases, wrong) == {}


def test_every_rule_is_explained_and_has_cases() -> None:
    def wrong() -> Iterator[str]:
        for rule in RULES:
            cases = [case for case in ALL if case["rule"] == rule.id]
            yield from (f"{rule.id} {flaw}" for flaw in flaws(rule, cases))
            if rule.static and not all(case.get("static", True) for case in cases):
                yield f"{rule.id} is static, and a case of it is not"

    assert list(wrong()) == []


def test_ids_and_names_are_unique_and_every_case_has_its_rule() -> None:
    assert len({rule.id for rule in RULES}) == len({rule.name for rule in RULES}) == len(RULES)
    accepted_shapes = {case["rule"] for case in CASES if case["rule"].startswith("OAC-OK-")}
    assert {case["rule"] for case in ALL} - accepted_shapes == {rule.id for rule in RULES}


def test_an_accepted_shape_breaks_no_rule_at_all() -> None:
    for case in CASES:
        if case["rule"].startswith("OAC-OK-"):
            assert found(case)[1] == ()


def test_the_key_tables_know_the_types_of_the_wire() -> None:
    assert schema_keys.MESSAGE_KEYS.keys() == wire.ROLES
    assert schema_keys.PART_KEYS.keys() == wire.ALL_PARTS
    assert schema_keys.CALL_KEYS.keys() == schema_keys.PAYLOAD_KEYS.keys() == set(wire.CALL_TYPES)


def broken(*messages: dict[str, Any], known: dict[str, Any] | None = None, **settings_: Any) -> set[str]:
    return {v.rule for v in judge(RULES, {"messages": list(messages), **settings_}, known or {})}


USER = {"role": "user", "content": "Hi"}


def call(wire_id: str = "call_1", **more: Any) -> dict[str, Any]:
    function = {"name": "f", "arguments": "{}"}
    calls = [{"id": wire_id, "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls, **more}


def answer(wire_id: str = "call_1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": wire_id, "content": "1"}


def test_ids_may_repeat_from_block_to_block() -> None:
    assert broken(USER, call(), answer(), call(), answer()) == set()
    assert broken(USER, call(), answer(), USER, answer()) == {"OAC-PAIR-003"}


def test_a_half_answered_end_is_open() -> None:
    two = call()
    two["tool_calls"] = [*two["tool_calls"], {**two["tool_calls"][0], "id": "call_2"}]
    assert broken(USER, two, answer("call_2")) == {"OAC-PAIR-007"}
    assert broken(USER, two, answer("call_2"), USER) == {"OAC-PAIR-001"}


def test_reasoning_keys_belong_to_the_servers_that_have_them() -> None:
    thought = {"role": "assistant", "content": "4", "reasoning_content": "2+2"}
    assert broken(USER, thought, USER) == {"OAC-STRUCT-006"}
    assert broken(USER, thought, USER, known={"profile": "deepseek"}) == set()
    assert "OAC-STRUCT-006" in broken(USER, thought, USER, known={"profile": "groq"})


def test_a_model_that_does_not_think_needs_no_reasoning() -> None:
    known = {"profile": "deepseek"}
    assert broken(USER, call(), answer(), known=known, model="deepseek-chat") == set()
    assert broken(USER, call(), answer(), known=known, thinking={"type": "disabled"}) == set()
    assert broken(USER, call(), answer(), known={"profile": "kimi"}, model="moonshot-v1-8k") == set()


def test_a_type_that_the_api_sent_is_no_fault() -> None:
    dreamt = {"role": "assistant", "content": [{"type": "dream", "x": 1}]}
    assert broken(USER, dreamt, USER) == {"OAC-CONTENT-003"}
    assert broken(USER, dreamt, USER, known={"received_types": ("dream",)}) == set()
    thinking = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]}
    assert "OAC-CONTENT-003" in broken(USER, thinking, USER, known={"received_types": ("thinking",)})


def test_tools_that_may_be_chosen_are_declared() -> None:
    tools = [{"type": "custom", "custom": {"name": "sql"}}]
    chosen = {"type": "custom", "custom": {"name": "sql"}}
    assert broken(USER, tools=tools, tool_choice=chosen) == set()
    others = {"mode": "auto", "tools": [{"type": "function", "function": {"name": "g"}}]}
    allowed = {"type": "allowed_tools", "allowed_tools": others}
    assert broken(USER, tools=tools, tool_choice=allowed) == {"OAC-TOOLS-005"}


@pytest.mark.parametrize(
    ("model", "version"),
    [("gpt-5.4", (5, 4)), ("gpt-5.10-mini", (5, 10)), ("gpt-5", (5, 0)), ("gpt-4o", None), ("o3", None)],
)
def test_versions_of_models_are_read_from_their_names(model: str, version: tuple[int, int] | None) -> None:
    assert wire.version(model) == version


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "role",
                    "content",
                    "type",
                    "text",
                    "tool_calls",
                    "id",
                    "function",
                    "name",
                    "arguments",
                    "audio",
                ]
            ),
            inner | st.sampled_from(["assistant", "tool", "user", "function", "custom", "text", "image_url"]),
            max_size=5,
        )
    ),
    max_leaves=25,
)


@given(st.lists(JSON, max_size=5), JSON, st.sampled_from([None, *wire.PROFILES, "mistral", "local"]))
@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_no_request_makes_a_rule_fail(messages: Any, other: Any, profile: str | None) -> None:
    request = {"messages": messages, "tools": other, "tool_choice": other, "model": other}
    for violation in judge(
        RULES, request, {"profile": profile, "truth": {"finish": None, "fragments": ["a"]}}
    ):
        assert resolves(request, violation.pointer)


def test_a_view_pairs_what_stands_together() -> None:
    blocks = list(view.blocks({"messages": [USER, call("a"), answer("a"), answer("b"), USER, call("c")]}))
    assert [(block.pointer, block.end, block.last) for block in blocks] == [
        ("/messages/1", 4, False),
        ("/messages/5", 6, True),
    ]
    assert [block.open for block in blocks] == [[], [("/messages/5/tool_calls/0", "c")]]
