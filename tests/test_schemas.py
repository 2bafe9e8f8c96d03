"""The schemas are those of the models, and what the library writes obeys them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import normalizer
from normalizer.devtools import schema_files
from normalizer.facts import dump_lines
from normalizer.reporting.lines import transcript_dict
from normalizer.schemas import NAMES, schema

DEMO = Path(__file__).parent.parent / "fixtures" / "demo" / "session.jsonl"
BROKEN: dict[str, Any] = {
    "model": "claude-sonnet-4-5",
    "system": "Be brief.",
    "messages": [
        {"role": "user", "content": "x"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
                {"type": "novel", "x": 1},
                {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}},
                {"type": "tool_use", "id": "toolu_2", "name": "read", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "toolu_9", "content": "lost \ud83d"}],
        },
    ],
}
SOURCES = {"session": DEMO, "payload": BROKEN}


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_current_and_sound(name: str) -> None:
    assert (
        schema_files.schemas()[f"{name}.json"]
        == json.dumps(schema(name), indent=1, ensure_ascii=False) + "\n"
    )
    Draft202012Validator.check_schema(schema(name))


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_what_the_library_writes_obeys_them(source: Any) -> None:
    repaired = normalizer.repair(source)
    Draft202012Validator(schema("report")).validate(repaired.report())
    Draft202012Validator(schema("transcript")).validate(transcript_dict(repaired.transcript))
    check = Draft202012Validator(schema("fact"))
    for line in dump_lines(repaired.transcript.facts).splitlines():
        check.validate(json.loads(line))


def test_a_report_with_a_field_too_few_is_refused() -> None:
    report = normalizer.repair(BROKEN).report()
    assert Draft202012Validator(schema("report")).is_valid(report)
    del report["findings"]  # type: ignore[misc]
    assert not Draft202012Validator(schema("report")).is_valid(report)


def test_a_fact_without_its_tag_is_refused() -> None:
    assert not Draft202012Validator(schema("fact")).is_valid({"fact_id": "x", "call_id": "t"})


def test_the_generator_writes_what_is_missing_and_says_what_is_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(schema_files, "FOLDER", tmp_path)
    assert schema_files.main(["--check"]) == 1
    assert capsys.readouterr().err.count("run `make schemas`") == len(NAMES)
    assert schema_files.main([]) == 0
    assert capsys.readouterr().out.splitlines() == [f"schemas/{name}.json written" for name in NAMES]
    assert schema_files.main(["--check"]) == 0
    assert schema_files.main([]) == 0
    assert capsys.readouterr().out == ""
