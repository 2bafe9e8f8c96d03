"""The debug log: private, bounded, redacted, and honest about what it left out."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING, Any

import pytest

from normalizer.command.debug_log import TEXT_LIMIT, DebugLog
from normalizer.command.files import OutputRefused
from normalizer.findings import Fragment, Leftover

if TYPE_CHECKING:
    from pathlib import Path

FRAGMENT = Fragment(
    "toolu_1", '{"path": "a', "not_closed", type="tool_use", index=2, name="read", line=7, pointer="/m"
)
LEFTOVER = Leftover("no record", "half a li", line=9)


def records(log: DebugLog) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.data().splitlines()]


def test_each_piece_is_a_line_that_says_where_it_stood() -> None:
    log = DebugLog()
    log.add("s.jsonl", [FRAGMENT], [LEFTOVER])
    assert records(log) == [
        {
            "file": "s.jsonl", "what": "fragment", "reason": "not_closed", "call_id": "toolu_1", "name": "read",
            "type": "tool_use", "line": 7, "pointer": "/m", "text": '{"path": "a',
        },
        {"file": "s.jsonl", "what": "leftover", "reason": "no record", "line": 9, "text": "half a li"},
    ]  # fmt: skip


def test_secrets_and_half_characters_do_not_get_in() -> None:
    log = DebugLog()
    log.add("s", [], [Leftover("no record", 'password="hunter2" \ud83d')])
    assert records(log)[0]["text"] == 'password="[redacted: secret value]" \\ud83d'


def test_a_long_text_is_cut_and_says_so_and_no_secret_straddles_the_cut() -> None:
    key = "sk-ant-" + "q" * 40
    log = DebugLog()
    log.add("s", [], [Leftover("no record", "x" * (TEXT_LIMIT - 20) + " " + key + "y" * 9_000)])
    (record,) = records(log)
    assert record["cut_after"] == len(record["text"]) == TEXT_LIMIT
    assert record["characters"] == TEXT_LIMIT - 20 + 1 + len(key) + 9_000
    assert "qqq" not in record["text"]


def test_the_log_stops_at_its_limit_and_counts_what_it_leaves_out() -> None:
    log = DebugLog(limit=1_000)
    log.add("s", [], [Leftover("no record", "x" * 100, line=n) for n in range(50)])
    *kept, last = records(log)
    assert len(log.data()) <= 1_000
    assert [record["line"] for record in kept] == list(range(len(kept)))
    assert last == {
        "what": "limit",
        "limit": 1_000,
        "left_out": 50 - len(kept),
        "characters": 100 * (50 - len(kept)),
    }


def test_a_small_piece_does_not_slip_in_behind_one_that_was_left_out() -> None:
    log = DebugLog(limit=1_000)
    log.add("s", [], [Leftover("no record", "x" * 2_000), Leftover("no record", "y")])
    assert [record["what"] for record in records(log)] == ["limit"]


def test_it_is_its_owners_alone_and_overwrites_nothing(tmp_path: Path) -> None:
    log = DebugLog()
    log.add("s", [FRAGMENT], [])
    path = tmp_path / "log.jsonl"
    log.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes() == log.data()
    with pytest.raises(OutputRefused, match="exists"):
        log.save(path)
    log.save(path, force=True)
