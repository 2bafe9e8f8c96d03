"""What the tests of the rulebooks share: cases from their files, at full size, and pointers that lead somewhere.

A test takes the cases of a group of rules (`ANT-PAIR`), since one test for each would take longer to collect than to
run. `faults` names every case with which something is wrong, so that none hides another.
"""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from normalizer.rules import Rule, Violation

_FOLDER: Final = Path(__file__).parent.parent / "fixtures" / "rules"

SEVERITIES: Final = {"degrade": "degrades"}
"""Words of the case files for a severity -> ours."""


def lines(name: str) -> list[dict[str, Any]]:
    """The objects in a file of cases, one a line."""
    return [json.loads(line) for line in (_FOLDER / name).read_text("utf-8").splitlines()]


def by_group(cases: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The beginning of rule ids (`ANT-PAIR`) -> the cases of these rules."""
    return {name: list(group) for name, group in groupby(sorted(cases, key=_group), key=_group)}


def _group(case: dict[str, Any]) -> str:
    return str(case["rule"]).rpartition("-")[0]


def faults(
    cases: Iterable[dict[str, Any]], look: Callable[[dict[str, Any]], Iterator[str]]
) -> dict[str, list[str]]:
    """Case id -> what `look` says is wrong with it, for the cases of which it says anything."""
    found = {}
    for case in cases:
        try:
            found[case["id"]] = list(look(case))
        except Exception as error:
            error.add_note(f"in case {case['id']}")
            raise
    return {name: wrong for name, wrong in found.items() if wrong}


def flaws(rule: Rule, cases: list[dict[str, Any]]) -> Iterator[str]:
    """What is wrong with how any rule is described, and with what its cases say of it."""
    if {case["violates"] for case in cases} != {True, False}:
        yield "needs a case that breaks it and one that does not"
    told = {SEVERITIES.get(case["severity"], case["severity"]) for case in cases if "severity" in case}
    if not told <= {rule.severity}:
        yield f"is {rule.severity}, its cases say {sorted(told)}"
    if not rule.statement.endswith(".") or "\n" in rule.statement:
        yield f"has no statement of one line: {rule.statement!r}"
    if not rule.source:
        yield "has no source"
    if rule.name != rule.name.lower().replace(" ", "-").replace("_", "-"):
        yield f"is called {rule.name!r}"


def astray(request: Any, violations: Iterable[Violation]) -> Iterator[str]:
    """Of violations whose pointer leads nowhere."""
    for violation in violations:
        if not resolves(request, violation.pointer):
            yield f"{violation.rule} points to {violation.pointer!r}, which is not there"


def expanded(value: Any) -> Any:
    """A request of the OpenAI cases at its full size, with long values where `$splice` and `$repeat_…` stand."""
    if isinstance(value, list):
        found: list[Any] = []
        for item in value:
            splice = isinstance(item, dict) and item.keys() == {"$splice"}
            found.extend(expanded(item["$splice"]) if splice else [expanded(item)])
        return found
    if not isinstance(value, dict):
        return value
    if value.keys() == {"$repeat_str"}:
        text, times = value["$repeat_str"]
        return text * times
    if value.keys() == {"$repeat_list"}:
        item, times = value["$repeat_list"]
        text = json.dumps(item)
        return [json.loads(text.replace("{i}", str(number))) for number in range(times)]
    return {key: expanded(item) for key, item in value.items()}


def resolves(request: Any, pointer: str) -> bool:
    """Whether a pointer leads to a value of the request, or to a member that an object of it lacks."""
    value = request
    steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
    for number, step in enumerate(steps):
        if isinstance(value, list):
            if not step.isdigit() or int(step) >= len(value):
                return False
            value = value[int(step)]
        elif isinstance(value, dict):
            if step not in value:
                return number == len(steps) - 1
            value = value[step]
        else:
            return False
    return True
