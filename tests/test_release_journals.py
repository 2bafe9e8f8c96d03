"""A journal that a release wrote is projected to the bytes that it recorded, by this release and every later one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import release_journal

import normalizer
from normalizer.facts import RequestSent
from normalizer.folding.fold_run import fold
from normalizer.journal import open_journal

if TYPE_CHECKING:
    from normalizer.facts import Fact

JOURNALS = Path(__file__).parent.parent / "fixtures" / "journals"


def hold(facts: tuple[Fact, ...]) -> int:
    """Project what each request was made of, and compare; how many there were."""
    requests = [fact for fact in facts if isinstance(fact, RequestSent)]
    for sent in requests:
        transcript = fold(fact for fact in facts if fact.seq <= sent.through)
        projection = normalizer.project(
            transcript, sent.target, model=sent.model, profile=sent.profile, account=sent.account
        )
        assert projection.sending().digest == sent.digest
    return len(requests)


@pytest.mark.parametrize("journal", sorted(JOURNALS.glob("*.db")), ids=lambda path: path.stem)
def test_it_is_projected_to_its_recorded_digests(journal: Path, tmp_path: Path) -> None:
    copy = shutil.copy(journal, tmp_path)
    with open_journal(copy) as opened:
        assert opened.conversations() == ("c-1",)
        facts = opened.facts("c-1")
        last = opened.conversation("c-1").project("anthropic", model="claude-opus-5-5")
    assert hold(facts) >= 5
    assert all(one.kind != "prefix_changed" for one in last.adjustments)


def test_there_is_one_of_this_release() -> None:
    assert (JOURNALS / f"{normalizer.__version__}.db").is_file()


def test_one_that_is_written_now_is_no_different(tmp_path: Path) -> None:
    release_journal.write(tmp_path / "now.db")
    with open_journal(tmp_path / "now.db") as opened:
        kinds = {fact.kind for fact in opened.facts("c-1")}
        assert hold(opened.facts("c-1")) >= 5
    assert {"late_news", "reply_cut", "outcome_attested", "steering_applied"} - kinds == {"late_news"}
