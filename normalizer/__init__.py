"""The transcript normalizer: facts in, valid requests out.

Read a history from wherever it is, fold its facts, and project them into what one provider's API accepts, with an
account of every difference. The five laws are in docs/design.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from normalizer.errors import (
    CannotProject,
    JournalError,
    NormalizerError,
    OpenCalls,
    RuleViolations,
    StartRefused,
    TurnClosed,
    UnknownFormat,
    UnreadableInput,
)
from normalizer.findings import Reading
from normalizer.folding.fold_run import fold
from normalizer.journal import live_side
from normalizer.projecting.sent_record import request_sent
from normalizer.projection import Projection
from normalizer.repairing import Repair, check, project, read, read_stream, repair
from normalizer.transcript import Transcript

if TYPE_CHECKING:
    from normalizer.journal import open_async_journal, open_journal
    from normalizer.recovery import recover

__version__ = "0.1.0"

__all__ = [
    "CannotProject",
    "JournalError",
    "NormalizerError",
    "OpenCalls",
    "Projection",
    "Reading",
    "Repair",
    "RuleViolations",
    "StartRefused",
    "Transcript",
    "TurnClosed",
    "UnknownFormat",
    "UnreadableInput",
    "check",
    "fold",
    "open_async_journal",
    "open_journal",
    "project",
    "read",
    "read_stream",
    "recover",
    "repair",
    "request_sent",
]


def _conversation(journal: Any, conversation: str) -> Any:
    return import_module("normalizer.live.conversation").Conversation(journal, conversation)


def _async_conversation(journal: Any, conversation: str) -> Any:
    return import_module("normalizer.live.conversation_async").AsyncConversation(journal, conversation)


live_side.connect(conversation=_conversation, async_conversation=_async_conversation)

# The live side, imported on first use: a program that only repairs does without it.
_LIVE = {
    "open_async_journal": "normalizer.journal",
    "open_journal": "normalizer.journal",
    "recover": "normalizer.recovery",
}


if not TYPE_CHECKING:  # or every wrong name would be taken for one that is there

    def __getattr__(name: str) -> Any:
        if name in _LIVE:
            return getattr(import_module(_LIVE[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
