"""What a Chat projection goes by: the server's profile, the model, what stands before the messages, the transcript."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from normalizer.providers.openai_chat import wire

if TYPE_CHECKING:
    from collections.abc import Mapping

    from normalizer.projecting.context import Context
    from normalizer.projecting.incremental import Step
    from normalizer.providers.openai_chat.preamble import Top
    from normalizer.providers.openai_chat.wire import Profile
    from normalizer.transcript import Entry


class ChatContext:
    """One projection; `head` is set by who makes it."""

    head: Top

    def __init__(self, context: Context) -> None:
        self.profile: Profile = wire.profile_of(context.options.profile) or wire.OPENAI
        self.model = context.model
        self.history = context.history
        self.calls = context.transcript.calls
        self.entries = context.transcript.entries
        self.ids: Mapping[str, str] = context.ids.by_key.lookup
        self.details = Details(self.entries)
        self._first_reply = next((entry for entry in self.entries if entry.kind == "reply"), None)
        self._turn_from: int | None = None

    def is_own(self, step: Step) -> bool:
        """Whether the reply that the user's side stands behind came from this API; at the beginning, the first reply.

        A request that went out before there was one took what was said for its own, and stays so.
        """
        reply = step.reply
        if reply is None and (reply := self._first_reply) is not None:
            seq = reply.fact.seq
            if any(sent.through < seq for sent in self.history.requests.values()):
                return True
        return reply is None or getattr(reply.fact, "api", None) in (None, wire.API)

    def in_running_turn(self, entry: Entry) -> bool:
        """Whether nobody has said anything behind this reply."""
        return bool(entry.fact.seq > self.turn_start())

    def turn_start(self) -> int:
        """The `seq` of what was said last; -1 if nothing was."""
        if self._turn_from is None:
            spoken = ("user", "steering", "summary")
            self._turn_from = next((e.fact.seq for e in reversed(self.entries) if e.kind in spoken), -1)
        return self._turn_from


class Details:
    """Which reply each of `reasoning_details` came with first, by the detail's id; found when it is first asked for."""

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        self._entries = entries
        self._owners: dict[str, str] | None = None

    def owner(self, detail: Any, here: str) -> str:
        """The `fact_id` of the reply that a detail belongs to; `here` for one without an id."""
        if self._owners is None:
            self._owners = self._found()
        return self._owners.get(_id(detail), here)

    def _found(self) -> dict[str, str]:
        owners: dict[str, str] = {}
        for entry in self._entries:
            for part in entry.parts if entry.kind == "reply" else ():
                raw = part.raw.value if part.kind == "reasoning" and part.raw is not None else None
                details = raw.get("reasoning_details") if isinstance(raw, dict) else None
                for detail in details if isinstance(details, list) else ():
                    if found := _id(detail):
                        owners.setdefault(found, entry.fact.fact_id)
        return owners


def _id(detail: Any) -> str:
    found = detail.get("id") if isinstance(detail, dict) else None
    return found if isinstance(found, str) else ""
