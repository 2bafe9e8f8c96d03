"""Journals on the command line: one conversation as a reading, and the words of `transcript-normalizer recover`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from normalizer.command import console
from normalizer.errors import JournalError, NormalizerError, UnreadableInput
from normalizer.findings import Reading
from normalizer.journal import open_journal
from normalizer.util.text import json_text, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from normalizer.journal.journal import Journal
    from normalizer.recovery import Found, Recovery

_SQLITE: Final = b"SQLite format 3\0"
# Why a file is no input for these commands, in the words of the journal's errors.
_NO_JOURNAL: Final = frozenset(
    {
        "cannot_open",
        "damaged",
        "foreign_database",
        "newer_schema",
        "not_a_database",
        "not_a_journal",
        "older_schema",
    }
)

ACTIONS: Final[dict[str | None, str]] = {
    "query": "ask the remote what became of the operation",
    "ask": "ask a person what became of it",
    "reuse_key": "it may be repeated with the same idempotency key",
    "compensate": "undo what it may have done",
    "none": "look at what it changed before anything is repeated",
    "verify": "look at what it changed before anything is repeated",
    "wait": "wait for its end, or stop it",
    None: "nothing",
}
"""What each action of a row means."""


def is_address(name: str) -> bool:
    """Whether it names a database server, not a file."""
    return name.startswith(("postgresql:", "postgresql+"))


def existing(name: str, *, read_only: bool, at_rest: bool = False) -> Journal:
    """Open a journal that is there. Raises UnreadableInput where it is not, or is no journal."""
    path = Path(name)
    if not is_address(name) and not path.is_file():
        what = (
            "it is a directory; name a journal's file"
            if path.is_dir()
            else "there is no such file; check the path"
        )
        raise UnreadableInput(f"cannot read {name!r}: {what}", reason="not_found")
    if not is_address(name) and path.stat().st_size == 0:  # SQLite would make a database of it
        raise UnreadableInput("the file is empty, and no journal; check the path", reason="not_a_journal")
    try:
        return open_journal(f"sqlite:///{name}?immutable=1" if at_rest else name, read_only=read_only)
    except JournalError as error:
        if error.reason not in _NO_JOURNAL:
            raise
        raise UnreadableInput(str(error), reason=error.reason) from error


def is_journal(name: str) -> bool:
    """Whether an input is a journal: an address, or a file of SQLite's."""
    if is_address(name):
        return True
    with suppress(OSError), Path(name).open("rb") as opened:
        return name != "-" and opened.read(len(_SQLITE)) == _SQLITE
    return False


def reading(name: str, conversation: str | None) -> Reading:
    """A conversation of a journal, as if it had been read from a file; its only one where none is named.

    SQLite makes files beside a journal for everyone who reads it. A journal that nobody has open is read as it stands,
    which makes none, and read again in the ordinary way if somebody came to it meanwhile.
    """
    before = _at_rest(name)
    if before is None:
        return _reading(name, conversation)
    try:
        found = _reading(name, conversation, at_rest=True)
    except NormalizerError:
        if _at_rest(name) == before:
            raise
    else:
        if _at_rest(name) == before:
            return found
    return _reading(name, conversation)


def _at_rest(name: str) -> tuple[int, int, int] | None:
    """What changes with every write to a SQLite file; None where somebody may have it open, or did not end well."""
    if is_address(name) or "?" in name:
        return None
    path = Path(name).resolve()
    if any(path.with_name(path.name + end).exists() for end in ("-wal", "-shm", "-journal")):
        return None
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _reading(name: str, conversation: str | None, *, at_rest: bool = False) -> Reading:
    with existing(name, read_only=True, at_rest=at_rest) as journal:
        if conversation is None:
            held = journal.conversations()
            if len(held) != 1:
                raise UnreadableInput(
                    f"this journal holds {len(held)} conversations; name one with --conversation:"
                    f" {', '.join(map(repr, held[:20])) or 'there is none'}",
                    reason="no_messages",
                )
            conversation = held[0]
        facts = journal.facts(conversation)
        if not facts:
            raise no_conversation(journal, conversation)
        return Reading(format="facts", facts=facts, fragments=journal.fragments(conversation))


def no_conversation(journal: Journal, conversation: str) -> UnreadableInput:
    """That a journal has no conversation of this name, with the names of those there are."""
    known = ", ".join(map(repr, journal.conversations()[:20])) or "none"
    return UnreadableInput(
        f"there is no conversation {conversation!r} in this journal; conversations: {known}",
        reason="no_messages",
    )


def tell(recovery: Recovery) -> None:
    """Print what was found, for people."""
    for run in recovery.lost:
        console.say(f"{run.conversation}: run {run.run_id} of turn {run.turn_id} is lost")
    for run in recovery.alive:
        where = f"process {run.process.pid} on {run.process.host}"
        console.say(f"{run.conversation}: run {run.run_id} may still live ({where})")
    for one in recovery.found:
        for line in _lines(one):
            console.say(visible(line))
    for conversation, steering in recovery.waiting.items():
        console.say(f"{conversation}: {len(steering)} steering not applied; apply or withdraw it")
    if not (recovery.lost or recovery.alive or recovery.found or recovery.waiting):
        console.say("nothing to recover")


def tell_json(recovery: Recovery) -> None:
    """Print what was found, as one JSON text."""
    said = {
        "rows": [one.as_dict() for one in recovery.found],
        "lost": [run.run_id for run in recovery.lost],
        "alive": [run.run_id for run in recovery.alive],
        "steering": {name: list(ids) for name, ids in recovery.waiting.items()},
    }
    console.emit(json_text(said).encode() + b"\n")


def _lines(one: Found) -> Sequence[str]:
    row = one.row
    cancel = ", cancel requested" if row.cancel_requested else ""
    remote = f", remote cancel {row.remote_cancel_state}" if row.remote_cancel_state else ""
    operation = f" operation {row.operation_id}" if row.operation_id else ""
    effects = row.side_effect_state.replace("_", " ")
    state = f"{row.execution_state}{cancel}{remote}; effects {effects}"
    lines = [
        f"{one.conversation}: call {row.tool_call_id} ({one.tool}){operation}: {state}",
        f"  last seen: {row.last_observation}",
        f"  to do: {ACTIONS.get(row.recovery_action, row.recovery_action)}",
    ]
    return [*lines, f"  its handler failed: {one.trouble}"] if one.trouble else lines
