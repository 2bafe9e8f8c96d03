"""Who may speak first in a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from normalizer import notices

if TYPE_CHECKING:
    from normalizer.transcript import Entry, Transcript

_USER_SIDE: Final = frozenset({"user", "steering", "summary", "news"})


@dataclass(frozen=True, slots=True)
class Beginning:
    """Who may begin the request.

    `first_user` is the index of the first entry of the user's side that can; beyond all entries without one. Words that
    came beside results cannot: a history is never cut at a turn of results.

    `leads`: a reply before that entry may. It may where nobody else says anything, and where late news was read: what
    stands before that was sent as it is.
    """

    first_user: int
    leads: bool


def beginning(transcript: Transcript) -> Beginning:
    """Who may begin a request for this transcript."""
    entries = transcript.entries
    first = _first_user(transcript)
    begins = any(entry.kind == "reply" for entry in entries[:first])
    leads = begins and (first >= len(entries) or any(entry.kind == "news" for entry in entries[first:]))
    return Beginning(first, leads)


def _first_user(transcript: Transcript) -> int:
    calls = transcript.calls
    results: set[int] = set()
    for n, entry in enumerate(transcript.entries):
        if entry.kind == "reply" and entry.parts:
            # results go to their reply: words stay beside those of the reply before them alone
            facts = [f for key in entry.calls if key in calls for f in calls[key or ""].facts]
            results = {f.group for f in facts if f.group is not None}
        elif entry.kind in _USER_SIDE and entry.fact.group not in results and _says(entry):
            return n
    return len(transcript.entries)


def _says(entry: Entry) -> bool:
    """Whether an entry has words of somebody; what we told in words of a call is nobody's."""
    return entry.kind == "news" or any(
        p.kind != "text" or (p.text.strip() and notices.read_back(p.text, None) is None) for p in entry.parts
    )
