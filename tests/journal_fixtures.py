"""Journals on both databases, as fixtures."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import postgres
import pytest
from journaling import DATABASES, address

from normalizer.journal import open_journal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from normalizer.journal.journal import Journal


@pytest.fixture(params=DATABASES)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a journal that does not exist yet."""
    return address(request.param, tmp_path)


@cache
def _shared() -> str:
    """One database for many tests: making one takes longer than most of them."""
    return postgres.database()


@pytest.fixture(params=DATABASES)
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    """A journal with nothing in it."""
    shared = request.param == "postgresql"
    with open_journal(_shared() if shared else address(request.param, tmp_path)) as opened:
        yield opened
    if shared:
        with open_journal(_shared()) as again:
            for conversation in again.conversations():
                again.delete(conversation)


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: for tests of order, which no disk decides."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it
    if not (memory.is_dir() and os.access(memory, os.W_OK)):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="journal-", dir=memory) as folder:
        yield Path(folder)
