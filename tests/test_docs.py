"""docs/features.md names a real test beside each feature id: a promise without a test is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "features.md"
ROW = re.compile(r"^\| ([AECUSX]\d+) \| .* \| (.*) \|$", re.M)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def _rows() -> list[tuple[str, str]]:
    return ROW.findall(DOCUMENT.read_text())


def test_the_document_has_rows() -> None:
    """An empty table would pass every other check."""
    assert len(_rows()) > 10


@pytest.mark.parametrize(("feature", "tests"), _rows())
def test_each_feature_names_existing_tests(feature: str, tests: str) -> None:
    """Each id is shown by at least one test that exists under the name given."""
    named = TEST.findall(tests)
    assert named, f"{feature} names no test"
    for file, function in named:
        path = ROOT / file
        assert path.exists(), f"{feature}: {file} does not exist"
        assert re.search(rf"^(async )?def {function}\(", path.read_text(), re.M), (
            f"{feature}: no {function} in {file}"
        )


def test_every_id_of_the_mission_is_in_the_table_or_listed_as_to_come() -> None:
    """Nothing of the mission is forgotten: an id is either shown or said to be missing."""
    mission = ROOT.parent / "shared" / "FEATURES.md"
    if not mission.exists():
        pytest.skip("the mission document is not beside this checkout")
    ids = re.findall(r"^- ([AECUSX]\d+) ", mission.read_text(), re.M)
    text = DOCUMENT.read_text()
    assert [i for i in ids if not re.search(rf"\b{i}\b", text)] == []
