"""The step that most histories consist of, in one go: texts and calls, each call with one recorded text as its result,
then perhaps one text of the user's. The long way (`Renderer`) makes the same of it.

What decides which steps these are stands here, once; how they look is the wire's (`PlainSteps`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from normalizer.projecting.incremental import Rendered
from normalizer.projecting.tool_results import recorded_text

if TYPE_CHECKING:
    from normalizer.projecting.context import Context
    from normalizer.projecting.draft import Flow, Value
    from normalizer.projecting.incremental import Render, Rendering, Step
    from normalizer.projecting.plain_steps import PlainSteps, Results
    from normalizer.projecting.steps import Renderer
    from normalizer.projecting.wire import Wire
    from normalizer.transcript import Entry

_NONE: Final[list[Any]] = []  # for steps that report nothing; never appended to


def in_front_of(long: Renderer, context: Context, wire: Wire) -> Render[Flow]:
    """The renderer `long`, with the fast path before it if there can be plain steps at all."""
    history = context.history
    if wire.plain is None or wire.head.names or history.told or history.news or history.states:
        return long
    return FastPath(long, context, wire.plain)


class FastPath:
    """Renders the plain steps of one projection, and hands all others to the long way."""

    __slots__ = ("_api", "_before", "_behind", "_calls", "_entries", "_ids", "_joined", "_long", "_steps")

    def __init__(self, long: Renderer, context: Context, steps: PlainSteps) -> None:
        self._long = long
        self._steps = steps
        self._api = context.dialect.api
        self._joined = context.dialect.joins == "neighbours"
        self._calls = context.transcript.calls
        self._entries = context.transcript.entries
        self._ids = context.ids.by_key.lookup
        self._before: Flow | None = None
        self._behind: Flow | None = None

    def __call__(self, step: Step, flow: Flow, before: Rendering[Flow]) -> Rendered[Flow]:
        """The messages of one step."""
        reply = step.reply
        if reply is None or step.last or len(step.behind) > 1:
            return self._long(step, flow, before)
        fact: Any = reply.fact
        if (
            fact.kind != "model_replied"
            or fact.stop_reason == "refusal"
            or (fact.raw is not None and fact.api not in (None, self._api))
        ):
            return self._long(step, flow, before)
        if flow is not self._before:
            self._before, self._behind = flow, _flow_behind(flow, self._steps)
        behind = self._behind
        told: list[tuple[str, str, str | None, str]] = []
        if behind is None or (messages := self._messages(step, reply, told)) is None:
            return self._long(step, flow, before)
        return Rendered(messages, behind, _NONE, told, _NONE, _NONE, False, True)

    def _messages(
        self, step: Step, reply: Entry, told: list[tuple[str, str, str | None, str]]
    ) -> list[Value] | None:
        """The reply, its results, and what the user's side says; None if anything in them is not plain."""
        results: Results = []
        ids, calls, keys = self._ids, self._calls, iter(reply.calls)
        group: int | None = None
        last = reply.fact.seq if not reply.fact.answers else -1
        part: Any
        for part in reply.parts:
            if part.raw is not None:
                return None
            kind = part.kind
            if kind == "tool_call":
                key = next(keys)
                if key is None or ids[key] != part.id or (done := recorded_text(calls[key])) is None:
                    return None
                # results in another order, out of several messages or from before the reply take the long way
                if done.seq < last or (results and done.group != group):
                    return None
                group, last = done.group, done.seq
                results.append((part.id, done.content))  # type: ignore[arg-type]
                told.append((key, "completed", None, part.name))
            elif kind != "text":
                return None
        made = self._steps.reply(reply)
        if made is None:
            return None
        messages = [made]
        if results:
            if self._entries[step.end].fact.seq < last or not self._steps.put_results(results, messages):
                return None
        elif not step.behind:
            return None
        if step.behind:
            said = self._said(step.behind[0], last if results else None, group)
            if said is None:
                return None
            messages.append(said)
        return messages

    def _said(self, entry: Entry, last: int | None, group: int | None) -> Value | None:
        """One text of the user's, in a message of its own; `last` is the `seq` of the last result before it."""
        if entry.kind != "user" or len(entry.parts) != 1:
            return None
        fact, part = entry.fact, entry.parts[0]
        if part.kind != "text" or part.raw is not None or fact.raw is not None:
            return None
        if last is not None and (
            fact.seq < last or (self._joined and (fact.group is None or fact.group == group))
        ):
            return None
        return self._steps.said(part.text, string=fact.string)


def _flow_behind(flow: Flow, steps: PlainSteps) -> Flow | None:
    """The flow behind a plain step; None where none may stand."""
    if flow.held or flow.waiting or flow.discarded or flow.carry or not steps.may_follow(flow.own):
        return None
    own = steps.handed_on(flow.own)
    return flow if flow.asks and own is flow.own else replace(flow, asks=True, own=own)
