"""Local commands, with real processes."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import psutil
import pytest
from executing import BACKENDS, QUICK, Recorder, Run, execute, gone, python, runs

from normalizer.execution import families, posix, systems
from normalizer.execution.contract import Control, Finished, Permit, Stopped, Unknown
from normalizer.execution.local import Limits, LocalCommand

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the programs here are for POSIX systems")

LIMITS = {"interrupt": 0.25, "terminate": 0.25, "kill": 2.0, "pipes": 0.3, "tell": 0.01}
DEAF = "import signal\nfor s in (signal.SIGINT, signal.SIGTERM): signal.signal(s, signal.SIG_IGN)\n"
# Says which signals it gets, and stays.
STUBBORN = (
    "import signal, time\n"
    "for s in (signal.SIGINT, signal.SIGTERM): signal.signal(s, lambda s, _: print(signal.Signals(s).name))\n"
    "print('ready'); time.sleep(300)"
)
CHILD = "import subprocess, sys, os, time\n"


def command(code: str, **limits: float) -> LocalCommand:
    return LocalCommand(python(code), limits=Limits(**{**LIMITS, **limits}))  # type: ignore[arg-type]


def pids(run: Run) -> list[int]:
    """Numbers that the command printed, one a line."""
    return [int(line) for line in run.recorder.output.split() if line.isdigit()]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# ---------------------------------------------------------------- ends by itself


def test_what_it_printed_is_its_result(backend: str) -> None:
    run = execute(command("print('a'); print('b')", tell=60), backend)
    assert run.end == Finished(content="a\nb\n", exit_code=0)
    assert run.recorder.kinds == ["call_completed"]
    fact = run.recorder.facts[0]
    assert (fact.call_id, fact.turn_id, fact.run_id, fact.source) == ("c1", "t1", "r1", "local")
    assert (fact.exit_code, fact.is_error, fact.truncated) == (0, False, False)


def test_a_failure_is_a_completion_with_its_exit_code() -> None:
    run = execute(command("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"))
    assert isinstance(run.end, Finished)
    assert (run.end.exit_code, run.end.signal, run.end.is_error) == (3, None, True)
    assert run.end.content == "out\n[stderr]\nerr\n[exit code 3]"
    assert run.recorder.outcome.kind == "completed"


@pytest.mark.parametrize(("number", "name"), [(11, "SIGSEGV"), (9, "SIGKILL"), (40, None)])
def test_a_program_that_dies_by_itself_is_a_completion_with_its_signal(number: int, name: str | None) -> None:
    run = execute(command(f"import os; os.kill(os.getpid(), {number})"))
    assert isinstance(run.end, Finished)
    assert run.end.exit_code is None
    assert run.end.is_error
    assert run.end.signal == (name or f"signal {number}")
    assert run.end.content == f"[ended by {run.end.signal}]"


@pytest.mark.parametrize(
    "unit",
    [
        LocalCommand(["no-such-program-here"]),
        LocalCommand(["true"], directory="/no/such/folder"),
        LocalCommand(["echo", "a\0b"]),
        LocalCommand([str(Path(__file__))]),
    ],
)
def test_a_start_that_the_system_refuses_is_a_completion_with_an_error(
    unit: LocalCommand, backend: str
) -> None:
    run = execute(unit, backend)
    assert isinstance(run.end, Finished)
    assert not run.end.started
    assert run.end.is_error
    assert str(run.end.content).startswith("The program was not started: ")
    assert run.recorder.kinds == ["call_completed"]


def test_input_is_given_and_need_not_be_read(backend: str) -> None:
    read = LocalCommand(python("import sys; print(len(sys.stdin.read()))"), stdin=b"x" * 200_000)
    assert execute(read, backend).end == Finished(content="200000\n", exit_code=0)
    unread = LocalCommand(python("print('no')"), stdin=b"x" * 200_000)
    assert execute(unread, backend).end == Finished(content="no\n", exit_code=0)


def test_without_input_it_reads_nothing_and_does_not_wait() -> None:
    assert execute(command("import sys; print(repr(sys.stdin.read()))")).end == Finished(
        content="''\n", exit_code=0
    )


def test_a_text_goes_to_the_shell() -> None:
    assert execute(LocalCommand("echo one; echo two >&2; exit 0")).end == Finished(
        content="one\n[stderr]\ntwo", exit_code=0
    )


def test_environment_and_directory(tmp_path: Path) -> None:
    unit = LocalCommand(
        [sys.executable, "-c", "import os; print(os.getcwd(), os.environ['WORD'], 'HOME' in os.environ)"],
        directory=tmp_path,
        environment={"WORD": "here"},
    )
    assert execute(unit).end == Finished(content=f"{tmp_path} here False\n", exit_code=0)


# ---------------------------------------------------------------- output


def test_output_is_bounded_with_head_and_tail_kept(backend: str) -> None:
    run = execute(command("for i in range(20_000): print(f'line {i}')", head=1000, tail=1000), backend)
    assert isinstance(run.end, Finished)
    assert run.end.truncated
    assert isinstance(run.end.content, str)
    assert run.end.content.startswith("line 0\nline 1\n")
    assert run.end.content.endswith("line 19998\nline 19999\n")
    assert "bytes left out …]" in run.end.content
    assert len(run.end.content) < 2100
    assert len(run.recorder.output) <= 1000
    assert run.recorder.facts[-1].truncated


def test_binary_output_becomes_text_that_can_be_stored() -> None:
    run = execute(
        command("import sys; sys.stdout.buffer.write(b'\\x00\\xff\\xfe ok \\xe2\\x82\\xac \\xed\\xa0\\x80')")
    )
    assert isinstance(run.end, Finished)
    assert isinstance(run.end.content, str)
    assert run.end.content.startswith("\ufffd\ufffd\ufffd ok € ")
    assert "\0" not in run.end.content
    run.end.content.encode()


def test_output_is_told_while_it_runs_and_half_characters_wait(backend: str) -> None:
    run = execute(
        command(
            "import sys, time\nw = sys.stdout.buffer\n"
            "w.write('caf\\u00e9'.encode()[:-1]); w.flush(); time.sleep(.2)\n"
            "w.write('caf\\u00e9'.encode()[-1:]); w.flush(); time.sleep(.2); w.write(b' stop'); w.flush()\n"
            "time.sleep(60)",
        ),
        backend,
        stop_at="stop",
    )
    pieces = [fact for fact in run.recorder.facts if fact.kind == "output_observed"]
    assert len(pieces) >= 2
    assert "".join(piece.text for piece in pieces if piece.stream == "stdout") == "café stop"
    assert pieces[-1].stream == "stderr"  # the traceback of the interrupted program


def test_pieces_told_get_fewer_the_longer_it_runs() -> None:
    run = execute(command("import time\nfor i in range(100): print(i); time.sleep(.005)"))
    assert 3 <= run.recorder.kinds.count("output_observed") <= 12


def test_what_was_not_told_before_a_stop_is_told_behind_it() -> None:
    run = execute(
        command(
            "import time, sys\nprint('begin' + 'x' * 3000)\nprint('ready', file=sys.stderr)\n"
            "try: time.sleep(60)\nexcept KeyboardInterrupt: print('tidied up')",
            head=2000,
            tail=500,
        ),
        stop_at="ready",
    )
    assert isinstance(run.end, Stopped)
    assert run.recorder.output.startswith("begin")
    assert "tidied up\n" in run.recorder.output
    last = [
        fact for fact in run.recorder.facts if fact.kind == "output_observed" and fact.stream == "stdout"
    ][-1]
    assert last.truncated
    assert run.recorder.kinds[-1] == "call_terminated"


# ---------------------------------------------------------------- stops


def test_a_shell_with_children_leaves_none(backend: str) -> None:
    shell = LocalCommand(
        "sleep 300 & echo $!; sleep 300 & echo $!; echo $$; echo ready; sleep 300; echo no", limits=QUICK
    )
    run = execute(shell, backend, stop_at="ready")
    assert isinstance(run.end, Stopped)
    assert run.end.by == "user"
    assert run.end.residue == ()
    assert len(pids(run)) == 3
    assert gone(pids(run), 0)
    assert run.recorder.ends == ["call_cancel_requested", "call_terminated"]
    assert run.recorder.outcome.kind == "cancelled_while_running"
    assert run.recorder.outcome.by == "user"
    assert "no" not in run.recorder.output.split()


@pytest.mark.parametrize("environment", ["None", "{}"])
def test_a_descendant_in_its_own_session_is_stopped(environment: str, backend: str) -> None:
    # Deaf to the polite signals, so that nothing but the search for it ends it.
    inner = DEAF + "import time; time.sleep(300)"
    run = execute(
        command(
            CHILD
            + f"p = subprocess.Popen([sys.executable, '-c', {inner!r}], start_new_session=True, env={environment})\n"
            "time.sleep(.3); print(p.pid); print('ready'); time.sleep(300)",
            terminate=0,
        ),
        backend,
        stop_at="ready",
    )
    assert run.end == Stopped(by="user", signal="SIGINT")
    assert gone(pids(run), 0)


def test_a_daemon_that_left_its_parents_is_found_by_its_mark() -> None:
    run = execute(
        command(
            CHILD + "if not os.fork():\n    os.setsid()\n    if os.fork(): os._exit(0)\n"
            "    print(os.getpid()); time.sleep(300)\nos.wait(); time.sleep(.2); print('ready'); time.sleep(300)"
        ),
        stop_at="ready",
    )
    assert isinstance(run.end, Stopped)
    assert run.end.residue == ()
    assert gone(pids(run), 0)


def test_what_cannot_be_stopped_is_named_as_residue(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: psutil.Process, _: int) -> None:
        raise psutil.AccessDenied(self.pid)

    monkeypatch.setattr(psutil.Process, "send_signal", refused)
    run = execute(
        command(
            CHILD + "p = subprocess.Popen(['sleep', '300'], start_new_session=True)\n"
            "print(p.pid); print('ready'); time.sleep(300)",
            kill=0.3,
        ),
        stop_at="ready",
    )
    [left] = pids(run)
    try:
        assert run.end == Stopped(
            by="user",
            signal="SIGINT",
            residue=(f"sleep (pid {left})", "stdout, held open", "stderr, held open"),
        )
        assert run.recorder.facts[-1].residue == run.end.residue  # type: ignore[union-attr]
        assert runs(left)
    finally:
        os.kill(left, signal.SIGKILL)


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # of a program that nobody could reap
def test_a_command_that_survives_everything_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posix.os, "killpg", lambda *_: None)
    monkeypatch.setattr(psutil.Process, "send_signal", lambda *_: None)
    run = execute(
        command("import os, time; print(os.getpid()); print('ready'); time.sleep(60)", kill=0.2),
        stop_at="ready",
    )
    with contextlib.suppress(ProcessLookupError):
        os.kill(pids(run)[0], signal.SIGKILL)
    assert isinstance(run.end, Unknown)
    assert run.end.residue[0].startswith("python")
    assert run.recorder.kinds[-1] == "contact_lost"
    assert run.end.residue[0] in run.recorder.facts[-1].reason
    assert run.recorder.outcome.kind == "unknown"
    assert gone(pids(run), 5)
    time.sleep(0.1)  # asyncio's own thread still waits for it, and holds it
    gc.collect()


def test_a_tool_deaf_to_polite_signals_is_killed_after_the_limit(backend: str) -> None:
    run = execute(command(STUBBORN, interrupt=1, terminate=1), backend, stop_at="ready")
    assert run.end == Stopped(by="user", signal="SIGKILL")
    assert run.recorder.output == "ready\nSIGINT\nSIGTERM\n"


def test_steps_can_be_left_out() -> None:
    run = execute(command(STUBBORN, interrupt=0, terminate=0), stop_at="ready")
    assert run.end == Stopped(by="user", signal="SIGKILL")
    assert run.recorder.output == "ready\n"


def test_a_polite_stop_lets_the_tool_tidy_up() -> None:
    run = execute(
        command(
            "import time, sys\nprint('ready')\n"
            "try: time.sleep(300)\nexcept KeyboardInterrupt: print('bye'); sys.exit(7)"
        ),
        stop_at="ready",
    )
    assert run.end == Stopped(by="user", exit_code=7)
    assert run.recorder.output == "ready\nbye\n"


def test_who_is_born_while_the_stop_goes_on_is_stopped_too() -> None:
    run = execute(
        command(
            CHILD + DEAF + "print('ready')\nfor i in range(200):\n"
            "    p = subprocess.Popen(['sleep', '300'], start_new_session=bool(i % 2)); print(p.pid); time.sleep(.02)\n"
            "time.sleep(300)"
        ),
        stop_at="ready",
    )
    assert isinstance(run.end, Stopped)
    assert run.end.residue == ()
    assert len(pids(run)) > 5
    assert gone(pids(run), 0)


def test_a_time_limit_is_a_stop_by_limit(backend: str) -> None:
    run = execute(command("import time; time.sleep(300)", time=0.3), backend)
    assert run.end == Stopped(by="limit", signal="SIGINT")
    request = run.recorder.facts[0]
    assert (request.kind, request.by, request.reason) == (
        "call_cancel_requested",
        "limit",
        "it ran longer than 0.3 s",
    )
    assert run.recorder.outcome.by == "limit"


def test_a_stop_asked_for_before_the_start_starts_nothing(tmp_path: Path) -> None:
    control = Control()
    control.cancel("user")
    run = execute(LocalCommand(["touch", str(tmp_path / "made")]), control=control)
    assert run.end == Stopped(by="user")
    assert not (tmp_path / "made").exists()
    assert run.recorder.kinds == ["call_cancel_requested", "call_terminated"]


def test_pressing_stop_often_is_one_stop() -> None:
    control = Control()

    def press() -> None:
        time.sleep(0.3)
        assert [control.cancel("user", str(i)) for i in range(50)] == [True] + [False] * 49

    thread = threading.Thread(target=press)
    thread.start()
    run = execute(command("import time; time.sleep(300)"), control=control)
    thread.join()
    assert run.recorder.ends == ["call_cancel_requested", "call_terminated"]
    assert run.recorder.facts[0].reason == "0"
    assert control.cancel("user") is False  # the loop is over; nobody is woken, nothing breaks


# ---------------------------------------------------------------- completion against stop


def test_main_process_gone_while_a_descendant_holds_the_pipe(backend: str) -> None:
    run = execute(
        command(
            CHILD + "print('result')\n"
            "print(subprocess.Popen(['sleep', '300'], start_new_session=True).pid, file=open('/dev/stderr', 'w'))"
        ),
        backend,
    )
    assert isinstance(run.end, Finished)
    left = int(str(run.end.content).split("\n")[2])
    try:
        assert (run.end.exit_code, run.end.is_error, run.end.truncated) == (0, False, True)
        assert run.end.pipes_open == ("stdout", "stderr")
        assert run.end.left_running == (f"sleep (pid {left})",)
        assert str(run.end.content).endswith(
            "[output cut: another process still holds stdout and stderr open]"
        )
        assert runs(left)  # so nobody waited for it
    finally:
        os.kill(left, signal.SIGKILL)


def test_a_stop_while_only_the_pipe_is_held_ends_the_holder_and_not_the_result() -> None:
    control, recorder = Control(), Recorder()
    unit = command(CHILD + "print(subprocess.Popen(['sleep', '300']).pid)", pipes=30)
    timer = threading.Timer(0.6, lambda: control.cancel("user"))
    timer.start()
    end = anyio.run(unit.run, Permit(call_id="c1"), recorder, control)
    timer.join()
    assert isinstance(end, Finished)
    assert (end.exit_code, end.pipes_open, end.left_running) == (0, (), ())
    assert gone([int(str(end.content))], 0)
    assert recorder.outcome.kind == "completed"


def test_what_ended_before_the_stop_reached_it_is_completed(backend: str) -> None:
    control, recorder = Control(), Recorder()

    def look(_: object) -> None:
        if "ready" in recorder.output and control.requested is None:
            time.sleep(0.4)  # the loop hears nothing of the exit that happens meanwhile
            control.cancel("user")

    recorder.on_fact = look
    unit = command("import time; print('ready'); time.sleep(.1)")
    end = anyio.run(unit.run, Permit(call_id="c1"), recorder, control, backend=backend)
    assert end == Finished(content="ready\n", exit_code=0)
    assert recorder.outcome.kind == "completed"


def test_what_hears_no_signal_and_comes_to_its_end_is_completed() -> None:
    run = execute(
        command(DEAF + "import time; print('ready'); time.sleep(.5); print('end')"), stop_at="ready"
    )
    assert run.end == Finished(content="ready\nend\n", exit_code=0)
    assert run.recorder.ends == ["call_cancel_requested", "call_completed"]


@pytest.mark.parametrize("seed", range(6))
def test_completion_and_stop_at_the_same_moment_tell_the_truth(seed: int, tmp_path: Path) -> None:
    """The last thing that this shell does is its effect: without it no completion, with a completion it is there."""
    control = Control()
    timer = threading.Timer(0.09 + seed * 0.004, lambda: control.cancel("user"))
    effect = tmp_path / "effect"
    timer.start()
    run = execute(LocalCommand(f"sleep .1; echo > {effect}", limits=QUICK), control=control)
    timer.join()
    if isinstance(run.end, Finished):
        assert run.end.exit_code == 0
        assert effect.exists()
    else:
        assert isinstance(run.end, Stopped)
        assert run.end.residue == ()


# ---------------------------------------------------------------- what comes from outside


def test_the_callers_cancellation_winds_up_first(backend: str) -> None:
    recorder = Recorder()

    async def main() -> bool:
        with anyio.move_on_after(0.4) as scope:
            await command(
                "import os, time; print(os.getpid()); print('ready')\n" + DEAF + "time.sleep(300)"
            ).run(Permit(call_id="c1"), recorder)
        return scope.cancelled_caught

    assert anyio.run(main, backend=backend)
    assert recorder.ends == ["call_cancel_requested", "call_terminated"]
    assert recorder.facts[-1].signal == "SIGKILL"
    assert gone([int(recorder.output.split()[0])], 0)


_HOST = """
    import sys, anyio
    from normalizer.execution.contract import Permit
    from normalizer.execution.local import Limits, LocalCommand
    from normalizer.facts import dump

    def report(fact):
        print(dump(fact).decode(), flush=True)

    limits = Limits(interrupt=.3, terminate={terminate}, tell=.01)
    unit = LocalCommand([sys.executable, "-u", "-c", {code!r}], limits=limits)
    anyio.run(unit.run, Permit(call_id="c1"), report, None, backend={backend!r})
"""


# One write: what `print` does in several may come in several pieces.
_STAYS = DEAF + "import os, time; os.write(1, b'pid %d ready' % os.getpid()); time.sleep(60)"


@contextlib.contextmanager
def _host(backend: str, terminate: float) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A program that runs a command which stays, and the command's number."""
    program = textwrap.dedent(_HOST).format(backend=backend, code=_STAYS, terminate=terminate)
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as host:
        try:
            assert host.stdout is not None
            yield host, int(host.stdout.readline().split("pid ")[1].split()[0])
        finally:
            host.kill()


def test_ctrl_c_winds_up_and_goes_on(backend: str) -> None:
    with _host(backend, 0.3) as (host, pid):
        host.send_signal(signal.SIGINT)
        out, err = host.communicate(timeout=120)
    assert "KeyboardInterrupt" in err
    assert host.returncode == -signal.SIGINT
    assert '"kind":"call_cancel_requested"' in out
    assert '"kind":"call_terminated"' in out
    assert "SIGKILL" in out
    assert gone([pid], 0)


def test_a_second_ctrl_c_leaves_nothing_behind(backend: str) -> None:
    with _host(backend, 1.0) as (host, pid):
        host.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert runs(pid)
        host.send_signal(signal.SIGINT)
        assert gone([pid], 6)
        _, err = host.communicate(timeout=120)
    assert "KeyboardInterrupt" in err


def test_where_reporting_fails_the_command_is_seen_to_its_end_and_the_error_raised(backend: str) -> None:
    recorder = Recorder()

    async def report(fact: object) -> None:
        await anyio.lowlevel.checkpoint()
        recorder.facts.append(fact)
        if len(recorder.facts) == 1:
            raise OSError("the disk is full")

    unit = command("import time; print('a'); time.sleep(.4); print('b')")
    with pytest.raises(OSError, match="the disk is full"):
        anyio.run(unit.run, Permit(call_id="c1"), report, None, backend=backend)
    assert recorder.kinds[-1] == "call_completed"
    assert recorder.facts[-1].content == "a\nb\n"


@pytest.mark.parametrize("broken", [1, 2])
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # the second time nobody reaps it
def test_ctrl_c_in_a_task_of_the_unit_winds_up_and_goes_on(broken: int) -> None:
    """On trio it may hit any task (asyncio keeps it off): here the telling of output, and then even the stop."""
    recorder, hits = Recorder(), []

    def look(_: object) -> None:
        if len(hits) < broken:
            hits.append(1)
            raise KeyboardInterrupt

    recorder.on_fact = look
    unit = LocalCommand(python(_STAYS), limits=QUICK)
    with pytest.raises(KeyboardInterrupt):
        anyio.run(unit.run, Permit(call_id="c1"), recorder, backend="trio")
    assert gone([int(recorder.output.split()[1])])
    assert recorder.kinds[-1] == "call_terminated"


def test_marks_are_nested() -> None:
    inner = "from normalizer.execution import families; import os; print(os.environ[families.MARK])"
    outer = families.marked({**os.environ, families.MARK: "outer"}, "own")
    assert outer[families.MARK] == "outer:own"
    unit = LocalCommand(python(inner), environment=outer)
    content = str(execute(unit).end.content)  # type: ignore[union-attr]
    assert content.startswith("outer:own:")
    assert len(content.strip().split(":")) == 3


def test_fact_ids_are_unique_over_runs() -> None:
    unit = command("import time; print('x'); time.sleep(.1)")
    found = [fact.fact_id for _ in range(2) for fact in execute(unit).recorder.facts]
    assert len(found) == len(set(found)) >= 4


def test_processes_that_go_or_hide_while_they_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "0"]) as ended:
        process = psutil.Process(ended.pid)
    assert not families.alive(process)
    assert families.described([process]) in {(f"pid {ended.pid}",), (f"sleep (pid {ended.pid})",)}
    relatives = systems.family(ended.pid, "mark")
    assert not relatives.leader_alive()
    assert relatives.members() == []
    assert not relatives.deaf_to("terminate")
    own = psutil.Process()

    def denied(_: psutil.Process) -> str:
        raise psutil.AccessDenied(own.pid)

    monkeypatch.setattr(psutil.Process, "status", denied)
    monkeypatch.setattr(psutil.Process, "name", denied)
    assert families.alive(own)
    assert families.described([own]) == (f"pid {own.pid}",)


def test_whether_a_lone_command_hears_a_signal() -> None:
    code = (
        "import signal, time\nsignal.signal(signal.SIGTERM, lambda *_: None)\nprint('ready'); time.sleep(60)"
    )
    with subprocess.Popen(python(code), stdout=subprocess.PIPE, start_new_session=True) as program:
        assert program.stdout is not None
        program.stdout.readline()
        relatives = systems.family(program.pid, "mark")
        assert [process.pid for process in relatives.members()] == [program.pid]
        assert not relatives.deaf_to("terminate")
        assert not relatives.deaf_to("interrupt")  # Python makes an exception of it
        assert relatives.deaf_to("kill")
        relatives.send("kill", relatives.members())
