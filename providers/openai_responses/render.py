"""One step of the history as items: the reply, the outputs behind it, and what else the user's side says.

Outputs come first, unless they were read in another place; then late news and words in order of `seq`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from normalizer import notices
from normalizer.facts import News
from normalizer.projecting.incremental import Rendered, Rendering, Step
from normalizer.projecting.old_late_updates import LateNews, seq_of
from normalizer.projecting.old_tool_results import in_order
from normalizer.projecting.sent_history import state
from normalizer.providers.openai_responses import assistant_turn, user_turn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from normalizer.projecting.preamble import Preamble
    from normalizer.projecting.sent_history import Chain
    from normalizer.projection import Adjustment, Options
    from normalizer.providers.openai_responses.decoding import Item
    from normalizer.providers.openai_responses.tool_results import Answer
    from normalizer.transcript import Call, Transcript


@dataclass(frozen=True, slots=True)
class Flow:
    """What a step hands to the next.

    `carry` are calls whose outputs were read further on: the `seq` of each output, and the call's key. `asks`: the last
    item is the user's side's. `decided` are the server's questions that were answered, `held` the keys of its calls
    whose result comes later, or may come, `aside` those of void calls that the last step will tell.
    """

    carry: tuple[tuple[int, str], ...] = ()
    asks: bool = False
    decided: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()
    aside: tuple[str, ...] = ()


FIRST: Final = Flow()


@dataclass(slots=True)
class Out:
    """A step while it is being made.

    `items` are the reply's, `calls` the client's calls in it, `answers` what is told of each, `told` those in words,
    `quotes` notes on another provider's server calls, `decisions` answers to the server's questions, `gone` the keys of
    server calls that are left out, `held` of those whose result comes later. `open_tail`: a question of the server's
    waits. `aside` are keys of void calls of a reply that was sent: what is known of them comes at the end.
    """

    items: list[Item] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)
    told: list[tuple[Call, Answer]] = field(default_factory=list)
    quotes: list[str] = field(default_factory=list)
    decisions: dict[str, Item] = field(default_factory=dict)
    aside: list[str] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    notes: list[Adjustment] = field(default_factory=list)
    choices: list[tuple[str, str, str | None]] = field(default_factory=list)
    open_tail: bool = False


_SILENT: Final = frozenset({"developer", "system"})


class Renderer:
    """Renders the steps of one projection. `owners` says which part of which reply has an item id first."""

    def __init__(
        self, transcript: Transcript, options: Options, model: str | None, chain: Chain, ids: dict[str, str],
        head: Preamble, owners: Mapping[str, tuple[str, int]], stirred: tuple[str, ...],
    ) -> None:  # fmt: skip
        self.transcript = transcript
        self.entries = transcript.entries
        self.calls = transcript.calls
        self.server_calls = transcript.server_calls
        self.options = options
        self.model = model
        self.chain = chain
        self.ids = ids
        self.head = head
        self.running = options.open_calls == "say_running"
        self._owners = owners
        self.news = LateNews(self.calls, chain, ids, options, stirred)

    def owns(self, item_id: str, fact_id: str, number: int) -> bool:
        """Whether this part is the first with its item's id."""
        return self._owners.get(item_id, (fact_id, number)) == (fact_id, number)

    def decision(self, key: str, step: Step) -> Any:
        """The host's fact that answers a question of the server's before the next reply; the first one holds."""
        kept = self.transcript._kept  # noqa: SLF001 - facts about what is no call of the client's
        waiting = kept.waiting.get(key, ()) if kept is not None else ()
        found = next((fact for fact in waiting if fact.kind in ("approval_given", "approval_denied")), None)
        return found if found is not None and (step.last or found.seq < self._next(step)) else None

    def __call__(self, step: Step, flow: Flow, before: Rendering[Flow]) -> Rendered[Flow]:  # noqa: ARG002
        """The items of one step."""
        out = Out(held=set(flow.held))
        if step.reply is not None:
            assistant_turn.render(self, step, out)
        rendered: Rendered[Flow] = Rendered(out.items, flow, out.notes, choices=out.choices)
        aside = (*flow.aside, *out.aside)
        side = self._side(step, flow, out, rendered, aside)
        had_reply = bool(out.items)
        asks = flow.asks and not had_reply
        decided = set(flow.decided)
        for item in side.items:
            if item.get("type") == "mcp_approval_response":
                if item["approval_request_id"] in decided:
                    continue  # the first decision holds
                decided.add(item["approval_request_id"])
            if item.get("role") not in _SILENT and item.get("type") != "additional_tools":
                asks = True
            rendered.messages.append(item)
        rendered.asks = asks
        rendered.open = out.open_tail or bool(side.carry) or bool(out.held)
        aside = () if step.last else aside
        rendered.flow = Flow(side.carry, asks, frozenset(decided), frozenset(out.held), aside)
        if rendered.flow == flow:
            rendered.flow = flow
        return rendered

    # ------------------------------------------------------------ the user's side

    def _side(
        self, step: Step, flow: Flow, out: Out, rendered: Rendered[Flow], aside: tuple[str, ...]
    ) -> user_turn.Side:
        side = user_turn.Side(self, step, out, rendered)
        placed: list[tuple[int, Any]] = list(flow.carry)
        front: list[Call] = []
        first = step.behind[0].fact.seq if step.behind else None
        for call in out.calls:
            after = out.answers[call.key].after
            border = first if first is not None else None if step.last else self._next(step)
            if after is None or border is None or after < border:
                front.append(call)
            else:
                placed.append((after, call.key))
        for call in in_order(front, self.chain.told):
            side.output(call, out.answers[call.key])
        for call, found in out.told:
            side.told(call, found)
        side.items.extend(out.decisions.values())
        side.items.extend({"role": "user", "content": text} for text in out.quotes)
        here: list[tuple[int, Any]] = [
            (seq_of(item), item) for item in (*step.behind, *self._items(step, aside))
        ]
        limit = None if step.last else self._next(step)
        for seq, key in placed:
            if limit is not None and seq > limit:
                side.carry = (*side.carry, (seq, key))
            else:
                here.append((seq, key))
        for _, item in sorted(here, key=lambda found: found[0]):
            side.add(item)
        return side

    def _next(self, step: Step) -> int:
        """The `seq` of the reply behind a step that is not the last."""
        seq: int = self.entries[step.end].fact.seq
        return seq

    def _items(self, step: Step, aside: tuple[str, ...]) -> list[News]:
        """News of this chain that stands in this step, and what there is to tell since the last request."""
        found = list(self.news.by_step.get(step.after, ()))
        if step.last and self.chain.base is not None:
            found.extend(self._fresh_news(step))
            found.extend(self.news.aside(step, aside))
        return found

    def _fresh_news(self, step: Step) -> list[News]:
        """News about calls that were told otherwise, or left open, in an earlier request of this chain."""
        found = []
        for key in self.news.stirred:
            call, told = self.calls[key], self.chain.states[key]
            kind = notices.told_kind(call, running=self.running)
            now = state(call, kind)
            if told[0] == "void" or (told[1] and now[1]):
                continue
            record = self.chain.told.get(key)
            wire_id = record.wire_id if record is not None and record.wire_id else self.ids[key]
            again = any(news.call_id == key for news in self.chain.news)
            left_open = record is not None and record.text == "" and not again
            if left_open and (call.outcome.kind == "pending" or not call.facts):
                continue
            if left_open:
                text = "" if now[1] else notices.notice(call, kind, wire_id, self.options.notices)
            else:
                words = notices.told_as_text if key in self.chain.aside else notices.late_news
                text = words(call, kind, wire_id, self.options.notices)
            seq = call.facts[-1].seq if call.facts else 0
            news = News(key, now[0], text, after=step.after, seq=seq, result=now[1], effects=now[2])
            found.append(news)
        return found
