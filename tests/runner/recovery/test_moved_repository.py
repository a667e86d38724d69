"""Moving the repository between a kill and `resume`: every moment of a task, every kind of move, with a sandbox and without.

Work is known by what is in a workspace, not by where it is. So nothing that an agent wrote is lost, and nothing lands twice.
"""

from __future__ import annotations

import hashlib
import os
import select
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.ids import snapshot_ref
from holdfast.core.status import RunStatus
from holdfast.runner.requests import Request, send_request
from tests.support.command import Cli, eventually
from tests.support.repositories import Project
from tests.support.runs import DEADLINE_S, Fifo, Trial, kill, kill_everything, sh, stage, start_runner
from tests.support.sandboxes import needs_sandbox

SANDBOXES = (pytest.param("off"), pytest.param("workspace", marks=needs_sandbox))


# -- kinds of move: each returns where the repository is now ----------------------------------------------------


def renamed(project: Path) -> Path:
    """Rename the folder of the repository."""
    return project.rename(project.with_name("renamed"))


def parent_renamed(project: Path) -> Path:
    """Rename the folder above the repository."""
    return project.parent.rename(project.parent.with_name("elsewhere")) / project.name


def copied(project: Path) -> Path:
    """Copy the repository, as onto another disk, and delete the original."""
    subprocess.run(["cp", "-a", project, project.with_name("copied")], check=True)
    shutil.rmtree(project)
    return project.with_name("copied")


MOVES = (renamed, parent_renamed, copied)
Move = Callable[[Path], Path]


# -- moments: each leaves a run that nobody runs ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scene:
    """A run in a repository that will be moved, and where its agents and the test meet."""

    tmp: Path
    here: Fifo
    go: Fifo

    def trial(self, *tasks: dict[str, Any], **plan: Any) -> Trial:
        """Make the run."""
        return Trial.of(Project.create(self.tmp / "home" / "p"), stage("one", *tasks), **plan)


@pytest.fixture
def scene(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A place for the repository, and FIFOs beside it that a sandbox shows."""
    meet = tmp_path / "meet"
    meet.mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOLDFAST_SANDBOX", request.param)
    monkeypatch.setenv("HOLDFAST_SANDBOX_SHOW", str(meet))
    return Scene(tmp_path, Fifo(meet / "here"), Fifo(meet / "go"))


def goes_on(scene: Scene) -> str:
    """Return the script of an agent that writes half, waits, and writes the rest; another one goes on from the half."""
    return (
        f"if [ -f half.txt ]; then echo whole > whole.txt; exit; fi; "
        f"echo half > half.txt; {scene.here.give}; {scene.go.take}; echo more > half-more.txt; echo whole > whole.txt"
    )


def runner_killed(scene: Scene) -> Trial:
    """Only the runner is killed: the agent is alive while the repository moves, and writes on."""
    trial = scene.trial(sh("A", goes_on(scene), resume="continue"))
    runner = start_runner(trial)
    scene.here.wait()
    kill(runner)
    return trial


def killed_unsaved(scene: Scene) -> Trial:
    """Runner, supervisor and agent are killed; what the agent wrote is in no snapshot."""
    trial = scene.trial(sh("A", goes_on(scene), resume="continue"))
    runner = start_runner(trial)
    scene.here.wait()
    kill_everything(trial, runner)
    return trial


def killed_saved(scene: Scene) -> Trial:
    """The same after a snapshot of less than the agent wrote."""
    script = goes_on(scene).replace(
        "echo half > half.txt;",
        f"echo first > first.txt; {scene.here.give}; {scene.go.take}; echo half > half.txt;",
    )
    trial = scene.trial(sh("A", script, resume="continue"), limits={"snapshot": 0.05})
    runner = start_runner(trial)
    scene.here.wait()
    ref = snapshot_ref(trial.run, "A")
    eventually(lambda: trial.project.git("rev-parse", "-q", "--verify", ref, check=False) != "", "a snapshot")
    os.kill(runner.pid, signal.SIGSTOP)  # no more snapshots
    scene.go.release()
    scene.here.wait()
    kill_everything(trial, runner)
    return trial


def ended_unwatched(scene: Scene) -> Trial:
    """The agent ended by itself after the runner was killed; nobody collected its work."""
    trial = runner_killed(scene)
    scene.go.release()
    folder = trial.project.open().state_dir.run(trial.run).attempts
    eventually((folder / "A/1/agent/exit.json").exists, "the agent ended")
    return trial


def verifying(scene: Scene) -> Trial:
    """The work is committed, and its check is cut short."""
    once = scene.tmp / "meet" / "checked"
    check = f"test -e {once} || {{ {scene.here.give}; {scene.go.take}; }}; test -f whole.txt"
    trial = scene.trial(sh("A", "echo half > half.txt; echo whole > whole.txt"), verify=[check])
    runner = start_runner(trial)
    scene.here.wait()
    once.touch()
    kill_everything(trial, runner)
    return trial


def verified(scene: Scene) -> Trial:
    """Task A is verified, and waits for B, whose interface it was built on and which has unsaved work."""
    publish = "holdfast report interface api 'GET /'"
    script = f"[ -f b.txt ] || {{ echo b > b.txt; {publish}; {scene.here.give}; {scene.go.take}; }}"
    trial = scene.trial(
        sh("B", script, resume="continue"),
        sh("A", "echo half > half.txt; echo whole > whole.txt", needs_interface=["B"]),
    )
    runner = start_runner(trial)
    scene.here.wait()
    eventually(lambda: trial.status_of("A") == "verified", "A is verified")
    kill_everything(trial, runner)
    return trial


def merging(scene: Scene) -> Trial:
    """The merged tree of two tasks is being checked."""
    once = scene.tmp / "meet" / "checked"
    check = f"test -e {once} || ! test -f b.txt || ! test -f whole.txt || {{ {scene.here.give}; {scene.go.take}; }}"
    tasks = sh("A", "echo half > half.txt; echo whole > whole.txt"), sh("B", "echo b > b.txt")
    trial = scene.trial(*tasks, verify=[check])
    runner = start_runner(trial)
    scene.here.wait()
    once.touch()
    kill_everything(trial, runner)
    return trial


def stopped(scene: Scene) -> Trial:
    """The user stopped the run, which rests with its work saved."""
    trial = scene.trial(sh("A", goes_on(scene), resume="continue"))
    runner = start_runner(trial)
    scene.here.wait()
    send_request(trial.project.open().state_dir.run(trial.run), Request(action="stop"))
    runner.communicate(timeout=DEADLINE_S)
    return trial


MOMENTS = (
    runner_killed,
    killed_unsaved,
    killed_saved,
    ended_unwatched,
    verifying,
    verified,
    merging,
    stopped,
)


@pytest.mark.parametrize("scene", SANDBOXES, indirect=True)
@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("moment", MOMENTS)
def test_no_work_is_lost_when_the_repository_is_moved(
    scene: Scene, moment: Callable[[Scene], Trial], move: Move
) -> None:
    """Whatever was under way, it lands once from its new place, with all that its agent had written before."""
    trial = moment(scene)
    trial = replace(trial, project=Project(move(trial.project.path)))
    scene.go.release(3)
    assert trial.execute() is RunStatus.COMPLETED
    landed = trial.landed()
    assert sorted(landed) == sorted(trial.state().tasks)
    assert trial.show("half.txt") == "half"
    assert trial.show("whole.txt") == "whole"
    task = trial.state().tasks["A"]
    assert task.charged == 0
    assert (
        task.attempt
        == (1 if moment in (verifying, verified, merging, ended_unwatched) else task.attempt)
        <= 2
    )
    assert trial.violations() == []
    assert Cli(trial.project.path)("doctor").code == 0


@pytest.mark.parametrize("scene", SANDBOXES, indirect=True)
@pytest.mark.parametrize("move", MOVES)
def test_the_preview_sees_the_unsaved_work_of_a_moved_repository(scene: Scene, move: Move) -> None:
    """What was in the workspace before is in it after: the preview counts it."""
    trial = killed_unsaved(scene)
    before = trial.preview()["A"]
    trial = replace(trial, project=Project(move(trial.project.path)))
    after = trial.preview()["A"]
    assert (after.unsaved, after.why) == (before.unsaved, before.why)
    assert after.unsaved == 1


@pytest.mark.parametrize("scene", SANDBOXES, indirect=True)
def test_an_agent_that_works_through_a_move_is_reattached_and_its_git_works(scene: Scene) -> None:
    """The agent that was alive before the move finishes the attempt; nobody does its work again."""
    script = f"echo $$ > pid.txt; {scene.here.give}; {scene.go.take}; git add -A && git commit -qm mine; echo $$ >> pid.txt"
    trial = scene.trial(sh("A", script))
    runner = start_runner(trial)
    scene.here.wait()
    kill(runner)
    trial = replace(trial, project=Project(renamed(trial.project.path)))
    scene.go.release()
    assert trial.execute() is RunStatus.COMPLETED
    first, second = trial.show("pid.txt").split()
    assert first == second
    assert "mine" in trial.project.git("log", "--format=%s", f"holdfast/{trial.run}")
    assert trial.state().tasks["A"].attempt == 1


@pytest.mark.parametrize("scene", ["off"], indirect=True)
def test_a_live_runner_whose_repository_is_moved_records_nothing_more(scene: Scene) -> None:
    """What it sees at the old place is no evidence. It ends, its agent lives on, and the next runner takes over."""
    trial = scene.trial(sh("A", goes_on(scene), resume="continue"), limits={"snapshot": 0.05})
    runner = start_runner(trial)
    agent = os.pidfd_open(int(scene.here.wait()))
    old = trial.project.path
    trial = replace(trial, project=Project(renamed(old)))
    runner.communicate(timeout=DEADLINE_S)
    assert runner.returncode != 0
    assert select.select([agent], [], [], 0)[0] == []
    assert not old.exists()
    scene.go.release()
    assert trial.execute() is RunStatus.COMPLETED
    assert (trial.show("half-more.txt"), trial.state().tasks["A"].attempt) == ("more", 1)
    assert trial.violations() == []


@pytest.mark.parametrize("scene", SANDBOXES, indirect=True)
def test_resuming_a_copy_leaves_the_agents_of_the_original_alone(scene: Scene) -> None:
    """Both have the same records. The copy saves what it has and starts its own agent; the original's finishes there."""
    trial = runner_killed(scene)
    path = trial.project.path
    subprocess.run(["cp", "-a", path, path.with_name("copy")], check=True)
    copy = replace(trial, project=Project(path.with_name("copy")), events=[])
    assert copy.execute() is RunStatus.COMPLETED
    assert (copy.show("half.txt"), copy.show("whole.txt"), copy.state().tasks["A"].attempt) == (
        "half",
        "whole",
        2,
    )
    scene.go.release()
    assert trial.execute() is RunStatus.COMPLETED
    assert (trial.show("half-more.txt"), trial.state().tasks["A"].attempt) == ("more", 1)
    assert trial.violations() == copy.violations() == []


@pytest.mark.parametrize("scene", ["off"], indirect=True)
def test_a_copy_ends_the_agents_of_a_deleted_original(scene: Scene) -> None:
    """Nobody else would: they work in folders that have no name any more."""
    trial = scene.trial(sh("A", goes_on(scene), resume="continue"))
    runner = start_runner(trial)
    agent = os.pidfd_open(int(scene.here.wait()))
    kill(runner)
    trial = replace(trial, project=Project(copied(trial.project.path)))
    assert trial.execute() is RunStatus.COMPLETED
    assert select.select([agent], [], [], DEADLINE_S)[0] == [agent]


@pytest.mark.parametrize("scene", ["off"], indirect=True)
@pytest.mark.parametrize("move", [renamed, lambda path: path], ids=["moved", "in place"])
def test_workspaces_of_the_version_before_are_found(scene: Scene, move: Move) -> None:
    """It named git's files after the whole path, and wrote whole paths into them."""
    trial = killed_unsaved(scene)
    _name_as_before(trial.project)
    trial = replace(trial, project=Project(move(trial.project.path)))
    assert trial.preview()["A"].unsaved == 1
    assert trial.execute() is RunStatus.COMPLETED
    assert (trial.show("half.txt"), trial.show("whole.txt")) == ("half", "whole")
    left = [
        *(trial.project.git_dir / "worktrees").glob("*"),
        *(trial.project.git_dir / "holdfast-private/indexes").iterdir(),
    ]
    assert left == []


def _name_as_before(project: Project) -> None:
    """Rename git's files about the run's workspace as the first version named them."""
    git_dir = next((project.git_dir / "worktrees").glob("holdfast-*-0"))
    pool = next((project.path / ".holdfast/work").iterdir())
    digest = hashlib.sha256(os.fsencode(pool)).hexdigest()[:8]
    old = git_dir.with_name(f"holdfast-{pool.name}-{digest}-0")
    for path in (project.git_dir / "holdfast-private/indexes").glob(f"{git_dir.name}.*"):
        path.rename(path.with_name(old.name + path.suffix))
    git_dir.rename(old)
    (pool / "0/.git").write_text(f"gitdir: {old}\n")


@pytest.mark.parametrize("scene", SANDBOXES, indirect=True)
def test_work_is_found_without_any_of_our_files_about_the_workspace(scene: Scene) -> None:
    """The journal says what the attempt began with; whatever differs from it is work."""
    trial = killed_unsaved(scene)
    shutil.rmtree(trial.project.git_dir / "holdfast-private")
    shutil.rmtree(trial.project.git_dir / "worktrees", ignore_errors=True)
    assert trial.preview()["A"].unsaved == 1
    assert trial.execute() is RunStatus.COMPLETED
    assert (trial.show("half.txt"), trial.show("whole.txt")) == ("half", "whole")


@pytest.mark.parametrize("scene", ["off"], indirect=True)
def test_the_brief_after_a_move_does_not_contradict_itself(scene: Scene) -> None:
    """It says once what the workspace holds, and that is true."""
    trial = killed_unsaved(scene)
    trial = replace(trial, project=Project(renamed(trial.project.path)))
    assert trial.execute() is RunStatus.COMPLETED
    brief = trial.brief("A", 2)
    assert "The workspace already holds what earlier attempts achieved" in brief
    assert "holds nothing of earlier attempts" not in brief
    assert "half.txt" in brief


@pytest.mark.parametrize("scene", ["off"], indirect=True)
def test_the_users_other_worktrees_are_not_touched(scene: Scene) -> None:
    """Git itself repairs them; what points to their old place is theirs."""
    trial = killed_unsaved(scene)
    users = scene.tmp / "home" / "users"
    trial.project.git("worktree", "add", "-q", str(users), "-b", "mine")
    (users / "draft.txt").write_text("mine\n")
    trial = replace(trial, project=Project(renamed(trial.project.path)))
    record = (trial.project.git_dir / "worktrees/users/gitdir").read_bytes()
    assert trial.execute() is RunStatus.COMPLETED
    assert (trial.project.git_dir / "worktrees/users/gitdir").read_bytes() == record
    trial.project.git("worktree", "repair", str(users))
    assert Project(users).git("status", "--porcelain") == "?? draft.txt"


@pytest.mark.parametrize("scene", ["off"], indirect=True)
def test_a_stop_at_the_new_place_ends_the_runner_of_the_old_one(scene: Scene) -> None:
    """It finds no request where it looks, and understands why; the stop then saves the work itself."""
    trial = scene.trial(sh("A", goes_on(scene), resume="continue"))
    runner = start_runner(trial)
    scene.here.wait()
    trial = replace(trial, project=Project(renamed(trial.project.path)))
    assert Cli(trial.project.path)("stop").code == 0
    runner.communicate(timeout=DEADLINE_S)
    assert trial.stored().row.status is RunStatus.STOPPED
    assert trial.execute() is RunStatus.COMPLETED
    assert (trial.show("half.txt"), trial.show("whole.txt")) == ("half", "whole")
