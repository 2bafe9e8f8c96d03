"""Reading and repairing, held against random payloads of every target, healthy ones and broken ones."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeAlias

import pytest
from hypothesis import Phase, given
from judging import JUDGES, TARGETS, dumped
from lawful import SOAK, repaired, within
from record import invented, recorded_strings
from views import lines, strings

import normalizer
from normalizer.reading.placeholders import placeholder
from normalizer.rules import rejects

Payload: TypeAlias = dict[str, Any]
Check: TypeAlias = Callable[[str, Payload, Counter[str]], None]
EXAMPLES: Final = 120
MARK: Final = "[tool outcome: "
GRAMMAR: Final = frozenset(
    {
        "user", "assistant", "system", "tool", "developer", "text", "tool_use", "tool_result", "thinking", "image",
        "base64", "server_tool_use", "web_search_tool_result", "ephemeral", "object", "function", "image_url", "auto",
        "message", "input_text", "input_image", "output_text", "completed", "function_call", "function_call_output",
        "custom_tool_call", "custom_tool_call_output", "custom", "reasoning", "web_search_call", "search",
    }
)  # fmt: skip
"""Words of the wires' own grammar: roles and types."""
UNREADABLE: Final = frozenset(
    {
        "bad_unicode",
        "bad_line",
        "unknown_block",
        "orphan_result",
        "duplicate_result",
        "fragment",
        "duplicate_call",
    }
)
"""Findings after which a piece of an input is no fact, so that no projection could report it."""


@cache
def payloads(target: str, *, broken: bool) -> list[Payload]:
    """The same payloads for every law."""
    found: list[Payload] = []
    make = JUDGES[target].payloads(broken=broken)
    within(EXAMPLES, derandomize=True, phases=(Phase.generate,))(given(make)(lambda one: found.append(one)))()  # noqa: PLW0108
    return found


def law(
    *, broken: bool = True, least: dict[str, float] | None = None
) -> Callable[[Check], Callable[..., None]]:
    """A law of the payloads of every target."""

    def register(check: Check) -> Callable[..., None]:
        rows = [pytest.param(target, 1, id=target) for target in TARGETS]
        rows += [
            pytest.param(target, SOAK, id=f"{target}-long", marks=pytest.mark.soak) for target in TARGETS
        ]

        @pytest.mark.parametrize(("target", "times"), rows)
        def test(target: str, times: int) -> None:
            tally: Counter[str] = Counter()
            if times == 1:
                for one in payloads(target, broken=broken):
                    try:
                        check(target, copy.deepcopy(one), tally)
                    except AssertionError as error:
                        error.add_note(f"{target}: {one}")
                        raise
            else:
                make = JUDGES[target].payloads(broken=broken)
                many = within(EXAMPLES * times, derandomize=False)
                many(given(make)(lambda one: check(target, one, tally)))()
            print(f"{check.__name__}, {target}: {dict(sorted(tally.items()))}")  # noqa: T201 - the law's account
            for what, share in (least or {}).items():
                assert tally[what] >= share * EXAMPLES * times, (what, tally)

        test.__doc__ = check.__doc__
        return test

    return register


def read(payload: Payload, target: str) -> normalizer.Reading | None:
    return read_as_it_is(copy.deepcopy(payload), target)


def read_as_it_is(payload: Payload, target: str) -> normalizer.Reading | None:
    """The reading of a payload that stays its caller's; None where there is nothing in it."""
    try:
        return normalizer.read(payload, format=target)
    except normalizer.UnreadableInput as error:
        if error.reason != "no_messages":
            raise
    return None


@law(least={"texts": 3.0})
def test_nothing_of_a_payload_is_lost_in_reading(target: str, payload: Payload, tally: Counter[str]) -> None:
    reading = read(payload, target)
    if reading is None:
        return
    kept: set[str] = set()
    for fact in reading.facts:
        _collect(json.loads(normalizer.facts.dump(fact)), kept)
    for piece in (*reading.leftovers, *reading.fragments):
        for held in (piece.text, getattr(piece, "call_id", None), getattr(piece, "name", None)):
            _collect(held, kept)
    whole = "\0".join(kept)
    for key in (JUDGES[target].history, "system", "instructions", "tools"):
        for text in strings(payload.get(key)):
            tally["texts"] += 1
            assert text in GRAMMAR or text in whole, text


def _collect(value: Any, kept: set[str]) -> None:
    """All strings of a value, also of the JSON texts in it."""
    for text in strings(value):
        kept.add(text)
        if text[:1] in '{["':
            try:
                inner = json.loads(text)
            except ValueError:
                continue
            if inner != text:
                _collect(inner, kept)


@law(least={"given away": 0.8})
def test_a_caller_may_go_on_changing_what_was_read(
    target: str, payload: Payload, tally: Counter[str]
) -> None:
    given_away = copy.deepcopy(payload)
    reading = read_as_it_is(given_away, target)
    if reading is None:
        return
    of_text = normalizer.read(json.dumps(payload), format=target)
    assert given_away == payload
    _overwrite(given_away)
    tally["given away"] += 1
    for name in ("facts", "findings", "leftovers", "fragments", "settings"):
        assert getattr(reading, name) == getattr(of_text, name), name


def _overwrite(value: Any) -> None:
    """Change everything in a value that can be changed."""
    if isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            _overwrite(item)
        value.clear()


@law(least={"repaired": 0.8})
def test_repairing_twice_changes_nothing(target: str, payload: Payload, tally: Counter[str]) -> None:
    first = repaired(payload, target)
    if first is None:
        return
    tally["repaired"] += 1
    assert not rejects(first.violations_after)
    second = repaired(first.request, target)
    assert second is not None
    assert dumped(second.request) == dumped(first.request)
    assert second.ready == first.ready
    for key, wire_id in first.ids.items():
        if wire_id in second.ids:
            assert second.transcript.calls[wire_id].outcome.kind == first.transcript.calls[key].outcome.kind


@law(broken=False, least={"healthy": 0.9})
def test_a_payload_without_fault_comes_out_as_it_was(
    target: str, payload: Payload, tally: Counter[str]
) -> None:
    assert normalizer.check(payload, target) == ()
    if any(text.startswith(MARK) or placeholder(text) for text in strings(payload)):
        return
    tally["healthy"] += 1
    result = repaired(payload, target)
    assert result is not None
    assert result.request == payload
    assert list(result.request) == list(payload)


@law(least={"changed": 0.2})
def test_a_payload_that_breaks_no_rule_comes_out_as_it_was_or_with_a_reason(
    target: str, payload: Payload, tally: Counter[str]
) -> None:
    """Every difference is in the report; what is no fact of the conversation is a finding."""
    result = repaired(payload, target)
    if result is None:
        return
    history = JUDGES[target].history
    objects = {**payload, history: [_objects(entry) for entry in payload[history]]}
    if result.request == payload:
        tally["as it was"] += 1
        return
    tally["changed"] += 1
    assert result.findings or result.adjustments
    if lines(result.request, history) != lines(objects, history):
        assert result.adjustments or UNREADABLE & {finding.kind for finding in result.findings}


def _objects(entry: Any) -> Any:
    """The entry without blocks that are no objects."""
    if not isinstance(entry, dict) or not isinstance(entry.get("content"), list):
        return entry
    return {**entry, "content": [block for block in entry["content"] if isinstance(block, dict)]}


@law(least={"texts": 1.0})
def test_no_text_of_a_repair_is_invented(target: str, payload: Payload, tally: Counter[str]) -> None:
    result = repaired(payload, target)
    if result is None:
        return
    recorded = recorded_strings(result.transcript.facts)
    for piece in JUDGES[target].pieces(result.request):
        if piece.kind == "text":
            tally["texts"] += 1
            assert not invented(piece.text, recorded), piece
