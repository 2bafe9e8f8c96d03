"""Where a call's result stands on record. One decision for readers, which report it, and projections, which move it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from normalizer.transcript import Call, Entry

PLACED: Final = frozenset(
    {"user_said", "instructions_set", "steering_applied", "summarised", "model_replied", "reply_cut"}
)
"""Kinds of facts that stand among the messages; late updates do as well. Tools that are declared stand beside them."""


def displaced(call: Call, reply: Entry, behind: Iterable[Entry]) -> bool:
    """Whether the recorded result of a call stands elsewhere than directly behind the reply that made the call.

    `behind` are the entries behind the reply up to the next reply, and that reply. A target that sends instructions
    above all messages leaves them out.

    Results of the same batch may stand in any order. Recorded as reply (3), user (4), result (5) it is displaced; as
    reply (3), result (4), user (5) it is not. A result from before its reply (2) is displaced too, unless the reply
    answers a request: it then stands where that was sent, and the tool may have been run while it came in.
    A call without a recorded result never is.
    """
    result = call.result
    if result is None:
        return False
    if result.seq < reply.fact.seq and not reply.fact.answers:
        return True
    return any(entry.kind != "tools" and entry.fact.seq < result.seq for entry in behind)
