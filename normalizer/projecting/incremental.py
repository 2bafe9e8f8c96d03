"""Rendering a transcript step by step, and only those steps that can have changed.

A step is a reply with what stands behind it up to the next reply; the first step has no reply. How a step
is rendered depends on the step, on what the next reply brings for its server calls, and on the flow: a
small value that each step hands to the next. A step outside the open tail is rendered again only if a fact
about one of its calls came in, or if the flow into it changed.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from normalizer.projecting import canonical
from normalizer.util.sharing import SharedList

if TYPE_CHECKING:
    from collections.abc import Iterable

    from normalizer.facts import News
    from normalizer.projection import Adjustment
    from normalizer.transcript import Entry, Point, Transcript

F = TypeVar("F")


@dataclass(slots=True)
class Step:
    """A reply (None: the beginning of the conversation) and what stands behind it. `after` is the reply's `fact_id`.

    `end` is the index of the entry behind it (the next reply); `last`: there is none.
    """

    index: int
    reply: Entry | None
    behind: tuple[Entry, ...]
    end: int
    last: bool

    @property
    def after(self) -> str | None:
        """The `fact_id` of the reply."""
        return self.reply.fact.fact_id if self.reply is not None else None


@dataclass(slots=True)
class Rendered(Generic[F]):
    """What a step became: messages, adjustments, the flow behind it, and what a record of its sending needs.

    `told` are (call key, kind, own words or None, wire name); `news` what was placed here for the first time;
    `choices` are (what, subject, detail). `open` says that a later step may still change it.
    """

    messages: list[dict[str, Any]]
    flow: F
    adjustments: list[Adjustment] = field(default_factory=list)
    told: list[tuple[str, str, str | None, str]] = field(default_factory=list)
    news: list[News] = field(default_factory=list)
    choices: list[tuple[str, str, str | None]] = field(default_factory=list)
    open: bool = False
    asks: bool = False
    blocks: list[bytes] | None = None

    def block_bytes(self) -> list[bytes]:
        """The canonical bytes of the blocks, made once."""
        if self.blocks is None:
            self.blocks = [piece for message in self.messages for piece in canonical.message_blocks(message)]
        return self.blocks


class Render(Protocol[F]):
    """How one step is rendered; `before` holds the steps before it."""

    def __call__(self, step: Step, flow: F, before: Rendering[F]) -> Rendered[F]:
        """The step, rendered."""


class Slot(NamedTuple):
    """One rendered step in its place: the index of its first entry, the flow into it, and how many messages
    and adjustments there are up to its end.
    """

    start: int
    flow: Any
    rendered: Rendered[Any]
    messages_to: int
    adjustments_to: int


@dataclass(slots=True)
class Rendering(Generic[F]):
    """All steps of a projection, with what they add up to. `rendered` counts the steps that this run rendered."""

    slots: SharedList[Slot] = field(default_factory=SharedList)
    messages: SharedList[dict[str, Any]] = field(default_factory=SharedList)
    adjustments: SharedList[Adjustment] = field(default_factory=SharedList)
    digests: SharedList[tuple[int, str]] = field(default_factory=SharedList)
    step_of: dict[str, int] = field(default_factory=dict)
    point: Point | None = None
    rendered: int = 0

    @property
    def last(self) -> Rendered[F]:
        """The last step."""
        return self.slots[-1].rendered

    def digest(self, upto: int) -> tuple[int, str]:
        """How many blocks stand before step number `upto`, and their running digest."""
        digests = self.digests
        while (at := len(digests)) <= upto:
            found = (0, canonical.EMPTY)
            if at:
                count, before = digests[at - 1]
                pieces = self.slots[at - 1].rendered.block_bytes()
                found = count + len(pieces), canonical.running(before, pieces)
            place = at - digests.settled
            # in its place: another thread may have found it meanwhile
            digests.own[place : place + 1] = [found]
        return digests[upto]

    def digest_at(self, count: int) -> str | None:
        """The running digest of the first `count` blocks; None if there are fewer."""
        total, _ = self.digest(len(self.slots))
        if count > total:
            return None
        step = bisect_right(self.digests, count, key=lambda found: found[0]) - 1
        before, value = self.digests[step]
        if count == before:
            return value
        return canonical.running(value, self.slots[step].rendered.block_bytes()[: count - before])

    def _kept(self, upto: int) -> Rendering[F]:
        """The first `upto` steps, to go on from."""
        last = self.slots[upto - 1] if upto else None
        return Rendering(
            self.slots.beginning(upto),
            self.messages.beginning(last.messages_to if last else 0),
            self.adjustments.beginning(last.adjustments_to if last else 0),
            self.digests.beginning(min(upto + 1, len(self.digests))),
            self.step_of,
        )

    def _add(self, start: int, flow: F, rendered: Rendered[F], after: str | None) -> None:
        slots, messages, adjustments = self.slots, self.messages, self.adjustments
        if after is not None:
            self.step_of[after] = slots.settled + len(slots.own)
        messages.own.extend(rendered.messages)
        if rendered.adjustments:
            adjustments.own.extend(rendered.adjustments)
        messages_to = messages.settled + len(messages.own)
        slots.own.append(Slot(start, flow, rendered, messages_to, adjustments.settled + len(adjustments.own)))


def render_steps(
    transcript: Transcript,
    first: F,
    render: Render[F],
    before: Rendering[F] | None,
    dirty: Iterable[str] = (),
) -> Rendering[F]:
    """Render the steps of a transcript; `before` is the rendering of an earlier transcript with the same options.

    `dirty` are the keys of calls that have to be told anew for other reasons than their facts.
    """
    changed = _changed(transcript, before, dirty)
    if changed is None or before is None:
        result = _run(transcript, Rendering(), 0, first, render)
    elif changed and changed[0] < _tail(before):
        result = _mend(transcript, before, changed, render)
    else:
        at = _tail(before)
        slot = before.slots[at]
        result = _run(transcript, before._kept(at), slot.start, slot.flow, render)  # noqa: SLF001
    result.point = transcript.point
    return result


def _tail(before: Rendering[Any]) -> int:
    """The first step that may look different when something is appended: the last one, or an open one before it."""
    last = len(before.slots) - 1
    while last > 0 and before.slots[last - 1].rendered.open:
        last -= 1
    return max(last, 0)


def _changed(transcript: Transcript, before: Rendering[Any] | None, dirty: Iterable[str]) -> list[int] | None:
    """The steps that something was said about since `before`, in order; None where all have to be rendered."""
    if before is None or before.point is None or not before.slots or not transcript.grew_from(before.point):
        return None
    touched = transcript.touched(before.point.touches)
    if touched is None:
        return None
    found: set[int] = set()
    for key in (*touched, *dirty):
        call = transcript.calls.get(key) or transcript.server_calls.get(key)
        if call is not None:
            replies = (call.reply, getattr(call, "result_reply", None))
            found.update(before.step_of[reply] for reply in replies if reply in before.step_of)
    return sorted(n for n in found if n < len(before.slots))


def _run(
    transcript: Transcript, result: Rendering[F], start: int, flow: F, render: Render[F]
) -> Rendering[F]:
    """Render all steps from the entry `start` on."""
    entries = transcript.entries
    total = len(entries)
    first = not result.slots
    at = start
    while at < total or first:
        reply = entries[at] if at < total and entries[at].kind == "reply" else None
        end = at + 1 if reply is not None else at
        while end < total and entries[end].kind != "reply":
            end += 1
        behind = entries[at + 1 : end] if reply is not None else entries[at:end]
        step = Step(len(result.slots), reply, behind, end, end == total)
        rendered = render(step, flow, result)
        result._add(at, flow, rendered, step.after)  # noqa: SLF001
        result.rendered += 1
        flow = rendered.flow
        at = end
        first = False
    return result


def _mend(
    transcript: Transcript, before: Rendering[F], changed: list[int], render: Render[F]
) -> Rendering[F]:
    """Render the changed steps and the tail, and every step into which the flow changed; the others stay."""
    tail = _tail(before)
    wanted = set(changed)
    result = before._kept(changed[0])  # noqa: SLF001
    flow = before.slots[changed[0]].flow
    for at in range(changed[0], tail):
        slot = before.slots[at]
        rendered = slot.rendered
        if at in wanted or (flow is not slot.flow and flow != slot.flow):
            rendered = render(_step(transcript, before, at), flow, result)
            result.rendered += 1
        reply = transcript.entries[slot.start] if slot.start < len(transcript.entries) else None
        after = reply.fact.fact_id if reply is not None and reply.kind == "reply" else None
        result._add(slot.start, flow, rendered, after)  # noqa: SLF001
        flow = rendered.flow
    return _run(transcript, result, before.slots[tail].start, flow, render)


def _step(transcript: Transcript, before: Rendering[Any], at: int) -> Step:
    entries = transcript.entries
    start, end = before.slots[at].start, before.slots[at + 1].start
    first = entries[start] if start < end else None
    reply = first if first is not None and first.kind == "reply" else None
    behind = entries[start + 1 : end] if reply is not None else entries[start:end]
    return Step(at, reply, behind, end, end == len(entries))
