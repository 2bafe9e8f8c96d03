"""One conversation of a journal, live: as its record, and it opens turns, in which replies and calls are recorded."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from normalizer.journal.processes import alive
from normalizer.live.record import ConversationRecord
from normalizer.live.turn import Turn

if TYPE_CHECKING:
    from normalizer.journal.processes import Run


class Conversation(ConversationRecord):
    """A conversation by its id; it begins with its first fact. Safe to share among threads."""

    def open_turn(self, *, lease: float | None = None) -> Turn:
        """Open a turn, to be run by this process.

        Refused (JournalError, `turn_open`) while the process of another turn lives; one whose process is found gone is
        recorded as lost first. `lease`: for how many seconds at a time this run counts as alive on other hosts.
        """
        for run in self.journal.runs(self.id):
            if run.state == "open":
                self._lose(run)
        opened = self.journal.open_turn(self.id, lease=lease, source="host")
        return Turn(self, opened, lease)

    def _lose(self, run: Run) -> None:
        """Record that a run is gone, if that is certain; if not, the journal refuses the next turn."""
        lives = alive(run.process)
        if lives is False:
            self.journal.lose_run(self.id, run.run_id, by="open_turn", how="its process is gone")
        elif lives is None and run.expired(datetime.now(UTC)):
            self.journal.lose_run(
                self.id, run.run_id, by="open_turn", how="its lease ran out", if_expired=True
            )
