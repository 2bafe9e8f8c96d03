"""Late updates: what became known of calls after something else was sent of them, and of what is not shown as a call.

An update stands behind everything that was sent. Once it was sent itself, it stays in its place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from normalizer import notices
from normalizer.facts import News
from normalizer.projecting.draft import Quote
from normalizer.projecting.sent_history import state
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from normalizer.projecting.context import Context
    from normalizer.projecting.draft import Draft, Flow
    from normalizer.projecting.incremental import Rendered, Step
    from normalizer.projecting.sent_history import State
    from normalizer.transcript import Call


class LateUpdates:
    """The late updates of one projection. `by_step` holds those that were sent, by the reply that they stand behind."""

    __slots__ = ("_calls", "_changed", "_history", "_ids", "_options", "_running", "by_step")

    def __init__(self, context: Context) -> None:
        self._calls = context.transcript.calls
        self._history = context.history
        self._ids = context.ids.by_key.lookup
        self._options = context.options
        self._changed = context.changed_since_sent.keys
        self._running = context.running
        self.by_step: dict[str | None, list[News]] = {}
        for item in context.history.news:
            self.by_step.setdefault(item.after, []).append(item)

    def items(self, step: Step, discarded: tuple[str, ...]) -> list[Any]:
        """The entries behind a reply and the updates among them, by `seq`.

        `discarded` are keys of calls that are not shown as calls: what is known of them is rendered as text.
        """
        found = list(self.by_step.get(step.after, ()))
        if step.last and self._history.base is not None:
            found.extend(self._fresh(step))
        if discarded and (step.last or self._history.base is None):
            found.extend(self._of_discarded(step, discarded))
        return among(step.behind, [(item.seq, item) for item in found]) if found else list(step.behind)

    def _fresh(self, step: Step) -> Iterator[News]:
        """Calls of which something else, or that they run or are open, was said in an earlier request."""
        for key in self._changed:
            call, told = self._calls[key], self._history.states[key]
            kind = notices.told_kind(call, running=self._running)
            now = state(call, kind)
            if told[1] and now[1]:
                continue
            record = self._history.told.get(key)
            wire_id = record.wire_id if record is not None and record.wire_id else self._ids[key]
            if not self.left_open(key):
                render = notices.told_as_text if key in self._history.as_text else notices.late_news
                yield self._update(step, call, now, render(call, kind, wire_id, self._options.notices))
            elif call.facts and call.outcome.kind != "pending":
                # the one result of a call that was left open: verbatim, else a notice in its place
                text = "" if now[1] else notices.notice(call, kind, wire_id, self._options.notices)
                yield self._update(step, call, now, text)

    def left_open(self, key: str) -> bool:
        """Whether a call was sent without a result, and nothing was sent of it since."""
        record = self._history.told.get(key)
        return (
            record is not None
            and record.text == ""
            and all(item.call_id != key for item in self._history.news)
        )

    def brings_result(self, item: News) -> bool:
        """Whether an update is the first of a call that was sent without a result, and so may bring that result."""
        record = self._history.told.get(item.call_id)
        first = next((news for news in self._history.news if news.call_id == item.call_id), item)
        return record is not None and record.text == "" and first is item

    def _of_discarded(self, step: Step, keys: tuple[str, ...]) -> Iterator[News]:
        """Calls that may not be shown as calls, though they did something."""
        for key in keys:
            call = self._calls[key]
            kind = notices.told_kind(call, running=self._running)
            if key not in self._history.states and kind not in ("denied", "never_run") and call.facts:
                text = notices.told_as_text(call, kind, self._ids[key], self._options.notices)
                yield self._update(step, call, state(call, kind), text)

    def _update(self, step: Step, call: Call, now: State, text: str) -> News:
        """It stands at the call's newest fact, and never before what was sent."""
        sent = self._history.base.through if self._history.base is not None else 0
        seq = max(call.facts[-1].seq if call.facts else 0, sent)
        return News(call.key, now[0], text, seq, after=step.after, result=now[1], effects=now[2])

    def note(self, item: News, draft: Draft, rendered: Rendered[Flow]) -> None:
        """Report an update that is sent for the first time, and where it stands."""
        if item in self._history.news:
            return
        rendered.news.append(replace(item, after=draft.step.after))
        discarded = item.call_id not in self._history.told and item.call_id not in self._history.states
        why = (
            "is told in words: its reply is left out"
            if discarded
            else "was told otherwise before; what is known now is told at the end"
        )
        draft.reports.add(
            "told_as_text" if discarded else "late_news", f"call {named(item.call_id)} {why}", item.outcome,
            call_id=item.call_id, facts=(item.result,) if item.result else (), content=item.text or None,
        )  # fmt: skip


def among(items: Iterable[Any], more: list[tuple[int, Any]]) -> list[Any]:
    """These entries and updates with others among them, each behind the last one that is not newer than its `seq`.

    The entries keep their order: a summary stands before what it kept, though it is newer.
    """
    found = [(seq_of(item), item) for item in items]
    for seq, item in sorted(more, key=lambda given: given[0]):
        at = next((n for n in range(len(found), 0, -1) if found[n - 1][0] <= seq), 0)
        found.insert(at, (seq, item))
    return [item for _, item in found]


def seq_of(item: Any) -> int:
    """The place of an entry, a late update or a quote in the conversation."""
    seq: int = item.seq if isinstance(item, (News, Quote)) else item.fact.seq
    return seq
