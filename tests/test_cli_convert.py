"""`convert`, `repair --to` and `--profile`: the other APIs on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

import normalizer
from normalizer import registry
from normalizer.command.main import app

if TYPE_CHECKING:
    from click.testing import Result

DEMO = Path(__file__).parent.parent / "fixtures" / "demo" / "session.jsonl"
CHAT: dict[str, Any] = {
    "model": "deepseek-reasoner",
    "messages": [
        {"role": "user", "content": "Which files are there?"},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "I look first.",
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "ls", "arguments": '{"path": "."}'}}
            ],
        },
        {"role": "user", "content": "Are you done?"},
    ],
}


def run(*arguments: object, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(CHAT), encoding="utf-8")
    return path


@pytest.mark.parametrize("target", registry.targets())
@pytest.mark.parametrize("command", ["repair", "convert"])
def test_the_demo_session_goes_to_every_api(command: str, target: str) -> None:
    result = run(command, DEMO, "--to", target, "-o", "out.json", "--report", "report.json")
    assert result.exit_code == 0, result.output
    assert f"for {target}" in result.stdout
    request = json.loads(Path("out.json").read_bytes())
    found = normalizer.check(request, target, context={"history": True})
    assert [v for v in found if v.severity == "reject"] == []
    assert json.loads(Path("report.json").read_bytes())["to"] == target


def test_convert_is_repair_under_another_name() -> None:
    run("repair", DEMO, "--to", "openai_responses", "-o", "repaired.json")
    run("convert", DEMO, "--to", "openai_responses", "-o", "converted.json")
    assert Path("repaired.json").read_bytes() == Path("converted.json").read_bytes()


def test_the_demo_session_tells_responses_every_outcome() -> None:
    run("repair", DEMO, "--to", "openai_responses", "-o", "out.json")
    items = json.loads(Path("out.json").read_bytes())["input"]
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    outputs = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    assert calls
    assert sorted(calls) == sorted(outputs)
    assert any("[tool outcome: unknown]" in json.dumps(item) for item in items)


def test_convert_demands_the_api() -> None:
    result = run("convert", DEMO)
    assert result.exit_code == 2
    assert "--to" in result.output


def test_convert_refuses_to_overwrite_and_reads_standard_input(chat: Path) -> None:
    Path("out.json").write_text("mine", encoding="utf-8")
    assert run("convert", chat.name, "--to", "anthropic", "-o", "out.json").exit_code == 2
    assert Path("out.json").read_text(encoding="utf-8") == "mine"
    result = run("convert", "-", "--to", "anthropic", "-o", "-", stdin=chat.read_bytes())
    assert result.exit_code == 0
    messages = json.loads(result.stdout)["messages"]
    assert messages[1]["content"][0]["type"] == "tool_use"


def test_a_profile_decides_what_goes_back(chat: Path) -> None:
    kept = {}
    for profile in ("deepseek", "azure"):
        result = run("repair", chat.name, "--profile", profile, "-o", f"{profile}.json")
        assert result.exit_code == 0, result.output
        kept[profile] = json.loads(Path(f"{profile}.json").read_bytes())["messages"][1]
    assert kept["deepseek"]["reasoning_content"] == "I look first."
    assert "reasoning_content" not in kept["azure"]


def test_check_judges_by_the_profile(tmp_path: Path) -> None:
    mended = json.loads(json.dumps(CHAT))
    del mended["messages"][1]["reasoning_content"]
    mended["messages"][2:] = [{"role": "tool", "tool_call_id": "call_1", "content": "a.txt"}]
    (tmp_path / "mended.json").write_text(json.dumps(mended), encoding="utf-8")
    broken = {
        profile: {found["rule"] for found in json.loads(run(*command).stdout)["violations"]}
        for profile in (None, "deepseek")
        for command in [["check", "--json", "mended.json", *(["--profile", profile] if profile else [])]]
    }
    assert not any("DEEPSEEK" in rule for rule in broken[None])
    assert any("DEEPSEEK" in rule for rule in broken["deepseek"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--profile", "nobody"], "'nobody' is not known"),
        (["--profile", "kimi", "--to", "openai_responses"], "'kimi' is not known"),
        (["--profile", "azure", "--to", "anthropic"], "has no profiles"),
    ],
)
def test_a_wrong_profile_is_wrong_usage(chat: Path, arguments: list[str], said: str) -> None:
    result = run("repair", chat.name, "-o", "out.json", *arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())
    assert not Path("out.json").exists()
