"""The rule pages in docs say what the rules say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from normalizer.devtools import rulebook_page
from normalizer.rules import Context, Request, Rule, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
PAGES = sorted(page.stem.removeprefix("rules_") for page in (ROOT / "docs").glob("rules_*.md"))


def cold_tea(_request: Request, _context: Context) -> Iterator[Violation]:
    """Tea is hot.

    ## Why
    Nobody drinks it cold.
    """
    yield Violation("/tea", "it is cold")


def made(ident: str, **others: object) -> Rule:
    fields = {"name": "cold-tea", "severity": "policy", "source": "the pot", "error": None, "check": cold_tea}
    return Rule(id=ident, **{**fields, **others})  # type: ignore[arg-type]


def section(page: str, heading: str) -> str:
    return page.split(f"### {heading}\n", 1)[1].split("\n##", 1)[0]


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_current(name: str) -> None:
    page = rulebook_page.path(name, ROOT).read_text(encoding="utf-8")
    assert page == rulebook_page.render(name, rulebook_page.rulebook(name)), (
        f"run: python -m normalizer.devtools.rulebook_page {name}"
    )


@pytest.mark.parametrize("name", PAGES)
def test_every_rule_has_an_entry_that_the_contents_lead_to(name: str) -> None:
    page = rulebook_page.path(name, ROOT).read_text(encoding="utf-8")
    headings = {
        re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-")
        for heading in re.findall(r"^#{2,3} (.+)$", page, re.MULTILINE)
    }
    links = re.findall(r"\]\(#([^)]+)\)", page)
    assert set(links) <= headings
    assert len(links) == len(set(links))
    for rule in rulebook_page.rulebook(name):
        assert f"### {rule.id}: {rule.name}\n" in page


def test_there_is_a_page_for_anthropic() -> None:
    assert "anthropic" in PAGES


def test_an_entry_says_all_of_a_rule() -> None:
    entry = section(
        rulebook_page.render("kettle", (made("TEA-POT-001", error="`pot` is empty", applies="afternoons"),)),
        "TEA-POT-001: cold-tea",
    )
    for said in (
        "Tea is hot.",
        "- severity: policy",
        "- judged from: the request alone",
        "- applies: afternoons",
        "- error: `` `pot` is empty ``",
        "- source: the pot",
    ):
        assert said in entry


def test_what_a_rule_leaves_out_is_said_as_such() -> None:
    page = rulebook_page.render("kettle", (made("TEA-POT-001", static=False),))
    assert "- judged from: the request and its context" in page
    assert "- applies: always" in page
    assert "- error: no text known" in page


def test_headings_of_an_explanation_stand_below_the_rule() -> None:
    page = rulebook_page.render("kettle", (made("TEA-POT-001"),))
    assert "\n#### Why\nNobody drinks it cold.\n" in page


def test_the_groups_are_those_of_the_ids() -> None:
    page = rulebook_page.render("kettle", (made("TEA-POT-001"), made("TEA-POT-002"), made("TEA-CUP-001")))
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == ["Contents", "TEA-POT", "TEA-CUP"]
    assert "- [TEA-POT](#tea-pot)\n  - [TEA-POT-001](#tea-pot-001-cold-tea) cold-tea\n" in page


def test_only_severities_that_occur_are_explained() -> None:
    page = rulebook_page.render("kettle", (made("TEA-POT-001"),))
    assert "| policy | 1 |" in page
    assert "| reject |" not in page


def test_the_command_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    monkeypatch.chdir(tmp_path)
    rulebook_page.main(["anthropic"])
    written = (tmp_path / "docs" / "rules_anthropic.md").read_text(encoding="utf-8")
    assert written == rulebook_page.render("anthropic", rulebook_page.rulebook("anthropic"))


def test_a_provider_that_does_not_exist_has_no_rulebook() -> None:
    with pytest.raises(ModuleNotFoundError):
        rulebook_page.rulebook("kettle")
