"""What stops the library. A wrong input or request is a value (`Finding`, `Violation`), not an exception.

NormalizerError
├── UnreadableInput     the file or payload holds nothing that can be read
├── UnknownFormat       it can be read, but is no format or target that is known
├── OpenCalls           a request was asked for while calls are pending
├── CannotProject       no request can be made that is both accepted and true
├── RuleViolations      a projection breaks a rule of its own target (a bug of this library)
├── StartRefused        the launch gate said no
│   └── TurnClosed      because the turn is cancelled or over
└── JournalError        a fact could not be stored
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from normalizer.util.redaction import named, redact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from normalizer.rules import Violation


class NormalizerError(Exception):
    """The root. `reason` is a stable word for programs; the text is for people."""

    reason: str = "error"

    def __init__(self, message: str, *, reason: str | None = None) -> None:
        super().__init__(message)
        if reason is not None:
            self.reason = reason


class UnreadableInput(NormalizerError):
    """The input cannot be read, or holds no message. `line` and `pointer` say where, if known."""

    reason = "unreadable"

    def __init__(
        self,
        message: str,
        *,
        reason: str | None = None,
        line: int | None = None,
        pointer: str | None = None,
    ) -> None:
        super().__init__(message, reason=reason)
        self.line = line
        self.pointer = pointer


class UnknownFormat(NormalizerError):
    """No reader knows this input, or there is no target, format or profile of the name given."""

    reason = "unknown_format"

    def __init__(self, message: str, *, reason: str | None = None) -> None:
        # the text quotes the input, whose keys may be anything
        super().__init__(redact(message), reason=reason)


class OpenCalls(NormalizerError):
    """A request was asked for while calls of this turn are still pending."""

    reason = "open_calls"

    def __init__(self, call_ids: Sequence[str]) -> None:
        super().__init__(
            f"calls {', '.join(map(named, call_ids))} are still pending; finish or cancel them first,"
            " or pass open_calls='say_running'"
        )
        self.call_ids = tuple(call_ids)


class CannotProject(NormalizerError):
    """The facts have no form that the target accepts. `reason` is one of the words in the guide."""

    reason = "cannot_project"


class RuleViolations(NormalizerError):
    """A projection breaks `reject` rules of its own target. This is a bug of the library: please report it."""

    reason = "rule_violations"

    def __init__(self, target: str, violations: Sequence[Violation]) -> None:
        first = violations[0]
        super().__init__(
            f"the request for {target!r} would be rejected: {first.rule} at {first.pointer or '/'}:"
            f" {first.message} ({len(violations)} in all); this is a bug of transcript-normalizer, please report it"
        )
        self.violations = tuple(violations)


class StartRefused(NormalizerError):
    """The launch gate refused to start a call; nothing was started."""

    reason = "start_refused"


class TurnClosed(StartRefused):
    """The turn of this call is cancelled or over."""

    reason = "turn_closed"


class JournalError(NormalizerError):
    """A fact could not be stored. What was asked for is not saved."""

    reason = "journal"
