"""The frame around the code: packaging, imports, documents."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from normalizer import errors, registry
from normalizer.command.console import EXIT_CODES, FINE, INTERNAL
from normalizer.findings import FindingKind
from normalizer.outcomes import OUTCOMES
from normalizer.projection import AdjustmentKind

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
GUIDE = (ROOT / "docs" / "guide.md").read_text()
README = (ROOT / "README.md").read_text()
SDKS = ("anthropic", "openai", "google.genai", "mistralai", "boto3")


# ---------------------------------------------------------------- packaging


def test_no_module_is_too_long_to_be_read_in_one_sitting() -> None:
    lengths = {
        path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines())
        for room in ("normalizer", "providers")
        for path in (ROOT / room).rglob("*.py")
    }
    assert sorted(name for name, length in lengths.items() if length > 400) == ["normalizer/facts.py"]


def test_every_folder_of_code_is_a_package_that_is_installed() -> None:
    folders = {
        f.parent for room in ("normalizer", "providers", "schemas") for f in (ROOT / room).rglob("*.py")
    }
    named = {
        ".".join(folder.relative_to(ROOT).parts).replace("providers", "normalizer.providers", 1)
        if folder.relative_to(ROOT).parts[0] != "schemas"
        else "normalizer.schemas"
        for folder in folders
        if not {"providers", "schemas"} & set(folder.relative_to(ROOT).parts[1:])
    }
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == named


def test_the_links_that_make_a_bare_checkout_run() -> None:
    for name in ("providers", "schemas"):
        link = ROOT / "normalizer" / name
        assert link.is_symlink()
        assert str(link.readlink()) == f"../{name}"


def test_the_short_name_of_the_providers_is_refused() -> None:
    spec = importlib.util.spec_from_file_location("providers", ROOT / "providers" / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    with pytest.raises(ImportError, match=r"import normalizer\.providers, not providers"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def test_versions_agree() -> None:
    import normalizer

    assert PROJECT["project"]["version"] == normalizer.__version__


def test_constraints_are_plain_pins() -> None:
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line), line


def test_no_test_measures_time() -> None:
    """Growth is counted (see counting.py), and times belong to `benchmarks/`. A deadline for waiting is fine."""
    measures = re.compile(r"(perf_counter|process_time|thread_time)(_ns)?\(|(monotonic|time)(_ns)?\(\) - ")
    found = {path.name: measures.findall(path.read_text()) for path in (ROOT / "tests").glob("*.py")}
    assert {name: calls for name, calls in found.items() if calls} == {}


# ---------------------------------------------------------------- imports


def test_importing_the_library_imports_no_sdk_and_no_command() -> None:
    code = "import normalizer, sys; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    loaded = set(done.stdout.split())
    assert loaded.isdisjoint(
        {*SDKS, "typer", "rich", "jsonschema", "hypothesis", "pydantic", "pydantic_core"}
    )
    assert "normalizer.repairing" in loaded


def test_the_commands_help_loads_what_help_needs() -> None:
    code = (
        "import sys; from normalizer.command.main import app; app(['--help'], standalone_mode=False);"
        " print('modules:', *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    text, _, loaded = done.stdout.partition("modules:")
    assert "Turn a broken or unfinished agent conversation" in text
    assert set(loaded.split()).isdisjoint({*SDKS, "rich", "pydantic", "jsonschema", "sqlalchemy", "anyio"})


def test_session_formats_do_not_know_one_another() -> None:
    folder = ROOT / "normalizer" / "sessions"
    for module in folder.glob("*/*.py"):
        others = {
            name for name in _imports(module)
            if name.startswith("normalizer.sessions.") and name.split(".")[2] != module.parent.name
        }  # fmt: skip
        assert not others, f"{module.parent.name}/{module.name} imports {others}"
    assert set(registry.FORMATS) <= {path.name for path in folder.iterdir()}


def _imports(path: Path) -> list[str]:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    found = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [name for name in found if name != "normalizer.sessions"]


def test_every_provider_has_the_same_rooms() -> None:
    for package in registry.PROVIDERS.values():
        folder = ROOT.joinpath(*package.split(".")[1:])
        rooms = {path.stem for path in folder.iterdir()}
        assert {"__init__", "wire", "read", "stream", "project", "rules"} <= rooms


# ---------------------------------------------------------------- documents


@pytest.mark.parametrize("kind", [*get_args(FindingKind), *get_args(AdjustmentKind)])
def test_the_guide_explains_every_kind(kind: str) -> None:
    assert len(re.findall(rf"^\| `{kind}` \|", GUIDE, re.MULTILINE)) == 1


def test_the_guide_explains_no_kind_that_is_none() -> None:
    _, _, kinds = GUIDE.partition("## Findings")
    listed = re.findall(r"^\| `(\w+)` \| [^`]", kinds.partition("## When no request")[0], re.MULTILINE)
    assert sorted(listed) == sorted([*get_args(FindingKind), *get_args(AdjustmentKind)])


def test_the_guide_explains_every_outcome() -> None:
    for outcome in {row.outcome for row in OUTCOMES}:
        assert f"`{outcome}`" in GUIDE


def test_the_guide_explains_every_reason_for_which_nothing_can_be_made() -> None:
    raised = {
        (node.func.id, word.value.value)
        for room in ("normalizer", "providers")
        for path in (ROOT / room).rglob("*.py")
        if "reason=" in path.read_text()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and hasattr(errors, node.func.id)
        for word in node.keywords
        if word.arg == "reason" and isinstance(word.value, ast.Constant)
    }
    assert raised
    for error, reason in raised:
        assert re.search(rf"^\| `{error}` \| `{reason}` \|", GUIDE, re.MULTILINE), (error, reason)


def test_the_readme_has_every_exit_code() -> None:
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", README, re.MULTILINE)}
    assert listed == {FINE, INTERNAL, *(code for _, code in EXIT_CODES)}


def test_the_readmes_python_runs_and_sends_what_is_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    import normalizer

    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    sent: list[dict[str, Any]] = []

    class Messages:
        def create(self, **request: Any) -> str:
            sent.append(request)
            return "a reply"

    class Client:
        messages = Messages()

    call = {"type": "tool_use", "id": "toolu_1", "name": "deploy", "input": {"to": "staging"}}
    history = [
        {"role": "user", "content": "Deploy."},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_0", "content": "?"}]},
        {"role": "user", "content": "And?"},
    ]
    scope: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), scope)  # noqa: S102 - our own page
    assert scope["ask"](Client(), history) == "a reply"
    assert not [found for found in normalizer.check(sent[0], "anthropic") if found.severity == "reject"]
    printed = capsys.readouterr().out
    assert "orphan_result" in printed
    assert "look before you repeat toolu_1 deploy {'to': 'staging'}" in printed


def test_what_the_guide_says_was_sent_stays_as_it_was() -> None:
    import normalizer
    from normalizer.facts import CallCompleted, ModelReplied, TurnEnded, UserSaid
    from normalizer.parts import Json, Text, ToolCall

    _, _, section = GUIDE.partition("## What was sent")
    code, *_ = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    asked = UserSaid(fact_id="f1", seq=1, turn_id="t", parts=(Text("Deploy."),))
    call = ToolCall("toolu_1", "deploy", Json("{}"))
    replied = ModelReplied(fact_id="f2", seq=2, turn_id="t", parts=(call,), api="anthropic")
    scope = {
        "normalizer": normalizer,
        "facts": [asked, replied, TurnEnded(fact_id="f3", seq=3, turn_id="t", status="failed")],
    }
    exec(compile(code, "guide.md", "exec"), scope)  # noqa: S102 - our own page
    first, facts = scope["projection"].request["messages"], scope["facts"]
    assert [fact.seq for fact in facts] == [1, 2, 3, 4]
    assert (facts[-1].kind, facts[-1].fact_id, facts[-1].through) == ("request_sent", "request-1", 3)

    facts.append(CallCompleted(fact_id="f5", seq=5, call_id="toolu_1", content="revision 18", is_error=False))
    then = normalizer.project(normalizer.fold(facts), "anthropic").request["messages"]
    notice = first[-1]["content"][0]["content"]
    assert "[tool outcome: unknown]" in str(notice)
    assert then[:2] == first[:2]
    assert then[2]["content"][: len(first[2]["content"])] == first[2]["content"]
    assert "revision 18" in str(then[2]["content"][len(first[2]["content"]) :])
    forgotten = normalizer.project(normalizer.fold([*facts[:3], facts[-1]]), "anthropic").request["messages"]
    assert forgotten[2]["content"][0]["content"] == "revision 18"


def test_the_readmes_commands_are_the_programs() -> None:
    from normalizer.command.main import app

    commands = {
        command.name or command.callback.__name__ for command in app.registered_commands if command.callback
    }
    assert set(re.findall(r"^transcript-normalizer (\w+)", README, re.MULTILINE)) == commands


def test_the_loop_of_the_page_on_live_agents_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "live.md").read_text()
    loop, *_ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)

    def reply(stop_reason: str, *content: Any) -> dict[str, Any]:
        return {"type": "message", "role": "assistant", "content": list(content), "stop_reason": stop_reason}

    call = {"type": "tool_use", "id": "toolu_1", "name": "shell", "input": {"command": "deploy"}}
    replies = iter([reply("tool_use", call), reply("end_turn", {"type": "text", "text": "Done."})])
    sent: list[dict[str, Any]] = []

    def create(**request: Any) -> dict[str, Any]:
        sent.append(request)
        return next(replies)

    scope: dict[str, Any] = {
        "client": SimpleNamespace(messages=SimpleNamespace(create=create)),
        "model": "claude-opus-4-8",
        "schema": {"type": "object"},
        "run_tool": lambda name, arguments: f"{name} {arguments['command']}: ok",
    }
    exec(compile(loop, "live.md", "exec"), scope)  # noqa: S102 - our own page
    assert [len(request["messages"]) for request in sent] == [1, 3]
    (result,) = sent[1]["messages"][2]["content"]
    assert result == {"type": "tool_result", "tool_use_id": "toolu_1", "content": "shell deploy: ok"}
    scope["journal"].close()
