"""Strings of strangers are harmless once shown."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normalizer.util.text import escaped, excerpt, json_text, jsonable, visible

HALF = "\ud83d"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(), max_size=3), inner, max_size=3)
    ),
    max_leaves=10,
)


def test_half_characters_become_visible() -> None:
    assert escaped(f"a{HALF}b") == "a\\ud83db"
    assert escaped("ä😀") == "ä😀"


def test_nothing_is_left_that_a_terminal_obeys() -> None:
    assert visible("\x1b[31mred\x07\u202e") == "\\x1b[31mred\\x07\\u202e"


def test_an_excerpt_is_short_and_on_one_line() -> None:
    assert excerpt("one\n  two\tthree") == "one two three"
    assert excerpt("x" * 100, 10) == "x" * 9 + "…"


def test_no_secret_is_cut_in_half_by_an_excerpt() -> None:
    key = "sk-ant-" + "q" * 60
    assert "qqq" not in excerpt("x" * 70 + " " + key, 80)


def test_what_json_cannot_hold_is_told() -> None:
    assert json_text({"a": f"x{HALF}", HALF: [math.nan, -math.inf], "b": b"\x00"}) == (
        '{"a": "x\\\\ud83d", "\\\\ud83d": ["NaN", "-Infinity"], "b": "b\'\\\\x00\'"}'
    )


def test_a_sound_value_is_not_copied() -> None:
    value = {"a": ["ä", 1.5, None]}
    assert jsonable(value) is value


def test_depth_is_no_problem() -> None:
    value: list[object] = [HALF]
    for _ in range(500):
        value = [value]
    assert json_text(value).startswith("[[[[")


@given(VALUES)
def test_every_value_becomes_json_that_every_reader_takes(value: object) -> None:
    text = json_text(value)
    text.encode()
    assert json.loads(text, parse_constant=pytest.fail) == jsonable(value)
