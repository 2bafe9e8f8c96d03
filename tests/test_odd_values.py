"""Values that no JSON and no caller should have: each is told or mended, none is an exception of the language's own."""

from __future__ import annotations

import contextlib
import enum
import json
from array import array
from typing import Any

import pytest

import normalizer
from normalizer import registry
from normalizer.errors import CannotProject, UnknownFormat, UnreadableInput
from normalizer.reading.sanitizing import LARGEST

USER: dict[str, Any] = {"role": "user", "content": "hi"}
CALL: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
OPEN = [USER, {"role": "assistant", "content": [CALL]}]


def with_input(value: Any) -> dict[str, Any]:
    """A history with a call that has these arguments."""
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}
    reply = {"role": "assistant", "content": [{**CALL, "input": value}]}
    return {"model": "claude-opus-4-8", "messages": [USER, reply, {"role": "user", "content": [result]}]}


def sent_input(repaired: normalizer.Repair) -> Any:
    return repaired.request["messages"][1]["content"][0]["input"]


def found(repaired: normalizer.Repair) -> list[tuple[str, str | None, str]]:
    """Findings and leftovers, which go in pairs."""
    assert [f.pointer for f in repaired.findings] == [left.pointer for left in repaired.leftovers]
    return [
        (f.kind, f.pointer, left.text) for f, left in zip(repaired.findings, repaired.leftovers, strict=True)
    ]


# ---------------------------------------------------------------- depth, and what is no list or number


def nested(depth: int, leaf: Any = "x") -> Any:
    for _ in range(depth):
        leaf = {"a": leaf}
    return leaf


ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize("deep", [nested(1500), nested(5000), ENDLESS], ids=["deep", "deeper", "endless"])
@pytest.mark.parametrize("format", ["anthropic", "auto"])
def test_what_is_nested_too_deeply_is_told_wherever_it_stands(deep: Any, format: str) -> None:  # noqa: A002
    whole = with_input({})
    result = [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [deep]}]
    for given in (
        with_input({"deep": deep}),
        {**whole, "metadata": deep},
        {**whole, "messages": [*whole["messages"][:2], {"role": "user", "content": result}]},
    ):
        with pytest.raises(UnreadableInput) as caught:
            normalizer.repair(given, format=format, to="anthropic")
        assert caught.value.reason == "too_deep"


def test_an_event_that_is_nested_too_deeply_is_told() -> None:
    with pytest.raises(UnreadableInput) as caught:
        normalizer.read_stream([{"type": "message_start", "message": nested(1500)}], "anthropic")
    assert caught.value.reason == "too_deep"


def test_a_tuple_is_read_as_the_list_that_it_is_in_json() -> None:
    asked = {"model": "claude-opus-4-8", "messages": [{"role": "user", "content": "hi"}]}
    for given in ({**asked, "messages": tuple(asked["messages"])}, tuple(asked["messages"])):
        assert normalizer.repair(given, to="anthropic").request["messages"] == asked["messages"]
    blocks = {**asked, "messages": [{"role": "user", "content": ({"type": "text", "text": "hi"},)}]}
    (message,) = normalizer.repair(blocks, to="anthropic").request["messages"]
    assert message["content"] == [{"type": "text", "text": "hi"}]


def test_numbers_that_lie_in_one_memory_are_not_read_as_bytes() -> None:
    repaired = normalizer.repair(with_input({"numbers": array("d", [1.5, 2]), "bytes": memoryview(b"a")}))
    assert sent_input(repaired) == {"numbers": [1.5, 2.0], "bytes": {"$b64": "YQ=="}}


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize("name", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("parsed", [True, False])
@pytest.mark.parametrize("nested", [True, False])
def test_a_number_that_json_does_not_have_is_read_as_its_name(name: str, parsed: bool, nested: bool) -> None:
    number = float(name)
    given = with_input({"a": [{"b": number}]} if nested else {"a": number})
    repaired = normalizer.repair(given if parsed else json.dumps(given))
    assert sent_input(repaired) == ({"a": [{"b": name}]} if nested else {"a": name})
    place = "/messages/1/content/0/input/a" + ("/0/b" if nested else "")
    assert found(repaired) == [("bad_line", place, name)]
    json.dumps(repaired.request, allow_nan=False)


@pytest.mark.parametrize("target", ["anthropic", "openai_chat", "openai_responses"])
def test_a_setting_that_is_no_number_is_left_out(target: str) -> None:
    key = "input" if target == "openai_responses" else "messages"
    repaired = normalizer.repair({"temperature": float("nan"), key: [USER]}, format=target)
    assert repaired.request == {key: [USER]}
    assert found(repaired) == [("bad_line", "/temperature", "NaN")]


def test_a_number_out_of_range_is_none_of_json() -> None:
    text = json.dumps(with_input({"a": "?"})).replace('"?"', "1e999")
    repaired = normalizer.repair(text)
    assert sent_input(repaired) == {"a": "Infinity"}
    assert found(repaired) == [("bad_line", "/messages/1/content/0/input/a", "Infinity")]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_number_of_too_many_digits_is_refused_with_its_place(sign: int) -> None:
    for given, place in (
        (with_input({"a": sign * LARGEST}), "/messages/1/content/0/input/a"),
        ({"messages": [USER], "max_tokens": sign * LARGEST}, "/max_tokens"),
    ):
        with pytest.raises(UnreadableInput, match="digits") as caught:
            normalizer.repair(given)
        assert caught.value.pointer == place
    most = sign * (LARGEST - 1)
    assert sent_input(normalizer.repair(with_input({"a": most}))) == {"a": most}


# ---------------------------------------------------------------- keys


@pytest.mark.parametrize(
    ("key", "name"), [(5, "5"), (None, "null"), (True, "true"), (False, "false"), (1.5, "1.5")]
)
def test_a_key_that_is_no_text_is_what_json_writes(key: Any, name: str) -> None:
    for given in ({key: 1}, {"a": [{key: 1}]}):
        sent = sent_input(normalizer.repair(with_input(given)))
        assert sent == json.loads(json.dumps(given))
        assert name in json.dumps(sent)


@pytest.mark.parametrize("key", [("a", 1), b"x", frozenset()])
def test_a_key_that_json_cannot_have_is_refused_with_its_place(key: Any) -> None:
    for given, place in (
        (with_input({key: 1}), "/messages/1/content/0/input"),
        ({"messages": [USER], key: 1}, ""),
        ({"messages": [{**USER, key: 1}]}, "/messages/0"),
    ):
        with pytest.raises(UnreadableInput, match="key") as caught:
            normalizer.repair(given, format="anthropic")
        assert caught.value.pointer == place


@pytest.mark.parametrize("format_", ["anthropic", "openai_chat", "openai_responses"])
@pytest.mark.parametrize("key", [5, None, ("a",)])
def test_no_reader_trips_over_a_key(format_: str, key: Any) -> None:
    holder = "input" if format_ == "openai_responses" else "messages"
    for given in (
        {holder: [{**USER, key: 1}]},
        {holder: [USER], key: 1},
        {holder: [{**USER, "content": [{key: 1}]}, USER]},
    ):
        with contextlib.suppress(UnreadableInput, CannotProject):
            normalizer.repair(given, format=format_)


class Word(enum.StrEnum):
    HI = "hi"


class Number(enum.IntEnum):
    ONE = 1


def test_words_and_numbers_of_a_kind_of_their_own_are_plain() -> None:
    repaired = normalizer.repair(
        {"messages": [{"role": "user", "content": Word.HI}], "max_tokens": Number.ONE}
    )
    assert repaired.request == {"messages": [USER], "max_tokens": 1}
    assert type(repaired.request["messages"][0]["content"]) is str
    assert sent_input(normalizer.repair(with_input({Word.HI: Word.HI}))) == {"hi": "hi"}


# ---------------------------------------------------------------- keys that stand twice


def test_the_earlier_value_of_a_key_that_stands_twice_is_left_over() -> None:
    text = (
        '{"messages":[{"role":"user","content":"a: \\"b\\":","content":"hi"}],"max_tokens":5,"max_tokens":7}'
    )
    repaired = normalizer.repair(text, to="anthropic", format="anthropic")
    assert repaired.request == {"messages": [USER], "max_tokens": 7}
    assert sorted(found(repaired)) == [
        ("bad_line", "/max_tokens", "5"),
        ("bad_line", "/messages/0/content", json.dumps('a: "b":')),
    ]


@pytest.mark.parametrize(
    ("object_", "lost"),
    [
        ('{"a":1,"a":2}', ["1"]),
        ('{"a":1,"a":1}', ["1"]),
        ('{"a":1,"b":3,"a":2,"a":{"c":[]}}', ["1", "2"]),
        ('{"a":"x:\\u003a","a":"::::"}', ['"x::"']),
        ('{"a":{"b":1,"c":2},"a":"::"}', ['{"b": 1, "c": 2}']),
        ('{"a" : "\\\\", "a" :2}', ['"\\\\"']),
    ],
)
def test_what_a_repeated_key_said_before_is_never_lost(object_: str, lost: list[str]) -> None:
    text = json.dumps(with_input("?")).replace('"?"', object_)
    repaired = normalizer.repair(text)
    assert sent_input(repaired) == json.loads(object_)
    assert [left.text for left in repaired.leftovers] == lost


@pytest.mark.parametrize(
    "object_",
    [
        '{"a":":","b":"\\":"}',
        '{"a":"\\\\","b":"\\\\\\":"}',
        '{ "a" : "\\u003a\\u003A" }',
        '{"é":"\\u00e9:"}',
        '{":":":"}',
    ],
)
def test_colons_in_words_are_no_keys(object_: str) -> None:
    repaired = normalizer.repair(json.dumps(with_input("?")).replace('"?"', object_))
    assert sent_input(repaired) == json.loads(object_)
    assert found(repaired) == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ('{"a":1,"a":2}', True),
        ('{"a":{"b":1,"b":2}}', True),
        ('{"a":"x: y","b":": :"}', False),
        ('{"a\\u003a":1,"b":2}', False),
        ('{"a\\u003a":1,"a:":2}', True),
    ],
)
def test_arguments_that_give_a_key_twice_are_told_where_they_become_an_object(
    arguments: str, told: bool
) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "run", "arguments": arguments}}
    history = [
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "ok"},
    ]
    repaired = normalizer.repair({"messages": history}, format="openai_chat", to="anthropic")
    assert repaired.request["messages"][1]["content"][0]["input"] == json.loads(arguments)
    assert [a.content for a in repaired.adjustments if a.call_id == "call_1"] == ([arguments] if told else [])


def test_two_keys_that_are_read_alike_are_told() -> None:
    repaired = normalizer.repair(
        with_input({"a" + half: number for number, half in enumerate("\ud800\udc00", start=1)})
    )
    assert sent_input(repaired) == {"a\ufffd": 2}
    assert "1" in [left.text for left in repaired.leftovers]
    repaired = normalizer.repair(with_input({5: "first", "5": "second"}))
    assert sent_input(repaired) == {"5": "second"}
    assert [left.text for left in repaired.leftovers] == ['"first"']


LINES: list[dict[str, Any]] = [
    {"type": "user", "uuid": "u1", "parentUuid": None, "sessionId": "s", "message": USER},
    {
        "type": "assistant", "uuid": "u2", "parentUuid": "u1", "sessionId": "s",
        "message": {"role": "assistant", "model": "claude-opus-4-8", "content": [{**CALL, "input": "?"}]},
    },
    {
        "type": "user", "uuid": "u3", "parentUuid": "u2", "sessionId": "s",
        "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}]},
    },
]  # fmt: skip


@pytest.mark.parametrize(
    ("object_", "place", "sent", "kept"),
    [
        ('{"a":1,"a":2}', "/a", {"a": 2}, "1"),
        ('{"a":NaN}', "/a", {"a": "NaN"}, "NaN"),
        ('{"a":[1e999]}', "/a/0", {"a": ["Infinity"]}, "Infinity"),
    ],
)
def test_a_sessions_line_is_mended_alike(object_: str, place: str, sent: Any, kept: str) -> None:
    text = "\n".join(json.dumps(line) for line in LINES).replace('"?"', object_)
    repaired = normalizer.repair(text.encode())
    assert sent_input(repaired) == sent
    (finding,) = repaired.findings
    assert (finding.kind, finding.line, finding.pointer) == (
        "bad_line",
        2,
        f"/message/content/0/input{place}",
    )
    assert kept in [left.text for left in repaired.leftovers if left.line == 2]


# ---------------------------------------------------------------- what callers pass


def test_no_format_is_any_format() -> None:
    assert (
        normalizer.repair(OPEN, format=None, to="anthropic").format
        == normalizer.repair(OPEN, to="anthropic").format
    )


@pytest.mark.parametrize("odd", [5, [], b"x", "", "claude"])
def test_a_format_that_there_is_not_is_told_with_those_there_are(odd: Any) -> None:
    for source in (OPEN, json.dumps(OPEN)):
        with pytest.raises(UnknownFormat, match="formats: auto, claude_code, anthropic"):
            normalizer.read(source, format=odd)


@pytest.mark.parametrize("name", ["claude_code", "facts"])
def test_a_format_of_files_is_not_that_of_parsed_json(name: str) -> None:
    with pytest.raises(UnknownFormat, match="pass a path"):
        normalizer.read(OPEN, format=name)


@pytest.mark.parametrize("odd", [5, [], {}, b"x", ""])
def test_a_target_that_there_is_not_is_told_with_those_there_are(odd: Any) -> None:
    for ask in (
        lambda: normalizer.repair(OPEN, format="anthropic", to=odd),
        lambda: normalizer.check({}, odd),
        lambda: normalizer.read_stream([], odd),
    ):
        with pytest.raises(UnknownFormat, match="targets: anthropic, openai_chat, openai_responses"):
            ask()


@pytest.mark.parametrize(
    ("name", "odd", "taken"),
    [
        ("model", 5, "a text or None"),
        ("model", [], "a text or None"),
        ("profile", {}, "a text or None"),
        ("open_calls", "running", "'refuse', 'say_running', 'unknown'"),
        ("open_calls", None, "'refuse', 'say_running', 'unknown'"),
        ("open_calls", ["refuse"], "'refuse', 'say_running', 'unknown'"),
        ("server_tools", "keep", "'drop', 'quote'"),
        ("stored", "no", "True, False or None"),
        ("bridges", 1, "True or False"),
        ("notices", "words", "a function"),
        ("notices", lambda _: 5, "returns a text"),
        ("previous", 5, "an earlier projection"),
        ("account", 5, "a text or None"),
        ("modle", "x", "options: model, profile"),
    ],
)
def test_an_option_that_is_not_taken_is_told_with_what_is(name: str, odd: Any, taken: str) -> None:
    transcript = normalizer.fold(normalizer.read(OPEN, format="anthropic").facts)
    for ask in (
        lambda: normalizer.repair(OPEN, format="anthropic", to="anthropic", **{name: odd}),
        lambda: normalizer.project(transcript, "anthropic", **{"open_calls": "unknown", name: odd}),
    ):
        with pytest.raises(CannotProject, match=taken) as caught:
            ask()
        assert caught.value.reason == "bad_option"
        assert name in str(caught.value)


@pytest.mark.parametrize(
    ("odd", "where"),
    [
        (5, "origin"),
        ([], "origin"),
        ({"model": 5}, "origin['model']"),
        ({"account": {}}, "origin['account']"),
        ({"stop_reason": []}, "origin['stop_reason']"),
        ({"container_expired": "no"}, "origin['container_expired']"),
        ({"calls": ["toolu_1"]}, "origin['calls']"),
        ({"calls": {"toolu_1": 5}}, "origin['calls']['toolu_1']"),
        ({"calls": {"toolu_1": {"model": 5}}}, "origin['calls']['toolu_1']['model']"),
    ],
)
def test_an_origin_that_is_none_is_told_with_the_field(odd: Any, where: str) -> None:
    for ask in (normalizer.read, normalizer.repair):
        with pytest.raises(UnreadableInput) as caught:
            ask(OPEN, format="anthropic", origin=odd)
        assert caught.value.reason == "bad_option"
        assert str(caught.value).startswith(f"{where} is ")


@pytest.mark.parametrize(
    ("odd", "where"),
    [
        ({"modle": "m"}, "origin['modle']"),
        ({5: "m"}, "origin[5]"),
        ({"calls": {"toolu_1": {"modle": "m"}}}, "origin['calls']['toolu_1']['modle']"),
    ],
)
def test_a_field_that_an_origin_does_not_have_is_told_with_those_it_has(odd: Any, where: str) -> None:
    with pytest.raises(UnreadableInput, match="fields: model, account, stop_reason") as caught:
        normalizer.repair(OPEN, format="anthropic", origin=odd)
    assert caught.value.reason == "bad_option"
    assert str(caught.value).startswith(f"{where} is ")


@pytest.mark.parametrize("target", registry.targets())
def test_a_profile_that_a_target_does_not_have_is_told_by_check(target: str) -> None:
    with pytest.raises(CannotProject, match="no profile 'nobody'") as caught:
        normalizer.check({}, target, profile="nobody")
    assert caught.value.reason == "unknown_profile"
    for profile in (None, *registry.provider(target).profiles):
        normalizer.check({}, target, profile=profile)


def test_an_origin_may_leave_everything_out() -> None:
    empty = dict.fromkeys(("model", "account", "stop_reason", "container_expired", "calls"))
    sent = [normalizer.repair(OPEN, format="anthropic", origin=known).request for known in (None, {}, empty)]
    assert sent[0] == sent[1] == sent[2]


@pytest.mark.parametrize("odd", [5, "x", {"kind": "call_skipped"}, [5], [None], ["call_skipped"], [[]]])
def test_facts_that_are_none_are_told(odd: Any) -> None:
    with pytest.raises(UnreadableInput, match="fact"):
        normalizer.repair(OPEN, format="anthropic", facts=odd)
    assert normalizer.repair(OPEN, format="anthropic", facts=None).request


def test_a_context_and_a_stream_that_are_none_are_told() -> None:
    with pytest.raises(UnreadableInput, match="context="):
        normalizer.check({}, "anthropic", context=5)  # type: ignore[arg-type]
    with pytest.raises(UnreadableInput, match="iterable"):
        normalizer.read_stream(5, "anthropic")  # type: ignore[arg-type]


# ---------------------------------------------------------------- types that are unknown

HELD: dict[str, Any] = {
    "anthropic": lambda piece: {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}, piece]}]
    },
    "openai_chat": lambda piece: {
        "messages": [USER, {"role": "assistant", "content": [{"type": "text", "text": "hi"}, piece]}, USER]
    },
    "openai_responses": lambda piece: {"input": [USER, {**piece, "id": "x_1"}]},
}
FOREIGN = {"anthropic": "input_text", "openai_chat": "tool_result", "openai_responses": "tool_use"}


@pytest.mark.parametrize("target", HELD)
def test_a_type_that_nobody_knows_survives_and_is_no_reject(target: str) -> None:
    given = HELD[target]({"type": "novelty", "x": 1})
    repaired = normalizer.repair(given, format=target)
    assert repaired.request == given
    (found,) = normalizer.check(repaired.request, target, context={"history": True})
    assert (found.severity, "novelty" in found.message) == ("contested", True)
    assert not normalizer.check(given, target, context={"history": True, "received_types": ["novelty"]})


@pytest.mark.parametrize("target", HELD)
@pytest.mark.parametrize("context", [{}, {"received_types": list(FOREIGN.values())}])
def test_a_type_of_another_api_is_a_reject_and_is_left_out(target: str, context: dict[str, Any]) -> None:
    given = HELD[target]({"type": FOREIGN[target], "x": 1})
    assert "reject" in {
        found.severity for found in normalizer.check(given, target, context={"history": True, **context})
    }
    repaired = normalizer.repair(given, format=target)
    assert not normalizer.check(repaired.request, target, context={"history": True})
    assert FOREIGN[target] not in json.dumps(repaired.request)
    assert any(FOREIGN[target] in (note.content or "") for note in repaired.adjustments)


USER_X: dict[str, Any] = {"role": "user", "content": "x"}
BARE = "a text stands where a block belongs; it is read as a block of text"


@pytest.mark.parametrize(
    ("target", "payload", "place"),
    [
        ("anthropic", {"messages": [{"role": "user", "content": ["bare"]}]}, "/messages/0/content/0"),
        (
            "anthropic",
            {"messages": [USER_X, {"role": "assistant", "content": ["bare"]}]},
            "/messages/1/content/0",
        ),
        ("anthropic", {"system": ["bare"], "messages": [USER_X]}, "/system/0"),
        ("openai_chat", {"messages": [{"role": "user", "content": ["bare"]}]}, "/messages/0/content/0"),
        (
            "openai_chat",
            {"messages": [USER_X, {"role": "assistant", "content": ["bare"]}]},
            "/messages/1/content/0",
        ),
        ("openai_responses", {"input": [{"role": "user", "content": ["bare"]}]}, "/input/0/content/0"),
        (
            "openai_responses",
            {"input": [USER_X, {"role": "assistant", "content": ["bare"]}]},
            "/input/1/content/0",
        ),
    ],
)
def test_a_text_in_the_place_of_a_block_is_told(target: str, payload: dict[str, Any], place: str) -> None:
    repaired = normalizer.repair(payload, format=target)
    assert [(f.kind, f.pointer, f.message) for f in repaired.findings] == [("unknown_block", place, BARE)]
    assert "bare" in json.dumps(repaired.request)


def test_a_text_in_the_place_of_a_results_block_is_told() -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "run", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": ["bare"]}
    messages = [USER_X, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    repaired = normalizer.repair({"messages": messages}, format="anthropic")
    assert [(f.pointer, f.message) for f in repaired.findings] == [("/messages/2/content/0/content/0", BARE)]


def test_what_stands_beside_results_in_an_assistant_message_is_left_over() -> None:
    gone = {"type": "tool_result", "tool_use_id": "toolu_gone", "content": "nobody asked"}
    messages = [{"role": "assistant", "content": [gone], "id": "msg_1"}, USER_X]
    reading = normalizer.read({"messages": messages}, format="anthropic")
    assert '{"id":"msg_1"}' in [left.text for left in reading.leftovers]


def test_what_stands_beside_a_developers_words_is_kept() -> None:
    words = {"role": "developer", "content": "Be brief.", "id": "msg_1"}
    reading = normalizer.read({"messages": [words, USER_X]}, format="anthropic")
    (said,) = (fact for fact in reading.facts if fact.kind == "instructions_set" and fact.additional)
    assert said.raw is not None
    assert said.raw.value == words
    repaired = normalizer.repair({"messages": [words, USER_X]}, format="anthropic")
    assert "Be brief." in json.dumps(repaired.request)
    assert normalizer.repair(repaired.request, format="anthropic").request == repaired.request
