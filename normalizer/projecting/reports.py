"""Every `Adjustment` is built here, and takes the id of its rule from the dialect of the API that it is for.

The engine names a cause (`"repeated-call"`); the dialect's table says which rule of its API that is. What only one wire
can have to report is named by the rule's id itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from normalizer import notices
from normalizer.projecting.unmapped_fields import whole
from normalizer.projection import Adjustment
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Mapping

    from normalizer.projection import AdjustmentKind
    from normalizer.transcript import Call, Entry


class Reports:
    """The adjustments of one step, or of what stands before the steps, in the order in which they were made."""

    __slots__ = ("because", "notes")

    def __init__(self, because: Mapping[str, str | None], notes: list[Adjustment] | None = None) -> None:
        self.because = because
        self.notes: list[Adjustment] = [] if notes is None else notes

    def add(
        self, kind: AdjustmentKind, message: str, cause: str | None, *, call_id: str | None = None,
        facts: tuple[str, ...] = (), content: str | None = None,
    ) -> None:  # fmt: skip
        """Report one difference. `cause` is a key of the dialect's table, else the id of a rule or an outcome."""
        because = self.because.get(cause, cause) if cause is not None else None
        self.notes.append(Adjustment(kind, message, because, call_id, facts, content))

    def entry(
        self, entry: Entry, kind: AdjustmentKind, message: str, cause: str | None, content: str | None = None,
        call_id: str | None = None,
    ) -> None:  # fmt: skip
        """A difference about one entry of the conversation."""
        self.add(kind, message, cause, call_id=call_id, facts=(entry.fact.fact_id,), content=content)

    def part(self, entry: Entry, kind: AdjustmentKind, message: str, cause: str | None, part: Any) -> None:
        """A part that is not sent, or not as it is; the report has all of it."""
        self.entry(entry, kind, message, cause, whole(part))

    def result(
        self, call: Call, fact: Any, kind: AdjustmentKind, message: str, cause: str | None,
        content: str | None = None,
    ) -> None:  # fmt: skip
        """A difference about the recorded result (`fact`) of a call."""
        self.add(kind, message, cause, call_id=call.key, facts=(fact.fact_id,), content=content)

    # ------------------------------------------------------------ what every API has to report of calls

    def notice(self, call: Call, kind: str) -> None:
        """An outcome is rendered in a result's place."""
        message = f"call {named(call.key)} has no recorded result: its outcome ({kind}) is told instead"
        facts = tuple(f.fact_id for f in call.facts)
        self.add("notice", message, kind, call_id=call.key, facts=facts, content=notices.stood_for(call))

    def rendered_as_text(
        self, entry: Entry, call: Call, kind: str, why: str, cause: str | None, text: str | None
    ) -> None:
        """A call is not shown as a call. Without a cause, the outcome (`kind`) is the reason."""
        facts = (entry.fact.fact_id, *(fact.fact_id for fact in call.facts))
        message = f"call {named(call.key)} is told in words: {why}"
        self.add("told_as_text", message, cause or kind, call_id=call.key, facts=facts, content=text)

    def further_results(self, call: Call) -> None:
        """Results beside the one that is sent, where they differ from it."""
        for fact_id, content in call.further_results if call.conflicting else ():
            message = f"a further result of call {named(call.key)} is not sent"
            self.add("merged", message, "further-result", call_id=call.key, facts=(fact_id,), content=content)

    def renamed_id(self, entry: Entry, key: str, own: str | None, wire_id: str, *, fits: bool) -> None:
        """A call has another id in the request. `fits`: the API takes the id, but another call has it."""
        cause = "repeated-id" if fits else "missing-id" if own is None else "id-form"
        message = f"the id {named(own)} of call {named(key)} is sent as {named(wire_id)}"
        self.entry(entry, "renamed_id", message, cause, call_id=key)

    def moved_result(self, call: Call, fact_id: str) -> None:
        """A result is sent directly behind its call, where it did not stand."""
        message = f"the result of call {named(call.key)} is sent directly behind it"
        self.add("moved", message, "result-place", call_id=call.key, facts=(fact_id,))
