"""Files in and out: sources, their names, and outputs that are there whole or not at all.

An output is written beside its final name and then renamed, the outputs of one run together. Nothing is overwritten
unless asked for, and an input never.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections import Counter
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

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


def default_outputs(sources: Iterable[Path]) -> dict[Path, Path]:
    """Where the requests of one run go: as `default_output`, with the source's whole name where two would be one."""
    ordered = list(dict.fromkeys(sources))
    taken = Counter(default_output(source) for source in ordered)
    return {
        source: default_output(source)
        if taken[default_output(source)] == 1
        else source.with_name(source.name + OWN_ENDINGS[0])
        for source in ordered
    }


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


def same_place(one: Path, other: Path) -> bool:
    """Whether what is written to one would replace the other. Devices and pipes replace nothing."""
    if any(path.exists() and not path.is_file() for path in (one, other)):
        return False
    if one.resolve() == other.resolve():
        return True
    return one.exists() and other.exists() and one.samefile(other)


def refuse_shared(paths: Iterable[Path]) -> None:
    """Every output needs a file of its own. Raises OutputRefused."""
    for one, other in combinations(paths, 2):
        if same_place(one, other):
            raise OutputRefused(f"{other}: is named for two outputs; give each a file of its own")


def refuse_unwritable(path: Path) -> None:
    """Say early that a file cannot be made there. Raises OutputRefused."""
    if path.exists() and not path.is_file():
        return
    with _told(path):
        beside, handle = _beside(path.resolve())
        os.close(handle)
        beside.unlink()


class Outputs:
    """Files that belong together: all are written beside their names before the first one gets its own.

    As a context manager it leaves nothing behind that was not put in place.
    """

    def __init__(self, *, force: bool) -> None:
        self._force = force
        self._ready: list[tuple[Path, Path, Path]] = []
        self._direct: list[tuple[Path, Iterable[bytes]]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for _path, beside, _final in self._ready:
            beside.unlink(missing_ok=True)

    def add(self, path: Path, chunks: Iterable[bytes], *, mode: int) -> None:
        """Write a file that has no name yet. Raises OutputRefused where it may not, or cannot, have it."""
        refuse_to_overwrite(path, force=self._force)
        if path.exists() and not path.is_file():
            self._direct.append((path, chunks))  # what went through a pipe cannot be taken back: it waits
            return
        with _told(path):
            final = path.resolve()  # through a link to the file that it names, which stays a link
            beside, handle = _beside(final)
            self._ready.append((path, beside, final))
            with os.fdopen(handle, "wb") as sink:
                sink.writelines(chunks)
                sink.flush()
                os.fsync(sink.fileno())
            beside.chmod(mode)

    def put(self) -> None:
        """Give every file its name; where one cannot have it, those before it lose theirs again if they were new."""
        for path, chunks in self._direct:
            with _told(path), path.open("wb") as sink:
                sink.writelines(chunks)
        new: list[Path] = []
        try:
            for path, beside, final in self._ready:
                with _told(path):
                    was_there = final.exists()
                    if self._force:
                        beside.replace(final)
                    else:
                        _rename_if_free(beside, final)
                    if not was_there:
                        new.append(final)
        except BaseException:
            for made in new:
                made.unlink(missing_ok=True)
            raise


def publish(path: Path, chunks: Iterable[bytes], *, mode: int, force: bool) -> None:
    """Write a file whole or not at all. Raises OutputRefused where it exists and `force` is not set.

    A device or a pipe is written to directly.
    """
    with Outputs(force=force) as outputs:
        outputs.add(path, chunks, mode=mode)
        outputs.put()


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Say what the system has against an output."""
    try:
        yield
    except OSError as error:
        raise OutputRefused(
            f"{path}: cannot be written ({why(error)}); name another output with -o"
        ) from None


def _beside(final: Path) -> tuple[Path, int]:
    """A new file beside another, open for writing."""
    beside = final.with_name(f".{final.name[:100]}.{secrets.token_hex(6)}.tmp")
    return beside, os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)


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
