"""A transcript for people: who said what, each call with its outcome in colour, findings where they belong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from normalizer.reporting.lines import finding_line, fragment_line, leftover_lines
from normalizer.util.text import excerpt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from normalizer.findings import Finding, Reading
    from normalizer.outcomes import Outcome
    from normalizer.transcript import Entry, Transcript

COLOURS: Final[dict[str, str]] = {
    "completed": "green",
    "denied": "magenta",
    "never_run": "yellow",
    "cancelled_while_running": "bright_yellow",
    "unknown": "bold red",
    "pending": "cyan",
}
"""A colour an outcome. A completed call that ended in an error is red."""

SPEAKERS: Final[dict[str, tuple[str, str]]] = {
    "instructions": ("instructions", "bold blue"),
    "tools": ("tools", "blue"),
    "user": ("user", "bold cyan"),
    "reply": ("model", "bold white"),
    "steering": ("user, while it worked", "cyan"),
    "summary": ("summary", "blue"),
    "news": ("late news", "yellow"),
}

_WORDS: Final = 100
_INDENT: Final = "  "


def timeline(reading: Reading, transcript: Transcript, findings: Iterable[Finding]) -> Iterator[Text]:
    """The lines of a timeline, in the order of the conversation; what has no place in it comes last."""
    waiting = dict(enumerate(findings))
    about: dict[str, list[int]] = {}
    for number, finding in waiting.items():
        for fact in finding.facts:
            about.setdefault(fact, []).append(number)
    turn: str | None = None
    for entry in transcript.entries:
        if entry.fact.turn_id not in (turn, None):
            turn = entry.fact.turn_id
            yield _turn_line(transcript, turn)
        yield from _entry_lines(entry, transcript)
        for fact in (entry.fact.fact_id, *_facts_of_calls(entry, transcript)):
            yield from (_finding(waiting.pop(number)) for number in about.get(fact, ()) if number in waiting)
    if waiting or reading.fragments or reading.leftovers:
        yield Text("beside the conversation", style="bold")
    yield from map(_finding, waiting.values())
    for fragment in reading.fragments:
        yield Text(_INDENT + fragment_line(fragment), style="dim")
    for line in leftover_lines(reading.leftovers):
        yield Text(_INDENT + line, style="dim")


def outcome_text(outcome: Outcome) -> Text:
    """An outcome in its colour, with what is known about it."""
    failed = outcome.kind == "completed" and outcome.is_error
    shown = Text(
        "completed, an error" if failed else outcome.kind, style="red" if failed else COLOURS[outcome.kind]
    )
    known = [f"by {outcome.by}"] if outcome.by else []
    if outcome.reason:
        known.append(outcome.reason)
    if outcome.kind != "completed":
        known.append(outcome.basis.replace("_", " "))
    if known:
        shown.append(f" ({excerpt(', '.join(known), 120)})", style="dim")
    return shown


def _turn_line(transcript: Transcript, turn_id: str | None) -> Text:
    turn = transcript.turns.get(turn_id or "")
    status = f", {turn.status}" if turn else ""
    if turn and turn.lost:
        status += ", its process is gone"
    return Text(f"── {excerpt(turn_id or 'turn')}{status}", style="dim")


def _entry_lines(entry: Entry, transcript: Transcript) -> Iterator[Text]:
    who, style = SPEAKERS[entry.kind]
    by = getattr(entry.fact, "by", None)
    head = Text(f"{who} ({by})" if by == "program" else who, style=style)
    model = getattr(entry.fact, "model", None)
    if model:
        head.append(f" {excerpt(model)}", style="dim")
    if entry.kind == "tools":
        head.append(" " + excerpt(", ".join(tool.name for tool in entry.fact.tools), _WORDS))
    if entry.kind in ("instructions", "tools") and not (entry.parts or getattr(entry.fact, "tools", ())):
        head.append(" (none)", style="dim")
    yield head
    keys = iter(entry.calls)
    for part in entry.parts:
        yield from _part_lines(part, keys, transcript)
    if entry.fact.kind == "reply_cut":
        yield Text(_INDENT + "the reply was cut off here", style="yellow")


def _part_lines(part: Any, keys: Iterator[str | None], transcript: Transcript) -> Iterator[Text]:
    match part.kind:
        case "text":
            yield Text(_INDENT + excerpt(part.text, _WORDS))
        case "reasoning":
            yield Text(
                _INDENT + "thinks: " + excerpt(part.text or "(not readable)", _WORDS), style="dim italic"
            )
        case "media":
            yield Text(
                _INDENT + f"[{part.media} {excerpt(part.name or part.media_type or '')}]".replace(" ]", "]")
            )
        case "tool_call" | "server_tool_call":
            yield from _call_lines(part, next(keys, None), transcript)
        case "server_tool_result":
            next(keys, None)
            yield Text(_INDENT + f"result of {excerpt(part.call_id or 'a server call')}", style="dim")
        case _:
            yield Text(_INDENT + f"[{excerpt(getattr(part, 'type', part.kind))}]", style="dim")


def _call_lines(part: Any, key: str | None, transcript: Transcript) -> Iterator[Text]:
    line = Text(_INDENT)
    line.append(excerpt(part.name), style="bold")
    line.append(f" {excerpt(part.arguments.text, _WORDS)} ")
    line.append(f"[{excerpt(key or part.id or 'no id')}] ", style="dim")
    call = transcript.calls.get(key or "") or transcript.server_calls.get(key or "")
    if call is None:
        yield line.append("the same call once more", style="dim")
        return
    yield line.append_text(outcome_text(call.outcome))
    result = _result_words(call)
    if result:
        yield Text(_INDENT * 2 + "→ " + excerpt(result, _WORDS), style="dim")


def _result_words(call: Any) -> str:
    """What came of a call, in words; nothing where nothing is recorded."""
    fact = getattr(call, "result", None)
    content = getattr(fact, "content", None)
    if content is None:
        return getattr(call, "output", "")
    if isinstance(content, str):
        return content
    return " ".join(getattr(part, "text", f"[{part.kind}]") for part in content)


def _facts_of_calls(entry: Entry, transcript: Transcript) -> Iterator[str]:
    for key in entry.calls:
        call = transcript.calls.get(key or "")
        if call is not None:
            yield from (fact.fact_id for fact in call.facts)


def _finding(finding: Finding) -> Text:
    return Text(_INDENT + "! " + finding_line(finding), style="yellow")
