"""The report is whole JSON; the lines are short, placed and redacted."""

from __future__ import annotations

import json

import pytest

import normalizer
from normalizer.findings import Finding, Fragment, Leftover
from normalizer.outcomes import Outcome
from normalizer.projection import Adjustment
from normalizer.reporting import lines
from normalizer.rules import Violation

SECRET = "sk-ant-" + "q" * 40
LONG = "x" * 100_000


def history(*result: object) -> dict[str, object]:
    return {
        "messages": [
            {"role": "user", "content": "Read it."},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": list(result)}],
            },
        ]
    }


def test_nothing_is_cut_or_redacted_in_a_report() -> None:
    report = normalizer.repair(history({"type": "text", "text": SECRET + LONG})).report()
    assert SECRET + LONG in json.dumps(report["request"])


def test_a_report_is_json_that_every_reader_takes() -> None:
    repaired = normalizer.repair(history({"type": "text", "text": "half \ud83d"}))
    text = json.dumps(repaired.report(), ensure_ascii=False, allow_nan=False)
    text.encode()
    assert "half \\\\ud83d" in text


def test_a_report_has_every_field_of_a_repair() -> None:
    repaired = normalizer.repair(history({"type": "text", "text": "ok"}))
    assert set(repaired.report()) == {
        "format", "to", "ready", "request", "ids", "outcomes", "findings", "adjustments", "leftovers", "fragments",
        "violations_before", "violations_after",
    }  # fmt: skip
    assert repaired.report()["outcomes"] == {
        "toolu_1": {
            "kind": "completed", "basis": "completed", "is_error": False, "by": None, "reason": None, "name": "read",
            "server": False, "effects": "none", "recovery_action": None,
        }
    }  # fmt: skip


def test_server_calls_have_outcomes_too() -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    messages = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": [search]},
        {"role": "user", "content": "y"},
    ]
    repaired = normalizer.repair({"messages": messages})
    outcome = repaired.report()["outcomes"]["srvtoolu_1"]
    assert (outcome["kind"], outcome["server"], outcome["effects"]) == ("unknown", True, None)


FINDING = Finding("bad_line", "the line is no record", 7, "/message", "toolu_1", ("L7",))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (lines.finding_line(FINDING), "line 7, /message: bad_line: the line is no record"),
        (lines.finding_line(Finding("bad_line", SECRET)), "bad_line: [redacted: Anthropic key]"),
        (lines.adjustment_line(Adjustment("moved", "it stands elsewhere")), "moved: it stands elsewhere"),
        (lines.adjustment_line(Adjustment("moved", "a", because="ANT-X-1")), "moved: a (ANT-X-1)"),
        (
            lines.adjustment_line(Adjustment("notice", "told: unknown", because="unknown")),
            "notice: told: unknown",
        ),
        (
            lines.violation_line(Violation("/messages/1", "no result", "ANT-PAIR-001")),
            "/messages/1: ANT-PAIR-001 (reject): no result",
        ),
        (
            lines.violation_line(Violation("", "too large", "ANT-X-1", "policy")),
            "/: ANT-X-1 (policy): too large",
        ),
        (
            lines.leftover_line(Leftover("no record", '{"a":\n 1', 3)),
            'line 3: kept aside: no record: {"a": 1',
        ),
        (
            lines.fragment_line(Fragment("toolu_1", '{"pa', "not_closed", pointer="/m")),
            "/m: fragment: call 'toolu_1' (not_closed): {\"pa",
        ),
        (
            lines.fragment_line(Fragment(None, "Once", "not_closed", type="text")),
            "fragment: text (not_closed): Once",
        ),
        (
            lines.fragment_line(Fragment(None, "Once", "not_closed")),
            "fragment: a part (not_closed): Once",
        ),
    ],
)
def test_each_thing_is_one_line(line: str, said: str) -> None:
    assert line == said


def test_lines_are_short_and_on_one_line() -> None:
    line = lines.leftover_line(Leftover("no record", LONG + "\n" + LONG, pointer="/" + LONG))
    assert len(line) < 600
    assert "\n" not in line


def test_leftovers_of_one_kind_share_a_line() -> None:
    left = [Leftover("beside it", "a", 1), Leftover("torn", "b", 9), Leftover("beside it", "c", 2)]
    assert lines.leftover_lines(left) == [
        "kept aside: beside it: 2 pieces, the first at line 1",
        "line 9: kept aside: torn: b",
    ]
    assert lines.leftover_lines([Leftover("x", "a"), Leftover("x", "b")]) == ["kept aside: x: 2 pieces"]


def test_outcomes_are_words() -> None:
    from normalizer.command.timeline import outcome_text

    shown = outcome_text(Outcome("completed", "completed", is_error=True)).plain
    assert shown == "completed, an error"
    denied = outcome_text(Outcome("denied", "denied", by="user", reason=f"no {SECRET}")).plain
    assert denied == "denied (by user, no [redacted: Anthropic key], denied)"


def test_a_tally_counts_words() -> None:
    assert lines.tally(["a", "b", "a"]) == "2 a, 1 b"
    assert lines.tally([]) == ""
