"""Every `Adjustment` is built here, and takes the id of its rule from the dialect of the API that it is for.

The engine names a cause (`"repeated-call"`); the dialect's table says which rule of its API that is. What only one wire
can have to report is named by the rule's id itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from normalizer.projecting.unmapped_fields import whole
from normalizer.projection import Adjustment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from normalizer.projection import AdjustmentKind
    from normalizer.transcript import Entry


class Reports:
    """The adjustments of one step, or of what stands before the steps, in the order in which they were made."""

    __slots__ = ("because", "notes")

    def __init__(self, because: Mapping[str, str | None], notes: list[Adjustment] | None = None) -> None:
        self.because = because
        self.notes: list[Adjustment] = [] if notes is None else notes

    def add(
        self, kind: AdjustmentKind, message: str, cause: str | None, *, call_id: str | None = None,
        facts: tuple[str, ...] = (), content: str | None = None,
    ) -> None:  # fmt: skip
        """Report one difference. `cause` is a key of the dialect's table, else the id of a rule or an outcome."""
        because = self.because.get(cause, cause) if cause is not None else None
        self.notes.append(Adjustment(kind, message, because, call_id, facts, content))

    def entry(
        self, entry: Entry, kind: AdjustmentKind, message: str, cause: str | None, content: str | None = None,
        call_id: str | None = None,
    ) -> None:  # fmt: skip
        """A difference about one entry of the conversation."""
        self.add(kind, message, cause, call_id=call_id, facts=(entry.fact.fact_id,), content=content)

    def part(self, entry: Entry, kind: AdjustmentKind, message: str, cause: str | None, part: Any) -> None:
        """A part that is not sent, or not as it is; the report has all of it."""
        self.entry(entry, kind, message, cause, whole(part))
