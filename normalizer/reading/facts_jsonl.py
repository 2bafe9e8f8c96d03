"""A file of our own facts, read: JSON Lines, each one fact as the command writes it.

An id names one fact. Of two different ones with the same id the first counts: where files were put behind one another,
the fold would take the second for a repetition.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from normalizer.facts import dump, load_lines
from normalizer.findings import Finding, Leftover, Reading
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from normalizer.facts import Fact
    from normalizer.provider import Origin

NAME: Final = "facts"


def sniff(data: bytes) -> bool:
    """Whether a file begins as one of our own facts does."""
    first = data.lstrip()[:400]
    return first.startswith(b'{"fact_id"') or (
        first.startswith(b"{") and b'"fact_id"' in first and b'"kind"' in first
    )


def read(data: bytes, _origin: Origin) -> Reading:
    """The facts of a file, each once. They say all of themselves: nothing is filled in from what the host says.

    Raises UnreadableInput with the number of the line that is no fact.
    """
    places = (number for number, line in enumerate(data.split(b"\n"), start=1) if line.strip())
    facts: dict[str, Fact] = {}
    findings: list[Finding] = []
    leftovers: list[Leftover] = []
    for place, fact in zip(places, load_lines(data), strict=True):
        known = facts.setdefault(fact.fact_id, fact)
        if known is fact or same(known, fact):
            continue
        message = f"another fact of this file has the id {named(fact.fact_id)}; this one is kept aside"
        findings.append(Finding("bad_line", message, line=place, facts=(fact.fact_id,)))
        text = dump(fact).decode()
        leftovers.append(Leftover("a fact with the id of another fact", text, line=place))
    return Reading(NAME, tuple(facts.values()), tuple(findings), tuple(leftovers))


def same(one: Fact, other: Fact) -> bool:
    """Whether two facts say the same, whatever their places."""
    return type(one) is type(other) and replace(one, seq=other.seq) == other
