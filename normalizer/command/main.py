"""The command line: `transcript-normalizer check | repair | convert | show | rules | explain | facts | recover`.

Exit codes: 0 fine or repaired, 1 faults found or not repairable, 2 wrong usage or an output that cannot be
written, 3 unreadable input, 70 a bug of this program. Of several files the highest counts.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import normalizer
from normalizer import registry
from normalizer.command import console, fact_files, journals, rulebooks
from normalizer.command.debug_log import DebugLog
from normalizer.command.files import OutputRefused, refuse_to_overwrite
from normalizer.command.repair import Failed, Wishes, each, repair_all, source
from normalizer.facts import dump
from normalizer.repairing import received_types
from normalizer.reporting import lines
from normalizer.rules import rejects
from normalizer.util.text import json_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from normalizer.findings import Finding, Reading
    from normalizer.rules import Violation
    from normalizer.transcript import Transcript

app = typer.Typer(
    name=console.PROGRAM,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Files = Annotated[
    list[str], typer.Argument(metavar="FILE", help="Files, directories, or - for standard input.")
]
File = Annotated[str, typer.Argument(metavar="FILE", help="A file, or - for standard input.")]
As = Annotated[
    str | None,
    typer.Option(
        "--as", metavar="API", help="What the input is: an API or a session format. Found out if left out."
    ),
]
Model = Annotated[
    str | None, typer.Option("--model", metavar="MODEL", help="The model that the request is for.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of lines for people.")]
Out = Annotated[
    str | None,
    typer.Option("-o", "--output", metavar="OUT", help="Where the request goes; - is standard output."),
]
To = Annotated[
    str | None,
    typer.Option("--to", metavar="API", help="The API that the request is for; by default the input's own."),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        help="The compatible server that the API is spoken by: azure, deepseek, vllm, …",
    ),
]
Facts = Annotated[
    Path | None,
    typer.Option("--facts", metavar="FACTS.jsonl", help="What you know beside the file, as facts."),
]
Report = Annotated[
    Path | None,
    typer.Option("--report", metavar="OUT.json", help="Everything found and changed, uncut (mode 0600)."),
]
Log = Annotated[
    Path | None,
    typer.Option("--debug-log", metavar="OUT.jsonl", help="What became no fact, redacted (mode 0600)."),
]
InJournal = Annotated[
    str | None,
    typer.Option("--conversation", metavar="ID", help="FILE is a journal, and this its conversation."),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite outputs that exist.")]


def _version(wanted: bool) -> None:
    if wanted:
        console.say(normalizer.__version__)
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Turn a broken or unfinished agent conversation into exactly what a model's API accepts."""


@app.command()
def check(
    files: Files,
    as_: As = None,
    model: Model = None,
    profile: Profile = None,
    conversation: InJournal = None,
    as_json: AsJson = False,
) -> None:
    """Say what is wrong with a session or a payload, and which rules a payload breaks as it is.

    A payload is judged as a history: what its caller adds (max_tokens, the next message) is not asked for.
    """
    _known(as_, "--as", registry.names())
    _known_profile(profile, as_)

    def work(name: str) -> None:
        reading = _reading(name, as_, conversation)
        transcript = normalizer.fold(reading.facts)
        findings = _findings(reading, transcript)
        violations = _violations(reading, transcript, as_, model, profile)
        if as_json:
            console.emit(json_text(_check_dict(name, reading, findings, violations)).encode() + b"\n")
        else:
            _print_check(name, reading, findings, violations)
        if findings or rejects(violations):
            raise Failed(console.FAULTY)

    raise typer.Exit(each(files, work))


@app.command()
def repair(
    files: Files,
    output: Out = None,
    to: To = None,
    model: Model = None,
    profile: Profile = None,
    as_: As = None,
    facts: Facts = None,
    report: Report = None,
    debug_log: Log = None,
    force: Force = False,
) -> None:
    """Write the request that the API accepts, true to what is on record, beside the input as NAME.repaired.json.

    A directory's sessions are all repaired.
    """
    options: dict[str, Any] = {"format": as_ or "auto", "to": to, "model": model, "profile": profile}
    raise typer.Exit(_repair(files, output, options, facts, report, debug_log, force=force))


@app.command()
def convert(
    files: Files,
    to: Annotated[str, typer.Option("--to", metavar="API", help="The API that the request is for.")],
    output: Out = None,
    model: Model = None,
    profile: Profile = None,
    as_: As = None,
    facts: Facts = None,
    report: Report = None,
    debug_log: Log = None,
    force: Force = False,
) -> None:
    """Write the request by which another API goes on with the conversation: `repair` with the API named.

    What cannot be taken along is reported; see docs/hand_over.md.
    """
    options: dict[str, Any] = {"format": as_ or "auto", "to": to, "model": model, "profile": profile}
    raise typer.Exit(_repair(files, output, options, facts, report, debug_log, force=force))


def _repair(
    files: list[str],
    output: str | None,
    options: dict[str, Any],
    facts: Path | None,
    report: Path | None,
    debug_log: Path | None,
    *,
    force: bool,
) -> int:
    """Repair every file as asked; the exit code."""
    _known(None if options["format"] == "auto" else options["format"], "--as", registry.names())
    _known(options["to"], "--to", registry.targets())
    _known_profile(options["profile"], options["to"])
    if output == "":
        raise typer.BadParameter("the name is empty; name a file", param_hint="-o")
    alone = len(files) == 1 and not Path(files[0]).is_dir()
    for option, value in (("-o", output), ("--report", report), ("--facts", facts)):
        if value is not None and not alone:
            raise typer.BadParameter("goes with one file only; take the files one by one", param_hint=option)
    try:
        for extra in (report, debug_log):
            if extra:
                refuse_to_overwrite(
                    extra, force=force, sources=[*map(Path, files), *([facts] if facts else [])]
                )
        if facts:
            options = {**options, "facts": fact_files.load(facts.read_bytes())}
    except (normalizer.NormalizerError, OSError) as error:
        raise typer.Exit(console.fail(str(facts or report or debug_log), error)) from None
    wishes = Wishes(
        Path(output) if output else None,
        report,
        debug_log,
        force,
        options,
        inputs=frozenset([facts.resolve()] if facts else []),
    )
    try:
        return repair_all(files, wishes, DebugLog() if debug_log else None, alone=alone)
    except OutputRefused as error:
        return console.fail(console.PROGRAM, error)


@app.command()
def show(file: File, as_: As = None, conversation: InJournal = None, as_json: AsJson = False) -> None:
    """Print a conversation: who said what, each call with its outcome, findings in place."""
    _known(as_, "--as", registry.names())

    def work(name: str) -> None:
        from normalizer.command.timeline import timeline  # noqa: PLC0415 - needs rich, which help does without

        reading = _reading(name, as_, conversation)
        transcript = normalizer.fold(reading.facts)
        if as_json:
            console.emit(json_text(lines.transcript_dict(transcript)).encode() + b"\n")
            return
        for line in timeline(reading, transcript, _findings(reading, transcript)):
            console.say(line)

    raise typer.Exit(each([file], work))


@app.command("facts")
def print_facts(file: File, as_: As = None, conversation: InJournal = None) -> None:
    """Print the facts of a session or a payload as JSON Lines."""
    _known(as_, "--as", registry.names())

    def work(name: str) -> None:
        for fact in _reading(name, as_, conversation).facts:
            console.emit(dump(fact) + b"\n")

    raise typer.Exit(each([file], work))


@app.command()
def recover(
    journal: Annotated[
        str, typer.Argument(metavar="JOURNAL", help="A journal's file, or its postgresql:// address.")
    ],
    conversation: Annotated[
        str | None, typer.Option("--conversation", metavar="ID", help="Only this conversation.")
    ] = None,
    lost: Annotated[
        list[str] | None,
        typer.Option("--lost", metavar="RUN", help="Declare a run lost that cannot be looked up from here."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """After a crash: record which runs are gone, and list the calls whose end or effects are not known.

    Nothing is repeated.
    """

    def work(name: str) -> None:
        with journals.existing(name, read_only=False) as opened:
            if conversation is not None and not opened.facts(conversation, limit=1):
                raise journals.no_conversation(opened, conversation)
            found = normalizer.recover(opened, conversation=conversation, lost=tuple(lost or ()))
        (journals.tell_json if as_json else journals.tell)(found)

    raise typer.Exit(each([journal], work, folders=False))


@app.command()
def rules(
    api: Annotated[str | None, typer.Argument(metavar="[API]", help="One API; all if left out.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the rules that an API demands of a history."""
    _known(api, "API", registry.targets())
    rulebooks.tell_all(registry.targets() if api is None else (api,), as_json=as_json)


@app.command()
def explain(
    rule: Annotated[
        str,
        typer.Argument(
            metavar="RULE", help="A rule's id or name, as `transcript-normalizer rules` lists it."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Explain one rule: what it demands, why, its source and the API's error."""
    hint = rulebooks.tell(rule, as_json=as_json)
    if hint is not None:
        raise typer.BadParameter(f"there is no rule {rule!r}; {hint}", param_hint="RULE")


# ---------------------------------------------------------------- what the commands share


def _known(word: str | None, option: str, known: Sequence[str]) -> None:
    """A wrong name is wrong usage, told before anything is read."""
    if word is not None and word not in known:
        raise typer.BadParameter(
            f"{word!r} is not known; choose one of {', '.join(known)}", param_hint=option
        )


def _known_profile(profile: str | None, target: str | None) -> None:
    """As `_known`: the servers that speak a target, or any target where none is named."""
    if profile is not None:
        named = [target] if target in registry.targets() else registry.targets()
        profiles = {name for one in named for name in registry.provider(one).profiles}
        if not profiles:
            raise typer.BadParameter(f"{target!r} has no profiles", param_hint="--profile")
        _known(profile, "--profile", sorted(profiles))


def _reading(name: str, as_: str | None, conversation: str | None) -> Reading:
    """An input, or one conversation of a journal."""
    if conversation is not None or journals.is_journal(name):
        return journals.reading(name, conversation)
    return normalizer.read(source(name), format=as_ or "auto")


def _findings(reading: Reading, transcript: Transcript) -> list[Finding]:
    """Everything wrong with an input: what its reader saw, and what its facts contradict."""
    return list(dict.fromkeys([*reading.findings, *transcript.findings]))


def _violations(
    reading: Reading, transcript: Transcript, as_: str | None, model: str | None, profile: str | None
) -> tuple[Violation, ...]:
    """The rules that a payload breaks as it is; none where the input is no request."""
    target = as_ if as_ in registry.targets() else reading.home
    if reading.request is None or target is None:
        return ()
    request = {**reading.request, "model": model} if model else reading.request
    context = {"history": True, "received_types": received_types(transcript, target)}
    return normalizer.check(request, target, profile=profile, context=context)


def _check_dict(
    name: str, reading: Reading, findings: Sequence[Finding], violations: Sequence[Violation]
) -> dict[str, Any]:
    return {
        "file": name,
        "format": reading.format,
        "findings": [lines.finding_dict(found) for found in findings],
        "violations": [lines.violation_dict(found) for found in violations],
    }


def _print_check(
    name: str, reading: Reading, findings: Sequence[Finding], violations: Sequence[Violation]
) -> None:
    counts = [f"findings: {lines.tally(found.kind for found in findings)}"] if findings else []
    if violations:
        counts.append(f"rules broken: {lines.tally(found.severity for found in violations)}")
    console.say(f"{name}: {reading.format}; {'; '.join(counts) or 'nothing wrong'}")
    for line in (*map(lines.finding_line, findings), *map(lines.violation_line, violations)):
        console.say(f"{name}: {line}")
    if findings or violations:
        console.say(f"`transcript-normalizer repair {name}` writes a request that is put right")


def main() -> None:
    """The console script: as `app`, and whatever happens there is no traceback."""
    try:
        app(prog_name=console.PROGRAM)  # the same words by `python -m normalizer`
    except Exception as error:  # noqa: BLE001 - the last line of defence
        sys.exit(console.fail(console.PROGRAM, error))
