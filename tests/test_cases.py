"""Broken histories as users have them: the request, and the account of what was found and done.

Each folder of `fixtures/cases` is named by its fault and holds one input; what comes of it is under `expected/`.
"""

from __future__ import annotations

import copy
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from syrupy.data import Snapshot, SnapshotCollection
from syrupy.extensions.json import JSONSnapshotExtension

import normalizer
from normalizer.testing import assert_accepts

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion
    from syrupy.location import PyTestLocation

CASES = Path(__file__).parent.parent / "fixtures" / "cases"
NAMES = sorted(folder.name for folder in CASES.iterdir() if folder.is_dir())


class Expected(JSONSnapshotExtension):
    """`expected/request.json` beside the input of the case, keys in the order in which they are sent."""

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        chosen = getattr(test_location.item, "callspec", None)
        if (
            chosen is None or "name" not in chosen.params
        ):  # another file's test, of which nothing is kept here
            return str(super().dirname(test_location=test_location))
        return str(CASES / chosen.params["name"] / "expected")

    @classmethod
    def get_file_basename(cls, *, test_location: PyTestLocation, index: Any) -> str:  # noqa: ARG003 - syrupy's
        return test_location.methodname.removeprefix("test_")

    @classmethod
    def matches_test_location(cls, *, test_location: PyTestLocation, snapshot_location: str) -> bool:
        name = cls.get_file_basename(test_location=test_location, index=0)
        return Path(snapshot_location) == Path(cls.dirname(test_location=test_location), f"{name}.json")

    def read_snapshot_collection(self, *, snapshot_location: str) -> SnapshotCollection:
        place = Path(snapshot_location)
        found = SnapshotCollection(location=snapshot_location)
        found.add(Snapshot(name=f"test_{place.stem}[{place.parent.parent.name}]"))
        return found

    def serialize(self, data: Any, **_: Any) -> str:
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


@pytest.fixture
def expected(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(Expected)


@pytest.fixture(scope="module", params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def repaired(name: str) -> normalizer.Repair:
    (source,) = (CASES / name).glob("input.*")
    return normalizer.repair(source)


def test_request(repaired: normalizer.Repair, expected: SnapshotAssertion) -> None:
    assert repaired.request == expected


def test_adjustments(repaired: normalizer.Repair, expected: SnapshotAssertion) -> None:
    assert [asdict(adjustment) for adjustment in repaired.adjustments] == expected


def test_findings(repaired: normalizer.Repair, expected: SnapshotAssertion) -> None:
    found = {
        "findings": [asdict(finding) for finding in repaired.findings],
        "leftovers": [asdict(leftover) for leftover in repaired.leftovers],
        "fragments": [asdict(fragment) for fragment in repaired.fragments],
    }
    assert found == expected


def test_outcomes(repaired: normalizer.Repair, expected: SnapshotAssertion) -> None:
    transcript = repaired.transcript
    told = {**transcript.calls, **transcript.server_calls}
    assert {key: asdict(call.outcome) for key, call in told.items()} == expected


def test_the_request_is_accepted_and_is_its_own_repair(name: str, repaired: normalizer.Repair) -> None:
    received = normalizer.repairing.received_types(repaired.transcript, repaired.to)
    assert_accepts(repaired.request, repaired.to, context={"history": True, "received_types": received})
    again = normalizer.repair(copy.deepcopy(repaired.request), format=repaired.to)
    assert json.dumps(again.request) == json.dumps(repaired.request)
    if name.startswith("healthy"):
        (source,) = (CASES / name).glob("input.*")
        assert repaired.request == json.loads(source.read_bytes())
        assert repaired.adjustments == ()


def test_nothing_else_stands_beside_the_snapshots() -> None:
    beside = {path.name for path in CASES.glob("*/expected/*")}
    assert beside == {"request.json", "adjustments.json", "findings.json", "outcomes.json"}
    assert {path.name for path in CASES.glob("*/*")} == {"input.json", "input.jsonl", "expected"}
