"""The plan files of a run: its own, and those beside it that an amended plan was written to."""

from __future__ import annotations

import pytest

from holdfast.core.projection import Origin, RunRow
from holdfast.runner.plan_files import is_plan_file, own_plan_file


def _row(source: str, origin: Origin | None = None) -> RunRow:
    return RunRow(
        run="01-web-shop",
        goal="Web shop",
        plan_hash="",
        base="",
        branch="holdfast/01-web-shop",
        plan_source=source,
        origin=origin,
    )


@pytest.mark.parametrize(
    ("source", "own"),
    [("plans/shop.yml", "plans/shop.yml"), ("", ""), ("workflow apex: Web shop.yaml", "")],
    ids=["file", "pipe", "workflow"],
)
def test_only_a_file_is_the_plan_file_of_a_run(source: str, own: str) -> None:
    """A pipe and a workflow leave nothing that people could edit."""
    assert own_plan_file(_row(source)) == own


@pytest.mark.parametrize(
    ("source", "path", "is_one"),
    [
        ("plans/shop.yml", "plans/shop.yml", True),
        ("plans/shop.yml", "plans/shop-amended.yaml", True),
        ("plans/shop.yml", "plans/shop-amended-2.yaml", True),
        ("plans/shop.yml", "plans/other.yaml", False),
        ("plans/shop.yml", "shop-amended.yaml", False),
        ("", "01-web-shop-amended.yaml", True),
        ("", "01-web-shop.yaml", False),
    ],
)
def test_a_plan_that_people_get_is_no_stray_file(source: str, path: str, *, is_one: bool) -> None:
    """No agent is suspected of having written it into the checkout."""
    assert is_plan_file(_row(source), path) is is_one
