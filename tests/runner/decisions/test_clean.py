"""Clearing away finished runs: their branches and outputs stay, an unfinished run is never touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import HoldfastError
from holdfast.journal.lease import Lease
from holdfast.runner.decisions.clean import clean_run, remove_forgotten_folders, run_size
from holdfast.runner.decisions.user_decisions import discard
from tests.runner.decisions.resting_runs import blocked_run, completed_run
from tests.support.runs import Trial, open_project_journal, sh, stage

OUTPUTS = {"recap.json": "{}\n"}


def _ignore(*_: object) -> None:
    """Watch nothing."""


def test_a_cleaned_run_leaves_its_branch_and_its_outputs(tmp_path: Path) -> None:
    """A12: logs, refs and rows go; what landed stays, and what happened can be read."""
    trial = completed_run(tmp_path)
    repo, tip = trial.project.open(), trial.facts().tip
    assert run_size(repo, trial.run).refs >= 2
    with open_project_journal(repo) as journal:
        clean_run(repo, journal, trial.run, OUTPUTS)
        assert journal.runs() == []
    assert repo.read_ref(f"refs/heads/holdfast/{trial.run}") == tip
    assert trial.project.git("for-each-ref", f"refs/holdfast/{trial.run}") == ""
    assert (repo.state_dir.outputs(trial.run) / "recap.json").read_text() == "{}\n"
    assert not repo.state_dir.run(trial.run).root.exists()
    assert trial.project.git("fsck", "--strict", "--no-dangling") == ""


def test_a_run_that_is_not_over_is_never_cleaned(tmp_path: Path) -> None:
    """A12: nothing of it is touched."""
    trial = blocked_run(tmp_path)
    repo = trial.project.open()
    with open_project_journal(repo) as journal, pytest.raises(HoldfastError, match="blocked"):
        clean_run(repo, journal, trial.run, OUTPUTS)
    assert not repo.state_dir.outputs(trial.run).exists()
    assert trial.violations() == []


def test_the_archived_branch_of_a_discarded_run_survives_a_clean(tmp_path: Path) -> None:
    """Landed commits are never lost, whatever the user did with the branch."""
    trial = completed_run(tmp_path)
    repo, tip = trial.project.open(), trial.facts().tip
    with open_project_journal(repo) as journal:
        kept = discard(repo, journal, trial.run, _ignore)
        clean_run(repo, journal, trial.run, OUTPUTS)
    assert trial.project.git("for-each-ref", "--format=%(refname)", "refs/holdfast") == kept
    assert trial.project.git("rev-parse", kept) == tip


def test_a_new_run_never_takes_the_name_of_a_cleaned_one(tmp_path: Path) -> None:
    """Its branch and its outputs bear that name."""
    trial = completed_run(tmp_path)
    repo = trial.project.open()
    with open_project_journal(repo) as journal:
        discard(repo, journal, trial.run, _ignore)
        clean_run(repo, journal, trial.run, OUTPUTS)
    assert Trial.of(trial.project, stage("one", sh("A", "true"))).run == "02-try-it"


def test_folders_that_a_killed_clean_forgot_are_swept(tmp_path: Path) -> None:
    """Only those that neither journal nor git knows."""
    trial = completed_run(tmp_path)
    repo = trial.project.open()
    forgotten = repo.state_dir.run("07-forgotten").root
    forgotten.mkdir()
    with open_project_journal(repo) as journal:
        remove_forgotten_folders(repo, journal)
    assert not forgotten.exists()
    assert repo.state_dir.run(trial.run).root.exists()


def test_a_forgotten_folder_that_somebody_holds_stays(tmp_path: Path) -> None:
    """Its lease, too: a lock on a file that is gone would keep nobody out."""
    trial = completed_run(tmp_path)
    repo = trial.project.open()
    directory = repo.state_dir.run("07-forgotten")
    with Lease.acquire(directory.lease) as lease, open_project_journal(repo) as journal:
        (directory.root / "note").touch()
        remove_forgotten_folders(repo, journal)
        assert lease.is_ours()
        assert (directory.root / "note").exists()
