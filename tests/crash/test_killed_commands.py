"""`rebuild`, `reset` and `clean`, killed at points spread over all they do to the disk: doing it again ends the same."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.crash.faults import Fault, Program, list_points, run_with_fault, stratified_sample
from tests.crash.sample_run import HOLDFAST, copy, environment, git, make_template

RUN = "01-upkeep"
POINTS = 4
PLAN = """\
holdfast: 1
goal: upkeep
limits: {jobs: 1, attempts: 1}
stages:
  - {id: one, tasks: [{id: a, run: [sh, -c, "echo a > a.txt"]}]}
  - {id: two, tasks: [{id: b, run: [sh, -c, "echo b > b.txt; exit LAST"]}]}
"""
TORN = b"\xff" * 8192

pytestmark = pytest.mark.crash


@dataclass(frozen=True, slots=True)
class KilledCommand:
    """A command, the repository it is given, whether repeating it may be refused, and what must hold in the end."""

    words: tuple[str, ...]
    last: int
    prepare: Callable[[Path], None]
    judge: Callable[[Path, str], None]
    codes: tuple[int, ...] = (0,)


def _holdfast(repository: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*HOLDFAST, *words], cwd=repository, env=environment(), capture_output=True, text=True, check=False
    )


def _listed(repository: Path) -> list[tuple[str, str]]:
    return [(run["id"], run["status"]) for run in json.loads(_holdfast(repository, "list", "--json").stdout)]


def _refs(repository: Path, below: str) -> list[str]:
    return git(repository, "for-each-ref", "--format=%(refname)", below).split()


def _leave(_repository: Path) -> None:
    """Take the repository as it is."""


def _tear(repository: Path) -> None:
    (repository / ".holdfast" / "journal.db").write_bytes(TORN)


def _is_rebuilt(repository: Path, tip: str) -> None:
    """The run is back, with what landed; the torn file is kept; resuming goes on from there."""
    kept = [p.read_bytes() for p in (repository / ".holdfast").glob("journal.db.damaged-*")]
    assert kept.count(TORN) == 1
    assert _listed(repository) == [(RUN, "stopped")]
    assert git(repository, "rev-parse", f"holdfast/{RUN}").strip() == tip
    assert _holdfast(repository, "resume", "--yes").returncode == 1
    assert git(repository, "rev-parse", f"holdfast/{RUN}").strip() == tip


def _is_reset(repository: Path, tip: str) -> None:
    """The run is given up, its branch archived, a whole backup there."""
    assert _listed(repository) == [(RUN, "abandoned")]
    assert _refs(repository, "refs/heads/holdfast") == []
    archived = _refs(repository, f"refs/holdfast/{RUN}/archive")
    assert [git(repository, "rev-parse", ref).strip() for ref in archived] == [tip]
    assert list((repository / ".holdfast" / "backups").glob("*-refs.txt"))
    assert not list((repository / ".holdfast" / "work").glob("*/*"))


def _is_cleaned(repository: Path, tip: str) -> None:
    """Only the branch and the outputs are left."""
    assert _listed(repository) == []
    assert git(repository, "rev-parse", f"holdfast/{RUN}").strip() == tip
    assert _refs(repository, "refs/holdfast") == []
    assert (repository / ".holdfast" / "outputs" / RUN / "recap.json").exists()
    assert not list((repository / ".holdfast" / "runs").iterdir())


CASES = {
    "rebuild": KilledCommand(("rebuild",), 1, _tear, _is_rebuilt, (0, 3)),
    "reset": KilledCommand(("reset", RUN, "--yes"), 1, _leave, _is_reset),
    "clean": KilledCommand(("clean", "--all", "--yes"), 0, _leave, _is_cleaned),
}


def _program(repository: Path, case: KilledCommand) -> Program:
    return Program([*HOLDFAST, *case.words], repository, repository, environment())


@pytest.mark.parametrize("name", CASES)
def test_a_killed_command_is_completed_by_giving_it_again(name: str, tmp_path: Path) -> None:
    """Invariant 13: at each point, the second time ends where the first would have, and every promise holds."""
    case, template = CASES[name], tmp_path / "template"
    make_template(template, PLAN.replace("LAST", str(case.last)))
    _holdfast(template, "run", "plan.yaml", "--yes")
    tip = git(template, "rev-parse", f"holdfast/{RUN}").strip()
    case.prepare(template)
    copy(template, tmp_path / "whole")
    points = list_points(_program(tmp_path / "whole", case))
    case.judge(tmp_path / "whole", tip)
    for point in stratified_sample(points, POINTS, seed=7):
        repository = tmp_path / f"at-{point.number}"
        copy(template, repository)
        assert run_with_fault(_program(repository, case), Fault("kill", point.number)).fired
        again = _holdfast(repository, *case.words)
        assert again.returncode in case.codes, f"{point}: {again.stderr}"
        case.judge(repository, tip)
        assert _holdfast(repository, "doctor", "--fix").returncode == 0, point
