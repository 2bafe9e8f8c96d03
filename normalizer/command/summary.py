"""What the command says of one repair: a summary line, and for a single file what a person wants to know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from normalizer.command.timeline import outcome_text
from normalizer.reporting import lines
from normalizer.util.text import excerpt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from normalizer.repairing import Repair
    from normalizer.transcript import Call, ServerCall

SHOWN: Final = 20
"""Lines of one kind that a summary shows; the report has them all."""


def summary(name: str, output: str, result: Repair) -> Text:
    """One line about one repair."""
    model = result.request.get("model")
    target = f"{result.to} ({model})" if isinstance(model, str) else result.to
    calls = [call for _, call in _calls(result)]
    counts = [
        _count(len(result.findings), "finding"),
        _count(len(result.adjustments), "adjustment"),
        *([f"calls: {lines.tally(call.outcome.kind for call in calls)}"] if calls else []),
    ]
    line = Text(f"{excerpt(name, 300)}: {result.format}, ")
    line.append("request written to ", style="green")
    return line.append(f"{excerpt(output, 300)} for {excerpt(target)}; {'; '.join(counts)}")


def details(result: Repair, report: Path | None) -> Iterator[Text]:
    """What a person wants to know about one repair: findings, outcomes, adjustments, what is left."""
    yield from _section("findings", map(_plain, map(lines.finding_line, result.findings)))
    yield from _section("outcomes", _outcomes(result))
    yield from _section("adjustments", map(_plain, map(lines.adjustment_line, result.adjustments)))
    left = [*map(lines.fragment_line, result.fragments), *lines.leftover_lines(result.leftovers)]
    yield from _section("not in the request, kept in the report", map(_plain, left))
    warned = [lines.violation_line(found) for found in result.violations_after]
    yield from _section("rules that a reader of this request may want to know", map(_plain, warned))
    if not result.ready:
        yield Text("the history ends with a finished reply: add the next user message before you send it")
    if report:
        yield Text(f"report written to {excerpt(str(report), 300)}")


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
