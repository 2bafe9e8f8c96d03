"""What every projection begins with, whether it goes on from an earlier one or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from normalizer.errors import OpenCalls
from normalizer.projecting.call_ids import wire_ids
from normalizer.projecting.prefix_check import newly_told
from normalizer.projecting.sent_history import changed_since_sent, sent_history_of

if TYPE_CHECKING:
    from normalizer.projecting.call_ids import WireIds
    from normalizer.projecting.dialect import Dialect
    from normalizer.projecting.sent_history import ChangedSinceSent, SentHistory
    from normalizer.projection import Options
    from normalizer.transcript import Transcript


@dataclass(slots=True)
class Context:
    """What was sent, the ids, and of which calls something else is known than was sent.

    `newly_told` are calls that requests rendered since the projection before. `running`: pending calls are reported as
    running.
    """

    dialect: Dialect
    transcript: Transcript
    options: Options
    model: str | None
    history: SentHistory
    ids: WireIds
    changed_since_sent: ChangedSinceSent
    newly_told: list[str]

    @property
    def running(self) -> bool:
        """Whether a pending call is reported as running."""
        return self.options.open_calls == "say_running"


def context_of(
    dialect: Dialect, transcript: Transcript, options: Options, model: str | None, before: Context | None
) -> Context:
    """The context of a projection; raises OpenCalls where calls are pending and `open_calls` is `refuse`."""
    if options.open_calls == "refuse" and transcript.pending:
        raise OpenCalls(transcript.pending)
    history = sent_history_of(
        transcript, dialect.api, model, options.profile, options.account, before.history if before is not None else None
    )  # fmt: skip
    told = newly_told(transcript, before.history.seen) if before is not None else []
    server_calls = transcript.server_calls if dialect.server_ids else {}
    ids = wire_ids(
        transcript.calls, server_calls, history.told, dialect.ids, before.ids if before is not None else None, told
    )  # fmt: skip
    changed = changed_since_sent(
        transcript, history, told, before.changed_since_sent if before is not None else None,
        running=options.open_calls == "say_running",
    )  # fmt: skip
    return Context(dialect, transcript, options, model, history, ids, changed, told)
