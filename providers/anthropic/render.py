"""One step of the history as messages: the reply, the user's side behind it, then system messages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from normalizer.projecting.incremental import Rendered, Rendering, Step
from normalizer.projecting.old_late_updates import LateNews
from normalizer.providers.anthropic import assistant_turn, ends, marks, system_messages, user_turn, wire

if TYPE_CHECKING:
    from normalizer.projecting.sent_history import Chain
    from normalizer.projection import Adjustment, Options
    from normalizer.providers.anthropic.preamble import Top
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
        self.running = options.open_calls == "say_running"
        self.news = LateNews(self.calls, chain, ids, options, stirred)
        self.beginning = ends.beginning(transcript)
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
            assistant_turn.render(self, step, flow, before, out)
            if out.blocks and not flow.started:
                ends.begin(self, step, out)
        messages = []
        after_user, after_result, system = flow.after_user, flow.after_result, flow.system
        if out.blocks:
            if system and (after_user or after_result):
                system_messages.speak(self, system, messages, out)
                system = ()
            content: Any = out.blocks
            if out.string and len(out.blocks) == 1 and len(out.blocks[0]) == 2:
                content = out.blocks[0]["text"]
            messages.append({"role": "assistant", "content": content})
            after_user, after_result = False, _ends_in_server_result(messages[-1])
        rendered: Rendered[Flow] = Rendered(messages, flow, out.notes, [], [], out.choices)
        had = len(messages)
        waiting, late, aside = user_turn.put(self, step, flow, out, rendered)
        if len(messages) > had:
            after_user, after_result = True, False
        system = (*system, *late) if late else system
        if step.last and system and (after_user or after_result):
            system_messages.speak(self, system, messages, out)
            system = ()
        elif step.last and system:
            system_messages.keep_back(self, system, rendered)
        rendered.open = bool(out.held)
        rendered.asks = out.open_tail or (after_user and (len(messages) > had or flow.after_user))
        if step.index == 0 and step.reply is None and self.beginning.first_user >= len(self.entries):
            rendered.asks = False  # nothing but news: nobody has asked anything
        if step.last and step.reply is not None and not rendered.asks:
            rendered.asks = ends.prefill(self, step, messages, rendered)
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
