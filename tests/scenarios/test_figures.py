"""C10: what a checkpoint costs, counted rather than timed. Speed is shown by `make bench`."""

from __future__ import annotations

from pathlib import Path

from holdfast.core.events import encode_event
from holdfast.core.status import RunStatus
from holdfast.journal.sqlite import SqliteJournal
from tests.gitkit import Project
from tests.runkit import Trial, sh, stage


def test_a_checkpoint_takes_less_than_a_kilobyte(tmp_path: Path) -> None:
    """Every event of a run with checks, a failure and a retry, feedback aside, stays below 1 KB."""
    script = "if [ -f A.txt ]; then echo good > A.txt; else echo bad > A.txt; fi"
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", script), *(sh(f"T{n}", f"echo {n} > {n}.txt") for n in range(8))),
        verify=["test ! -f A.txt || grep -q good A.txt"],
    )
    assert trial.carry_on() is RunStatus.COMPLETED
    reader = SqliteJournal.open_read_only(trial.project.open().state.journal)
    sizes = [len(encode_event(record.event)) for record in reader.events(trial.run)]
    assert max(sizes) < 1024
