"""Ticks, killed at points spread over all that is done to the disk: the list is whole, and the next command makes up for it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import pytest

from tests.crash.faults import Fault, Program, list_points, run_with_fault, stratified_sample
from tests.crash.sample_run import HOLDFAST, copy, environment
from tests.support.command import Cli, fails, writes

LIST, OPEN, TICKED = "TODO.md", b"# L\n\n- [ ] One\n- [ ] Two\n", b"# L\n\n- [x] One\n- [ ] Two\n"
POINTS = 4

pytestmark = pytest.mark.crash


def _holdfast(repository: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*HOLDFAST, *words], cwd=repository, env=environment(), capture_output=True, text=True, check=False
    )


def _rested(path: Path, *, tick: bool) -> Path:
    """Leave a run that rests with one point landed; with `tick`, that is not ticked yet because the list was away."""
    tasks = (writes("a", points="One"), fails("b", needs=["a"], points="Two"))
    listed = {"path": LIST, "kind": "checklist", "tick": tick}
    cli = Cli.of(path, *tasks, limits={"attempts": 1}, task_list=listed)
    assert cli("run", "--yes").code == 1
    (path / LIST).write_bytes(OPEN)
    return path


@pytest.mark.parametrize("command", ["tick", "resume"])
def test_a_killed_tick_leaves_the_old_list_or_the_new_one(tmp_path: Path, command: str) -> None:
    """Never a part of it, and nothing beside it; given again, the command ends as if it had not been killed."""
    template = _rested(tmp_path / "template", tick=command == "resume")
    words = (command, "1", *(["--yes"] if command == "resume" else []))
    copy(template, tmp_path / "whole")
    program = [*HOLDFAST, *words]
    whole = Program(program, tmp_path / "whole", tmp_path / "whole", environment())
    points = list_points(whole, exit_status=command == "resume")
    assert (tmp_path / "whole" / LIST).read_bytes() == TICKED
    at_list = [point for point in points if LIST in point.path]
    assert at_list, "the exchange is a point"
    for point in {*at_list, *stratified_sample(points, POINTS, seed=3)}:
        repository = tmp_path / f"at-{point.number}"
        copy(template, repository)
        run_with_fault(Program(program, repository, repository, environment()), Fault("kill", point.number))
        assert (repository / LIST).read_bytes() in (OPEN, TICKED), point
        _holdfast(repository, *words)
        assert (repository / LIST).read_bytes() == TICKED, point
        assert sorted(path.name for path in repository.iterdir()) == sorted(
            path.name for path in template.iterdir()
        )
        status = msgspec.json.decode(_holdfast(repository, "status", "1", "--json").stdout)
        assert [task["status"] for task in status["tasks"]] == ["completed", "abandoned"], point
