"""`amend "goal"`, killed at points spread over all that is done to the disk: the plan file is whole, and the command given again ends it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import pytest

from tests.cli.test_amend_goal import GOAL, PLAN, RATES, Shop
from tests.crash.faults import Fault, Program, list_points, run_with_fault, stratified_sample
from tests.crash.sample_run import HOLDFAST, copy, environment

WORDS = ("amend", GOAL, "--yes", "--json")
POINTS = 4

pytestmark = pytest.mark.crash


def test_a_killed_amendment_leaves_the_old_plan_or_the_new_one(tmp_path: Path) -> None:
    """Never a part of it, and nothing beside it; whichever it is, the run goes on and the same words end it."""
    shop = Shop.blocked(tmp_path / "user")
    env = {**environment(), "PATH": shop.path}

    def holdfast(repository: Path, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*HOLDFAST, *words], cwd=repository, env=env, capture_output=True, text=True, check=False
        )

    def program(repository: Path) -> Program:
        return Program([*HOLDFAST, *WORDS], repository, repository, env)

    whole = tmp_path / "whole"
    copy(shop.cli.here, whole)
    points = list_points(program(whole))
    assert (whole / "plan.yaml").read_text() == PLAN + RATES
    at_plan = [point for point in points if point.path == "plan.yaml"]
    assert at_plan, "the exchange is a point"
    for point in {*at_plan, *stratified_sample(points, POINTS, seed=3)}:
        repository = tmp_path / f"at-{point.number}"
        copy(shop.cli.here, repository)
        run_with_fault(program(repository), Fault("kill", point.number))
        assert (repository / "plan.yaml").read_text() in (PLAN, PLAN + RATES), point
        assert holdfast(repository, "resume", "--yes").returncode == 1, point
        again = holdfast(repository, *WORDS)
        assert again.returncode == 0, (point, again.stderr)
        assert (repository / "plan.yaml").read_text() == PLAN + RATES, point
        assert {path.name for path in repository.iterdir()} == {
            path.name for path in shop.cli.here.iterdir()
        }, point
        status = msgspec.json.decode(holdfast(repository, "status", "1", "--json").stdout)
        assert [task["id"] for task in status["tasks"]] == ["cart", "search", "rates"], point
        assert holdfast(repository, "doctor").returncode == 0, point
