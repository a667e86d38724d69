"""The staging worktree: the build so far at Auto-Claude's place, for people to open, run and test. Their edits are never lost."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from holdfast.core import events as ev
from holdfast.core.status import RunStatus
from holdfast.repo.staging_worktree import StagingKeptError, StagingWorktree
from holdfast.runner.decisions.user_decisions import record_decision
from tests.support.command import Cli
from tests.support.repositories import Project, git
from tests.support.runs import Trial, open_project_journal, sh, stage

PLACE = ".auto-claude/worktrees/tasks/001-try-it"


def _mirror(trial: Trial) -> None:
    repo = trial.project.open()
    with open_project_journal(repo) as journal:
        record_decision(repo, journal, trial.run, ev.MirrorKept(system="auto-claude"))


def _trial(tmp_path: Path) -> Trial:
    """Return a run of two tasks, of which the second waits for the first."""
    project = Project.create(tmp_path / "p")
    return Trial.of(
        project, stage("only", sh("a", "echo a > a2.txt"), sh("b", "echo b > b2.txt", needs=["a"]))
    )


def _two_commits(project: Project) -> tuple[str, str]:
    """Return two commits: the second changes a file, adds one and has one no more."""
    old = project.head()
    project.write("a.txt", "new\n")
    project.write("deep/new.txt", "much of it\n")
    (project.path / "src/b.txt").unlink()
    return old, project.commit("More")


def _is_sound(project: Project) -> None:
    """Git finds nothing wrong, and nothing of ours in the user's way."""
    project.git("fsck", "--strict")
    assert project.git("status", "--porcelain") == ""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A user's repository."""
    return Project.create(tmp_path / "p")


def _shown(project: Project, commit: str) -> StagingWorktree:
    staging = StagingWorktree(project.open(), project.path / PLACE)
    project.open().hide(".auto-claude/worktrees")
    staging.show(commit)
    return staging


def _changed_by_hand(project: Project, script: str) -> tuple[StagingWorktree, str]:
    """Show a commit, let the user do something in the worktree, and return it with the commit to show next."""
    old, new = _two_commits(project)
    staging = _shown(project, old)
    subprocess.run(["sh", "-ec", script], cwd=staging.path, check=True)
    return staging, new


def test_the_worktree_shows_the_build_and_follows_it(tmp_path: Path) -> None:
    """There from the first moment, at the tip of the run branch when the run rests, and clean."""
    trial = _trial(tmp_path)
    _mirror(trial)
    place = trial.project.path / PLACE
    assert (place / "a.txt").exists()
    assert not (place / "a2.txt").exists()
    assert trial.execute() is RunStatus.COMPLETED
    assert git(place, "rev-parse", "HEAD") == trial.facts().tip
    assert (place / "b2.txt").read_text() == "b\n"
    assert git(place, "status", "--porcelain") == ""
    assert trial.of_kind(ev.MirrorFailed) == trial.of_kind(ev.IntrusionNoticed) == trial.violations() == []


def test_an_edit_in_the_worktree_is_kept_and_told_once(tmp_path: Path) -> None:
    """Whoever tries something out keeps it: the worktree stays behind, the native files and the run go on."""
    trial = _trial(tmp_path)
    _mirror(trial)
    (trial.project.path / PLACE / "a.txt").write_text("tried\n")
    assert trial.execute() is RunStatus.COMPLETED
    assert (trial.project.path / PLACE / "a.txt").read_text() == "tried\n"
    assert ["a.txt" in event.error for event in trial.of_kind(ev.MirrorFailed)] == [True]
    plan = trial.project.path / ".auto-claude/specs/001-try-it/implementation_plan.json"
    assert plan.read_text().count('"completed"') >= 2


def test_a_worktree_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    """What Auto-Claude or a user has there stays as it is."""
    trial = _trial(tmp_path)
    trial.project.git("worktree", "add", "-q", "-b", "auto-claude/001-try-it", PLACE)
    head = git(trial.project.path / PLACE, "rev-parse", "HEAD")
    _mirror(trial)
    trial.execute()
    assert git(trial.project.path / PLACE, "rev-parse", "HEAD", "--abbrev-ref", "HEAD").split() == [
        head,
        "auto-claude/001-try-it",
    ]


def test_a_move_keeps_ignored_files(project: Project) -> None:
    """What was installed or built in the worktree to try it is still there afterwards."""
    old, new = _two_commits(project)
    staging = _shown(project, old)
    (staging.path / "build.log").write_text("built\n")
    staging.show(new)
    assert (staging.path / "build.log").exists()
    assert git(staging.path, "rev-parse", "HEAD") == new
    assert git(staging.path, "status", "--porcelain") == ""
    _is_sound(project)


@pytest.mark.parametrize(
    "script",
    [
        "echo mine > a.txt",
        "echo mine > other.txt",
        "echo mine > a.txt && git add a.txt && git show HEAD:a.txt > a.txt",
        "git commit -q --allow-empty -m mine",
        "git switch -q -c mine",
        "rm src/b.txt",
        "mkfifo .gitattributes",
        "mkdir deep && echo mine > deep/new.txt && echo deep >> $(git rev-parse --git-common-dir)/info/exclude",
    ],
)
def test_nothing_that_a_user_did_is_moved_over(project: Project, script: str) -> None:
    """Edited, staged, committed, on a branch, deleted, or ignored and in the way: the worktree stays as it is."""
    staging, new = _changed_by_hand(project, script)
    before = git(staging.path, "rev-parse", "HEAD")
    with pytest.raises(StagingKeptError, match="left as it is"):
        staging.show(new)
    assert git(staging.path, "rev-parse", "HEAD") == before
    assert (staging.path / "deep/new.txt").exists() is ("deep" in script)


@pytest.mark.parametrize("begun", ["", "much"])
def test_a_half_done_move_is_completed(project: Project, begun: str) -> None:
    """A kill leaves some files old, some new and one begun; the next look mends it."""
    old, new = _two_commits(project)
    staging = _shown(project, old)
    staging._announce(old, new)
    (staging.path / "a.txt").write_text("new\n")
    (staging.path / "deep").mkdir()
    (staging.path / "deep/new.txt").write_text(begun)
    StagingWorktree(project.open(), staging.path).show(new)
    assert (staging.path / "deep/new.txt").read_text() == "much of it\n"
    assert git(staging.path, "status", "--porcelain") == ""
    _is_sound(project)


def test_an_edit_after_a_half_done_move_is_kept(project: Project) -> None:
    """What is neither the old file nor the new one is somebody's."""
    old, new = _two_commits(project)
    staging = _shown(project, old)
    staging._announce(old, new)
    (staging.path / "a.txt").write_text("tried\n")
    with pytest.raises(StagingKeptError, match=r"a\.txt"):
        StagingWorktree(project.open(), staging.path).show(new)
    assert (staging.path / "a.txt").read_text() == "tried\n"


def test_a_half_made_worktree_is_completed_unless_it_holds_something_else(project: Project) -> None:
    """Killed while it was made: made anew, but not over a file that somebody put there."""
    staging = StagingWorktree(project.open(), project.path / PLACE)
    staging._announce("", project.head())
    staging.path.mkdir(parents=True)
    (staging.path / "notes.log").write_text("mine\n")
    with pytest.raises(StagingKeptError, match=r"notes\.log"):
        staging.show(project.head())
    (staging.path / "notes.log").unlink()
    (staging.path / "a.txt").write_text("")
    staging.show(project.head())
    assert git(staging.path, "status", "--porcelain") == ""


_TORN = [b"", bytes(40), b"\xff" * 40]


@pytest.mark.parametrize("torn", _TORN)
def test_a_power_cut_that_tore_our_note_does_not_make_it_somebody_elses(
    project: Project, torn: bytes
) -> None:
    """HEAD, which we wrote too, says what it shows. A file whose end the cut took away is whole again."""
    old, new = _two_commits(project)
    staging = _shown(project, old)
    _tear_start(project, torn)
    (staging.path / "src/b.txt").write_bytes(b"")
    staging.show(old)
    assert git(staging.path, "status", "--porcelain") == ""
    _tear_start(project, torn)
    staging.show(new)
    assert (staging.path / "a.txt").read_text() == "new\n"
    assert git(staging.path, "rev-parse", "HEAD") == new
    assert git(staging.path, "status", "--porcelain") == ""
    _is_sound(project)


@pytest.mark.parametrize(
    "script",
    [
        "echo mine > a.txt",
        "echo mine > mine.txt",
        "echo '*.log' >> ../../../../.git/info/exclude; echo mine > my.log",
        "echo mine > a.txt; git commit -qam mine",
        "git commit -q --allow-empty -m mine",
        "git switch -qc mine",
    ],
)
def test_without_our_note_what_a_user_did_is_kept_too(project: Project, script: str) -> None:
    """A file, a commit or a branch of his own: nothing of it can be had again."""
    staging, new = _changed_by_hand(project, script)
    before = _content(staging.path)
    _tear_start(project, b"")
    for _ in range(2):
        with pytest.raises(StagingKeptError, match="left as it is"):
            staging.show(new)
    assert _content(staging.path) == before


def _tear_start(project: Project, torn: bytes) -> None:
    (start,) = (project.git_dir / "holdfast-private/indexes").glob("*.start")
    start.write_bytes(torn)


def _content(place: Path) -> tuple[str, dict[str, bytes]]:
    files = {path.name: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    return git(place, "log", "-1", "--format=%H %D"), files


def test_a_worktree_that_was_removed_is_made_again(project: Project) -> None:
    """As with the native files: what a mirror shows is there."""
    old, new = _two_commits(project)
    staging = _shown(project, old)
    project.git("worktree", "remove", PLACE)
    staging.show(new)
    assert git(staging.path, "rev-parse", "HEAD") == new


def test_no_link_is_followed(project: Project, tmp_path: Path) -> None:
    """A folder on the way that leads elsewhere is refused, and nothing is made there."""
    (project.path / ".auto-claude").mkdir()
    (tmp_path / "outside").mkdir()
    (project.path / ".auto-claude/worktrees").symlink_to(tmp_path / "outside")
    with pytest.raises(Exception, match="symbolic link"):
        StagingWorktree(project.open(), project.path / PLACE).show(project.head())
    assert not any((tmp_path / "outside/tasks").glob("*/*"))


def _cli(tmp_path: Path) -> Cli:
    """Return a user whose mirrored run is complete."""
    cli = Cli.of(tmp_path / "p", sh("a", "echo a > a2.txt"))
    assert cli("run", "plan.json", "--yes", "--mirror", "auto-claude").code == 0
    assert (cli.here / PLACE / "a2.txt").exists()
    return cli


@pytest.mark.parametrize("end", ["land", "discard"])
def test_a_landed_or_discarded_run_has_no_worktree_any_more(tmp_path: Path, end: str) -> None:
    """It is kept until then, and goes without a trace."""
    cli = _cli(tmp_path)
    assert cli(end, "--yes").code == 0
    assert not os.path.lexists(cli.here / ".auto-claude/worktrees")
    assert "auto-claude" not in cli.project.git("worktree", "list")
    assert cli("doctor").code == 0


@pytest.mark.parametrize("end", ["land", "discard"])
def test_a_worktree_with_files_of_others_stays_and_is_named(tmp_path: Path, end: str) -> None:
    """Even an ignored file, such as a log or settings, is reason enough."""
    cli = _cli(tmp_path)
    (cli.here / PLACE / "my.log").write_text("mine\n")
    done = cli(end, "--yes")
    assert done.code == 0
    assert f"{PLACE} has files that are not Holdfast's (my.log)" in done.out
    assert (cli.here / PLACE / "my.log").exists()
    assert cli("clean", "--all", "--yes").code == cli("doctor").code == 0
    assert (cli.here / PLACE / "my.log").exists()


def test_mirror_names_the_worktree_or_what_is_in_its_way(tmp_path: Path) -> None:
    """Whoever asks for a mirror learns where the build can be tried."""
    cli = Cli.of(tmp_path / "p", sh("a", "exit 1"), limits={"attempts": 1})
    cli("run", "plan.json", "--yes")
    assert f"The build so far is in {cli.here / PLACE}." in cli("mirror", "1", "auto-claude").out
    (cli.here / PLACE / ".git").write_text("gitdir: elsewhere\n")
    assert "is not Holdfast's" in cli("mirror", "1", "auto-claude").out
