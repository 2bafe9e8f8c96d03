"""News of calls: of what was told otherwise before, and of what may not be shown as a call though it did something.

News stands behind everything that was sent. Once it was sent, it stays in its place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from normalizer import notices
from normalizer.facts import News
from normalizer.projecting.sent_history import state
from normalizer.projection import Adjustment
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from normalizer.projecting.incremental import Rendered, Step
    from normalizer.projecting.sent_history import Chain, State
    from normalizer.projection import Options
    from normalizer.transcript import Call


class LateNews:
    """The news of one projection. `by_step` holds what was sent, by the reply that it stands behind.

    `stirred` are the keys of calls of which something else is known than was told, `ids` the ids on the wire.
    """

    def __init__(
        self,
        calls: Mapping[str, Call],
        chain: Chain,
        ids: Mapping[str, str],
        options: Options,
        stirred: tuple[str, ...],
    ) -> None:
        self.calls = calls
        self.chain = chain
        self.ids = ids
        self.options = options
        self.stirred = stirred
        self.running = options.open_calls == "say_running"
        self.by_step: dict[str | None, list[News]] = {}
        for item in chain.news:
            self.by_step.setdefault(item.after, []).append(item)

    def items(self, step: Step, aside: tuple[str, ...]) -> list[Any]:
        """The entries behind a reply and the news among them, by `seq`. `aside` are keys of calls to tell in words."""
        items: list[Any] = [*step.behind, *self.by_step.get(step.after, ())]
        if step.last and self.chain.base is not None:
            items.extend(self._fresh(step))
        if aside and (step.last or self.chain.base is None):
            items.extend(self.aside(step, aside))
        if len(items) > len(step.behind):
            items.sort(key=seq_of)
        return items

    def _fresh(self, step: Step) -> Iterator[News]:
        """News about calls that were told otherwise, or as running, in an earlier request of this chain."""
        for key in self.stirred:
            call, told = self.calls[key], self.chain.states[key]
            kind = notices.told_kind(call, running=self.running)
            now = state(call, kind)
            if not (told[1] and now[1]):
                told_before = self.chain.told.get(key)
                wire_id = (told_before.wire_id if told_before else None) or self.ids[key]
                tell = notices.told_as_text if key in self.chain.aside else notices.late_news
                yield self._news(step, call, now, tell(call, kind, wire_id, self.options.notices))

    def aside(self, step: Step, keys: tuple[str, ...]) -> Iterator[News]:
        """Calls that may not be shown as calls, though they did something, told in words."""
        for key in keys:
            call = self.calls[key]
            kind = notices.told_kind(call, running=self.running)
            if key not in self.chain.states and kind not in ("denied", "never_run") and call.facts:
                text = notices.told_as_text(call, kind, self.ids[key], self.options.notices)
                yield self._news(step, call, state(call, kind), text)

    def _news(self, step: Step, call: Call, now: State, text: str) -> News:
        """News of a call: it stands at the call's newest fact, and never before what was sent."""
        sent = self.chain.base.through if self.chain.base is not None else 0
        seq = max(call.facts[-1].seq if call.facts else 0, sent)
        return News(call.key, now[0], text, seq, after=step.after, result=now[1], effects=now[2])

    def note(self, step: Step, item: News, rendered: Rendered[Any]) -> None:
        """Report news that is told for the first time, and where it stands."""
        if item in self.chain.news:
            return
        rendered.news.append(replace(item, after=step.after))
        aside = item.call_id not in self.chain.told and item.call_id not in self.chain.states
        why = (
            "is told in words: its reply is left out"
            if aside
            else "was told otherwise before; what is known now is told at the end"
        )
        rendered.adjustments.append(
            Adjustment("told_as_text" if aside else "late_news", f"call {named(item.call_id)} {why}", item.outcome,
                       item.call_id, (item.result,) if item.result else (), item.text or None)
        )  # fmt: skip


def seq_of(item: Any) -> int:
    """The place of an entry, or of news, in the conversation."""
    seq: int = item.seq if isinstance(item, News) else item.fact.seq
    return seq
