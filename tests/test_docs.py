"""Documents that cannot drift: features name real tests, generated pages are current, links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.features import PAGES, TO_COME, Feature, features

ROOT = Path(__file__).parents[1]
PAGES_OF_OURS = sorted(
    path
    for folder in (".", "docs", "docs/decisions", "skills/holdfast", "commands")
    for path in (ROOT / folder).glob("*.md")
)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("feature", features(), ids=lambda one: one.id)
def test_each_feature_names_existing_tests(feature: Feature) -> None:
    """A promise without a test is none: one or two to read first, and each exists under the name given."""
    assert 1 <= len(feature.best) <= 2
    for test in feature.tests:
        file, _, name = test.partition("::")
        text = (ROOT / "tests" / file).read_text()
        assert re.search(rf"^(async )?def {name}\(", text, re.M), f"no {name} in tests/{file}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_the_pages_of_features_are_current(page: Path) -> None:
    """`python -m tests.features` writes them."""
    assert page.read_text() == PAGES[page]()


def test_every_id_of_the_mission_is_shown_or_listed_as_to_come() -> None:
    """Nothing of the mission is forgotten, and nothing is in both lists."""
    shown = {one.id for one in features()}
    assert not shown & set(TO_COME)
    mission = ROOT.parent / "shared" / "FEATURES.md"
    if not mission.exists():
        pytest.skip("the mission document is not beside this checkout")
    assert set(re.findall(r"^- ([AECUSX]\d+) ", mission.read_text(), re.M)) <= shown | set(TO_COME)


@pytest.mark.parametrize("page", PAGES_OF_OURS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(page: Path) -> None:
    """A renamed page takes its links along."""
    targets = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    assert [link for link in targets if not (page.parent / link).exists()] == []
