"""Results of calls: which one is sent, in what order, where it stands, and how that is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from normalizer import notices
from normalizer.projecting.draft import RENDERED_AS_TEXT, Answered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from normalizer.facts import CallCompleted, CallFact, Told
    from normalizer.projecting.context import Context
    from normalizer.projecting.draft import Draft, Flow, Piece, Value
    from normalizer.projecting.incremental import Rendered
    from normalizer.projecting.user_turn import UserTurn
    from normalizer.projecting.wire import Wire
    from normalizer.transcript import Call


class ToolResults:
    """The results of one projection."""

    __slots__ = ("_calls", "_entries", "_history", "_ids", "_options", "_running", "_wire", "anywhere")

    def __init__(self, context: Context, wire: Wire) -> None:
        self._calls = context.transcript.calls
        self._entries = context.transcript.entries
        self._history = context.history
        self._ids: Mapping[str, str] = context.ids.by_key.lookup
        self._options = context.options
        self._running = context.running
        self._wire = wire
        self.anywhere = context.dialect.placement == "anywhere"

    # ------------------------------------------------------------ what is sent of a call

    def answer(self, call: Call, draft: Draft) -> Answered:
        """What this request says of a call.

        What was sent of it stays, for good; else what was read before a late update of it; else what is known.
        """
        told = self._history.told.get(call.key)
        if told is not None:
            answered = self._as_sent(call, told)
            if answered.open or self._history.chosen(RENDERED_AS_TEXT, call.key):
                return answered if answered.text is not None else self.as_text(call)
        elif (
            late := next((f.seq for f in call.facts if f.kind == "outcome_attested" and f.late), None)
        ) is not None:
            answered = Answered(*notices.told_before(call, late), None)
        else:
            kind = notices.told_kind(call, running=self._running)
            answered = Answered(call, kind, call.result if kind == "completed" else None, None)
            if answered.fact is None and self._stays_open(call):
                answered.text, answered.open = "", True
                return answered
        self._encode(answered, draft)
        return answered if answered.value is not None else self.as_text(self._calls[call.key])

    def _as_sent(self, call: Call, told: Told) -> Answered:
        fact = next((f for f in call.facts if f.fact_id == told.result), None) if told.result else None
        return Answered(call, told.outcome, fact, told.text, open=told.text == "")

    def _stays_open(self, call: Call) -> bool:
        return self._wire.may_stay_open(call) and (call.outcome.kind == "pending" or not call.facts)

    def _encode(self, answered: Answered, draft: Draft) -> None:
        """Give a result or a notice its value, and what there is to report of it."""
        call, fact, wire_id = answered.call, answered.fact, self._ids[answered.call.key]
        reports = draft.reports
        apart, reports.notes = reports.notes, answered.notes
        if fact is not None and answered.text is None and self._says(call, fact):
            self._wire.result(answered, wire_id, draft)
            reports.further_results(call)
            # what was read keeps its place where the API takes it anywhere; a live result comes where it fell
            if self.anywhere and ((draft.own and fact.group is not None) or self._wire.may_stay_open(call)):
                answered.after = fact.seq
        else:
            if answered.text is None:
                subject = self._wire.notice_subject(call, wire_id)
                answered.text = notices.notice(call, answered.kind, subject, self._options.notices)
                if fact is not None:  # it says nothing itself; what else is recorded is not sent
                    reports.further_results(call)
            answered.fact = None
            if self.anywhere and draft.own:
                answered.after = _read_at(call)
            self._wire.notice(answered, wire_id, draft)
        reports.notes = apart

    def _says(self, call: Call, fact: Any) -> bool:
        """Whether a recorded result says anything: an error without text is a notice, where no flag says it all."""
        content = fact.content
        if content is None:
            return False
        if not fact.is_error or self._wire.flags_error(call):
            return True
        return bool(content if isinstance(content, str) else any(not _blank(part) for part in content))

    def as_text(self, call: Call) -> Answered:
        """What is known of a call that this API cannot be shown as a call."""
        kind = notices.told_kind(call, running=self._running)
        text = notices.told_as_text(call, kind, self._ids[call.key], self._options.notices)
        return Answered(call, kind, call.result if kind == "completed" else None, text)

    def leave_as_text(self, piece: Piece, draft: Draft, why: str, cause: str | None = None) -> None:
        """Leave a call out of its reply; what is known of it is rendered as text behind the reply."""
        call = self._calls[piece.key or ""]
        answered = draft.answers.pop(call.key, None)
        if answered is None or answered.value is not None or answered.open:
            answered = self.as_text(call)
        piece.value = None
        draft.dropped = draft.changed = True
        draft.as_text.append(answered)
        draft.reports.rendered_as_text(draft.entry, call, answered.kind, why, cause, answered.text)

    # ------------------------------------------------------------ where it stands

    def place(self, calls: list[Call], draft: Draft, turn: UserTurn, rendered: Rendered[Flow]) -> None:
        """The results of the calls in one message of the model, in front of all else that the user's side says."""
        history = self._history
        if len(calls) > 1:
            calls = in_order(calls, history.told)
        sent: list[tuple[Call, CallFact]] = []
        for call in calls:
            if (answered := draft.answers.pop(call.key, None)) is None:
                if not history.told and (value := self._plain(call)) is not None:
                    self._wire.put_result(value, call.facts[0], turn, draft)
                    rendered.told.append((call.key, "completed", None, call.part.name))
                    sent.append((call, call.facts[0]))
                    continue
                answered = self.answer(call, draft)
            self.put(answered, draft, turn, rendered)
            if answered.fact is not None:
                sent.append((call, answered.fact))
        self._note_moved(sent, draft)

    def _plain(self, call: Call) -> Value | None:
        """The value of a result of one text of which nothing else is on record: the usual case."""
        fact = recorded_text(call)
        if fact is None:
            return None
        return self._wire.plain_result(call, self._ids[call.key], fact.content)  # type: ignore[arg-type]

    def put(self, answered: Answered, draft: Draft, turn: UserTurn, rendered: Rendered[Flow]) -> None:
        """One result or notice; a call that stays open has none."""
        draft.reports.notes.extend(answered.notes)
        call = answered.call
        rendered.told.append((call.key, answered.kind, answered.text, call.part.name))
        if answered.value is None:
            return
        if answered.text is not None:
            draft.reports.notice(call, answered.kind)
            draft.changed = draft.changed or not was_read(call, answered.text)
        self._wire.put_result(answered.value, answered.fact or _attested(call), turn, draft)

    def put_as_text(self, answered: Answered, turn: UserTurn, rendered: Rendered[Flow]) -> None:
        """A call that is rendered as text, for good once it was sent so."""
        call = answered.call
        turn.text(answered.text or "")
        rendered.told.append((call.key, answered.kind, answered.text, call.part.name))
        rendered.choices.append((RENDERED_AS_TEXT, call.key, None))

    def _note_moved(self, sent: list[tuple[Call, CallFact]], draft: Draft) -> None:
        """Report results that stood behind text of the user's side, or behind a later reply."""
        if not sent:
            return
        step = draft.step
        places = [entry.fact.seq for entry in step.behind if self._wire.stands_here(entry)]
        if not step.last:
            places.append(self._entries[step.end].fact.seq)
        if not places:
            return
        cutoff = min(places)
        for call, fact in sent:
            if fact.seq > cutoff:
                draft.changed = True
                draft.reports.moved_result(call, fact.fact_id)


def recorded_text(call: Call) -> CallCompleted | None:
    """The recorded result of a call, if it is one text, says all of its block, and nothing else is on record."""
    facts = call.facts
    if len(facts) != 1:
        return None
    fact = facts[0]
    if fact.kind == "call_completed" and fact.raw is None and type(fact.content) is str and not fact.is_error:
        return fact
    return None


def in_order(calls: list[Call], told: Mapping[str, Told]) -> list[Call]:
    """As they were sent; else as they were recorded, if all were; else in the order of the calls."""
    if all(call.key in told for call in calls):
        order = {key: n for n, key in enumerate(told)}
        return sorted(calls, key=lambda call: order[call.key])
    places = {call.key: at for call in calls if (at := _recorded_at(call)) is not None}
    return sorted(calls, key=lambda call: places[call.key]) if len(places) == len(calls) else calls


def _recorded_at(call: Call) -> int | None:
    """Where the result of a call, or the notice that was read in its place, stood."""
    for fact in call.facts:
        if fact.kind == "call_completed" or (
            fact.kind == "outcome_attested" and fact.attestor == "importer" and not fact.late
        ):
            return fact.seq
    return None


def _attested(call: Call) -> Any:
    """The notice that was read in a result's place, if one was."""
    return next((f for f in call.facts if f.kind == "outcome_attested" and f.group is not None), None)


def _read_at(call: Call) -> int | None:
    fact = _attested(call)
    return fact.seq if fact is not None else None


def was_read(call: Call, text: str) -> bool:
    """Whether a notice stood in what was read, in the same words."""
    body = text.split("\n", 1)[1].rpartition("\n")[0] if "\n" in text else text
    return any(f.kind == "outcome_attested" and f.notice is not None and f.notice == body for f in call.facts)


def _blank(part: Any) -> bool:
    return part.kind == "text" and not part.text
