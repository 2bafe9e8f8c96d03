"""Writes `schemas/*.json` from the models: `python -m normalizer.devtools.schema_files [--check]`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from normalizer.facts import FACT
from normalizer.reporting.types import ReportDict, TranscriptDict

FOLDER: Final = Path(__file__).parent.parent / "schemas"

MODELS: Final[dict[str, tuple[str, TypeAdapter[Any]]]] = {
    "fact": ("A fact: one immutable observation, one line of a fact file", FACT),
    "transcript": ("A transcript: the fold of the facts", TypeAdapter(TranscriptDict)),
    "report": (
        "A repair report: the request and everything that was found and changed",
        TypeAdapter(ReportDict),
    ),
}


def schemas() -> dict[str, str]:
    """File name -> its text."""
    return {f"{name}.json": _text(title, adapter) for name, (title, adapter) in MODELS.items()}


def _text(title: str, adapter: TypeAdapter[Any]) -> str:
    schema = adapter.json_schema()
    for definition in schema.get("$defs", {}).values():
        _tagged(definition)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps(head | schema | {"title": title}, indent=1, ensure_ascii=False) + "\n"


def _tagged(definition: dict[str, Any]) -> None:
    """A tag has a default in Python, where the class says it; in JSON only the tag itself does."""
    properties = definition.get("properties", {})
    if "const" in properties.get("kind", {}):
        definition["required"] = ["kind", *definition.get("required", [])]


def main(arguments: list[str]) -> int:
    """Write the files, or with `--check` say which are not current."""
    stale = [name for name, text in schemas().items() if not _is(FOLDER / name, text)]
    if "--check" in arguments:
        for name in stale:
            print(f"schemas/{name} is not current; run `make schemas`", file=sys.stderr)
        return 1 if stale else 0
    for name in stale:
        (FOLDER / name).write_text(schemas()[name], encoding="utf-8")
        print(f"schemas/{name} written")
    return 0


def _is(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
