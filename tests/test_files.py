"""Outputs are there whole or not at all, and nothing is overwritten by accident."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from normalizer.command.files import (
    OutputRefused,
    default_output,
    private_mode,
    publish,
    refuse_to_overwrite,
    sessions,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def test_a_file_is_written_with_its_mode_and_nothing_lies_beside_it(tmp_path: Path) -> None:
    publish(tmp_path / "out.json", [b"a", b"b"], mode=0o640, force=False)
    assert (tmp_path / "out.json").read_bytes() == b"ab"
    assert stat.S_IMODE((tmp_path / "out.json").stat().st_mode) == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_a_failure_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"the beginning"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        publish(tmp_path / "out.json", chunks(), mode=0o600, force=False)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_in_the_middle_leaves_the_old_file(tmp_path: Path) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"the beginning"
        raise ZeroDivisionError

    old = tmp_path / "out.json"
    old.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError):
        publish(old, chunks(), mode=0o600, force=True)
    assert old.read_bytes() == b"old"


def test_what_exists_is_overwritten_only_when_asked(tmp_path: Path) -> None:
    old = tmp_path / "out.json"
    old.write_bytes(b"old")
    with pytest.raises(OutputRefused, match="--force"):
        publish(old, [b"new"], mode=0o600, force=False)
    assert old.read_bytes() == b"old"
    publish(old, [b"new"], mode=0o600, force=True)
    assert old.read_bytes() == b"new"


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    late = tmp_path / "out.json"

    def chunks() -> Iterator[bytes]:
        late.write_bytes(b"somebody else's")
        yield b"ours"

    with pytest.raises(OutputRefused, match="exists"):
        publish(late, chunks(), mode=0o600, force=False)
    assert late.read_bytes() == b"somebody else's"
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


@pytest.mark.parametrize("taken", [False, True])
def test_a_file_system_without_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: bool
) -> None:
    final = tmp_path / "out.json"

    def no_links(*_: object) -> None:
        if taken:
            final.write_bytes(b"somebody else's")
        raise OSError(1, "no")

    monkeypatch.setattr("pathlib.Path.hardlink_to", no_links)
    if taken:
        with pytest.raises(OutputRefused, match="exists"):
            publish(final, [b"ours"], mode=0o600, force=False)
    else:
        publish(final, [b"ours"], mode=0o600, force=False)
    assert final.read_bytes() == (b"somebody else's" if taken else b"ours")
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_a_read_only_file_is_left_alone_even_with_force(tmp_path: Path) -> None:
    old = tmp_path / "out.json"
    old.write_bytes(b"old")
    old.chmod(0o400)
    with pytest.raises(OutputRefused, match="read-only"):
        publish(old, [b"new"], mode=0o600, force=True)
    assert old.read_bytes() == b"old"


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for place, said in (
        (tmp_path / "file" / "out.json", "not a directory"),
        (tmp_path / "no" / "o.json", "no such file"),
    ):
        with pytest.raises(OutputRefused, match=said):
            publish(place, [b"new"], mode=0o600, force=False)
    with pytest.raises(OutputRefused, match="is a directory"):
        publish(tmp_path, [b"new"], mode=0o600, force=True)


def test_a_device_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    publish(pipe, [b"through"], mode=0o600, force=False)
    assert os.read(reader, 100) == b"through"
    os.close(reader)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_bytes(b"old")
    (tmp_path / "link.json").symlink_to("real.json")
    publish(tmp_path / "link.json", [b"new"], mode=0o600, force=True)
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_bytes() == b"new"


def test_an_input_is_never_overwritten(tmp_path: Path) -> None:
    source = tmp_path / "in.json"
    source.write_bytes(b"{}")
    (tmp_path / "same.json").hardlink_to(source)
    for name in ("in.json", "same.json"):
        with pytest.raises(OutputRefused, match="this is the input"):
            refuse_to_overwrite(tmp_path / name, force=True, sources=[source])


def test_an_output_is_as_private_as_its_input(tmp_path: Path) -> None:
    source = tmp_path / "in.json"
    source.write_bytes(b"{}")
    source.chmod(0o740)
    assert private_mode(source) == 0o640
    assert private_mode(None) == 0o600


def test_the_sessions_of_a_directory_without_our_own_outputs(tmp_path: Path) -> None:
    for name in (
        "b/2.jsonl",
        "a.json",
        "b/1.jsonl",
        "b/1.repaired.json",
        "x.report.json",
        "y.debug.jsonl",
        "c.txt",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert [str(path.relative_to(tmp_path)) for path in sessions(tmp_path)] == [
        "a.json",
        "b/1.jsonl",
        "b/2.jsonl",
    ]
    assert default_output(tmp_path / "b" / "1.jsonl") == tmp_path / "b" / "1.repaired.json"
