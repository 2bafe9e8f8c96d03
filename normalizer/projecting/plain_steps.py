"""How the steps of the fast path look on one wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from normalizer.projecting.draft import Value
    from normalizer.transcript import Entry

Results: TypeAlias = list[tuple[str, str]]
"""The ids of calls with the texts of their results, in recorded order."""


class PlainSteps:
    """How plain steps look on one wire. Each method gives None where the wire takes the long way after all."""

    def reply(self, entry: Entry) -> Value | None:
        """A reply of texts and calls, none of which came as a block of its own (`raw`); ids and names stay."""
        raise NotImplementedError

    def put_results(self, results: Results, messages: list[Value]) -> bool:
        """Append the messages that answer these calls; False takes the long way."""
        raise NotImplementedError

    def said(self, text: str, *, string: bool) -> Value | None:
        """A message of the user's with one text; `string`: it came as a string."""
        raise NotImplementedError

    def may_follow(self, own: Any) -> bool:  # noqa: ARG002
        """Whether a plain step may stand behind what the wire handed on (`Flow.own`)."""
        return True

    def handed_on(self, own: Any) -> Any:
        """What the wire hands on behind a plain step, given what came into it."""
        return own
