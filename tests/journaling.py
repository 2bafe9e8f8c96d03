"""What the journal's tests share: addresses on both databases, facts, and processes forked from a warm parent."""

from __future__ import annotations

import os
import pickle
import signal
import struct
import tempfile
import traceback
from typing import TYPE_CHECKING, Any

import postgres

from normalizer.facts import CallCompleted, UserSaid
from normalizer.parts import Text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from normalizer.facts import Fact

DATABASES = ("sqlite", "postgresql")


def address(kind: str, folder: Path) -> str:
    """Where a journal of this kind can be created."""
    return str(folder / "journal.db") if kind == "sqlite" else postgres.database()


def said(name: str, text: str = "Go on.", **more: Any) -> UserSaid:
    """A message of the user."""
    return UserSaid(fact_id=name, parts=(Text(text),), **more)


def done(name: str, call_id: str, **more: Any) -> CallCompleted:
    """A result."""
    return CallCompleted(fact_id=name, call_id=call_id, content="ok", is_error=False, **more)


def ids(facts: tuple[Fact, ...]) -> list[str]:
    """Their ids, in order."""
    return [fact.fact_id for fact in facts]


class Child:
    """A process forked from this one. `work` gets a function that keeps a value for this process.

    The value is in a file before the function returns, so it outlives a kill, and nobody waits for a reader. An
    exception of `work` is told as well.
    """

    def __init__(self, work: Callable[[Callable[[Any], None]], None]) -> None:
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - read, and closed, in `sent`
        self.pid = os.fork()
        if self.pid == 0:
            self._run(work)

    def _run(self, work: Callable[[Callable[[Any], None]], None]) -> None:
        def send(value: Any) -> None:
            data = pickle.dumps(value)
            self._file.write(struct.pack("I", len(data)) + data)

        code = 1
        try:
            work(send)
            code = 0
        except BaseException:  # noqa: BLE001 - the parent tells it
            send(AssertionError(traceback.format_exc()))
        finally:
            os._exit(code)

    def kill(self) -> None:
        """End it at once, wherever it is."""
        os.kill(self.pid, signal.SIGKILL)

    def told_bytes(self) -> int:
        """How much it has sent by now."""
        return os.fstat(self._file.fileno()).st_size

    def sent(self) -> list[Any]:
        """Everything that it sent, once it is gone. A value that it was killed in is none."""
        os.waitpid(self.pid, 0)
        with self._file as file:
            file.seek(0)
            data = file.read()
        found, at = [], 0
        while at + 4 <= len(data):
            (size,) = struct.unpack_from("I", data, at)
            if at + 4 + size > len(data):
                break
            found.append(pickle.loads(data[at + 4 : at + 4 + size]))  # noqa: S301 - written by our child
            at += 4 + size
        for value in found:
            if isinstance(value, AssertionError):
                raise value
        return found
