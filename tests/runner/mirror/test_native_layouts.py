"""Runs kept in APEX's and SpecFlow's own files, on a real disk: links, outputs, the mark of a pause, the archive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from holdfast.core import events as ev
from holdfast.core.status import RunStatus
from holdfast.formats import apex, specflow
from holdfast.runner.decisions.user_decisions import record_decision
from tests.support.repositories import Project
from tests.support.runs import Trial, open_project_journal, sh, stage

RUN = "01-try-it"
CURRENT = ".claude/apex-state/current.json"
CONTINUE = ".specflow/.continue-here"
LIVE = f".specflow/execution/SPEC-{RUN}-state.json"


def _mirrored(tmp_path: Path, system: str) -> Trial:
    """Return a run of two phases whose files of one system are kept from its first event on."""
    first, second = sh("one", "echo 1 > one.txt"), sh("two", "echo 2 > two.txt")
    trial = Trial.of(Project.create(tmp_path / "p"), stage("first", first), stage("second", second))
    repo = trial.project.open()
    with open_project_journal(repo) as journal:
        record_decision(repo, journal, trial.run, ev.MirrorKept(system=system, folder=""))
    return trial


def _json(trial: Trial, path: str) -> Any:
    return json.loads((trial.project.path / path).read_text())


def test_apexs_links_lead_to_the_state_and_each_phase_leaves_its_output(tmp_path: Path) -> None:
    """What APEX looks for is where it looks: the current task, the state, one file per finished phase."""
    trial = _mirrored(tmp_path, "apex")
    assert trial.execute() is RunStatus.COMPLETED
    state = _json(trial, CURRENT)
    assert (state["task_id"], state["current_phase"]) == (RUN, None)
    home = trial.project.path / ".claude/output/apex" / RUN
    assert sorted(path.name for path in home.iterdir()) == ["00-first.md", "01-second.md", "state.json"]
    assert state["completed_phases"][1]["files_changed"] == ["two.txt"]
    documents = {f".claude/output/apex/{RUN}/state.json": (home / "state.json").read_bytes()}
    assert apex.list_runs(documents).split("\n")[1].split()[1] == "COMPLETE"


def test_the_current_task_is_the_one_that_was_active_last(tmp_path: Path) -> None:
    """A link that pointed at another task points at this one; the other's state is untouched."""
    trial = Trial.of(Project.create(tmp_path / "p"), stage("first", sh("one", "echo 1 > one.txt")))
    trial.project.write(".claude/output/apex/00-old/state.json", "{}")
    link = trial.project.path / CURRENT
    link.parent.mkdir(parents=True)
    link.symlink_to("../output/apex/00-old/state.json")
    repo = trial.project.open()
    with open_project_journal(repo) as journal:
        record_decision(repo, journal, trial.run, ev.MirrorKept(system="apex", folder=""))
    assert _json(trial, CURRENT)["task_id"] == RUN
    assert (trial.project.path / ".claude/output/apex/00-old/state.json").read_text() == "{}"


def test_a_finished_specflow_run_is_in_the_archive_with_its_commits(tmp_path: Path) -> None:
    """The live state is gone, the archived one names commits that git has."""
    trial = _mirrored(tmp_path, "specflow")
    assert (trial.project.path / LIVE).exists()
    assert trial.execute() is RunStatus.COMPLETED
    assert not (trial.project.path / LIVE).exists()
    archived = _json(trial, f".specflow/execution/archive/SPEC-{RUN}-state.json")
    assert archived["commits"] == [landing.commit for landing in trial.facts().landings]


def test_a_pause_of_another_specification_is_left_alone(tmp_path: Path) -> None:
    """There is one `.continue-here` for all: what is somebody else's is not taken away."""
    trial = _mirrored(tmp_path, "specflow")
    trial.project.write(CONTINUE, '{"spec_id": "SPEC-9"}')
    assert trial.execute() is RunStatus.COMPLETED
    assert _json(trial, CONTINUE) == {"spec_id": "SPEC-9"}


def test_what_a_mirror_left_is_read_as_the_run_that_it_was(tmp_path: Path) -> None:
    """Adopted from its own mirror, every task is done and every commit recorded."""
    trial = _mirrored(tmp_path, "specflow")
    trial.execute()
    path = f".specflow/execution/archive/SPEC-{RUN}-state.json"
    run = specflow.read(path, {path: (trial.project.path / path).read_bytes()})
    assert run.finished
    assert [claim.commits for claim in run.claims] == [
        (landing.commit,) for landing in trial.facts().landings
    ]
