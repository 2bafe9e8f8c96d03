"""The division between the engine and the APIs: policy names no API, and an API cites no rule but its own."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from normalizer import registry
from normalizer.projecting.dialect import CAUSES, Dialect

ROOT = Path(__file__).parent.parent
TARGETS = tuple(registry.PROVIDERS)
NAMES = re.compile(
    r"anthropic|openai|claude|\bgpt|responses|gemini|bedrock|mistral|\bchat\b|completions", re.IGNORECASE
)
RULE = re.compile(r"[\"'`]([A-Z]{3}-[A-Z]+-\d{3})[\"'`]")


def dialect(target: str) -> Dialect:
    found: Dialect = import_module(f"{registry.PROVIDERS[target]}.project").DIALECT
    return found


def rule_ids(target: str) -> set[str]:
    return {rule.id for rule in registry.provider(target).rules}


def test_no_api_is_named_in_the_engine() -> None:
    modules = sorted((ROOT / "normalizer" / "projecting").glob("*.py"))
    assert modules
    named = {
        f"{module.name}:{number}: {line.strip()}"
        for module in modules
        for number, line in enumerate(module.read_text().splitlines(), 1)
        if NAMES.search(line)
    }
    assert not named


@pytest.mark.parametrize("target", TARGETS)
def test_a_dialect_has_a_rule_of_its_own_api_for_each_cause(target: str) -> None:
    because = dialect(target).because
    assert because.keys() >= CAUSES
    assert {rule for rule in because.values() if rule is not None} <= rule_ids(target)


@pytest.mark.parametrize("target", TARGETS)
def test_a_wing_cites_no_rule_of_another_api(target: str) -> None:
    folder = ROOT.joinpath(*registry.PROVIDERS[target].split(".")[1:])
    cited = {rule for module in folder.glob("*.py") for rule in RULE.findall(module.read_text())}
    assert cited
    assert cited <= rule_ids(target)


@pytest.mark.parametrize("target", TARGETS)
def test_a_dialect_is_named_as_its_target(target: str) -> None:
    assert dialect(target).api == target
    assert set(dialect(target).profiles) == set(registry.provider(target).profiles)
