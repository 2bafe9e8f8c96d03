"""The example as a reader runs it: started, stopped with Ctrl-C or killed, and started again."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from executing import gone

from normalizer.journal import open_journal

EXAMPLE = Path(__file__).parent.parent / "examples" / "agent.py"


def begin(where: Path) -> subprocess.Popen[str]:
    """Start it, and wait until its command runs and was heard."""
    process = subprocess.Popen([sys.executable, "-u", EXAMPLE, where], stdout=subprocess.PIPE, text=True)
    with open_journal(where) as journal:
        for fact in journal.follow("example", timeout=120):
            if fact.kind == "output_observed":
                return process
    raise AssertionError("its command printed nothing")


def again(where: Path) -> str:
    return subprocess.run(
        [sys.executable, EXAMPLE, where], capture_output=True, text=True, check=True, timeout=120
    ).stdout


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (signal.SIGINT, "cancelled_while_running"),
        (signal.SIGKILL, "unknown"),
    ],
)
def test_it_says_what_became_of_its_command(tmp_path: Path, sent: signal.Signals, expected: str) -> None:
    where = tmp_path / "agent.db"
    process = begin(where)
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(sent)
    out, _ = process.communicate(timeout=120)
    assert ("start me again" in out) == (sent is signal.SIGINT)
    said = again(where)
    assert f"[last time: shell 'echo step one; sleep 20; echo step two': {expected}" in said
    assert "[its output so far: step one]" in said
    assert f"I was told: [tool outcome: {expected}]" in said
    assert "[running" not in said
    if sent is signal.SIGINT:
        assert gone([child.pid for child in children])
    for child in children:
        if child.is_running():  # a killed agent stops nobody
            child.kill()
