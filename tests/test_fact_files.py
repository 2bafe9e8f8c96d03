"""A hand-written fact file: what is wrong is told with its line, its field and what was expected."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from normalizer.command.fact_files import MAY_BE_MISSING, faults, load
from normalizer.errors import UnreadableInput
from normalizer.facts import FACT

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

RIGHT: list[dict[str, Any]] = [
    {"kind": "approval_denied", "call_id": "t1", "by": "user"},
    {"kind": "start_permitted", "call_id": "t1", "turn_id": "turn-1", "seq": 4},
    {
        "kind": "call_completed",
        "call_id": "t1",
        "content": [{"kind": "text", "text": "ok"}],
        "is_error": None,
    },
    {"kind": "call_completed", "call_id": "t1", "content": "ok", "raw": {"any": ["json"]}},
    {"kind": "turn_cancel_requested"},
]

WRONG: list[Any] = [
    [1],
    "text",
    {},
    {"kind": 7},
    {"kind": "aproval_denied"},
    {"kind": "call_completed"},
    {"kind": "call_completed", "call_id": 5},
    {"kind": "call_completed", "calll_id": "t"},
    {"kind": "call_completed", "call_id": "t", "content": 3},
    {"kind": "call_completed", "call_id": "t", "content": ["text"]},
    {"kind": "call_completed", "call_id": "t", "content": [{"kind": "text"}]},
    {"kind": "call_completed", "call_id": "t", "content": [{"kind": "txt", "text": "x"}]},
    {"kind": "call_completed", "call_id": "t", "content": [{"text": "x"}]},
    {"kind": "call_completed", "call_id": "t", "content": [{"kind": "text", "text": 3}]},
    {"kind": "call_completed", "call_id": "t", "is_error": "password=hunter2"},
    {"kind": "approval_denied", "call_id": "t", "seq": "1"},
    {"kind": "effects_verified", "call_id": "t"},
    {"kind": "effects_verified", "call_id": "t", "effects": "maybe"},
    {"kind": "turn_ended", "status": None},
    {"kind": "request_sent", "target": "anthropic", "through": 3, "digest": "abc"},
    {"kind": "rewound", "to": True},
    {"kind": "call_terminated", "call_id": "t", "residue": ["a/b", 4]},
]


@pytest.mark.parametrize("fact", RIGHT, ids=json.dumps)
def test_what_is_right_passes_and_the_library_takes_it(fact: dict[str, Any]) -> None:
    assert list(faults(fact)) == []
    FACT.validate_python({"fact_id": "x", **fact})


@pytest.mark.parametrize("fact", WRONG, ids=json.dumps)
def test_what_is_wrong_is_told_by_its_field(fact: Any, snapshot: SnapshotAssertion) -> None:
    assert [f"{pointer or '/'}: {message}" for pointer, message in faults(fact)] == snapshot


@pytest.mark.parametrize("fact", WRONG, ids=json.dumps)
def test_the_library_itself_refuses_the_same(fact: Any) -> None:
    complete = {"fact_id": "x", **fact} if isinstance(fact, dict) else fact
    with pytest.raises(ValueError, match="validation error"):
        FACT.validate_python(complete, strict=True)


def test_the_line_and_the_pointer_are_in_the_error() -> None:
    data = b'{"kind": "turn_cancel_requested"}\n\n{"kind": "turn_ended", "status": "done"}\n'
    with pytest.raises(UnreadableInput, match=r"line 3, /status: expected one of") as caught:
        load(data)
    assert (caught.value.line, caught.value.pointer) == (3, "/status")


@pytest.mark.parametrize("line", [b"{", b"\xff\xfe", b"[" * 100_000], ids=["cut", "not UTF-8", "deep"])
def test_a_line_that_is_no_json(line: bytes) -> None:
    with pytest.raises(UnreadableInput, match=r"line 2: not JSON .*one JSON object on one line"):
        load(b'{"kind": "turn_cancel_requested"}\n' + line)


def test_right_lines_are_returned_as_they_are() -> None:
    data = "".join(json.dumps(fact) + "\n" for fact in RIGHT).encode()
    assert load(data) == tuple(RIGHT)


def test_only_what_a_host_cannot_know_may_be_missing() -> None:
    own = {"fact_id", "seq", "at", "source", "turn_id"}
    assert own == MAY_BE_MISSING
