"""One step of the history as messages: the reply, the results behind it, and what else the user's side says.

Results come first, then late news and words in order of `seq`, then system messages. Where a server call is
kept open, nothing but results may stand behind it, and the rest waits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from normalizer import notices
from normalizer.chains import state
from normalizer.facts import News
from normalizer.projection import Adjustment
from normalizer.providers.anthropic import answers, keys, marks, replies, wire, words
from normalizer.redaction import named
from normalizer.stepping import Rendered, Rendering, Step

if TYPE_CHECKING:
    from normalizer.chains import Chain
    from normalizer.projection import Options
    from normalizer.providers.anthropic.top import Top
    from normalizer.transcript import Call, Entry, Transcript


@dataclass(frozen=True, slots=True)
class Flow:
    """What a step hands to the next.

    `started`: a message stands before it. `intact`: nothing before it differs from what was read. `held` are
    keys of server calls that were kept open, `waiting` entries and news that found no place yet.
    `after_user`: the last message is the user's side's. `betas` are block types that need a beta; `container`
    is that of waiting code.
    """

    started: bool = False
    intact: bool = True
    after_user: bool = False
    held: frozenset[str] = frozenset()
    waiting: tuple[Any, ...] = ()
    betas: frozenset[str] = frozenset()
    marks: int = 0
    container: str | None = None
    after_result: bool = False
    system: tuple[Entry, ...] = ()
    aside: tuple[str, ...] = ()


@dataclass(slots=True)
class Out:
    """A step while it is being made.

    `blocks` are the reply's, `calls` the client calls in it that want a result, `told_aside` those that are
    told as text. `changed` says that something differs from what was received; `open_tail` that the server
    goes on from here.
    """

    blocks: list[dict[str, Any]]
    calls: list[Call]
    told_aside: list[Call]
    notes: list[Adjustment]
    choices: list[tuple[str, str, str | None]]
    held: frozenset[str]
    betas: set[str]
    changed: bool = False
    open_tail: bool = False
    dropped: bool = False
    string: bool = False
    container: str | None = None


_NONE: Final[list[Any]] = []  # for steps that report nothing; never appended to
_USER_SIDE: Final = frozenset({"user", "steering", "summary", "news"})
_SYSTEM_SIDE: Final = frozenset({"instructions", "tools"})


class Renderer:
    """Renders the steps of one projection."""

    def __init__(
        self,
        transcript: Transcript,
        options: Options,
        model: str,
        chain: Chain,
        ids: dict[str, str],
        head: Top,
        stirred: tuple[str, ...],
    ) -> None:
        self.transcript = transcript
        self.entries = transcript.entries
        self.calls = transcript.calls
        self.server_calls = transcript.server_calls
        self.options = options
        self.model = model
        self.row = wire.capability(model)
        self.family = wire.family(model)
        self.chain = chain
        self.ids = ids
        self.head = head
        self.stirred = stirred
        self.running = options.open_calls == "say_running"
        self.news_by_step: dict[str | None, list[News]] = {}
        for item in chain.news:
            self.news_by_step.setdefault(item.after, []).append(item)
        self._first_user: int | None = None
        self._leads: bool | None = None
        self.usual = not chain.told and not chain.news and not head.names and not chain.states

    def __call__(self, step: Step, flow: Flow, before: Rendering[Flow]) -> Rendered[Flow]:
        """The messages of one step."""
        if self.usual and not step.last and flow.started and not (flow.held or flow.waiting or flow.system):
            messages, told = self._usual(step)
            if messages is not None:
                return Rendered(
                    messages,
                    flow if flow.after_user else replace(flow, after_user=True),
                    _NONE,
                    told,
                    _NONE,
                    _NONE,
                )
        out = Out([], [], [], [], [], flow.held, set())
        if step.reply is not None:
            replies.render(self, step, flow, before, out)
            if out.blocks and not flow.started:
                self._begin(step, out)
        messages = []
        after_user, after_result, system = flow.after_user, flow.after_result, flow.system
        if out.blocks:
            if system and (after_user or after_result):
                self._speak(system, messages, out)
                system = ()
            content: Any = out.blocks
            if out.string and len(out.blocks) == 1 and len(out.blocks[0]) == 2:
                content = out.blocks[0]["text"]
            messages.append({"role": "assistant", "content": content})
            after_user, after_result = False, _ends_in_server_result(messages[-1])
        rendered: Rendered[Flow] = Rendered(messages, flow, out.notes, [], [], out.choices)
        had = len(messages)
        waiting, late, aside = self._user_side(step, flow, out, rendered)
        if len(messages) > had:
            after_user, after_result = True, False
        system = (*system, *late) if late else system
        if step.last and system and (after_user or after_result):
            self._speak(system, messages, out)
            system = ()
        elif step.last and system:
            self._keep_back(system, rendered)
        rendered.open = bool(out.held)
        rendered.asks = out.open_tail or (after_user and (len(messages) > had or flow.after_user))
        if step.index == 0 and step.reply is None and self.first_user() >= len(self.entries):
            rendered.asks = False  # nothing but news: nobody has asked anything
        if step.last and step.reply is not None and not rendered.asks:
            rendered.asks = self._prefill(step, messages, rendered)
        found = sum(marks.count(m["content"]) for m in messages) if _has_marks(messages) else 0
        betas = flow.betas | out.betas if not out.betas <= flow.betas else flow.betas
        rendered.flow = _flow(
            flow, messages, out, waiting, betas, found,
            after_user=after_user, after_result=after_result, system=system, aside=aside,
        )  # fmt: skip
        return rendered

    def _usual(self, step: Step) -> tuple[list[dict[str, Any]] | None, list[Any]]:
        """The step that most histories consist of: text and calls, each call with a plain recorded result, then perhaps
        plain words. None where anything else is in it; the long way makes the same of it.
        """
        reply = step.reply
        nothing: tuple[None, list[Any]] = (None, [])
        if reply is None or reply.fact.kind != "model_replied" or len(step.behind) > 1:
            return nothing
        fact: Any = reply.fact
        if fact.stop_reason == "refusal" or fact.string:
            return nothing
        blocks: list[dict[str, Any]] = []
        results: list[dict[str, Any]] = []
        told: list[Any] = []
        ids, calls, keys = self.ids, self.calls, iter(reply.calls)
        group: int | None = None
        last = -1
        part: Any
        for part in reply.parts:
            kind = part.kind
            if part.raw is not None:
                return nothing
            if kind == "text":
                text = part.text
                if not text or text.isspace():
                    return nothing
                blocks.append({"type": "text", "text": text})
            elif kind == "tool_call":
                key = next(keys)
                given = part.arguments._value  # noqa: SLF001 - the usual case without a property call
                if key is None or type(given) is not dict or ids[key] != part.id:
                    return nothing
                facts = calls[key].facts
                if len(facts) != 1:
                    return nothing
                done: Any = facts[0]
                if (
                    done.kind != "call_completed"
                    or type(done.content) is not str
                    or done.raw is not None
                    or done.is_error
                ):
                    return nothing
                if (results and done.group != group) or done.seq < last:
                    return nothing
                group, last = done.group, done.seq
                blocks.append({"type": "tool_use", "id": part.id, "name": part.name, "input": given})
                results.append({"type": "tool_result", "tool_use_id": part.id, "content": done.content})
                told.append((key, "completed", None, part.name))
            else:
                return nothing
        if not blocks:
            return nothing
        messages: list[dict[str, Any]] = [{"role": "assistant", "content": blocks}]
        if results:
            if self.entries[step.end].fact.seq < last:
                return nothing  # the result came after the next reply
            messages.append({"role": "user", "content": results})
        if step.behind:
            entry = step.behind[0]
            said: Any = entry.fact
            if (
                entry.kind != "user"
                or len(entry.parts) != 1
                or (results and (said.group == group or said.group is None or said.seq < last))
            ):
                return nothing
            part = entry.parts[0]
            if part.kind != "text" or part.raw is not None or not part.text or part.text.isspace():
                return nothing
            content: Any = part.text if said.string else [{"type": "text", "text": part.text}]
            messages.append({"role": "user", "content": content})
        elif not results:
            return nothing
        return messages, told

    # ------------------------------------------------------------ the beginning

    def first_user(self) -> int:
        """The index of the first entry of the user's side that can begin a request; beyond all entries without one.

        Words that came beside results cannot: a history is never cut at a turn of results.
        """
        if self._first_user is None:
            self._first_user = len(self.entries)
            results: set[int | None] = set()
            for n, entry in enumerate(self.entries):
                if entry.kind == "reply":
                    facts = [
                        f for key in entry.calls if key in self.calls for f in self.calls[key or ""].facts
                    ]
                    results.update(f.group for f in facts if f.group is not None)
                elif entry.kind in _USER_SIDE and entry.fact.group not in results and _says(entry):
                    self._first_user = n
                    break
        return self._first_user

    def _begin(self, step: Step, out: Out) -> None:
        """Let a reply begin the request, once sent for good, or leave it out."""
        after = step.after or ""
        if self.chain.chosen("first", after) or self._may_stand_first(out):
            out.choices.append(("first", after, None))
        else:
            self._drop_beginning(step, out)

    def _may_stand_first(self, out: Out) -> bool:
        """Whether a reply may begin the request: after a compaction, or where `leads` says so."""
        return out.blocks[0].get("type") == "compaction" or self.leads()

    def leads(self) -> bool:
        """Whether a reply before all words of the user's side may begin the request.

        It may where nobody else says anything, and where late news was read: what stands before that was sent as it is.
        """
        if self._leads is None:
            first = self.first_user()
            begins = any(entry.kind == "reply" for entry in self.entries[:first])
            self._leads = begins and (
                first >= len(self.entries) or any(entry.kind == "news" for entry in self.entries[first:])
            )
        return self._leads

    def _drop_beginning(self, step: Step, out: Out) -> None:
        """A history whose beginning was cut off starts with the first words of the user's side."""
        out.notes.append(
            Adjustment(
                "dropped_turn",
                "the beginning of the history is cut off: a reply that no message stands before is left out",
                "ANT-ROLE-010",
                facts=(step.after or "",),
                content=replies.text_of(out.blocks),
            )
        )
        for call in out.calls:
            out.notes.append(
                Adjustment("dropped_orphan", f"call {named(call.key)} goes with it", "ANT-ROLE-010", call.key,
                           tuple(f.fact_id for f in call.facts), answers.content_text(call))
            )  # fmt: skip
        out.blocks, out.calls, out.changed, out.dropped = [], [], True, True
        out.held, out.open_tail = frozenset(), False

    def _prefill(self, step: Step, messages: list[dict[str, Any]], rendered: Rendered[Flow]) -> bool:
        """A reply at the end, on a model that would go on with it: its white space at the end goes."""
        fact = step.reply.fact if step.reply is not None else None
        if not self.row.prefill or not messages or getattr(fact, "stop_reason", None) is not None:
            return False
        message = self._without_thoughts(step, messages, rendered)
        if message is None:
            return False
        content = message["content"]
        text = content if isinstance(content, str) else content[-1].get("text") if content else None
        if isinstance(text, str) and text != text.rstrip():
            kept = text.rstrip()
            messages[-1] = {
                "role": "assistant",
                "content": kept
                if isinstance(content, str)
                else [*content[:-1], {**content[-1], "text": kept}],
            }
            rendered.adjustments.append(
                Adjustment("trimmed", "white space at the end of a prefill", "ANT-MSG-006",
                           facts=(step.after or "",), content=text)
            )  # fmt: skip
            rendered.choices.append(("trimmed", step.after or "", None))
        return fact is not None and fact.kind == "model_replied"

    def _without_thoughts(
        self, step: Step, messages: list[dict[str, Any]], rendered: Rendered[Flow]
    ) -> dict[str, Any] | None:
        """The beginning of a reply without reasoning, which it may not hold; None if nothing is left."""
        content = messages[-1]["content"]
        if isinstance(content, str) or not any(b.get("type") in wire.THINKING for b in content):
            return messages[-1]
        kept = [block for block in content if block.get("type") not in wire.THINKING]
        gone = [block for block in content if block.get("type") in wire.THINKING]
        rendered.adjustments.append(
            Adjustment(
                "dropped_reasoning",
                "the beginning of a reply may not hold reasoning",
                "ANT-THK-006",
                facts=(step.after or "",),
                content=replies.text_of(gone),
            )
        )
        messages.pop()
        if kept:
            messages.append({"role": "assistant", "content": kept})
        return messages[-1] if kept else None

    # ------------------------------------------------------------ the user's side

    def _user_side(
        self, step: Step, flow: Flow, out: Out, rendered: Rendered[Flow]
    ) -> tuple[tuple[Any, ...], tuple[Entry, ...], tuple[str, ...]]:
        """Put the user's side of a step behind its reply.

        Returns what waits for a later place, what a system message says, and void calls that the last step will tell.
        """
        side = answers.Side(rendered.messages)
        if out.calls:
            answers.results(self, out, side, rendered, step)
        if (
            len(step.behind) == 1
            and step.behind[0].kind == "user"
            and not (flow.waiting or flow.aside or out.told_aside or step.last or out.held or side.later)
            and step.after not in self.news_by_step
        ):
            self._entry(step.behind[0], side, out)
            side.close()
            return (), (), ()
        aside = (*flow.aside, *(call.key for call in out.told_aside))
        items = self._items(step, flow, aside)
        if step.last or self.chain.base is None:
            aside = ()
        if out.held:
            self._withhold(step, items, rendered)
            side.close()
            return tuple(items), (), aside
        system: list[Any] = []
        passed: dict[str, None] = dict.fromkeys(e.fact.fact_id for e in flow.system) if not out.blocks else {}
        for item in items:
            if not isinstance(item, News) and item.kind in _SYSTEM_SIDE:
                if item.fact.fact_id in self.head.later:
                    system.append(item)
                continue
            if isinstance(item, News):
                self._news(step, item, side, rendered)
            else:
                self._entry(item, side, out)
            passed.update(dict.fromkeys(e.fact.fact_id for e in system))
        self._note_passed(passed, rendered, out)
        for text in side.later:
            side.add([text], None)
        side.close()
        return (), tuple(system), aside

    def _note_passed(self, passed: dict[str, None], rendered: Rendered[Flow], out: Out) -> None:
        """Report system messages that words of the user's side now stand before."""
        for fact_id in passed:
            out.changed = True
            rendered.adjustments.append(
                Adjustment("moved", "a system message stands at the end of the user's turn", "ANT-SYS-005",
                           facts=(fact_id,))
            )  # fmt: skip

    def _items(self, step: Step, flow: Flow, aside: tuple[str, ...]) -> list[Any]:
        """Everything but results, in order: what waited, entries and news by `seq`."""
        items: list[Any] = [*step.behind, *self.news_by_step.get(step.after, ())]
        if step.last and self.chain.base is not None:
            items.extend(self._fresh_news(step))
        if aside and (step.last or self.chain.base is None):
            items.extend(self._aside(step, aside))
        if len(items) > len(step.behind):
            items.sort(key=_seq)
        return [*flow.waiting, *items]

    def _fresh_news(self, step: Step) -> list[News]:
        """News about calls that were told otherwise, or as running, in an earlier request of this chain."""
        found = []
        for key in self.stirred:
            call, told = self.calls[key], self.chain.states[key]
            kind = notices.told_kind(call, running=self.running)
            now = state(call, kind)
            if not (told[1] and now[1]):
                wire_id = self.chain.told[key].wire_id if key in self.chain.told else self.ids[key]
                tell = notices.told_as_text if key in self.chain.aside else notices.late_news
                text = tell(call, kind, wire_id or self.ids[key], self.options.notices)
                found.append(News(key, now[0], text, self._news_seq(call), step.after, now[1], now[2]))
        return found

    def _news_seq(self, call: Call) -> int:
        """Where news of a call stands: at its newest fact, and never before what was sent."""
        sent = self.chain.base.through if self.chain.base is not None else 0
        return max(call.facts[-1].seq if call.facts else 0, sent)

    def _aside(self, step: Step, keys_aside: tuple[str, ...]) -> list[News]:
        """Calls that may not be shown as calls, though they did something, told in words."""
        found = []
        for key in keys_aside:
            call = self.calls[key]
            kind = notices.told_kind(call, running=self.running)
            if key in self.chain.states or kind in ("denied", "never_run") or not call.facts:
                continue
            now = state(call, kind)
            text = notices.told_as_text(call, kind, self.ids[key], self.options.notices)
            found.append(News(key, now[0], text, self._news_seq(call), step.after, now[1], now[2]))
        return found

    def _news(self, step: Step, item: News, side: answers.Side, rendered: Rendered[Flow]) -> None:
        behind = answers.behind_news(self, item, rendered)
        side.add([{"type": "text", "text": item.text}, *behind], None)
        if item not in self.chain.news:
            rendered.news.append(replace(item, after=step.after))
            aside = item.call_id not in self.chain.told and item.call_id not in self.chain.states
            rendered.adjustments.append(
                Adjustment(
                    "told_as_text" if aside else "late_news",
                    f"call {named(item.call_id)} is told in words: its reply is left out"
                    if aside
                    else f"call {named(item.call_id)} was told otherwise before; what is known now is told at the end",
                    item.outcome,
                    item.call_id,
                    (item.result,) if item.result else (),
                    item.text,
                )
            )

    def _entry(self, entry: Entry, side: answers.Side, out: Out) -> None:
        """Words of the user's side; blank ones are left out."""
        fact = entry.fact
        if entry.kind == "news":
            text = notices.news_again(fact, self.ids[fact.call_id])
            side.add([{"type": "text", "text": text}], fact.group)
            return
        blocks = words.user_blocks(self, entry, out)
        string = getattr(fact, "string", False)
        if blocks:
            side.add(blocks, fact.group, string=string)

    def _withhold(self, step: Step, items: list[Any], rendered: Rendered[Flow]) -> None:
        """While the server goes on with its call, nothing but results may be said."""
        if not step.last:
            return
        for item in items:
            news = isinstance(item, News)
            if not news and item.kind in _SYSTEM_SIDE and item.fact.fact_id not in self.head.later:
                continue
            rendered.adjustments.append(
                Adjustment(
                    "withheld_news" if news else "withheld_steering",
                    "it waits: the provider's server goes on with its own call first",
                    "ANT-SRV-003",
                    item.call_id if news else None,
                    () if news else (item.fact.fact_id,),
                    item.text,
                )
            )

    def _keep_back(self, entries: tuple[Entry, ...], rendered: Rendered[Flow]) -> None:
        """Report system messages behind a reply: they may only stand at the end of the user's next turn."""
        rendered.adjustments.extend(
            Adjustment(
                "withheld_steering",
                "a system message waits for the user's next turn",
                "ANT-SYS-005",
                facts=(entry.fact.fact_id,),
                content=replies.text_of(self.head.later[entry.fact.fact_id]),
            )
            for entry in entries
        )

    def _speak(self, entries: tuple[Entry, ...], messages: list[dict[str, Any]], out: Out) -> None:
        """Put system messages at the end of a user turn, or behind a server's result."""
        for entry in entries:
            blocks = self.head.later[entry.fact.fact_id]
            raw = getattr(entry.fact, "raw", None)
            if raw is not None and raw.value.get("role") == "system" and raw.value.get("content") is not None:
                message = {k: v for k, v in raw.value.items() if k in keys.SYSTEM_KEYS}
                if isinstance(message["content"], list):
                    message["content"] = blocks
            elif getattr(entry.fact, "string", False) and len(blocks) == 1:
                message = {"role": "system", "content": blocks[0]["text"]}
            else:
                message = {"role": "system", "content": blocks}
            messages.append(message)
            out.betas.update(b["type"] for b in blocks if b.get("type") in wire.BETAS)
            out.betas.update(key for key in message if key in wire.BETAS)


def _flow(
    flow: Flow,
    messages: list[dict[str, Any]],
    out: Out,
    waiting: tuple[Any, ...],
    betas: frozenset[str],
    found: int,
    *,
    after_user: bool,
    after_result: bool,
    system: tuple[Entry, ...],
    aside: tuple[str, ...],
) -> Flow:
    """The flow behind a step; the same object where nothing changes, which makes comparing cheap."""
    intact = flow.intact and not out.changed
    new = Flow(
        flow.started or bool(messages), intact, after_user, out.held, waiting, betas, flow.marks + found,
        out.container, after_result, system, aside,
    )  # fmt: skip
    return flow if new == flow else new


def _ends_in_server_result(message: dict[str, Any]) -> bool:
    content = message["content"]
    return type(content) is list and content[-1].get("type") in wire.SERVER_RESULTS


def _has_marks(messages: list[dict[str, Any]]) -> bool:
    for message in messages:
        content = message["content"]
        if type(content) is list:
            for block in content:
                if "cache_control" in block or type(block.get("content")) is list:
                    return True
    return False


def _says(entry: Entry) -> bool:
    """Whether an entry has words of somebody; what we told in words of a call is nobody's."""
    return entry.kind == "news" or any(
        p.kind != "text" or (p.text.strip() and notices.read_back(p.text, None) is None) for p in entry.parts
    )


def _seq(item: Any) -> int:
    seq: int = item.seq if isinstance(item, News) else item.fact.seq
    return seq
