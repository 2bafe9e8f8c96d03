"""What a block says beyond what is sent of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from normalizer.parts import Json, Media, Reasoning, Text, Tool, ToolCall
from normalizer.projecting.unmapped_fields import (
    beside_content,
    of_one_piece,
    remainder,
    tool_keys,
    unmapped,
    whole,
)

CITED = {"type": "char_location", "cited_text": "q", "start_char_index": 0, "document_title": None}


@pytest.mark.parametrize(
    ("raw", "said", "rest"),
    [
        ({"type": "text", "text": "a"}, ["a"], None),
        ({"type": "text", "text": "a", "id": "x", "status": "completed", "cache_control": {"ttl": "5m"}}, ["a"], None),
        ({"text": "a", "citations": [CITED]}, ["a"], {"citations": [CITED]}),
        ({"text": "a", "citations": [{**CITED, "cited_text": "a"}]}, ["a"],
         {"citations": [{"type": "char_location", "start_char_index": 0}]}),
        ({"title": "T", "content": [{"text": "a"}, {"text": "b"}]}, ["[T]\\na\\nb"], {"title": "T"}),
        ({"content": [{"text": "a"}, {"text": "b"}]}, ["x\\na\\nb"], None),
        ({"content": "a"}, ["an answer"], {"content": "a"}),
        ({"url": "data:image/png;base64,QUJD"}, [{"source": {"data": "QUJD"}}], None),
        ({"data": "QUJD"}, [{"url": "data:image/png;base64,QUJD"}], None),
        ({"arguments": '{"a": 1}'}, [{"a": 1}], {"arguments": '{"a": 1}'}),
        ({"output": [{"stdout": "x", "exit_code": 0}]}, ['[{"stdout":"x","exit_code":0}]'], None),
        ({"exit_code": 3}, [{"exit_code": 3}], None),
        ({"exit_code": 3}, [{"lines": 3}], {"exit_code": 3}),
        ({"strict": True, "async": False, "detail": "auto", "name": ""}, [{"strict": True}], None),
        ({"strict": True}, [{"strict": False}], {"strict": True}),
        ([{"id": "c1", "code": "m"}], ["m"], [{"id": "c1"}]),
        ("a", [], None),
    ],
)  # fmt: skip
def test_remainder(raw: Any, said: list[Any], rest: Any) -> None:
    said = [one.replace("\\n", "\n") if isinstance(one, str) else one for one in said]
    found = remainder(Json.of(raw), *said)
    assert (json.loads(found) if found is not None else None) == rest


def test_what_is_no_json_and_what_is_not_there_leave_nothing() -> None:
    assert remainder(None) is None
    assert remainder(Json("{")) is None


def test_who_speaks_stands_beside_the_content() -> None:
    class Fact:
        raw = Json.of({"role": "user", "name": "Ann", "content": None})

    assert beside_content(Fact()) == '{"name":"Ann"}'
    Fact.raw = Json.of({"id": "resp_1", "name": "no message"})
    assert beside_content(Fact()) is None
    Fact.raw = Json.of({"role": "user", "content": None})
    assert beside_content(Fact()) is None


def test_what_parts_say_or_goes_back_under_its_key_is_not_beside_the_content() -> None:
    class Fact:
        model = "m-1"
        raw = Json.of(
            {"role": "system", "content": "Be brief.", "model": "m-1", "until": "m-1", "odd": {"a": 1}}
        )

    assert beside_content(Fact()) == '{"until":"m-1","odd":{"a":1}}'
    assert beside_content(Fact(), {"until", "odd.a"}) is None
    Fact.model = "m-2"
    assert beside_content(Fact(), {"until", "odd"}) == '{"model":"m-1"}'


def test_the_pieces_behind_the_first_are_parts_of_their_own() -> None:
    many = Json.of({"role": "assistant", "content": [{"text": "a"}, {"text": "b"}]})
    assert of_one_piece(many).value == {"role": "assistant", "content": [{"text": "a"}]}
    one = Json.of({"role": "assistant", "content": [{"text": "a"}]})
    assert of_one_piece(one) is one


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (Text("a"), "a"),
        (Reasoning("hm"), "hm"),
        (Text("a", Json.of({"text": "a", "x": 1})), '{"text":"a","x":1}'),
        (Media("audio", "audio/wav", "QUJD", name="a.wav"),
         '{"media":"audio","media_type":"audio/wav","data":"QUJD","name":"a.wav"}'),
        (ToolCall("call_1", "run", Json("{}")), '{"name":"run","id":"call_1","arguments":"{}"}'),
    ],
)  # fmt: skip
def test_a_part_as_a_whole(part: Any, text: str) -> None:
    assert whole(part) == text


@pytest.mark.parametrize(
    ("raw", "consumed", "rest"),
    [
        ({"type": "text", "text": "a"}, {"text"}, None),
        ({"type": "text", "text": "a", "id": "x", "cache_control": {"ttl": "5m"}}, {"text"}, None),
        ({"text": "a", "citations": [CITED]}, {"text"}, {"citations": [CITED]}),
        ({"text": "a", "title": "a"}, {"text"}, {"title": "a"}),  # the same text, said under another key
        ({"text": "a", "citations": [{**CITED, "cited_text": "a"}]}, {"text"},
         {"citations": [{**CITED, "cited_text": "a"}]}),
        ({"type": "function", "function": {"name": "f", "strict": True}}, {"function.name"},
         {"function": {"strict": True}}),
        ({"type": "function", "function": {"name": "f", "strict": True}}, {"function.name", "function.strict"}, None),
        ({"a": {"type": "t", "b": {"c": 1, "d": 2}}}, {"a.b.c"}, {"a": {"type": "t", "b": {"d": 2}}}),
        ({"a": {"b": {"c": 1}}}, {"a"}, None),
        ({"a": {"b": {"c": 1}}}, {"c"}, {"a": {"b": {"c": 1}}}),
        ({"strict": False, "format": {"type": "text"}, "more": [None, ""], "detail": "auto"}, set(), None),
        (["a"], set(), None),
    ],
)  # fmt: skip
def test_what_stands_under_keys_that_were_not_consumed(raw: Any, consumed: set[str], rest: Any) -> None:
    found = unmapped(Json.of(raw), consumed)
    assert (json.loads(found) if found is not None else None) == rest


def test_what_is_no_json_has_no_keys() -> None:
    assert unmapped(None, ()) is None
    assert unmapped(Json("{"), ()) is None


SCHEMA = {"type": "object"}


@pytest.mark.parametrize(
    ("raw", "keys"),
    [
        ({"name": "f", "description": "d", "input_schema": SCHEMA}, {"name", "description", "input_schema"}),
        ({"type": "function", "function": {"name": "f", "parameters": SCHEMA}},
         {"function.name", "function.parameters"}),
        ({"type": "custom", "custom": {"name": "f", "description": "d"}}, {"custom.name", "custom.description"}),
        ({"name": "f", "description": ["d"], "input_schema": SCHEMA, "parameters": {}}, {"name", "input_schema"}),
        ("f", set()),
    ],
)  # fmt: skip
def test_the_keys_of_a_declaration_whose_values_the_tool_holds(raw: Any, keys: set[str]) -> None:
    assert tool_keys(Tool("f", "d", Json.of(SCHEMA), Json.of(raw))) == keys
    assert tool_keys(Tool("f", "d", Json.of(SCHEMA))) == set()
