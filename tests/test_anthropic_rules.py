"""The Anthropic rulebook against its cases: requests that the API refuses, and requests that it takes."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruling import astray, by_group, faults, flaws, lines, resolves

from normalizer.providers.anthropic import schema_keys, wire
from normalizer.providers.anthropic.rules import RULES, exchanges, texts, view
from normalizer.rules import Context, Request, Rule, Violation, judge, rejects, remembered

if TYPE_CHECKING:
    from collections.abc import Iterator

CASES = lines("anthropic_cases.jsonl")
STREAMS = {line["id"]: line["events"] for line in lines("anthropic_streams.jsonl")}
BY_GROUP = by_group(CASES)


def expanded(case: dict[str, Any]) -> dict[str, Any]:
    """The request of a case at its full size."""
    request: dict[str, Any] = copy.deepcopy(case["request"])
    for edit in case.get("expand", ()):
        *way, last = edit["pointer"].split("/")[1:]
        parent: Any = request
        for step in way:
            parent = parent[int(step) if isinstance(parent, list) else step]
        key = int(last) if isinstance(parent, list) else last
        if "repeat" in edit:
            parent[key] = edit["repeat"] * edit["times"]
        else:
            parent[key].extend(edit["repeat_items"] * edit["times"])
    return request


def context(case: dict[str, Any]) -> dict[str, Any]:
    """What is known beside the request of a case, with the events of a stream in place of its name."""
    known = dict(case.get("context") or {})
    if "stream" in known:
        known["stream"] = STREAMS[known["stream"]]
    return known


def found(case: dict[str, Any]) -> tuple[dict[str, Any], tuple[Violation, ...]]:
    """The expanded request of a case and its violations."""
    request = expanded(case)
    return request, judge(RULES, request, context(case))


@pytest.mark.parametrize("cases", BY_GROUP.values(), ids=BY_GROUP)
def test_a_refused_request_breaks_its_rule_and_an_accepted_one_is_not_rejected(
    cases: list[dict[str, Any]],
) -> None:
    def wrong(case: dict[str, Any]) -> Iterator[str]:
        request, violations = found(case)
        broken = {violation.rule for violation in violations}
        if case["violates"] and not broken & {case["rule"], *case.get("also", ())}:
            yield f"breaks {sorted(broken)}"
        if not case["violates"] and (refused := rejects(violations)):
            yield f"is rejected: {refused}"
        yield from astray(request, violations)

    assert faults(cases, wrong) == {}


def test_every_rule_is_explained_and_has_cases() -> None:
    def wrong() -> Iterator[str]:
        for rule in RULES:
            cases = [case for case in CASES if case["rule"] == rule.id]
            yield from (f"{rule.id} {flaw}" for flaw in flaws(rule, cases))
            if rule.static and not all(case["static"] for case in cases):
                yield f"{rule.id} is static, and a case of it is not"
            if not any("severity" in case for case in cases):
                yield f"{rule.id} has no severity in its cases"

    assert list(wrong()) == []


def test_ids_and_names_are_unique_and_every_case_has_its_rule() -> None:
    assert len({rule.id for rule in RULES}) == len({rule.name for rule in RULES}) == len(RULES)
    assert {case["rule"] for case in CASES} == {rule.id for rule in RULES}


def test_the_key_tables_know_the_types_of_the_wire() -> None:
    described = wire.USER_BLOCKS | wire.ASSISTANT_BLOCKS | wire.SYSTEM_BLOCKS | wire.RESULT_BLOCKS
    assert schema_keys.BLOCK_KEYS.keys() == described - {"connector_text"}


def _broken(request: dict[str, Any], **known: Any) -> set[str]:
    return {violation.rule for violation in judge(RULES, request, known)}


def _request(*messages: dict[str, Any], **settings_: Any) -> dict[str, Any]:
    return {"model": "claude-opus-4-8", "max_tokens": 1024, "messages": list(messages), **settings_}


def _says(role: str, *content: Any) -> dict[str, Any]:
    return {"role": role, "content": content[0] if isinstance(content[0], str) else list(content)}


SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
SEARCHED = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
SEARCH_TOOL = {"type": "web_search_20250305", "name": "web_search"}
CODE = {"type": "server_tool_use", "id": "srvtoolu_2", "name": "code_execution", "input": {"code": "f()"}}
CODE_TOOL = {"type": "code_execution_20260120", "name": "code_execution"}
LOOKUP_TOOL = {"name": "lookup", "input_schema": {"type": "object"}}


def _call(number: int, run: str | None = None) -> dict[str, Any]:
    caller = {"caller": {"type": "code_execution_20260120", "tool_id": run}} if run else {}
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "lookup", "input": {}, **caller}


def _answer(number: int, content: Any = "ok") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": content}


def test_a_history_is_not_asked_for_what_the_caller_adds() -> None:
    finished = {"messages": [_says("user", "Hi"), _says("assistant", "Hello. ")]}
    assert _broken(finished, history=True) == set()
    assert {"ANT-MSG-007", "ANT-ROLE-003", "ANT-MSG-006"} <= _broken(finished)
    assert "ANT-MSG-001" in _broken({"messages": []}, history=True)
    assert "ANT-MSG-002" in _broken(
        {"messages": [_says("user", "Hi"), {"role": "assistant", "content": []}]}, history=True
    )


def test_a_type_that_the_api_sent_is_no_unknown_block() -> None:
    request = _request(_says("user", "Hi"), _says("assistant", {"type": "dream", "x": 1}), _says("user", "?"))
    assert "ANT-MSG-003" in _broken(request)
    assert _broken(request, received_types=["dream"]) == set()
    assert _broken(request, received_types=frozenset({"dream"})) == set()


def test_a_code_run_may_call_tools_again_and_again() -> None:
    done = {
        "type": "code_execution_tool_result",
        "tool_use_id": "srvtoolu_2",
        "content": {
            "type": "code_execution_result",
            "stdout": "",
            "stderr": "",
            "return_code": 0,
            "content": [],
        },
    }
    waiting = [
        _says("user", "Go"),
        _says("assistant", CODE, _call(1, "srvtoolu_2")),
        _says("user", _answer(1)),
        _says("assistant", _call(2, "srvtoolu_2")),
        _says("user", _answer(2)),
    ]
    tools = [CODE_TOOL, LOOKUP_TOOL]
    assert _broken(_request(*waiting, tools=tools, container="c_1")) == set()
    assert _broken(_request(*waiting, tools=tools, container={"id": "c_1"})) == set()
    assert _broken(_request(*waiting, tools=tools)) == {"ANT-PTC-001"}
    ended = [*waiting, _says("assistant", done, {"type": "text", "text": "Done."}), _says("user", "Thanks")]
    assert _broken(_request(*ended, tools=tools)) == set()
    lost = [*waiting[:3], _says("assistant", "I stop."), _says("user", "Why?")]
    assert "ANT-SRV-001" in _broken(_request(*lost, tools=tools))


def test_a_paused_turn_may_be_the_last() -> None:
    paused = [_says("user", "Go"), _says("assistant", SEARCH)]
    assert _broken(_request(*paused, tools=[SEARCH_TOOL])) == set()
    assert _broken(_request(*paused, tools=[])) == {"ANT-SRV-002"}
    assert (
        _broken(_request(_says("user", "Go"), _says("assistant", "On it")), stop_reason="pause_turn") == set()
    )
    resumed = [
        *paused,
        _says("assistant", SEARCHED, {"type": "text", "text": "Found."}),
        _says("user", "Thanks"),
    ]
    assert _broken(_request(*resumed, tools=[SEARCH_TOOL])) == set()
    given_up = [*paused, _says("system", "Be brief."), _says("assistant", SEARCHED), _says("user", "Thanks")]
    assert {"ANT-SRV-001", "ANT-SRV-004"} <= _broken(_request(*given_up, tools=[SEARCH_TOOL]))


def test_a_token_of_a_refused_reply_lets_the_assistant_go_on() -> None:
    asked = [_says("user", "Go"), _says("assistant", "So far")]
    paid: dict[str, Any] = {"betas": ["fallback-credit-2026-07-01"], "fallback_credit_token": "token"}
    assert _broken(_request(*asked, **paid)) == set()
    loose = [_says("user", "Go"), _says("assistant", {"type": "text", "text": "So far "}, SEARCH, SEARCHED)]
    assert _broken(_request(*loose, tools=[SEARCH_TOOL], **paid)) == {"ANT-MSG-006"}


def test_a_thread_on_the_server_may_hold_the_calls() -> None:
    request = _request(
        _says("user", _answer(1)),
        betas=["message-threads-2026-08-12"],
        thread={"type": "continue", "previous_message_id": "msg_1"},
    )
    assert _broken(request) == set()
    assert "ANT-PAIR-002" in _broken({**request, "thread": {"type": "create"}})


def test_keys_of_a_beta_need_it() -> None:
    request = _request(_says("user", "Hi"), mcp_servers=[])
    assert "ANT-MSG-004" in _broken(request)
    assert _broken({**request, "anthropic_beta": "files-api-2025-04-14, mcp-client-2025-11-20"}) == set()


def test_a_sealed_field_of_the_servers_is_text_of_its_alphabet() -> None:
    advice = {"type": "advisor_redacted_result", "encrypted_content": "REDACTED"}
    asked = {"type": "server_tool_use", "id": "srvtoolu_3", "name": "advisor", "input": {}}
    told = {"type": "advisor_tool_result", "tool_use_id": "srvtoolu_3", "content": advice}
    request = _request(
        _says("user", "Go"),
        _says("assistant", asked, told, {"type": "text", "text": "Fine."}),
        _says("user", "Thanks"),
        betas=["advisor-tool-2026-03-01"],
        tools=[{"type": "advisor_20260301", "name": "advisor", "model": "claude-opus-5"}],
    )
    assert _broken(request) == {"ANT-SRV-006"}
    advice["encrypted_content"] = "EqgfCioIARgB+/x="
    assert _broken(request) == set()


def test_the_blocks_inside_blocks_are_walked_in_document_order() -> None:
    cited = {"type": "search_result", "content": [{"type": "text", "text": "a"}]}
    paper = {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "b"}]}}
    request = _request(_says("user", _answer(1, [cited, paper]), {"type": "text", "text": "c"}))
    assert [
        (at.removeprefix("/messages/0/content"), block["type"]) for at, block in view.walked(request).entries
    ] == [
        ("/0", "tool_result"),
        ("/0/content/0", "search_result"),
        ("/0/content/0/content/0", "text"),
        ("/0/content/1", "document"),
        ("/0/content/1/source/content/0", "text"),
        ("/1", "text"),
    ]


def test_blocks_are_found_by_type_and_role_in_document_order() -> None:
    thought = {"type": "thinking", "thinking": "", "signature": "s"}
    words = {"type": "text", "text": "b"}
    request = _request(
        _says("user", words, thought),
        _says("assistant", thought, words),
        _says("user", "a"),
        _says("user", thought),
    )
    both = frozenset({"thinking", "text"})
    assert [at.removeprefix("/messages") for at, _ in view.of_type(request, both)] == [
        "/0/content/0", "/0/content/1", "/1/content/0", "/1/content/1", "/2/content", "/3/content/0",
    ]  # fmt: skip
    assert [at for at, _ in view.of_type(request, both, "assistant")] == [
        "/messages/1/content/0",
        "/messages/1/content/1",
    ]
    assert [at for at, _ in view.misplaced(request, wire.THINKING, "assistant")] == [
        "/messages/0/content/1",
        "/messages/3/content/0",
    ]
    assert list(view.of_type(request, frozenset({"image"}))) == view.anywhere(request, "image") == []


def test_strings_are_weighed_in_bytes_in_characters_and_for_halves() -> None:
    whole = texts.weigh({"text": "äb", "data": "xyz", "more": [{"signature": ["q"]}, "cd", 1, None]})
    assert whole == texts.Weight(
        size=len("textdatamoresignature") + 3 + 3 + 1 + 2,
        read=len("textdatamoresignature") + 2 + 2,
        torn=False,
    )
    assert texts.weigh("\ud83d") == texts.Weight(size=3, read=1, torn=True)
    assert texts.weigh([{"\udc00": {}}]).torn
    assert texts.weigh("\U0001f600") == texts.Weight(size=4, read=1, torn=False)


def test_a_view_looks_once_while_a_request_is_judged_and_anew_each_time() -> None:
    looks: list[Request] = []

    @remembered
    def size(request: Request) -> int:
        """The number of keys."""
        looks.append(request)
        return len(request)

    def told(request: Request, context: Context) -> Iterator[Violation]:
        """Nothing is allowed."""
        yield Violation("", f"{size(request)} and {size(context)}")

    rule = Rule(id="X-1", name="x", severity="policy", source="here", error=None, check=told)
    request: dict[str, Any] = {"a": 1}
    assert [found.message for found in judge((rule, rule), request, {})] == ["1 and 0"] * 2
    assert looks == [{"a": 1}, {}, {}]
    request["b"] = 2
    assert [found.message for found in judge((rule,), request, {})] == ["2 and 0"]
    assert (size(request), size.__name__, size.__doc__) == (2, "size", "The number of keys.")
    request["c"] = 3
    assert size(request) == 3


def test_what_a_view_remembers_is_gone_when_a_rule_raises() -> None:
    def failing(request: Request, context: Context) -> Iterator[Violation]:
        """Nothing works."""
        yield Violation("", f"{context}: {1 / len(view.messages(request))}")

    rule = Rule(id="X-2", name="x", severity="policy", source="here", error=None, check=failing)
    request: dict[str, Any] = {"messages": []}
    with pytest.raises(ZeroDivisionError):
        judge((rule,), request)
    request["messages"].append(_says("user", "Hi"))
    assert len(view.messages(request)) == 1


@pytest.mark.parametrize("cases", BY_GROUP.values(), ids=BY_GROUP)
def test_a_rule_finds_alone_what_it_finds_among_the_others(cases: list[dict[str, Any]]) -> None:
    def wrong(case: dict[str, Any]) -> Iterator[str]:
        request, violations = found(case)
        known = context(case)
        alone = tuple(one for rule in RULES for one in rule.violations(request, known))
        if violations != alone:
            yield f"together {violations}, alone {alone}"

    assert faults((case for case in cases if not case.get("expand")), wrong) == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
TYPES = sorted(schema_keys.BLOCK_KEYS)
MEMBERS = sorted({key for known in schema_keys.BLOCK_KEYS.values() for key in known})
BLOCK = st.dictionaries(st.sampled_from(MEMBERS), JSON, max_size=5).flatmap(
    lambda block: st.sampled_from(TYPES).map(lambda kind: {**block, "type": kind}) | st.just(block)
)
CONTENT = st.lists(BLOCK | JSON, max_size=4) | JSON
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system"]) | JSON, "content": CONTENT}
)
KEYS = sorted(schema_keys.REQUEST_KEYS | schema_keys.BETA_KEYS.keys())
REQUEST = st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=4), JSON, max_size=5).flatmap(
    lambda request: (st.lists(MESSAGE | JSON, max_size=5) | JSON).map(lambda ms: {**request, "messages": ms})
)
KNOWN = ("recorded_blocks", "original_request", "recorded_model", "stop_reason", "recorded_result", "stream")
LATER = ("now", "executed", "container_expires_at", "received_types", "history", "refused_turn")
CONTEXT = st.dictionaries(st.sampled_from(KNOWN + LATER), JSON | st.lists(BLOCK, max_size=3), max_size=4)


@settings(max_examples=150, deadline=None)
@given(request=REQUEST, known=CONTEXT)
def test_nothing_that_json_can_hold_makes_a_rule_raise(
    request: dict[str, Any], known: dict[str, Any]
) -> None:
    for violation in judge(RULES, request, known):
        assert resolves(request, violation.pointer), violation


def test_the_history_of_server_calls_is_followed_once() -> None:
    again = _request(
        _says("user", "Go"), _says("assistant", SEARCH, SEARCHED, SEARCH, SEARCHED), _says("user", "?")
    )
    found_ = exchanges.server_calls(again)
    assert (len(found_.pairs), len(found_.repeated), found_.open) == (2, 1, {})
