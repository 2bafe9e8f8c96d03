"""Files in and out: sources, their names, and outputs that are there whole or not at all.

An output is written beside its final name and then renamed. Nothing is overwritten unless asked for, and an
input never.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from normalizer.errors import NormalizerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SESSION_ENDINGS: Final = (".jsonl", ".json")
OWN_ENDINGS: Final = (".repaired.json", ".report.json", ".debug.jsonl")
"""What this program writes beside its inputs; a directory's run passes them over."""


class OutputRefused(NormalizerError):
    """An output was not written: it exists, or cannot be written there. Nothing was changed."""

    reason = "output_refused"


def default_output(source: Path) -> Path:
    """Where a repaired request goes: NAME.repaired.json beside NAME.jsonl."""
    return source.with_name(source.stem + OWN_ENDINGS[0])


def sessions(directory: Path) -> Iterator[Path]:
    """The files of a directory, at any depth, that may be sessions, in the order of their names."""
    for folder, folders, names in os.walk(directory):
        folders.sort()
        for name in sorted(names):
            if name.endswith(SESSION_ENDINGS) and not name.endswith(OWN_ENDINGS):
                yield Path(folder, name)


def private_mode(source: Path | None) -> int:
    """The mode of an output: as private as its source, a pipe counting as private."""
    if source is None:
        return 0o600
    return stat.S_IMODE(source.stat().st_mode) & 0o666


def refuse_to_overwrite(path: Path, *, force: bool, sources: Iterable[Path] = ()) -> None:
    """Say no early, before any work is done. Raises OutputRefused."""
    for source in sources:
        if path.exists() and source.exists() and path.samefile(source):
            raise OutputRefused(f"{path}: this is the input; name another output with -o")
    if path.is_dir():
        raise OutputRefused(f"{path}: is a directory; name a file")
    if _ordinary(path):
        if not force:
            raise OutputRefused(
                f"{path}: exists; use --force to overwrite it, or name another output with -o"
            )
        if not path.stat().st_mode & 0o222:
            raise OutputRefused(f"{path}: is read-only; make it writable, or name another output with -o")


def publish(path: Path, chunks: Iterable[bytes], *, mode: int, force: bool) -> None:
    """Write a file whole or not at all. Raises OutputRefused where it exists and `force` is not set.

    A device or a pipe is written to directly.
    """
    refuse_to_overwrite(path, force=force)
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as sink:
                sink.writelines(chunks)
            return
        _write_beside(path, chunks, mode, force=force)
    except OSError as error:
        raise OutputRefused(
            f"{path}: cannot be written ({why(error)}); name another output with -o"
        ) from None


def _write_beside(path: Path, chunks: Iterable[bytes], mode: int, *, force: bool) -> None:
    final = path.resolve()  # through a link to the file that it names, which stays a link
    beside = final.with_name(f".{final.name[:100]}.{secrets.token_hex(6)}.tmp")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as sink:
            sink.writelines(chunks)
            sink.flush()
            os.fsync(sink.fileno())
        beside.chmod(mode)
        if force:
            beside.replace(final)
        else:
            _rename_if_free(beside, final)
    finally:
        beside.unlink(missing_ok=True)


def _rename_if_free(beside: Path, final: Path) -> None:
    """Give the file its name unless somebody took it meanwhile."""
    try:
        final.hardlink_to(beside)
    except FileExistsError:
        raise OutputRefused(f"{final}: exists; use --force to overwrite it") from None
    except OSError:  # a file system without hard links
        if final.exists():
            raise OutputRefused(f"{final}: exists; use --force to overwrite it") from None
        beside.replace(final)


def _ordinary(path: Path) -> bool:
    return path.is_file()


def why(error: OSError) -> str:
    """The system's reason, without its number."""
    return (error.strerror or type(error).__name__).lower()
