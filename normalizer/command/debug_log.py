"""The debug log: what became no fact, as JSON Lines, for whoever looks into a broken file.

One line a fragment or leftover, secrets redacted, readable by its owner alone. The log is bounded: a long
text is cut, and once the limit is reached a last line says how much was left out. The whole texts are
in the report; the log never is the only copy.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from normalizer.command.files import publish
from normalizer.util.redaction import redact
from normalizer.util.text import escaped

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from normalizer.findings import Fragment, Leftover

LIMIT: Final = 8 * 1024 * 1024
"""Bytes of a whole log."""
TEXT_LIMIT: Final = 64 * 1024
"""Characters of one text in it."""
# Redaction looks this far past the cut, so that no secret is cut in half and slips through.
_OVERLAP: Final = 4096
# What the last line takes at most.
_RESERVE: Final = 200

__all__ = ["LIMIT", "TEXT_LIMIT", "DebugLog", "redact"]


@dataclass(slots=True)
class DebugLog:
    """Collects the lines of one log, at most `limit` bytes. What comes first stays; the rest is counted."""

    limit: int = LIMIT
    _lines: list[bytes] = field(default_factory=list)
    _size: int = 0
    _left_out: int = 0
    _left_out_chars: int = 0
    files: int = 0
    """How many inputs were added; a log of none is not worth a file."""

    def add(self, file: str, fragments: Iterable[Fragment], leftovers: Iterable[Leftover]) -> None:
        """Take what one input left behind; `file` names the input."""
        self.files += 1
        for fragment in fragments:
            self._add(
                fragment.text, file=file, what="fragment", reason=fragment.reason, call_id=fragment.call_id,
                name=fragment.name, type=fragment.type, line=fragment.line, pointer=fragment.pointer,
            )  # fmt: skip
        for leftover in leftovers:
            self._add(
                leftover.text, file=file, what="leftover", reason=leftover.reason, line=leftover.line,
                pointer=leftover.pointer,
            )  # fmt: skip

    def _add(self, text: str, **about: Any) -> None:
        if self._left_out:  # in order or not at all: a gap in the middle would look like nothing
            self._leave_out(text)
            return
        shown = redact(text[: TEXT_LIMIT + _OVERLAP])[:TEXT_LIMIT]
        record = {key: _safe(value) for key, value in about.items() if value is not None}
        record["text"] = escaped(shown)
        if len(text) > TEXT_LIMIT:
            record["cut_after"] = len(shown)
            record["characters"] = len(text)
        line = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        if self._size + len(line) > self.limit - _RESERVE:
            self._leave_out(text)
            return
        self._lines.append(line)
        self._size += len(line)

    def _leave_out(self, text: str) -> None:
        self._left_out += 1
        self._left_out_chars += len(text)

    def data(self) -> bytes:
        """The log as it stands."""
        lines = list(self._lines)
        if self._left_out:
            left_out = {"left_out": self._left_out, "characters": self._left_out_chars}
            note = {"what": "limit", "limit": self.limit, **left_out}
            lines.append(json.dumps(note, separators=(",", ":")).encode() + b"\n")
        return b"".join(lines)

    def save(self, path: Path, *, force: bool = False) -> None:
        """Write the log, mode 0600, in one piece. Raises OutputRefused where the file exists and `force` is not set."""
        publish(path, [self.data()], mode=0o600, force=force)


def _safe(value: Any) -> Any:
    return escaped(redact(value)) if isinstance(value, str) else value
