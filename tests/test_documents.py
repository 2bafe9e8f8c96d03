"""The pages for maintainers say what is there: rooms, places that an API needs, outcomes, the sample of a notice."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

from normalizer import notices, registry
from normalizer.outcomes import OUTCOMES

ROOT: Final = Path(__file__).parent.parent
SEARCHED: Final = (
    "benchmarks",
    "docs",
    "examples",
    "fixtures",
    "normalizer",
    "providers",
    "schemas",
    "tests",
)


def page(name: str) -> str:
    return (ROOT / name).read_text()


def table(text: str, heading: str) -> list[list[str]]:
    """The cells of the first table behind a heading."""
    rows = re.search(r"^\|.*?(?=^(?!\|))", text.partition(heading)[2], re.MULTILINE | re.DOTALL)
    assert rows, heading
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in rows[0].splitlines()[2:]]


def files() -> list[Path]:
    """The files of the repository, relative to it, without what the links lead to and what is generated anew."""
    found = [*ROOT.glob("*.md"), ROOT / "pyproject.toml"]
    for folder in SEARCHED:
        found += [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    names = [path.relative_to(ROOT) for path in found]
    return [
        name for name in names
        if name.parts[:2] not in (("normalizer", "providers"), ("normalizer", "schemas"))
        and name.suffix in (".py", ".md", ".toml", ".json", ".jsonl", ".ambr")
    ]  # fmt: skip


# ---------------------------------------------------------------- how to add an API

PLACES: Final = [re.findall(r"`([^`]+)`", row[0])[0] for row in table(page("CONTRIBUTING.md"), "**An API.**")]


def within(name: Path, place: str) -> bool:
    return name.as_posix().startswith(place) if place.endswith("/") else fnmatchcase(name.as_posix(), place)


@pytest.mark.parametrize("api", registry.targets())
def test_each_place_that_an_api_needs_names_it(api: str) -> None:
    title = re.split(r"[.,]", import_module(registry.PROVIDERS[api]).__doc__ or "")[0]
    streams = {"openai_chat": '"chat"', "openai_responses": '"responses"'}  # of one maker, in one file
    names = (api, title, streams.get(api, api))
    for place in PLACES:
        matching = [name for name in files() if within(name, place.replace("<api>", api))]
        assert matching, place
        if "<api>" not in place:
            assert any(word in f"{name} {page(str(name))}" for name in matching for word in names), place


def test_an_api_stands_in_no_other_place() -> None:
    """Files that have an API's name in their own, and files that name all APIs, are places; others give examples."""
    apis = registry.targets()
    beside = []
    for name in files():
        own = next((api for api in reversed(apis) if api in name.as_posix()), None)
        if own or all(api in page(str(name)) for api in apis):
            places = [place.replace("<api>", own or "<api>") for place in PLACES]
            if name.name != "CONTRIBUTING.md" and not any(within(name, place) for place in places):
                beside.append(name.as_posix())
    assert beside == []


# ---------------------------------------------------------------- rooms


def test_the_table_of_rooms_has_every_room() -> None:
    rooms = {path.stem for path in (ROOT / "normalizer").iterdir() if not path.name.startswith("_")}
    rows = table(page("ARCHITECTURE.md"), "## Rooms")
    listed = [word.rstrip("/") for row in rows for word in re.findall(r"`(\w+/?)`", row[0])]
    assert sorted(listed) == sorted(rooms - {"py"})


def test_the_places_to_look_at_are_there() -> None:
    rows = table(page("ARCHITECTURE.md"), "## Where to look")
    for place in re.findall(r"`([a-z]+/\w+)`", " ".join(row[1] for row in rows)):
        assert (ROOT / "normalizer" / f"{place}.py").is_file(), place


# ---------------------------------------------------------------- the design


def test_the_table_of_outcomes_is_that_of_the_code() -> None:
    rows = [row[1:] for row in table(page("docs/design.md"), "## Outcomes")]
    decided = dict.fromkeys((row.outcome, row.basis) for row in OUTCOMES)
    written = [(outcome.strip("`"), basis.strip("`")) for outcome, basis in rows]
    # what an attestation says is the attestation's
    assert written == [pair if pair[1] != "attested" else ("what it says", "attested") for pair in decided]


def test_the_sample_of_a_notice_reads_back() -> None:
    (sample,) = re.findall(r"```\n(\[tool outcome.*?)\n```", page("docs/design.md"), re.DOTALL)
    found = notices.read_back(sample, "toolu_1")
    assert found is not None
    assert found.outcome == "unknown"
