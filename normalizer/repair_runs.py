"""The command `repair`, file by file: outputs whole or not at all, one summary line each, the worst exit code."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

import normalizer
from normalizer import outlets, reporting
from normalizer.errors import UnknownFormat, UnreadableInput
from normalizer.files import default_output, private_mode, publish, refuse_to_overwrite, sessions
from normalizer.text import excerpt, json_text
from normalizer.timeline import outcome_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from normalizer.debug_log import DebugLog
    from normalizer.repairing import Repair
    from normalizer.transcript import Call, ServerCall

SHOWN: Final = 20
"""Lines of one kind that a summary shows; the report has them all."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What was asked for on the command line, for every file of a run."""

    output: Path | None = None
    report: Path | None = None
    debug_log: Path | None = None
    force: bool = False
    options: dict[str, Any] = field(default_factory=dict)


# ---------------------------------------------------------------- inputs


def source(name: str) -> Path | bytes:
    """An input by its name: a path, or the bytes of standard input or of a pipe. Raises OSError."""
    if name == "-":
        return sys.stdin.buffer.read()
    path = Path(name)
    with path.open("rb") as opened:  # says at once what the system has against it
        return path if path.is_file() else opened.read()


def expand(names: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Files, and the sessions of directories; the flag says that a file was found, not named.

    Raises UnreadableInput where a directory has nothing that could be a session.
    """
    for name in names:
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


def each(names: list[str], work: Callable[[str], None]) -> int:
    """Do the work for every file and tell what fails; the highest exit code.

    In a directory, files of no known format are none of our business, unless there is nothing else.
    """
    code, passed_over, done = outlets.FINE, [], 0
    try:
        files = list(expand(names))
    except (UnreadableInput, OSError) as error:
        return outlets.fail(names[0], error)
    with outlets.progress(len(files)) as advance:
        for name, was_found in files:
            try:
                work(name)
                done += 1
            except UnknownFormat as error:
                if was_found:
                    passed_over.append(name)
                else:
                    code = max(code, outlets.fail(_shown(name), error))
            except Failed as failed:
                done += 1
                code = max(code, failed.code)
            except BrokenPipeError:
                raise  # whoever reads our output has seen enough: no fault of the file
            except Exception as error:  # noqa: BLE001 - one file's failure costs only itself
                code = max(code, outlets.fail(_shown(name), error))
            advance()
    if passed_over and not done and code == outlets.FINE:
        missing = UnreadableInput(
            f"none of its {len(passed_over)} files is a session; name a file or another directory"
        )
        return outlets.fail(names[0], missing)
    if passed_over:
        outlets.say(f"{len(passed_over)} other files passed over, such as {passed_over[0]}", stderr=True)
    return code


class Failed(Exception):
    """A file that was worked on and told about, with an exit code that is not 0."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def _shown(name: str) -> str:
    return "standard input" if name == "-" else name


# ---------------------------------------------------------------- one repair


def repair_file(name: str, wishes: Wishes, log: DebugLog | None, *, alone: bool) -> None:
    """Repair one input and write what was asked for. Raises what keeps it from being repaired."""
    piped = name == "-"
    path = None if piped else Path(name)
    output = wishes.output or (default_output(path) if path else Path("-"))
    to_stdout = str(output) == "-"
    if not to_stdout:
        if path is not None and not path.exists():
            source(name)  # the input's fault is told before the output's
        refuse_to_overwrite(output, force=wishes.force, sources=[path] if path else [])
    result = normalizer.repair(source(name), **wishes.options)
    if to_stdout:
        for chunk in request_chunks(result.request):
            outlets.emit(chunk)
    else:
        publish(output, request_chunks(result.request), mode=private_mode(path), force=wishes.force)
    if wishes.report:
        chunks = request_chunks(dict(reporting.report(result)))
        publish(wishes.report, chunks, mode=0o600, force=wishes.force)
    if log is not None:
        log.add(_shown(name), result.fragments, result.leftovers)
    told = summary(_shown(name), "standard output" if to_stdout else str(output), result)
    outlets.say(told, stderr=to_stdout)
    for line in details(result, wishes) if alone else ():
        outlets.say(line, stderr=to_stdout)


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


def summary(name: str, output: str, result: Repair) -> Text:
    """One line about one repair."""
    model = result.request.get("model")
    target = f"{result.to} ({model})" if isinstance(model, str) else result.to
    calls = [call for _, call in _calls(result)]
    counts = [
        _count(len(result.findings), "finding"),
        _count(len(result.adjustments), "adjustment"),
        *([f"calls: {reporting.tally(call.outcome.kind for call in calls)}"] if calls else []),
    ]
    line = Text(f"{excerpt(name, 300)}: {result.format}, ")
    line.append("request written to ", style="green")
    return line.append(f"{excerpt(output, 300)} for {excerpt(target)}; {'; '.join(counts)}")


def details(result: Repair, wishes: Wishes) -> Iterator[Text]:
    """What a person wants to know about one repair: findings, outcomes, adjustments, what is left."""
    yield from _section("findings", map(_plain, map(reporting.finding_line, result.findings)))
    yield from _section("outcomes", _outcomes(result))
    yield from _section("adjustments", map(_plain, map(reporting.adjustment_line, result.adjustments)))
    left = [*map(reporting.fragment_line, result.fragments), *reporting.leftover_lines(result.leftovers)]
    yield from _section("not in the request, kept in the report", map(_plain, left))
    warned = [reporting.violation_line(found) for found in result.violations_after]
    yield from _section("rules that a reader of this request may want to know", map(_plain, warned))
    if not result.ready:
        yield Text("the history ends with a finished reply: add the next user message before you send it")
    if wishes.report:
        yield Text(f"report written to {excerpt(str(wishes.report), 300)}")


def _calls(result: Repair) -> list[tuple[str, Call | ServerCall]]:
    return [*result.transcript.calls.items(), *result.transcript.server_calls.items()]


def _outcomes(result: Repair) -> Iterator[Text]:
    for key, call in _calls(result):
        yield Text(f"{excerpt(key)} {excerpt(call.name)}: ").append_text(outcome_text(call.outcome))


def _section(title: str, lines: Iterable[Text]) -> Iterator[Text]:
    all_lines = list(lines)
    if all_lines:
        yield Text(title, style="bold")
    for line in all_lines[:SHOWN]:
        yield Text("  ").append_text(line)
    if len(all_lines) > SHOWN:
        yield Text(f"  … and {len(all_lines) - SHOWN} more; --report has them all", style="dim")


def _plain(line: str) -> Text:
    return Text(line)


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
