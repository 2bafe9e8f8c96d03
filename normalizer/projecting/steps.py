"""One step of the history as messages: the reply, the results of its calls, then what else the user's side says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from normalizer import notices
from normalizer.facts import News
from normalizer.projecting.draft import Draft, Flow, Quote
from normalizer.projecting.incremental import Rendered
from normalizer.projecting.late_updates import LateUpdates, among
from normalizer.projecting.replies import Replies
from normalizer.projecting.reports import Reports
from normalizer.projecting.tool_results import ToolResults
from normalizer.projecting.user_turn import UserTurn

if TYPE_CHECKING:
    from normalizer.projecting.context import Context
    from normalizer.projecting.incremental import Rendering, Step
    from normalizer.projecting.wire import Wire
    from normalizer.transcript import Call

_HEADS = frozenset({"instructions", "tools"})


class Renderer:
    """Renders the steps of one projection."""

    __slots__ = ("_context", "_ids", "_replies", "_results", "_updates", "_wire")

    def __init__(self, context: Context, wire: Wire) -> None:
        self._context = context
        self._ids = context.ids.by_key.lookup
        self._wire = wire
        self._results = ToolResults(context, wire)
        self._replies = Replies(context, wire, self._results)
        self._updates = LateUpdates(context)
        wire.bind(self._results, self._updates)

    def __call__(self, step: Step, flow: Flow, before: Rendering[Flow]) -> Rendered[Flow]:
        """The messages of one step."""
        draft = Draft(step, Reports(self._context.dialect.because), set(flow.held))
        rendered: Rendered[Flow] = Rendered([], flow, draft.reports.notes, choices=draft.choices)
        spoken = self._replies.render(step, flow, before, draft) if step.reply is not None else []
        asks = flow.asks
        turn = UserTurn(rendered.messages, self._context.dialect)
        here: list[tuple[int, Any]] = list(flow.carry)
        for each in spoken:
            rendered.messages.extend(each.messages)
            asks = any(not _stays_open(call, draft) for call in each.calls)
            here.extend(self._place(each.calls, draft, turn, rendered))
        for answered in draft.as_text:
            self._results.put_as_text(answered, turn, rendered)
            self._media(answered.call.key, answered.fact.fact_id if answered.fact else None, turn, draft)
            asks = True
        self._wire.after_results(turn, draft)
        waiting, carry = self._behind(step, flow, here, turn, draft, rendered)
        turn.close()
        rendered.asks = asks or turn.asks
        discarded = (*flow.discarded, *draft.discarded)
        if step.last or self._context.history.base is None:
            discarded = ()
        own = self._wire.finish(step, flow, draft, rendered)
        rendered.open = rendered.open or bool(carry) or bool(draft.held)
        new = Flow(rendered.asks, discarded, frozenset(draft.held), waiting, carry, own)
        rendered.flow = flow if new == flow else new
        return rendered

    # ------------------------------------------------------------ results that may stand anywhere

    def _place(
        self, calls: list[Any], draft: Draft, turn: UserTurn, rendered: Rendered[Flow]
    ) -> list[tuple[int, str]]:
        """Put the results of these calls behind them; those that stand further on are given back with their `seq`."""
        if not self._results.anywhere:
            self._results.place(calls, draft, turn, rendered)
            return []
        step = draft.step
        cutoff = step.behind[0].fact.seq if step.behind else None if step.last else self._next(step)
        front, apart = [], []
        for call in calls:
            after = draft.answers[call.key].after
            if after is None or cutoff is None or after < cutoff:
                front.append(call)
            else:
                apart.append((after, call.key))
        self._results.place(front, draft, turn, rendered)
        return apart

    def _next(self, step: Step) -> int:
        """The `seq` of the reply behind a step that is not the last."""
        seq: int = self._context.transcript.entries[step.end].fact.seq
        return seq

    # ------------------------------------------------------------ the user's side

    def _behind(
        self, step: Step, flow: Flow, here: list[tuple[int, Any]], turn: UserTurn, draft: Draft,
        rendered: Rendered[Flow],
    ) -> tuple[tuple[Any, ...], tuple[tuple[int, str], ...]]:  # fmt: skip
        """What stands behind the reply and its results, by `seq`: what waits for a later place, outputs further on."""
        discarded = (*flow.discarded, *draft.discarded)
        items = [*flow.waiting, *draft.quotes, *self._updates.items(step, discarded)]
        if not self._wire.takes_text(draft):
            self._withhold(step, items, draft)
            return tuple(items), ()
        carry: tuple[tuple[int, str], ...] = ()
        if here:
            limit = None if step.last else self._next(step)
            carry = tuple(found for found in here if limit is not None and found[0] > limit)
            items = among(items, [found for found in here if found not in carry])
        for item in items:
            self._put(item, turn, draft, rendered)
        return (), carry

    def _put(self, item: Any, turn: UserTurn, draft: Draft, rendered: Rendered[Flow]) -> None:
        """An entry, a late update, or the output of a call of an earlier step (its key)."""
        if isinstance(item, str):
            call = self._context.transcript.calls[item]
            answered = draft.answers.pop(item, None) or self._results.answer(call, draft)
            self._results.put(answered, draft, turn, rendered)
            turn.asks = True
        elif isinstance(item, Quote):
            turn.text(item.text)  # it tells, and asks nothing
        elif isinstance(item, News):
            self._update(item, turn, draft, rendered)
        elif item.kind in _HEADS:
            self._wire.later_head(item, turn, draft)
        elif item.kind == "news":
            fact: Any = item.fact
            turn.text(notices.news_again(fact, self._ids[fact.call_id]), fact.group)
            turn.asks = turn.asks or draft.step.reply is not None
        elif self._wire.said(item, turn, draft):
            turn.asks = True

    def _update(self, item: News, turn: UserTurn, draft: Draft, rendered: Rendered[Flow]) -> None:
        """A late update, and the media of the result that it brings."""
        if not self._wire.late_update(item, turn, draft):
            turn.text(item.text)
            self._media(item.call_id, item.result, turn, draft)
        turn.asks = turn.asks or draft.step.reply is not None  # at the beginning, updates alone ask nothing
        self._updates.note(item, draft, rendered)

    def _media(self, key: str, result: str | None, turn: UserTurn, draft: Draft) -> None:
        """What a result that is rendered as text holds beside text, under a label that names its call."""
        parts = notices.beyond_words(self._context.transcript.calls.get(key), result)
        if parts and (blocks := self._wire.result_media(parts, key, draft, result or "")):
            label = {
                "type": self._context.dialect.text_type,
                "text": f"[from the result of call {self._ids[key]}]",
            }
            turn.add([label, *blocks])

    def _withhold(self, step: Step, items: list[Any], draft: Draft) -> None:
        """While only results may stand here, everything else waits for the next place."""
        for item in items if step.last else ():
            if isinstance(item, Quote):
                continue  # its call was reported whole
            update = isinstance(item, News)
            if not update and item.kind in _HEADS and item.fact.fact_id not in self._wire.head.later:
                continue
            draft.reports.add(
                "withheld_news" if update else "withheld_steering",
                "it waits: the provider's server goes on with its own call first",
                "closed-to-text",
                call_id=item.call_id if update else None,
                facts=() if update else (item.fact.fact_id,),
                content=item.text,
            )


def _stays_open(call: Call, draft: Draft) -> bool:
    """Whether a call has no result in this request, so that nothing is asked with it."""
    answered = draft.answers.get(call.key)
    return answered is not None and answered.open
