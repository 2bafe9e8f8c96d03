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
    from normalizer.projecting.incremental import Step
    from normalizer.projecting.plain_steps import PlainSteps, Results
    from normalizer.transcript import Entry

_NONE: Final[list[Any]] = []  # for steps that report nothing; never appended to


class FastPath:
    """The plain steps of one projection."""

    __slots__ = ("_api", "_before", "_behind", "_calls", "_entries", "_ids", "_joined", "_on", "_steps")

    def __init__(self, context: Context, steps: PlainSteps | None, *, renames: bool) -> None:
        """`renames`: some tools have other names in the request."""
        history, dialect = context.history, context.dialect
        self._steps = steps
        self._on = steps is not None and not (renames or history.told or history.news or history.states)
        self._api = dialect.api
        self._joined = dialect.joins == "neighbours"
        self._calls = context.transcript.calls
        self._entries = context.transcript.entries
        self._ids = context.ids.by_key.lookup
        self._before: Flow | None = None
        self._behind: Flow | None = None

    def render(self, step: Step, flow: Flow) -> Rendered[Flow] | None:
        """The step, if it is a plain one; None takes the long way."""
        reply, steps = step.reply, self._steps
        if not self._on or steps is None or reply is None or step.last or len(step.behind) > 1:
            return None
        fact: Any = reply.fact
        if (
            fact.kind != "model_replied"
            or fact.stop_reason == "refusal"
            or (fact.raw is not None and fact.api not in (None, self._api))
        ):
            return None
        if flow is not self._before:
            self._before, self._behind = flow, _flow_behind(flow, steps)
        if self._behind is None:
            return None
        told: list[tuple[str, str, str | None, str]] = []
        messages = self._messages(step, reply, steps, told)
        if messages is None:
            return None
        return Rendered(messages, self._behind, _NONE, told, _NONE, _NONE, asks=True)

    def _messages(
        self, step: Step, reply: Entry, steps: PlainSteps, told: list[tuple[str, str, str | None, str]]
    ) -> list[Value] | None:
        """The reply, its results, and what the user's side says."""
        results: Results = []
        ids, calls, keys = self._ids, self._calls, iter(reply.calls)
        group: int | None = None
        last = -1
        part: Any
        for part in reply.parts:
            kind = part.kind
            if part.raw is not None:
                return None
            if kind == "tool_call":
                key = next(keys)
                if key is None or ids[key] != part.id or (done := recorded_text(calls[key])) is None:
                    return None
                # results in another order, or out of several messages, are a matter for the long way
                if done.seq < last or (results and done.group != group):
                    return None
                group, last = done.group, done.seq
                results.append((part, done.content))  # type: ignore[arg-type]
                told.append((key, "completed", None, part.name))
            elif kind != "text":
                return None
        if (made := steps.reply(reply)) is None:
            return None
        messages = [made]
        if results:
            if self._entries[step.end].fact.seq < last or (answers := steps.results(results)) is None:
                return None
            messages.extend(answers)
        if step.behind:
            said = self._said(step.behind[0], steps, last if results else None, group)
            if said is None:
                return None
            messages.append(said)
        return messages if results or step.behind else None

    def _said(self, entry: Entry, steps: PlainSteps, last: int | None, group: int | None) -> Value | None:
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
        return steps.said(part.text, string=fact.string)


def _flow_behind(flow: Flow, steps: PlainSteps) -> Flow | None:
    """The flow behind a plain step; None where none may stand."""
    if flow.held or flow.waiting or flow.discarded or flow.carry or not steps.may_follow(flow.own):
        return None
    own = steps.handed_on(flow.own)
    return flow if flow.asks and own is flow.own else replace(flow, asks=True, own=own)
