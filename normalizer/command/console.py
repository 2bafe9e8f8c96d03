"""Where the command's words go, how a failure is told, and which exit code it has.

The exit codes are a table. A failure is one line: the file, where in it, what is wrong and what to do.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any, Final

from normalizer.command.files import OutputRefused, why
from normalizer.errors import NormalizerError, UnknownFormat, UnreadableInput
from normalizer.util.text import excerpt, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console
    from rich.text import Text

PROGRAM: Final = "transcript-normalizer"
"""The command's name, as it stands in help, hints and failures that no file caused."""

FINE: Final = 0
FAULTY: Final = 1
USAGE: Final = 2
UNREADABLE: Final = 3
INTERNAL: Final = 70

EXIT_CODES: Final[tuple[tuple[type[BaseException], int], ...]] = (
    (UnreadableInput, UNREADABLE),
    (UnknownFormat, UNREADABLE),
    (OutputRefused, USAGE),
    (NormalizerError, FAULTY),
    (RecursionError, UNREADABLE),
    (MemoryError, UNREADABLE),
    (OSError, UNREADABLE),
)
"""Which exit code a failure has: the first row that it is an instance of; anything else is INTERNAL."""

_WORDS: Final[tuple[tuple[type[BaseException], Callable[[Any], str]], ...]] = (
    (NormalizerError, str),
    (RecursionError, lambda _: "nested too deeply to be read; no API accepts it"),
    (MemoryError, lambda _: "too large for the memory of this machine; split it, or use a larger machine"),
    (OSError, lambda error: f"cannot be read ({why(error)}); check the path and its permissions"),
)

_MESSAGE_LIMIT: Final = 600
# The consoles that show a progress bar at this moment.
_bars: list[Console] = []


def console(*, stderr: bool = False) -> Console:
    """A console that obeys no markup and breaks no lines."""
    from rich.console import Console  # noqa: PLC0415 - a command's help is printed without it

    return Console(stderr=stderr, soft_wrap=True, markup=False, highlight=False, emoji=False)


def say(line: str | Text, *, stderr: bool = False) -> None:
    """Print one line; above the progress bar, where there is one."""
    from rich.text import Text  # noqa: PLC0415 - as above

    bar = next((bar for bar in _bars if stderr or sys.stdout.isatty()), None)
    target = bar or console(stderr=stderr)
    try:
        if not stderr:
            _open_stdout()
        target.print(Text(visible(line)) if isinstance(line, str) else line)
    except BrokenPipeError:
        raise  # whoever reads has seen enough, which is no fault
    except OSError as error:
        if not stderr:  # where words about failures cannot be written, nobody can be told so
            raise _unwritable(error) from None


@contextmanager
def progress(total: int) -> Iterator[Callable[[], None]]:
    """A progress bar on standard error, for several files and a terminal only; what it yields counts one file."""
    screen = console(stderr=True)
    if total < 2 or not screen.is_terminal:
        yield lambda: None
        return
    from rich.progress import Progress  # noqa: PLC0415 - as above

    with Progress(console=screen, transient=True, redirect_stdout=False, redirect_stderr=False) as bar:
        task = bar.add_task("sessions", total=total)
        _bars.append(screen)
        try:
            yield lambda: bar.advance(task)
        finally:
            _bars.remove(screen)


def emit(chunk: bytes) -> None:
    """Write bytes to standard output as they are. Raises OutputRefused where it takes none."""
    _open_stdout()
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _unwritable(error) from None


def _open_stdout() -> None:
    if sys.stdout is None:  # a program that was started with it closed
        raise OutputRefused("standard output: cannot be written (it is closed); name an output with -o")


def _unwritable(error: OSError) -> OutputRefused:
    """Standard output takes nothing. What it still holds goes nowhere, else Python would stumble over it at its end."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    return OutputRefused(f"standard output: cannot be written ({why(error)}); send it to another place")


def failure_line(file: str, error: BaseException) -> str:
    """What went wrong, in one line that begins with the file."""
    words = next((tell(error) for kind, tell in _WORDS if isinstance(error, kind)), None)
    if words is None:
        words = f"internal error, {type(error).__name__} at {_spot(error)}: {error}; please report it"
    message = excerpt(words, _MESSAGE_LIMIT)
    line, pointer = getattr(error, "line", None), getattr(error, "pointer", None)
    where = ""
    if line and f"line {line}" not in message:
        where += f"line {line}: "
    if pointer and pointer not in message:
        where += f"{excerpt(pointer, 200)}: "
    name = excerpt(file, 300)
    return where + message if message.startswith(name + ":") else f"{name}: {where}{message}"


def fail(file: str, error: BaseException) -> int:
    """Tell a failure on standard error; its exit code."""
    from rich.text import Text  # noqa: PLC0415 - as above

    say(Text(failure_line(file, error), style="red"), stderr=True)
    return exit_code(error)


def _spot(error: BaseException) -> str:
    """Where in the program it happened, so that a report of one line says something."""
    frames = extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "an unknown place"


def exit_code(error: BaseException) -> int:
    """The exit code of a failure."""
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), INTERNAL)
