"""After a crash: what is recorded, what is asked, what is left to do; and that nothing is done twice."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from journaling import DATABASES, Child, address
from typer.testing import CliRunner

from normalizer.command.main import app
from normalizer.errors import JournalError
from normalizer.execution.operations import Operation
from normalizer.facts import ModelReplied
from normalizer.journal import open_journal
from normalizer.journal.processes import ProcessId
from normalizer.parts import Json, ToolCall
from normalizer.recovery import Answer, recover

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from normalizer.journal.journal import Journal
    from normalizer.live.turn import Turn
    from normalizer.recovery import Question

FIELDS = [
    "run_id",
    "tool_call_id",
    "operation_id",
    "execution_state",
    "cancel_requested",
    "remote_cancel_state",
    "side_effect_state",
    "last_observation",
    "recovery_action",
]


@pytest.fixture
def where(tmp_path: Path) -> str:
    return str(tmp_path / "agent.db")


@pytest.fixture
def journal(where: str) -> Iterator[Journal]:
    with open_journal(where) as opened:
        yield opened


def replied(turn: Turn, *names: str) -> None:
    """The model made these calls, with ids `toolu_0` and so on."""
    parts = tuple(ToolCall(f"toolu_{n}", name, Json("{}")) for n, name in enumerate(names))
    turn.record(
        ModelReplied, parts=parts, stop_reason="tool_use", provider="anthropic", api="anthropic", model="m"
    )


def crash(where: str, *permits: dict[str, Any]) -> str:
    """A process that starts these calls and goes down before any of them ends. Gives the id of its run."""

    def work(send: Any) -> None:
        turn = open_journal(where).conversation("c").open_turn()
        turn.user_said("Do it")
        replied(turn, *(permit.get("tool", "run") for permit in permits))
        for call, permit in zip(turn.calls_to_run(), permits, strict=True):
            options = {key: value for key, value in permit.items() if key != "tool"}
            if not options.pop("waits", False):
                turn.execute(call, **options).__enter__()
        send(turn.run_id)

    (run_id,) = Child(work).sent()
    return str(run_id)


def test_nothing_to_recover(journal: Journal) -> None:
    with journal.conversation("c").open_turn() as turn:
        turn.user_said("Hello")
    found = recover(journal)
    assert (found.rows, found.lost, found.alive, dict(found.waiting)) == ((), (), (), {})


def test_each_started_call_is_a_row_of_nine_fields(journal: Journal, where: str) -> None:
    run_id = crash(
        where,
        {"operation": Operation("op_1", "key_1"), "recovery": "reuse_key", "remote": True},
        {"may_have_effects": False},
        {"waits": True},
    )
    found = recover(journal)
    assert [run.run_id for run in found.lost] == [run_id]
    first, second = (one.as_dict() for one in found.found)
    assert [key for key in first if key in FIELDS] == FIELDS
    assert (first["run_id"], first["tool_call_id"], first["operation_id"]) == (run_id, "toolu_0", "op_1")
    assert (first["execution_state"], first["side_effect_state"]) == ("unknown", "to_verify")
    assert first["recovery_action"] == "reuse_key"
    assert first["last_observation"].startswith("start_permitted at 20")
    assert (second["side_effect_state"], second["recovery_action"]) == ("none", None)
    transcript = journal.conversation("c").transcript
    assert transcript.calls["toolu_2"].outcome.kind == "never_run"
    assert len(found) == 2
    assert not recover(journal).lost


def test_a_handler_finds_out_by_operation_and_is_asked_once(journal: Journal, where: str) -> None:
    crash(
        where,
        {"tool": "publish", "operation": Operation("op_1", "key_1"), "recovery": "query"},
        {"tool": "pay", "recovery": "compensate"},
        {"tool": "ring", "recovery": "ask"},
        {"tool": "mail", "recovery": "none"},
    )
    asked: list[str] = []

    def look(question: Question) -> Answer:
        asked.append(question.operation_id or "")
        assert (question.conversation, question.idempotency_key) == ("c", "key_1")
        return Answer(
            evidence="the site",
            outcome="completed",
            effects="happened",
            content="revision 18",
            is_error=False,
        )

    def person(_: Question) -> Answer:
        return Answer(evidence="she stood beside it", outcome="never_run", effects="none", by="ana")

    def never(_: Question) -> Answer:
        raise AssertionError("a repetition is the caller's")

    found = recover(journal, {"query": look, "ask": person, "compensate": never, "none": never})
    assert asked == ["op_1"]
    states = {row.tool_call_id: (row.execution_state, row.recovery_action) for row in found}
    assert states == {
        "toolu_0": ("completed", None),
        "toolu_1": ("unknown", "compensate"),
        "toolu_2": ("never_run", None),
        "toolu_3": ("unknown", "none"),
    }
    calls = journal.conversation("c").transcript.calls
    assert calls["toolu_2"].outcome.by == "ana"
    assert calls["toolu_0"].result
    assert [row.tool_call_id for row in recover(journal, {"query": look})] == ["toolu_1", "toolu_3"]
    assert asked == ["op_1"]


def test_a_handler_of_the_tool_is_asked_whatever_was_declared(journal: Journal, where: str) -> None:
    crash(where, {"tool": "pay", "recovery": "compensate"})
    found = recover(journal, {"pay": lambda _: Answer(evidence="the bank", effects="none")})
    (row,) = found
    assert (row.execution_state, row.side_effect_state, row.recovery_action) == ("unknown", "none", None)
    (again,) = recover(journal, {"pay": lambda _: Answer(evidence="again", effects="happened")})
    assert again.side_effect_state == "none"


def test_a_handler_that_fails_or_knows_nothing_stops_no_other(journal: Journal, where: str) -> None:
    crash(
        where,
        {"recovery": "query"},
        {"tool": "other", "recovery": "query"},
        {"tool": "pay", "recovery": "ask"},
    )

    def broken(_: Question) -> Answer:
        raise ConnectionError("no route")

    found = recover(
        journal,
        {"query": broken, "other": lambda _: None, "ask": lambda _: Answer(evidence="x", effects="none")},
    )
    assert [one.trouble for one in found.found] == ["ConnectionError: no route", None, None]
    assert [row.side_effect_state for row in found] == ["to_verify", "to_verify", "none"]


def test_a_living_run_is_left_alone(journal: Journal) -> None:
    turn = journal.conversation("c").open_turn()
    replied(turn, "run")
    with turn.execute(turn.calls_to_run()[0], recovery="query") as execution:
        found = recover(journal, {"query": lambda _: Answer(evidence="x", outcome="never_run")})
        assert [run.run_id for run in found.alive] == [turn.run_id]
        assert [(row.execution_state, row.recovery_action) for row in found] == [("pending", "wait")]
        execution.complete("ok")
    turn.close()


def far_away(journal: Journal, lease: float | None) -> str:
    opened = journal.open_turn("c", process=ProcessId("elsewhere", 1, 0.0), lease=lease)
    return str(opened.run_id)


def test_a_run_on_another_host_is_lost_when_its_lease_ran_out(where: str) -> None:
    past = datetime.now(UTC) - timedelta(hours=1)
    with open_journal(where, now=lambda: past) as journal:
        run_id = far_away(journal, 60)
    with open_journal(where) as journal:
        assert [run.run_id for run in recover(journal).lost] == [run_id]
        journal.conversation("c").open_turn().close()


def test_opening_a_turn_loses_an_expired_run_of_another_host(where: str) -> None:
    past = datetime.now(UTC) - timedelta(hours=1)
    with open_journal(where, now=lambda: past) as journal:
        far_away(journal, 60)
    with open_journal(where) as journal:
        journal.conversation("c").open_turn().close()
        assert "run_lost" in [fact.kind for fact in journal.facts("c")]


@pytest.mark.parametrize("lease", [None, 3600])
def test_a_run_on_another_host_is_lost_when_an_operator_says_so(
    journal: Journal, lease: float | None
) -> None:
    run_id = far_away(journal, lease)
    found = recover(journal)
    assert ([run.run_id for run in found.alive], found.lost) == ([run_id], ())
    with pytest.raises(JournalError):
        journal.conversation("c").open_turn()
    assert [run.run_id for run in recover(journal, lost=[run_id]).lost] == [run_id]
    with pytest.raises(JournalError) as caught:
        recover(journal, lost=[run_id])
    assert caught.value.reason == "unknown_run"


def test_a_lease_that_is_renewed_meanwhile_keeps_its_run(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    past = datetime.now(UTC) - timedelta(hours=1)
    with open_journal(where, now=lambda: past) as journal:
        run_id = far_away(journal, 60)
    with open_journal(where) as journal:
        stale = journal.runs("c")
        journal.renew_lease("c", run_id, 60)
        monkeypatch.setattr(journal, "runs", lambda _=None: stale)
        assert not recover(journal).lost


def test_a_stopped_call_that_may_have_had_effects_is_to_be_looked_at(journal: Journal) -> None:
    turn = journal.conversation("c").open_turn()
    replied(turn, "run", "read")
    first, second = turn.calls_to_run()
    with turn.execute(first) as execution:
        execution.terminated()
    with turn.execute(second, may_have_effects=False) as execution:
        execution.terminated()
    turn.close()
    (row,) = recover(journal)
    assert (row.tool_call_id, row.execution_state) == ("toolu_0", "cancelled_while_running")
    assert row.recovery_action == "verify"
    look = {"run": lambda _: Answer(evidence="git status", effects="none")}
    assert [one.recovery_action for one in recover(journal, look)] == [None]
    assert not recover(journal)


def test_steering_that_waits_is_told(journal: Journal) -> None:
    conversation = journal.conversation("c")
    turn = conversation.open_turn()
    steering = conversation.steering.queue("faster")
    turn.cancel(by="user")
    assert dict(recover(journal, conversation="c").waiting) == {"c": (steering,)}


# ---------------------------------------------------------------- the command


def command(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(words))
    return result.exit_code, result.output


def test_recover_on_the_command_line(where: str) -> None:
    run_id = crash(where, {"tool": "publish", "operation": Operation("op_1"), "recovery": "query"})
    code, said = command("recover", where)
    assert code == 0
    assert f"c: run {run_id} of turn " in said
    assert "c: call toolu_0 (publish) operation op_1: unknown; effects to verify" in said
    assert "to do: ask the remote what became of the operation" in said
    code, said = command("recover", where, "--conversation", "c", "--json")
    told = json.loads(said)
    assert code == 0
    assert [key for key in told["rows"][0] if key in FIELDS] == FIELDS
    assert (told["lost"], told["alive"], told["steering"]) == ([], [], {})


def test_recover_declares_a_run_lost(where: str) -> None:
    with open_journal(where) as journal:
        run_id = far_away(journal, None)
    code, said = command("recover", where)
    assert (code, f"c: run {run_id} may still live (process 1 on elsewhere)" in said) == (0, True)
    code, said = command("recover", where, "--lost", run_id)
    assert (code, f"c: run {run_id} of turn" in said) == (0, True)
    assert command("recover", where, "--lost", "r-9")[0] == 1
    assert command("recover", where)[1] == "nothing to recover\n"


def test_recover_makes_no_journal(tmp_path: Path) -> None:
    assert command("recover", str(tmp_path / "none.db"))[0] == 3
    assert not (tmp_path / "none.db").exists()


def test_the_other_commands_read_a_journal(where: str) -> None:
    crash(where, {"tool": "publish"})
    code, said = command("show", where, "--conversation", "c")
    assert (code, "publish" in said) == (0, True)
    code, said = command("facts", where)
    assert code == 0
    assert [json.loads(line)["kind"] for line in said.splitlines()][:2] == ["turn_opened", "user_said"]
    assert command("check", where)[0] == 0
    code, said = command("show", where, "--conversation", "d")
    assert (code, "'c'" in said) == (3, True)
    with open_journal(where) as journal:
        journal.conversation("d").open_turn().close()
    code, said = command("show", where)
    assert (code, "--conversation: 'c', 'd'" in said) == (3, True)


@pytest.mark.parametrize("kind", DATABASES)
def test_a_conversation_is_the_same_on_both_databases(kind: str, tmp_path: Path) -> None:
    where = address(kind, tmp_path)
    crash(where, {"tool": "publish", "recovery": "query"}, {"waits": True})
    with open_journal(where) as journal:
        conversation = journal.conversation("c")
        with conversation.open_turn() as turn:
            replied(turn, "run")
            with turn.execute(turn.calls_to_run()[0]) as execution:
                execution.output("some")
                execution.complete("ok")
            conversation.steering.queue("faster")
            assert conversation.steering.apply()
        look = {"query": lambda _: Answer(evidence="x", outcome="completed", content="18", is_error=False)}
        assert [row.execution_state for row in recover(journal, look)] == ["completed"]
        outcomes = [call.outcome.kind for call in conversation.transcript.calls.values()]
        assert outcomes == ["completed", "never_run", "completed"]
