"""The command line: every command, exit code and message. Wording is under snapshot."""

from __future__ import annotations

import json
import os
import pty
import resource
import sqlite3
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

import normalizer
from normalizer.command import console, journals
from normalizer.command.main import app, main
from normalizer.facts import load_lines
from normalizer.schemas import schema

if TYPE_CHECKING:
    from click.testing import Result
    from syrupy.assertion import SnapshotAssertion

ROOT = Path(__file__).parent.parent
DEMO = ROOT / "fixtures" / "demo" / "session.jsonl"

# Three parallel calls; the result of one stands behind what the user said, another never came.
CALLS = [{"type": "tool_use", "id": f"toolu_{n}", "name": "read", "input": {"path": n}} for n in "abc"]
BROKEN: dict[str, Any] = {
    "model": "claude-sonnet-4-5",
    "max_tokens": 1000,
    "messages": [
        {"role": "user", "content": "Why do the tests fail?"},
        {"role": "assistant", "content": CALLS},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_b", "content": "of b"}]},
        {"role": "user", "content": "Mend the sum first."},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_a", "content": "of a"}]},
    ],
}
SOUND: dict[str, Any] = {**BROKEN, "messages": BROKEN["messages"][:1]}


def run(*arguments: object, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    return write(tmp_path / "broken.json", BROKEN)


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    return write(tmp_path / "sound.json", SOUND)


def write(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# ---------------------------------------------------------------- check


def test_check_finds_nothing_in_a_sound_payload(sound: Path) -> None:
    result = run("check", sound.name)
    assert (result.exit_code, result.stdout, result.stderr) == (
        0,
        "sound.json: anthropic; nothing wrong\n",
        "",
    )


def test_check_names_file_place_kind_and_what_to_do(broken: Path, snapshot: SnapshotAssertion) -> None:
    result = run("check", broken.name)
    assert result.exit_code == 1
    assert result.stdout == snapshot


def test_check_as_json_is_one_object_a_file(broken: Path, sound: Path) -> None:
    result = run("check", "--json", broken.name, sound.name)
    first, second = map(json.loads, result.stdout.splitlines())
    assert result.exit_code == 1
    assert [first["file"], second["file"]] == ["broken.json", "sound.json"]
    assert {found["kind"] for found in first["findings"]} >= {"displaced_result"}
    assert {found["rule"] for found in first["violations"]} >= {"ANT-PAIR-001", "ANT-PAIR-003"}
    assert second == {"file": "sound.json", "format": "anthropic", "findings": [], "violations": []}


def test_check_judges_as_the_model_that_was_named(tmp_path: Path) -> None:
    write(
        tmp_path / "p.json",
        {**SOUND, "messages": [*SOUND["messages"], {"role": "system", "content": "Be brief."}]},
    )
    judged = {
        model: {
            found["rule"]
            for found in json.loads(run("check", "--json", "--model", model, "p.json").stdout)["violations"]
        }
        for model in ("claude-sonnet-4-5", "claude-opus-5-5")
    }
    assert judged["claude-sonnet-4-5"] != judged["claude-opus-5-5"]


def test_check_reads_standard_input() -> None:
    result = run("check", "-", stdin=json.dumps(SOUND).encode())
    assert (result.exit_code, result.stdout) == (0, "-: anthropic; nothing wrong\n")


def test_what_repair_writes_has_nothing_for_check_to_find(broken: Path) -> None:
    assert run("repair", broken.name).exit_code == 0
    assert run("check", "broken.repaired.json").stdout == "broken.repaired.json: anthropic; nothing wrong\n"


# ---------------------------------------------------------------- repair


def test_repair_tells_what_it_did(broken: Path, snapshot: SnapshotAssertion) -> None:
    result = run("repair", broken.name)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == snapshot
    assert (broken.parent / "broken.repaired.json").read_text() == snapshot(name="request")


def test_repair_of_the_demo_session(snapshot: SnapshotAssertion) -> None:
    result = run("repair", DEMO, "-o", "out.json", "--report", "r.json", "--debug-log", "d.jsonl")
    assert result.exit_code == 0
    assert result.stdout.replace(str(DEMO), "session.jsonl") == snapshot
    request = json.loads(Path("out.json").read_text())
    assert request == normalizer.repair(DEMO).request
    assert request == json.loads(Path("r.json").read_text())["request"]


def test_the_report_has_all_of_it_and_obeys_its_schema(broken: Path) -> None:
    assert run("repair", broken.name, "--report", "all.json").exit_code == 0
    report = json.loads(Path("all.json").read_text())
    Draft202012Validator(schema("report")).validate(report)
    assert report == normalizer.repair(broken).report()


def test_a_report_and_a_log_are_for_their_owner_and_a_request_as_private_as_its_source(broken: Path) -> None:
    broken.chmod(0o640)
    assert run("repair", broken.name, "--report", "r.json", "--debug-log", "d.jsonl").exit_code == 0
    modes = {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in broken.parent.iterdir()}
    assert modes == {
        "broken.json": "0o640",
        "broken.repaired.json": "0o640",
        "r.json": "0o600",
        "d.jsonl": "0o600",
    }


def test_the_debug_log_has_fragments_and_leftovers_without_secrets(tmp_path: Path) -> None:
    torn = '{"type":"user","message":{"content":"password=hunter2'
    (tmp_path / "s.jsonl").write_text(DEMO.read_text().rpartition("\n")[0] + "\n" + torn)
    assert run("repair", "s.jsonl", "--debug-log", "d.jsonl").exit_code == 0
    log = Path("d.jsonl").read_text()
    assert "hunter2" not in log
    records = [json.loads(line) for line in log.splitlines()]
    assert any("[redacted: secret value]" in record["text"] and record["line"] == 14 for record in records)


def test_nothing_is_overwritten_unless_asked(broken: Path) -> None:
    output = write(broken.parent / "broken.repaired.json", "mine")
    result = run("repair", broken.name)
    assert result.exit_code == 2
    assert result.stderr == (
        "broken.json: broken.repaired.json: exists; use --force to overwrite it, or name another output with -o\n"
    )
    assert json.loads(output.read_text()) == "mine"
    assert run("repair", broken.name, "--force").exit_code == 0
    assert json.loads(output.read_text())["messages"]


@pytest.mark.parametrize("option", ["--report", "--debug-log"])
def test_a_side_output_is_not_overwritten_either_and_nothing_else_is_written(
    broken: Path, option: str
) -> None:
    write(broken.parent / "mine.json", "mine")
    result = run("repair", broken.name, option, "mine.json")
    assert result.exit_code == 2
    assert result.stderr.startswith("mine.json: exists; use --force")
    assert names(broken.parent) == ["broken.json", "mine.json"]


def test_the_input_is_never_the_output(broken: Path) -> None:
    result = run("repair", broken.name, "-o", broken.name, "--force")
    assert result.exit_code == 2
    assert "this is the input" in result.stderr
    assert json.loads(broken.read_text()) == BROKEN


def test_standard_input_goes_to_standard_output_and_words_to_standard_error() -> None:
    result = run("repair", "-", stdin=json.dumps(BROKEN).encode())
    assert result.exit_code == 0
    assert json.loads(result.stdout) == normalizer.repair(BROKEN).request
    assert result.stderr.startswith(
        "standard input: anthropic, request written to standard output for anthropic"
    )


def test_an_output_named_dash_is_standard_output(broken: Path) -> None:
    assert json.loads(run("repair", broken.name, "-o", "-").stdout) == normalizer.repair(BROKEN).request
    assert names(broken.parent) == ["broken.json"]


def test_model_and_target_are_those_of_the_request(broken: Path) -> None:
    result = run(
        "repair",
        broken.name,
        "-o",
        "-",
        "--to",
        "anthropic",
        "--model",
        "claude-opus-4-5",
        "--as",
        "anthropic",
    )
    assert json.loads(result.stdout)["model"] == "claude-opus-4-5"


def test_a_hosts_facts_decide_outcomes(broken: Path) -> None:
    Path("facts.jsonl").write_text('{"kind": "approval_denied", "call_id": "toolu_c", "by": "user"}\n')
    result = run("repair", broken.name, "-o", "-", "--facts", "facts.jsonl")
    assert "toolu_c read: denied (by user, denied)" in result.stderr
    assert "[tool outcome: denied]" in result.stdout


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            '{"kind": "aproval_denied"}',
            "facts.jsonl: line 1, /kind: 'aproval_denied' is no kind of fact; did you mean",
        ),
        (
            '{"kind": "turn_ended", "status": 4}',
            "facts.jsonl: line 1, /status: expected one of 'completed', ",
        ),
        (
            "nonsense",
            "facts.jsonl: line 1: not JSON (expecting value); a fact is one JSON object on one line",
        ),
    ],
)
def test_a_wrong_fact_is_told_with_its_line_and_field(broken: Path, line: str, said: str) -> None:
    Path("facts.jsonl").write_text(line)
    result = run("repair", broken.name, "--facts", "facts.jsonl")
    assert result.exit_code == 3
    assert result.stderr.startswith(said)
    assert names(broken.parent) == ["broken.json", "facts.jsonl"]


def test_a_fact_file_that_is_not_there(broken: Path) -> None:
    result = run("repair", broken.name, "--facts", "none.jsonl")
    assert (result.exit_code, result.stderr.splitlines()) == (
        3,
        ["none.jsonl: cannot be read (no such file or directory); check the path and its permissions"],
    )


@pytest.mark.parametrize("option", ["-o", "--report", "--facts"])
def test_what_goes_with_one_file_is_refused_for_several(broken: Path, sound: Path, option: str) -> None:
    result = run("repair", broken.name, sound.name, option, "x.jsonl")
    assert result.exit_code == 2
    assert "goes with one file only" in result.stderr
    assert names(broken.parent) == ["broken.json", "sound.json"]


def test_a_history_without_anything_to_ask_says_so(tmp_path: Path) -> None:
    write(tmp_path / "f.json", [*SOUND["messages"], {"role": "assistant", "content": "Because."}])
    result = run("repair", "f.json")
    assert result.exit_code == 0
    assert (
        "the history ends with a finished reply: add the next user message before you send it"
        in result.stdout
    )


def test_long_lists_are_cut_on_the_screen_and_whole_in_the_report(tmp_path: Path) -> None:
    calls = [{"type": "tool_use", "id": f"toolu_{n}", "name": "read", "input": {}} for n in range(30)]
    write(tmp_path / "long.json", [*SOUND["messages"], {"role": "assistant", "content": calls}])
    result = run("repair", "long.json", "--report", "r.json")
    assert "  … and 10 more; --report has them all" in result.stdout
    assert len(json.loads(Path("r.json").read_text())["outcomes"]) == 30


def test_a_call_that_cannot_be_projected_is_exit_code_1(
    broken: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise normalizer.CannotProject("no form of this is accepted; leave it", reason="test")

    monkeypatch.setattr(normalizer, "repair", refuse)
    result = run("repair", broken.name)
    assert (result.exit_code, result.stderr) == (1, "broken.json: no form of this is accepted; leave it\n")
    assert names(broken.parent) == ["broken.json"]


def test_outputs_of_one_file_are_written_all_or_none(broken: Path) -> None:
    for missing in ("--report", "--debug-log"):
        result = run("repair", broken.name, "-o", "x.json", missing, "none/r.json")
        assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
        assert "cannot be written (no such file or directory)" in result.stderr
        assert names(broken.parent) == ["broken.json"]


@pytest.mark.parametrize("other", ["--report", "--debug-log"])
@pytest.mark.parametrize("name", ["x.json", "./x.json", "link.json", "hard.json"])
def test_two_outputs_never_have_one_file(broken: Path, other: str, name: str) -> None:
    mine = write(broken.parent / "x.json", "mine")
    Path("link.json").symlink_to("x.json")
    Path("hard.json").hardlink_to("x.json")
    result = run("repair", broken.name, "-o", "x.json", other, name, "--force")
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert "is named for two outputs" in result.stderr
    assert json.loads(mine.read_text()) == "mine"


def test_a_side_output_is_not_the_default_output_either(broken: Path) -> None:
    result = run("repair", broken.name, "--report", "broken.repaired.json", "--force")
    assert (result.exit_code, names(broken.parent)) == (2, ["broken.json"])


@pytest.mark.parametrize("option", ["-o", "--report", "--debug-log"])
def test_no_input_of_a_run_is_an_output(broken: Path, option: str) -> None:
    facts = '{"kind": "approval_denied", "call_id": "toolu_c", "by": "user"}\n'
    Path("facts.jsonl").write_text(facts)
    result = run("repair", broken.name, "--facts", "facts.jsonl", option, "facts.jsonl", "--force")
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert Path("facts.jsonl").read_text() == facts
    assert names(broken.parent) == ["broken.json", "facts.jsonl"]


def test_a_failed_repair_leaves_no_debug_log(tmp_path: Path) -> None:
    (tmp_path / "cut.json").write_bytes(b'{"messages": [')
    assert run("repair", "cut.json", "--debug-log", "d.jsonl").exit_code == 3
    assert names(tmp_path) == ["cut.json"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "broken.json"],
        ["check", "broken.json"],
        ["facts", "broken.json"],
        ["rules"],
        ["--version"],
        ["repair", "broken.json", "-o", "-", "--report", "r.json"],
    ],
    ids=" ".join,
)
def test_a_standard_output_that_takes_nothing(broken: Path, arguments: list[str]) -> None:
    command = [sys.executable, "-m", "normalizer", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=environment, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert b"standard output: cannot be written (no space left on device)" in done.stderr
    assert names(broken.parent) == ["broken.json"]


def test_standard_input_and_output_that_are_closed(broken: Path) -> None:
    shell = 'exec "$0" -m normalizer repair - <&-', 'exec "$0" -m normalizer repair broken.json -o - >&-'
    for line, code, said in zip(
        shell, (3, 2), (b"it is closed; name a file", b"cannot be written"), strict=True
    ):
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            ["sh", "-c", line, sys.executable], capture_output=True, env=environment, check=False
        )
        assert (done.returncode, len(done.stderr.splitlines())) == (code, 1), done.stderr
        assert said in done.stderr
    assert names(broken.parent) == ["broken.json"]


def test_keys_of_a_strange_file_are_told_without_secrets() -> None:
    strange = {"sk-ant-api03-SECRETSECRET": 1}
    with pytest.raises(normalizer.UnknownFormat) as caught:
        normalizer.repair(strange)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
def test_another_encoding_is_told_as_such(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "x.json").write_bytes(json.dumps(SOUND).encode(encoding))
    result = run("check", "x.json")
    assert (result.exit_code, len(result.stderr.splitlines())) == (3, 1)
    assert "save it as UTF-8" in result.stderr


def test_a_number_that_is_too_long_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"messages": [], "n": ' + "9" * 6000 + "}")
    result = run("check", "x.json")
    assert (result.exit_code, len(result.stderr.splitlines())) == (3, 1)
    assert "more digits than can be read" in result.stderr


@pytest.mark.parametrize("target", ["anthropic", "openai_chat", "openai_responses"])
@pytest.mark.parametrize("request_", [None, 5, "x", []])
def test_what_is_no_request_cannot_be_checked(target: str, request_: object) -> None:
    with pytest.raises(normalizer.UnreadableInput, match="a request is an object"):
        normalizer.check(request_, target)


# ---------------------------------------------------------------- journals


@pytest.mark.parametrize("command", ["recover", "show"])
def test_the_database_of_another_program_is_no_journal(tmp_path: Path, command: str) -> None:
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE theirs (x)")
    other.close()
    before = (tmp_path / "other.db").read_bytes()
    result = run(command, "other.db")
    assert (result.exit_code, len(result.stderr.splitlines())) == (3, 1)
    assert "is the database of another program" in result.stderr
    assert (tmp_path / "other.db").read_bytes() == before
    assert names(tmp_path) == ["other.db"]


def test_reading_a_journal_at_rest_leaves_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "j.db").write_bytes((ROOT / "fixtures" / "journals" / "0.1.0.db").read_bytes())
    with normalizer.open_journal("j.db", read_only=True) as journal:
        conversation = journal.conversations()[0]
    for command in ("show", "facts", "check"):
        assert run(command, "j.db", "--conversation", conversation).exit_code in (0, 1)
        assert names(tmp_path) == ["j.db"]


@pytest.mark.parametrize("during", [False, True])
def test_a_journal_that_is_written_meanwhile_is_read_as_it_is_then(
    monkeypatch: pytest.MonkeyPatch, during: bool
) -> None:
    def say(text: str) -> None:
        with normalizer.open_journal("j.db") as journal:
            turn = journal.conversation("c").open_turn()
            turn.user_said(text)
            turn.close()

    say("one")
    read, reads = journals._reading, []

    def read_while_somebody_writes(*words: Any, **how: Any) -> Any:
        found = read(*words, **how)
        reads.append(how)
        if during and len(reads) == 1:
            say("two")
        return found

    monkeypatch.setattr(journals, "_reading", read_while_somebody_writes)
    shown = run("facts", "j.db").stdout
    assert ("two" in shown, len(reads)) == ((True, 2) if during else (False, 1))


def test_recover_makes_no_journal(tmp_path: Path) -> None:
    result = run("recover", "none.db")
    assert (result.exit_code, len(result.stderr.splitlines()), names(tmp_path)) == (3, 1, [])


def test_recover_makes_no_journal_of_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    result = run("recover", "empty.db")
    assert (result.exit_code, result.stderr) == (
        3,
        "empty.db: the file is empty, and no journal; check the path\n",
    )
    assert (tmp_path / "empty.db").read_bytes() == b""


def test_recover_does_not_take_the_files_of_a_directory_for_journals(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "empty.json").touch()
    result = run("recover", "d")
    assert (result.exit_code, len(result.stderr.splitlines())) == (3, 1)
    assert "it is a directory; name a journal's file" in result.stderr
    assert (tmp_path / "d" / "empty.json").read_bytes() == b""


@pytest.mark.parametrize("command", [["repair"], ["convert", "--to", "openai_chat"]])
def test_a_journal_in_the_place_of_a_session_is_told_what_to_do(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "j.db").write_bytes((ROOT / "fixtures" / "journals" / "0.1.0.db").read_bytes())
    result = run(*command, "j.db")
    assert (result.exit_code, len(result.stderr.splitlines())) == (3, 1)
    assert "`transcript-normalizer facts j.db > FACTS.jsonl`" in result.stderr
    assert names(tmp_path) == ["j.db"]


def test_a_conversation_that_a_journal_does_not_have_is_told_with_those_it_has() -> None:
    with normalizer.open_journal("j.db") as journal:
        journal.conversation("c").open_turn().close()
    for command in ("recover", "show", "check", "facts"):
        result = run(command, "j.db", "--conversation", "d")
        assert (result.exit_code, result.stderr) == (
            3,
            "j.db: there is no conversation 'd' in this journal; conversations: 'c'\n",
        )
        assert result.stdout == ""


def test_an_empty_name_is_not_the_directory_at_hand(tmp_path: Path, broken: Path) -> None:
    for command in ("repair", "check", "show", "facts"):
        result = run(command, "")
        assert (result.exit_code, result.stderr) == (
            3,
            "transcript-normalizer: the name of an input is empty; name a file\n",
        )
    result = run("repair", broken.name, "-o", "")
    assert result.exit_code == 2
    assert "the name is empty; name a file" in result.stderr
    assert names(tmp_path) == [broken.name]


def test_a_lost_turn_is_shown_as_one_whose_process_is_gone() -> None:
    with normalizer.open_journal("j.db") as journal:
        turn = journal.conversation("c").open_turn()
        turn.user_said("Go.")
        assert "gone" not in run("show", "j.db").stdout
        journal.lose_run("c", turn.run_id)
    assert f"{turn.turn_id}, running, its process is gone" in run("show", "j.db").stdout


def test_that_there_are_no_instructions_is_shown(broken: Path) -> None:
    assert "instructions (none)" in run("show", broken.name).stdout.splitlines()


# ---------------------------------------------------------------- directories


def test_two_sessions_of_one_stem_have_an_output_each(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    write(tmp_path / "d" / "a.json", BROKEN)
    (tmp_path / "d" / "a.jsonl").write_bytes(DEMO.read_bytes())
    for more in ([], ["--force"]):
        assert run("repair", "d", *more).exit_code == 0
        assert names(tmp_path / "d") == ["a.json", "a.json.repaired.json", "a.jsonl", "a.jsonl.repaired.json"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "d" / "deep").mkdir(parents=True)
    write(tmp_path / "d" / "one.json", BROKEN)
    (tmp_path / "d" / "deep" / "two.jsonl").write_bytes(DEMO.read_bytes())
    write(tmp_path / "d" / "package.json", {"name": "x"})
    return tmp_path / "d"


def test_every_session_of_a_directory_is_repaired_with_one_line_each(folder: Path) -> None:
    result = run("repair", "d", "--debug-log", "d.jsonl")
    assert result.exit_code == 0
    assert [line.partition(":")[0] for line in result.stdout.splitlines()] == [
        "d/one.json",
        "d/deep/two.jsonl",
    ]
    assert result.stderr == "1 other files passed over, such as d/package.json\n"
    assert names(folder) == ["deep", "one.json", "one.repaired.json", "package.json"]
    assert names(folder / "deep") == ["two.jsonl", "two.repaired.json"]


def test_a_second_run_does_not_take_its_own_outputs_for_sessions(folder: Path) -> None:
    run("repair", "d")
    again = run("repair", "d", "--force")
    assert again.exit_code == 0
    assert len(again.stdout.splitlines()) == 2
    assert len(names(folder)) == 4


def test_of_several_files_the_highest_code_counts_and_none_stops_the_others(folder: Path) -> None:
    (folder / "empty.jsonl").write_bytes(b"")
    write(folder / "one.repaired.json", "mine")
    result = run("repair", "d")
    assert result.exit_code == 3
    assert [line.partition(": ")[0] for line in result.stderr.splitlines()] == [
        "d/empty.jsonl",
        "d/one.json",
        "1 other files passed over, such as d/package.json",
    ]
    assert (folder / "deep" / "two.repaired.json").exists()


@pytest.mark.usefixtures("folder")
def test_check_takes_directories_too() -> None:
    result = run("check", "d")
    assert result.exit_code == 1
    assert "d/one.json: anthropic; findings: " in result.stdout
    assert "d/deep/two.jsonl: claude_code; findings: " in result.stdout


def test_a_directory_of_other_files_has_no_sessions(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    write(tmp_path / "d" / "package.json", {"name": "x"})
    result = run("repair", "d")
    assert (result.exit_code, result.stderr) == (
        3,
        "d: none of its 1 files is a session; name a file or another directory\n",
    )


# ---------------------------------------------------------------- what is no conversation

DEEP = b"[" * 100_000 + b"]" * 100_000
NO_CONVERSATION = {
    "empty.json": b"",
    "picture.png": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\xff\xd8",
    "numbers.json": b"[1, 2, 3]",
    "deep.json": DEEP,
    "deep content.json": b'{"messages": [{"role": "user", "content": ' + DEEP + b"}]}",
    "cut.json": b'{"messages": [',
    "nothing.json": b"[]",
}


@pytest.mark.parametrize("name", NO_CONVERSATION)
def test_what_cannot_be_read_is_one_clear_line(
    name: str, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    (tmp_path / name).write_bytes(NO_CONVERSATION[name])
    results = [run(command, name) for command in ("check", "repair", "show", "facts")]
    assert {(result.exit_code, result.stdout, result.stderr) for result in results} == {
        (3, "", results[0].stderr)
    }
    assert results[0].stderr == snapshot
    assert len(results[0].stderr.splitlines()) == 1
    assert names(tmp_path) == [name]


@pytest.mark.parametrize("command", ["check", "repair"])
def test_a_path_that_does_not_exist(command: str) -> None:
    result = run(command, "none.json")
    assert (result.exit_code, result.stdout) == (3, "")
    assert (
        result.stderr
        == "none.json: cannot be read (no such file or directory); check the path and its permissions\n"
    )


@pytest.mark.parametrize("command", ["check", "repair"])
def test_a_directory_without_sessions(command: str, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    result = run(command, "d")
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == "d: no sessions in this directory (looked for *.jsonl and *.json); name a file\n"


def test_a_target_that_cannot_be_written(broken: Path) -> None:
    old = write(broken.parent / "old.json", "mine")
    old.chmod(0o444)
    for output, said in (
        ("old.json", "is read-only"),
        ("broken.json/x", "not a directory"),
        ("no/x.json", "no such file"),
    ):
        result = run("repair", broken.name, "-o", output, "--force")
        assert (result.exit_code, result.stdout) == (2, "")
        assert said in result.stderr
        assert len(result.stderr.splitlines()) == 1
    assert json.loads(old.read_text()) == "mine"


def test_too_little_memory_is_no_traceback(broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(normalizer, "read", give_up)
    result = run("check", broken.name)
    assert (result.exit_code, result.stderr) == (
        3,
        "broken.json: too large for the memory of this machine; split it, or use a larger machine\n",
    )


def test_a_bug_is_one_line_with_its_place(broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(*_: object, **__: object) -> None:
        raise ZeroDivisionError("password=hunter2")

    monkeypatch.setattr(normalizer, "read", stumble)
    result = run("check", broken.name)
    assert result.exit_code == 70
    assert result.stderr.startswith("broken.json: internal error, ZeroDivisionError at test_cli.py:")
    assert result.stderr.endswith(": password=[redacted: secret value]; please report it\n")


def test_content_in_a_message_is_harmless(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"\\u001b[31m sk-ant-' + "q" * 200 + '": 1}')
    result = run("check", "x.json")
    assert result.exit_code == 3
    assert "\x1b" not in result.stderr
    assert "qqqq" not in result.stderr


# ---------------------------------------------------------------- show, facts, rules, explain


def test_show_is_a_timeline(snapshot: SnapshotAssertion) -> None:
    result = run("show", DEMO)
    assert result.exit_code == 0
    assert result.stdout == snapshot


def test_show_puts_a_finding_where_it_belongs(broken: Path) -> None:
    lines = run("show", broken.name).stdout.splitlines()
    found = next(number for number, line in enumerate(lines) if "displaced_result" in line)
    assert "toolu_c" in lines[found - 1]
    assert any("Mend the sum first." in line for line in lines[found:])


def test_show_has_colours_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    shown = run("show", DEMO).stdout
    assert "\x1b[32mcompleted" in shown
    assert "\x1b[1;31munknown" in shown


def test_show_knows_every_kind_of_part(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    twice = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [picture], "is_error": True}
    write(
        tmp_path / "all.json",
        {
            "system": "Be brief.",
            "tools": [{"name": "read", "input_schema": {"type": "object"}}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "\x1b[2J"}, picture]},
                {
                    "role": "assistant",
                    "content": [thought, search, found, {"type": "novel", "x": 1}, twice, twice],
                },
                {"role": "user", "content": [result]},
            ],
        },
    )
    shown = run("show", "all.json")
    assert shown.exit_code == 0
    assert shown.stdout == snapshot


def test_show_as_json_obeys_the_schema_of_a_transcript(broken: Path) -> None:
    shown = json.loads(run("show", "--json", broken.name).stdout)
    Draft202012Validator(schema("transcript")).validate(shown)
    assert {key: call["outcome"]["kind"] for key, call in shown["calls"].items()} == {
        "toolu_a": "completed",
        "toolu_b": "completed",
        "toolu_c": "unknown",
    }


def test_facts_are_json_lines_that_can_be_read_again(broken: Path) -> None:
    result = run("facts", broken.name)
    assert result.exit_code == 0
    facts = tuple(load_lines(result.stdout_bytes))
    assert facts == normalizer.read(broken).facts
    again = run("facts", "-", stdin=result.stdout_bytes)
    assert again.stdout_bytes == result.stdout_bytes


def test_rules_lists_every_rule_with_its_statement() -> None:
    result = run("rules", "anthropic")
    assert result.exit_code == 0
    assert "  ANT-PAIR-001   reject     Every tool call is answered in the next user turn.\n" in result.stdout
    listed = json.loads(run("rules", "anthropic", "--json").stdout)
    assert len(listed) == len(result.stdout.splitlines()) - 1
    assert all(rule["statement"] and rule["source"] for rule in listed)


def test_explain_says_what_why_and_where_from(snapshot: SnapshotAssertion) -> None:
    result = run("explain", "ant-pair-001")
    assert result.exit_code == 0
    assert result.stdout == snapshot
    assert run("explain", "unanswered-tool-call").stdout.startswith(result.stdout)
    assert json.loads(run("explain", "ANT-PAIR-001", "--json").stdout)["id"] == "ANT-PAIR-001"


@pytest.mark.parametrize(
    ("word", "said"),
    [("unanswered-tool-cal", "did you mean unanswered-tool-call"), ("zz", "`transcript-normalizer rules`")],
)
def test_explain_of_an_unknown_rule_helps(word: str, said: str) -> None:
    result = run("explain", word)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())


# ---------------------------------------------------------------- usage, and the program as a whole


@pytest.mark.parametrize(
    "arguments",
    [
        ["check"],
        ["check", "x.json", "--as", "antropic"],
        ["repair", "x.json", "--to", "antropic"],
        ["rules", "antropic"],
        ["shwo"],
        ["check", "--nope", "x.json"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_code_2(arguments: list[str]) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr


def test_version() -> None:
    assert run("--version").stdout == f"{normalizer.__version__}\n"


def test_the_command_has_the_name_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"transcript-normalizer": "normalizer.command.main:main"}
    assert project["name"] == console.PROGRAM == "transcript-normalizer"
    assert program("check", "--help").stdout.split()[:3] == [b"Usage:", b"transcript-normalizer", b"check"]


def program(*arguments: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "normalizer", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, env=environment, check=False, **more)


def test_the_program_runs_as_a_module_and_returns_its_code(broken: Path) -> None:
    done = program("check", broken.name)
    assert done.returncode == 1
    assert b"ANT-PAIR-001" in done.stdout


@pytest.mark.parametrize("command", ["facts", "show", "check"])
def test_a_reader_that_has_seen_enough_is_no_failure(broken: Path, command: str) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "normalizer", command, broken.name]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, env=environment, check=False)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (1, b"")


def test_whatever_happens_there_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stumble(**_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("normalizer.command.main.app", stumble)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 70
    assert "Traceback" not in capsys.readouterr().err


def test_a_progress_bar_is_for_terminals_and_several_files(folder: Path) -> None:
    assert b"sessions" not in program("repair", "d").stderr
    for target, shown in (("d", True), ("d/one.json", False)):
        done, screen = with_a_screen("repair", target, "--force")
        assert done.returncode == 0
        assert ("sessions" in screen) is shown
        assert [line.partition(b":")[0] for line in done.stdout.splitlines() if line.startswith(b"d/")] == (
            [b"d/one.json", b"d/deep/two.jsonl"] if shown else [b"d/one.json"]
        )
    assert names(folder) == ["deep", "one.json", "one.repaired.json", "package.json"]


def with_a_screen(*arguments: str) -> tuple[subprocess.CompletedProcess[bytes], str]:
    """Run the program with a terminal as its standard error; what the terminal got."""
    screen, terminal = pty.openpty()
    command = [sys.executable, "-m", "normalizer", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=terminal, env=environment, check=False)
    os.close(terminal)
    shown = bytearray()
    try:
        while piece := os.read(screen, 65_536):
            shown += piece
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(screen)
    return done, shown.decode()


# ---------------------------------------------------------------- size


@pytest.fixture(scope="module")
def huge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound session of 200 MB."""
    path = tmp_path_factory.mktemp("huge") / "huge.jsonl"
    session = {
        "isSidechain": False,
        "sessionId": "5e550000-0000-4000-8000-000000000001",
        "version": "2.1.330",
    }
    parent = None
    with path.open("w") as out:
        for number in range(0, 90_000, 3):
            call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": {"file_path": "/x"}}
            result = {
                "type": "tool_result",
                "tool_use_id": f"toolu_{number}",
                "content": "some output\n" * 480,
            }
            reply = {
                "id": f"msg_{number}",
                "role": "assistant",
                "model": "claude-sonnet-4-5",
                "content": [call],
            }
            messages = [
                ("user", {"role": "user", "content": f"question {number}"}),
                ("assistant", {**reply, "type": "message", "stop_reason": "tool_use"}),
                ("user", {"role": "user", "content": [result]}),
            ]
            for step, (kind, message) in enumerate(messages, start=number):
                uuid = f"de300000-0000-4000-8000-{step:012d}"
                line = {"parentUuid": parent, **session, "type": kind, "message": message, "uuid": uuid}
                out.write(json.dumps({**line, "timestamp": "2026-01-05T10:00:00.000Z"}) + "\n")
                parent = uuid
    return path


@pytest.mark.soak
@pytest.mark.parametrize("command", ["check", "repair"])
def test_a_session_of_200_megabytes_needs_bounded_memory(huge: Path, command: str) -> None:
    assert huge.stat().st_size > 190_000_000
    # larger than any API takes, so that `repair` may say no, but in one line
    done = program(command, str(huge), preexec_fn=_with_little_memory)
    assert done.returncode in ({"check": (0,), "repair": (0, 1)}[command]), done.stderr
    assert len((done.stdout + done.stderr).splitlines()) == 1


def _with_little_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (1_500_000_000, 1_500_000_000))
