"""JSON Schemas of a fact, a transcript and a repair report, generated from the models."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, Final

NAMES: Final = ("fact", "transcript", "report")


@cache
def schema(name: str) -> dict[str, Any]:
    """The schema of that name, parsed. It is shared: do not edit it."""
    loaded: dict[str, Any] = json.loads((files("normalizer.schemas") / f"{name}.json").read_bytes())
    return loaded
