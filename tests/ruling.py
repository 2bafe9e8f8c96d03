"""What the tests of the rulebooks share: cases from their files, at full size, and pointers that lead somewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

_FOLDER: Final = Path(__file__).parent.parent / "fixtures" / "rules"

SEVERITIES: Final = {"degrade": "degrades"}
"""Words of the case files for a severity -> ours."""


def lines(name: str) -> list[dict[str, Any]]:
    """The objects in a file of cases, one a line."""
    return [json.loads(line) for line in (_FOLDER / name).read_text("utf-8").splitlines()]


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
