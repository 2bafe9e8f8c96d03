"""The command `repair`, file by file: outputs whole or not at all, one summary line each, the worst exit code."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import normalizer
from normalizer.command import console, journals
from normalizer.command.files import (
    OutputRefused,
    Outputs,
    default_output,
    default_outputs,
    private_mode,
    refuse_shared,
    refuse_to_overwrite,
    refuse_unwritable,
    sessions,
)
from normalizer.errors import UnknownFormat, UnreadableInput
from normalizer.util.text import json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from normalizer.command.debug_log import DebugLog
    from normalizer.repairing import Repair


@dataclass(frozen=True, slots=True)
class Wishes:
    """What was asked for on the command line, for every file of a run."""

    output: Path | None = None
    report: Path | None = None
    debug_log: Path | None = None
    force: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    outputs: dict[Path, Path] = field(default_factory=dict)
    """Where the request of each source goes, if not to `output`."""
    inputs: frozenset[Path] = frozenset()
    """Everything that the run reads, links resolved: nothing of it is an output."""


# ---------------------------------------------------------------- inputs


def source(name: str) -> Path | bytes:
    """An input by its name: a path, or the bytes of standard input or of a pipe. Raises OSError, UnreadableInput."""
    if name == "-":
        if sys.stdin is None:  # a program that was started with it closed
            raise UnreadableInput("it is closed; name a file, or pipe one in", reason="not_found")
        return sys.stdin.buffer.read()
    if journals.is_journal(name):
        raise UnknownFormat(
            f"this is a database; if it is a journal, `transcript-normalizer facts {name} > FACTS.jsonl` writes its"
            " facts, which can be read in its place"
        )
    path = Path(name)
    with path.open("rb") as opened:  # says at once what the system has against it
        return path if path.is_file() else opened.read()


def expand(names: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Files, and the sessions of directories; the flag says that a file was found, not named.

    Raises UnreadableInput where a name is empty, and where a directory has nothing that could be a session.
    """
    for name in names:
        if not name:  # which the system takes for the directory at hand
            raise UnreadableInput("the name of an input is empty; name a file", reason="not_found")
        if name != "-" and Path(name).is_dir():
            found = [str(path) for path in sessions(Path(name))]
            if not found:
                raise UnreadableInput(
                    f"{name}: no sessions in this directory (looked for *.jsonl and *.json); name a file",
                    reason="no_sessions",
                )
            yield from ((path, True) for path in found)
        else:
            yield name, False


def each(names: list[str], work: Callable[[str], None], *, folders: bool = True) -> int:
    """Do the work for every file and tell what fails; the highest exit code.

    In a directory, files of no known format are none of our business, unless there is nothing else. Without `folders`
    a directory is like any other name.
    """
    code, passed_over, done = console.FINE, [], 0
    try:
        files = list(expand(names)) if folders else [(name, False) for name in names]
    except (UnreadableInput, OSError) as error:
        return console.fail(names[0] or console.PROGRAM, error)
    with console.progress(len(files)) as advance:
        for name, was_found in files:
            try:
                work(name)
                done += 1
            except UnknownFormat as error:
                if was_found:
                    passed_over.append(name)
                else:
                    code = max(code, console.fail(_shown(name), error))
            except Failed as failed:
                done += 1
                code = max(code, failed.code)
            except BrokenPipeError:
                raise  # whoever reads our output has seen enough: no fault of the file
            except Exception as error:  # noqa: BLE001 - one file's failure costs only itself
                code = max(code, console.fail(_shown(name), error))
            advance()
    if passed_over and not done and code == console.FINE:
        missing = UnreadableInput(
            f"none of its {len(passed_over)} files is a session; name a file or another directory"
        )
        return console.fail(names[0], missing)
    if passed_over:
        console.say(f"{len(passed_over)} other files passed over, such as {passed_over[0]}", stderr=True)
    return code


class Failed(Exception):
    """A file that was worked on and told about, with an exit code that is not 0."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def _shown(name: str) -> str:
    return "standard input" if name == "-" else name


# ---------------------------------------------------------------- one repair


def repair_all(names: list[str], wishes: Wishes, log: DebugLog | None, *, alone: bool) -> int:
    """Repair every file; the highest exit code. Raises OutputRefused, before anything is written."""
    with suppress(UnreadableInput, OSError):  # what cannot be expanded is told by `each`
        found = [Path(name) for name, _ in expand(names) if name != "-"]
        inputs = wishes.inputs | {path.resolve() for path in found}
        wishes = replace(wishes, outputs=default_outputs(found), inputs=inputs)
    requests = [wishes.output] if wishes.output else [*wishes.outputs.values()]
    sides = [path for path in (wishes.report, wishes.debug_log) if path]
    refuse_shared(sides)
    for request in requests:
        for side in sides:
            if str(request) != "-":
                refuse_shared([request, side])
    if len(set(requests)) < len(requests):
        raise OutputRefused("two of these files would have one output; repair them one by one, with -o")
    for side in sides:
        refuse_unwritable(side)
    code = each(names, lambda name: repair_file(name, wishes, log, alone=alone))
    if wishes.debug_log and log and log.files and not alone:
        try:
            log.save(wishes.debug_log, force=wishes.force)
        except OutputRefused as error:
            code = max(code, console.fail(str(wishes.debug_log), error))
    return code


def repair_file(name: str, wishes: Wishes, log: DebugLog | None, *, alone: bool) -> None:
    """Repair one input and write what was asked for, all of it or nothing. Raises what keeps it from being repaired."""
    piped = name == "-"
    path = None if piped else Path(name)
    output = wishes.output or (wishes.outputs.get(path, default_output(path)) if path else Path("-"))
    to_stdout = str(output) == "-"
    if not to_stdout:
        if path is not None and not path.exists():
            source(name)  # the input's fault is told before the output's
        refuse_to_overwrite(output, force=wishes.force, sources=[path] if path else [])
        if output.resolve() in wishes.inputs:
            raise OutputRefused(f"{output}: this is an input too; name another output with -o")
    result = normalizer.repair(source(name), **wishes.options)
    if log is not None:
        log.add(_shown(name), result.fragments, result.leftovers)
    with Outputs(force=wishes.force) as outputs:
        if not to_stdout:
            outputs.add(output, request_chunks(result.request), mode=private_mode(path))
        if wishes.report:
            outputs.add(wishes.report, request_chunks(dict(result.report())), mode=0o600)
        if alone and log is not None and wishes.debug_log:
            outputs.add(wishes.debug_log, [log.data()], mode=0o600)
        for chunk in request_chunks(result.request) if to_stdout else ():
            console.emit(chunk)
        outputs.put()
    shown = "standard output" if to_stdout else str(output)
    _say_what_was_done(name, shown, result, wishes.report, alone=alone, stderr=to_stdout)


def _say_what_was_done(
    name: str, output: str, result: Repair, report: Path | None, *, alone: bool, stderr: bool
) -> None:
    from normalizer.command.summary import details, summary  # noqa: PLC0415 - needs rich, which help does without

    console.say(summary(_shown(name), output, result), stderr=stderr)
    for line in details(result, report) if alone else ():
        console.say(line, stderr=stderr)


def request_chunks(value: dict[str, Any]) -> Iterator[bytes]:
    """A JSON object, one line an item of its lists, so that people and `diff` find their way. Nothing is held whole."""
    before = b"{"
    for key, item in value.items():
        yield before + b"\n" + json_text(key).encode() + b": "
        before = b","
        if isinstance(item, list) and item:
            for number, element in enumerate(item):
                yield (b",\n" if number else b"[\n") + json_text(element).encode()
            yield b"\n]"
        else:
            yield json_text(item).encode()
    yield b"\n}\n" if value else b"{}\n"
