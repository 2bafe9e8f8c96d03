"""The transcript normalizer: facts in, valid requests out.

Read a history from wherever it is, fold its facts, and project them into what one provider's API accepts, with an
account of every difference. The five laws are in ARCHITECTURE.md.
"""

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
from normalizer.folding import fold
from normalizer.projection import Projection
from normalizer.reading import Reading
from normalizer.repairing import Repair, check, project, read, read_stream, repair
from normalizer.transcript import Transcript

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
    "project",
    "read",
    "read_stream",
    "repair",
]
