"""What the model is told about a call for which no result is recorded, and how such a text is read back.

A notice is a marker line, a body and a seal. It says what is known, what is not, and what to look at first;
it names no cause without evidence and never invites a repetition. The marker words are fixed and English;
the body may be the caller's. The seal shows that a text is whole and was made for this call: without a
fitting seal it is an ordinary result, since tools print markers too.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from normalizer.errors import CannotProject
from normalizer.facts import PLACEHOLDER, RUNNING
from normalizer.outcomes import decide
from normalizer.transcript import words
from normalizer.util.redaction import named
from normalizer.util.text import readable

if TYPE_CHECKING:
    from normalizer.facts import CallFact, OutcomeAttested, OutcomeKind
    from normalizer.parts import ResultPart
    from normalizer.projection import Notices
    from normalizer.transcript import Call

Form = Literal["notice", "late", "told"]

MARK: Final = "[tool outcome: "
ERROR_FLAGGED: Final = frozenset({"denied", "never_run", "cancelled_while_running"})
"""Outcomes that set an error flag where a format has one; an unknown call may have worked."""

_MARKER: Final = re.compile(
    r"\[tool outcome: (denied|never_run|cancelled_while_running|completed|unknown|running)\]"
    r"(?: \[(late|told), call ([^\]\n]*)\])?"
)
_SEAL: Final = re.compile(r"\[seal ([0-9a-f]{8})\]")

_CHECK: Final = "Before anything is done again, check the state that it would have changed."

# One text per outcome and basis; what only the facts know (by whom, why, how it ended) is added by `_details`.
_BODIES: Final[dict[tuple[str, str], str]] = {
    ("denied", "denied"): "It was denied before it started, and had no effect.",
    ("denied", "attested"): "It was denied before it started, and had no effect.",
    ("never_run", "skipped"): "The program did not start it. It had no effect.",
    ("never_run", "attested"): "It was not started. It had no effect.",
    (
        "never_run",
        "bad_arguments",
    ): "Its arguments are not valid JSON, so it was not started. It had no effect.",
    (
        "never_run",
        "approval_unanswered",
    ): "The question whether it may run got no answer, so it was not started.",
    ("never_run", "gate_closed"): "Its turn was stopped before it could start. It had no effect.",
    ("cancelled_while_running", "terminated"): "It had started and was stopped before its end."
    f" Some of its effects may have happened. {_CHECK}",
    ("cancelled_while_running", "attested"): "It had started and was stopped before its end."
    f" Some of its effects may have happened. {_CHECK}",
    ("unknown", "contact_lost"): f"Contact was lost while it ran; how it ended is not known. {_CHECK}",
    ("unknown", "no_end_recorded"): f"It had started; how it ended is not recorded. {_CHECK}",
    (
        "unknown",
        "not_recorded",
    ): f"No result is recorded for this call. Whether it started, and how it ended, is not known. {_CHECK}",
    ("unknown", "attested"): f"How it ended could not be found out. {_CHECK}",
    ("running", "running"): "It is still running; there is no result yet.",
    ("running", "waiting"): "It is waiting to be started; there is no result yet.",
    ("completed", "completed"): "It ran to its end; its output is not recorded.",
    ("completed", "attested"): "It ran to its end; its output is not recorded.",
}
_NO_TEXT: Final = "It ran to its end; it put out no text."


@dataclass(frozen=True, slots=True)
class ReadBack:
    """A notice that was found in a history: the outcome that it states, and its body, verbatim."""

    outcome: str
    body: str
    form: Form = "notice"
    call_id: str | None = None


def told_kind(call: Call, *, running: bool) -> str:
    """The word of the marker: the outcome, or `running` for a pending call that is told as such."""
    if call.outcome.kind != "pending":
        return call.outcome.kind
    return "running" if running else "unknown"


def stood_for(call: Call) -> str | None:
    """The words of another program's placeholder that a notice stands in the place of, for a report."""
    for fact in call.facts:
        if (
            fact.kind == "outcome_attested"
            and fact.content is not None
            and (fact.evidence or "").startswith(PLACEHOLDER)
        ):
            return words(fact.content)
    return None


def said(fact: OutcomeAttested) -> str:
    """The word of the marker that a statement was read back from."""
    return "running" if fact.evidence == RUNNING else fact.outcome


def told_before(call: Call, seq: int) -> tuple[Call, str, CallFact | None]:
    """The call as it was told before late news about it that was read at `seq`, how, and its result."""
    facts = tuple(fact for fact in call.facts if fact.seq < seq)
    earlier = replace(call, facts=facts, outcome=decide(facts, None))
    running = any(fact.kind == "outcome_attested" and fact.evidence == RUNNING for fact in facts)
    kind = told_kind(earlier, running=running)
    return earlier, kind, earlier.result if kind == "completed" else None


def body(call: Call, kind: str, replaced: Notices | None = None) -> str:
    """The sentences for a call's outcome: those that were read back, the caller's, or ours."""
    for fact in reversed(call.facts):
        if fact.kind == "outcome_attested" and fact.notice is not None and said(fact) == kind:
            return fact.notice
    if replaced is not None and (own := replaced(call)) is not None:
        if not isinstance(own, str):
            raise CannotProject(
                f"notices= returned a {type(own).__name__} for call {named(call.key)}; it returns a text or None",
                reason="bad_option",
            )
        return readable(own)
    basis = call.outcome.basis
    if call.outcome.kind == "pending" and kind == "unknown":
        basis = "not_recorded" if basis == "waiting" else "no_end_recorded"
    # a result that is on record is asked about only where it holds no text
    recorded = kind == "completed" and getattr(call.result, "content", None) is not None
    ended = _NO_TEXT if recorded else _BODIES[kind, basis]
    return " ".join([ended, *_details(call, kind)]) + _output(call, kind)


def _details(call: Call, kind: str) -> list[str]:
    """Sentences for what only the facts know."""
    outcome, found = call.outcome, []
    if kind in ("denied", "never_run", "cancelled_while_running") and outcome.by:
        verb = {"denied": "Denied", "never_run": "Decided"}.get(kind, "Stopped")
        found.append(f"{verb} by: {outcome.by}.")
    if outcome.reason:
        found.append(f"Reason given: {outcome.reason}")
    for fact in call.facts:
        if fact.kind in ("call_completed", "call_terminated"):
            if fact.exit_code is not None:
                found.append(f"Exit code: {fact.exit_code}.")
            if fact.signal:
                found.append(f"Signal: {fact.signal}.")
        if fact.kind == "call_terminated" and fact.residue:
            found.append(f"Could not be confirmed released: {', '.join(fact.residue)}.")
    if kind == "completed" and outcome.is_error:
        found.append("It ended with an error.")
    if state := call.remote_cancel_state:
        found.append(f"Cancel at the remote: {state}.")
    looked = [fact for fact in call.facts if fact.kind == "effects_verified"]
    if looked:
        found.append(
            "A check found no effects."
            if looked[-1].effects == "none"
            else "A check found that it had effects."
        )
    return found


def _output(call: Call, kind: str) -> str:
    """The output so far, where the call did not complete."""
    known = call.output if kind != "completed" else ""
    if not known.strip():
        return ""
    cut = " (not all of it was kept)" if call.output_truncated else ""
    return f"\nOutput so far{cut}:\n{known}"


def notice(call: Call, kind: str, subject: str, replaced: Notices | None = None) -> str:
    """The whole text that stands in a result's place. `subject` is the call's id on the wire."""
    return sealed(f"{MARK}{kind}]\n{body(call, kind, replaced)}", subject)


def late_news(call: Call, kind: str, subject: str, replaced: Notices | None = None) -> str:
    """The text that tells, further down, what became of a call that was told otherwise before."""
    result = call.result if kind == "completed" else None
    content = words(result.content) if result is not None and result.content is not None else ""  # type: ignore[union-attr]
    text = content if content.strip() else body(call, kind, replaced)
    return sealed(f"{MARK}{kind}] [late, call {subject}]\n{text}", subject)


def beyond_words(call: Call | None, result: str | None) -> tuple[ResultPart, ...]:
    """What the result that news tells holds beside words: it is sent behind the news, or reported. `result` is its
    `fact_id`.
    """
    fact = next((f for f in call.facts if f.fact_id == result), None) if call is not None and result else None
    content = getattr(fact, "content", None)
    return tuple(part for part in content if part.kind != "text") if isinstance(content, tuple) else ()


def told_as_text(call: Call, kind: str, subject: str, replaced: Notices | None = None) -> str:
    """The text that stands for a call which the API cannot be shown as a call."""
    result = call.result if kind == "completed" else None
    content = words(result.content) if result is not None and result.content is not None else ""  # type: ignore[union-attr]
    text = content if content.strip() else body(call, kind, replaced)
    return sealed(
        f"{MARK}{kind}] [told, call {subject}]\n{call.name} {call.part.arguments.text}\n{text}", subject
    )


def seal(subject: str, text: str) -> str:
    """The first eight hexadecimal digits of SHA-256 over subject, NUL and the text, each run of white space as one
    space.
    """
    flat = " ".join(text.split())
    return hashlib.sha256(f"{subject}\0{flat}".encode("utf-8", "surrogatepass")).hexdigest()[:8]


def sealed(text: str, subject: str) -> str:
    """The text with its seal as the last line."""
    return f"{text}\n[seal {seal(subject, text)}]"


def read_back(text: str, subject: str | None) -> ReadBack | None:
    """The notice that this text is, whole and for this call; None where it is an ordinary text.

    For late news and told texts the subject stands in the marker; `subject` may then be None.
    """
    if not text.startswith(MARK):
        return None
    above, _, last = text.rpartition("\n")
    first, _, rest = above.partition("\n")
    marker, found = _MARKER.fullmatch(first), _SEAL.fullmatch(last)
    if marker is None or found is None:
        return None
    kind, form, call_id = marker.groups()
    if form is None and subject is None:
        return None
    owner = call_id if form else subject
    if found[1] != seal(owner or "", above):
        return None
    shape: Form = "late" if form == "late" else "told" if form == "told" else "notice"
    return ReadBack(kind, rest, shape, call_id)


def stated(found: ReadBack) -> tuple[OutcomeKind, str]:
    """The outcome that a notice states, and the evidence. A call that ran when it was told may have ended since."""
    if found.outcome == "running":
        return "unknown", RUNNING
    outcome: Any = found.outcome
    return outcome, "late news" if found.form == "late" else "notice"


def news_again(fact: OutcomeAttested, subject: str) -> str:
    """Late news that was read, in the same words."""
    return sealed(f"{MARK}{said(fact)}] [late, call {subject}]\n{fact.notice}", subject)


WAITS: Final = _BODIES["running", "waiting"]
"""The words for a call that nothing had started."""
