"""After a crash: which turns were open, what became of each call that was started, and what has to happen next.

Nothing is repeated here. A call whose end nobody recorded is looked up by a handler, where its tool declared one, and
what the handler finds goes on record; else the row says what a person has to do.

    declared     what is done here                          what it asks for
    query        its handler is asked, by operation id      nothing, once the handler knows
    ask          its handler (a person) is asked            a person's word
    reuse_key    a handler of its tool, if there is one     the same call again with the same key: the caller's to do
    compensate   as above                                   the counter-operation: the caller's to do
    none         as above                                   a look at what it changed, before anything is repeated
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from uuid import uuid4

from normalizer.errors import JournalError
from normalizer.facts import EffectsVerified, OutcomeAttested
from normalizer.folding.fold_run import fold
from normalizer.journal.processes import alive
from normalizer.journal.serialization import stamp
from normalizer.util.text import excerpt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from normalizer.facts import Fact, OutcomeKind
    from normalizer.journal.journal import Journal
    from normalizer.journal.processes import Run
    from normalizer.parts import ResultPart
    from normalizer.transcript import Call, Transcript

ASKED: Final = frozenset({"query", "ask"})
"""The declarations whose handler is found under their own name; any other call's only under its tool's."""

ATTESTORS: Final[Mapping[str | None, Literal["operator", "query"]]] = {"ask": "operator"}


@dataclass(frozen=True, slots=True)
class Question:
    """What a handler is asked about."""

    conversation: str
    call: Call
    operation_id: str | None
    idempotency_key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a handler found out: whether there were effects, how the call ended, or both. Each only as far as known."""

    evidence: str
    effects: Literal["none", "happened"] | None = None
    outcome: OutcomeKind | None = None
    content: str | tuple[ResultPart, ...] | None = None
    is_error: bool | None = None
    by: str | None = None


Handler: TypeAlias = "Callable[[Question], Answer | None]"
"""Looks and never repeats. None: it could not find out."""


@dataclass(frozen=True, slots=True)
class Row:
    """One call that was started and has no recorded end, or whose effects are still to be looked at."""

    run_id: str | None
    tool_call_id: str
    operation_id: str | None
    execution_state: str
    cancel_requested: bool
    remote_cancel_state: str | None
    side_effect_state: str
    last_observation: str | None
    recovery_action: str | None


@dataclass(frozen=True, slots=True)
class Found:
    """A row with the conversation and the tool it belongs to; `trouble` is why its handler could not say more."""

    conversation: str
    tool: str
    row: Row
    trouble: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {
            "conversation": self.conversation,
            "tool": self.tool,
            **asdict(self.row),
            "trouble": self.trouble,
        }


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was found. `lost` are the runs that are recorded as lost now, `alive` those that may live."""

    found: tuple[Found, ...]
    lost: tuple[Run, ...] = ()
    alive: tuple[Run, ...] = ()
    waiting: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows by themselves."""
        return tuple(one.row for one in self.found)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.found)


def recover(
    journal: Journal,
    handlers: Mapping[str, Handler] | None = None,
    *,
    conversation: str | None = None,
    lost: Sequence[str] = (),
    by: str = "recover",
) -> Recovery:
    """Record which runs are gone, look up what became of their calls, and tell what is left to do.

    `handlers` are named after a tool, or after a declared recovery (`query`, `ask`). `lost` names runs that an operator
    declares lost; a run on another host is lost without that only when its lease ran out.
    """
    open_runs = [run for run in journal.runs(conversation) if run.state == "open"]
    if strange := set(lost) - {run.run_id for run in open_runs}:
        raise JournalError(
            f"run {min(strange)!r} is not open here; open runs: {', '.join(run.run_id for run in open_runs) or 'none'}",
            reason="unknown_run",
        )
    gone = [run for run in open_runs if _lose(journal, run, declared=run.run_id in lost, by=by)]
    found: list[Found] = []
    waiting: dict[str, tuple[str, ...]] = {}
    for name in journal.conversations() if conversation is None else (conversation,):
        transcript = fold(journal.facts(name))
        found += _look_up(journal, name, transcript, handlers or {}, by)
        if transcript.steering:
            waiting[name] = transcript.steering
    return Recovery(tuple(found), tuple(gone), tuple(run for run in open_runs if run not in gone), waiting)


def _lose(journal: Journal, run: Run, *, declared: bool, by: str) -> bool:
    """Record that a run is gone, if it is."""
    if declared:
        return bool(journal.lose_run(run.conversation, run.run_id, by="operator", how="declared lost"))
    lives = alive(run.process)
    if lives is False:
        return bool(journal.lose_run(run.conversation, run.run_id, by=by, how="its process is gone"))
    if lives is None and run.expired(datetime.now(UTC)):
        try:
            return bool(
                journal.lose_run(
                    run.conversation, run.run_id, by=by, how="its lease ran out", if_expired=True
                )
            )
        except JournalError:  # it was renewed just now
            return False
    return False


def _look_up(
    journal: Journal, name: str, transcript: Transcript, handlers: Mapping[str, Handler], by: str
) -> Iterator[Found]:
    """The rows of one conversation, after its handlers were asked."""
    troubles: dict[str, str] = {}
    news: list[Fact] = []
    for call in filter(_unsettled, transcript.calls.values()):
        if call.outcome.kind == "pending" or (handler := _handler(call, handlers)) is None:
            continue
        try:
            answer = handler(_question(name, call))
        except Exception as error:  # noqa: BLE001 - a stranger's function; the other calls are looked up all the same
            troubles[call.key] = f"{type(error).__name__}: {excerpt(str(error), 200)}"
            continue
        if answer is not None:
            news += _facts(call, answer, by)
    if news:
        journal.append(name, news)
        before = [call.key for call in transcript.calls.values() if _unsettled(call)]
        transcript = fold(journal.facts(name))
    else:
        before = []
    for call in transcript.calls.values():
        if _unsettled(call) or call.key in before:
            yield Found(name, call.name, row_of(call), troubles.get(call.key))


def _unsettled(call: Call) -> bool:
    """It was permitted to start, and its end or its effects are not known."""
    if not any(fact.kind == "start_permitted" for fact in call.facts):
        return False
    kind = call.outcome.kind
    return kind in ("unknown", "pending") or (
        kind == "cancelled_while_running" and call.effects == "to_verify"
    )


def _handler(call: Call, handlers: Mapping[str, Handler]) -> Handler | None:
    """Who knows how to find out about this call. What is verified is not asked again."""
    if call.effects != "to_verify" and call.outcome.kind != "unknown":
        return None
    if any(fact.kind == "effects_verified" for fact in call.facts):
        return None
    declared = _declared(call)
    return handlers.get(call.name) or (handlers.get(declared) if declared in ASKED else None)


def _declared(call: Call) -> str | None:
    return next(
        (f.recovery for f in reversed(call.facts) if f.kind == "start_permitted" and f.recovery), None
    )


def _question(name: str, call: Call) -> Question:
    permit = next(fact for fact in call.facts if fact.kind == "start_permitted")
    return Question(name, call, permit.operation_id, permit.idempotency_key)


def _facts(call: Call, answer: Answer, by: str) -> Iterator[Fact]:
    about: dict[str, Any] = {
        "call_id": call.key,
        "at": stamp(datetime.now(UTC)),
        "source": "recovery",
        "turn_id": call.turn_id,
        "by": answer.by or by,
        "evidence": answer.evidence,
    }
    if answer.effects is not None:
        yield EffectsVerified(fact_id=uuid4().hex, effects=answer.effects, **about)
    if answer.outcome is not None:
        yield OutcomeAttested(
            fact_id=uuid4().hex,
            outcome=answer.outcome,
            attestor=ATTESTORS.get(_declared(call), "query"),
            content=answer.content,
            is_error=answer.is_error,
            **about,
        )


def _else_to_do(call: Call) -> str | None:
    """What the declaration does not say: a running call is waited for, a stopped one may have had effects."""
    if call.outcome.kind == "pending":
        return "wait"
    return "verify" if call.effects == "to_verify" else None


def row_of(call: Call) -> Row:
    """What is known about one call, in nine fields."""
    last = call.last_observation
    seen = (
        None
        if last is None
        else f"{last.kind}{f' at {last.at}' if last.at else ''} by {last.source or 'unknown'}"
    )
    return Row(
        run_id=call.run_id,
        tool_call_id=call.key,
        operation_id=call.operation_id,
        execution_state=call.outcome.kind,
        cancel_requested=call.cancel_requested,
        remote_cancel_state=call.remote_cancel_state,
        side_effect_state=call.effects,
        last_observation=seen,
        recovery_action=call.recovery_action or _else_to_do(call),
    )
