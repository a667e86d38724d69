"""What becomes of a run branch: merged into the user's branch, or put away without losing it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.ids import run_branch
from holdfast.errors import RepositoryError
from holdfast.repo.checkout import read_checkout
from holdfast.repo.land_run import LandingConflictError, LandingMethod, discard_run, land_on_branch
from holdfast.repo.landed_results import RunTip
from tests.crash.disk_image import Tree
from tests.crash.faults import Program
from tests.crash.power_models import choice_of
from tests.crash.recording import record
from tests.support.power_cut import after_power_cut, using
from tests.support.repositories import RUN, Project, git


def run_commit(project: Project, file: str = "run.txt", content: str = "run\n") -> str:
    """Commit something on the run branch and return to main."""
    project.git("checkout", "-q", "-b", run_branch(RUN).removeprefix("refs/heads/"))
    project.write(file, content)
    commit = project.commit("run")
    project.git("checkout", "-q", "main")
    return commit


def test_a_checked_out_branch_is_fast_forwarded_with_its_files(tmp_path: Path) -> None:
    """Files, index and branch move together; unrelated local changes stay."""
    project = Project.create(tmp_path / "p")
    commit = run_commit(project)
    project.write("a.txt", "my edit\n")
    done = land_on_branch(project.open(), commit, "main", "m")
    assert (done.kind, done.commit, project.head()) == ("fast-forward", commit, commit)
    assert project.git("status", "--porcelain") == "M a.txt"
    assert (project.path / "run.txt").exists()


def test_a_branch_that_went_on_gets_a_merge_commit(tmp_path: Path) -> None:
    """Both sides are in it, and the branch is the first parent."""
    project = Project.create(tmp_path / "p")
    commit = run_commit(project)
    project.write("main.txt", "main\n")
    tip = project.commit("main goes on")
    done = land_on_branch(project.open(), commit, "main", "Merge the run")
    assert done.kind == "merge"
    assert project.git("log", "-1", "--format=%P %s") == f"{tip} {commit} Merge the run"
    assert project.git("status", "--porcelain") == ""


def test_delivering_twice_is_already_there(tmp_path: Path) -> None:
    """Repeating changes nothing."""
    project = Project.create(tmp_path / "p")
    commit = run_commit(project)
    land_on_branch(project.open(), commit, "main", "m")
    assert land_on_branch(project.open(), commit, "main", "m").kind == "already there"


def test_local_changes_that_would_be_overwritten_stop_the_delivery(tmp_path: Path) -> None:
    """Neither file nor branch moves, and the error says where and what to do."""
    project = Project.create(tmp_path / "p")
    commit, base = run_commit(project, "a.txt", "run\n"), project.head()
    project.write("a.txt", "my edit\n")
    with pytest.raises(RepositoryError, match="would be overwritten") as refused:
        land_on_branch(project.open(), commit, "main", "m")
    assert "stash" in refused.value.hint
    assert ((project.path / "a.txt").read_text(), project.head()) == ("my edit\n", base)


def test_a_branch_checked_out_nowhere_moves_without_a_checkout(tmp_path: Path) -> None:
    """The user's own checkout does not change."""
    project = Project.create(tmp_path / "p")
    project.git("branch", "release")
    commit = run_commit(project)
    assert land_on_branch(project.open(), commit, "release", "m").kind == "fast-forward"
    assert project.git("rev-parse", "release") == commit
    assert not (project.path / "run.txt").exists()


def test_a_branch_checked_out_in_another_worktree_is_updated_there(tmp_path: Path) -> None:
    """Its files follow; nothing looks reverse-edited."""
    project = Project.create(tmp_path / "p")
    project.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    commit = run_commit(project)
    land_on_branch(project.open(), commit, "side", "m")
    assert (tmp_path / "side" / "run.txt").exists()
    assert git(tmp_path / "side", "status", "--porcelain") == ""


def test_a_conflict_names_the_files_and_the_manual_way(tmp_path: Path) -> None:
    """The user can take over by hand."""
    project = Project.create(tmp_path / "p")
    commit = run_commit(project, "a.txt", "run\n")
    project.write("a.txt", "main\n")
    project.commit("rival")
    with pytest.raises(RepositoryError, match=r"a\.txt") as refused:
        land_on_branch(project.open(), commit, "main", "m")
    assert "git merge" in refused.value.hint


@pytest.mark.parametrize("method", list(LandingMethod))
def test_a_conflict_changes_nothing_however_a_run_lands(tmp_path: Path, method: LandingMethod) -> None:
    """No ref says that it landed, and the error names the files and the commit that they conflict with."""
    project = Project.create(tmp_path / "p")
    commit = run_commit(project, "a.txt", "run\n")
    project.write("a.txt", "main\n")
    tip = project.commit("rival")
    with pytest.raises(LandingConflictError) as refused:
        land_on_branch(project.open(), commit, "main", "m", method, [RunTip(RUN, commit)])
    assert (refused.value.files, refused.value.onto, project.head()) == (("a.txt",), tip, tip)
    assert project.git("for-each-ref", f"refs/holdfast/{RUN}/landed") == ""


def test_a_result_that_the_branch_has_by_other_commits_needs_no_commit(tmp_path: Path) -> None:
    """The user picked it before: it is noted as landed, and the branch stays where it is."""
    project = Project.create(tmp_path / "p")
    commit = run_commit(project)
    project.write("run.txt", "run\n")
    tip = project.commit("the same by hand")
    for method in (LandingMethod.SQUASH, LandingMethod.REBASE):
        done = land_on_branch(project.open(), commit, "main", "m", method, [RunTip(RUN, commit)])
        assert (done.kind, done.commit, project.head()) == ("already there", tip, tip)
    (ref,) = project.git("for-each-ref", "--format=%(refname)", f"refs/holdfast/{RUN}/landed").split()
    assert (commit in ref, project.git("rev-parse", ref)) == (True, tip)


def test_an_unknown_branch_is_refused(tmp_path: Path) -> None:
    """A typing error creates nothing."""
    project = Project.create(tmp_path / "p")
    with pytest.raises(RepositoryError, match="no branch 'mian'"):
        land_on_branch(project.open(), project.head(), "mian", "m")


def test_a_discarded_run_stays_reachable_from_its_archive(tmp_path: Path) -> None:
    """The branch is gone, its commits are not; a second time there is nothing to do."""
    project = Project.create(tmp_path / "p")
    commit = run_commit(project)
    kept = discard_run(project.open(), RUN)
    assert project.git("rev-parse", kept) == commit
    assert project.git("branch", "--list", "holdfast/*") == ""
    assert discard_run(project.open(), RUN) == ""


def test_a_run_branch_under_review_is_not_discarded(tmp_path: Path) -> None:
    """Whoever has it checked out must leave it first."""
    project = Project.create(tmp_path / "p")
    run_commit(project)
    project.git("checkout", "-q", f"holdfast/{RUN}")
    with pytest.raises(RepositoryError, match="checked out"):
        discard_run(project.open(), RUN)


def test_a_change_in_the_users_checkout_is_noticed(tmp_path: Path) -> None:
    """New, changed again, reverted and committed: each shows; a look itself does not."""
    project = Project.create(tmp_path / "p")
    project.write("a.txt", "already dirty\n")
    repo = project.open()
    first = read_checkout(repo)
    assert read_checkout(repo).differences(first) == ()
    project.write("a.txt", "dirtier than before\n")
    project.write("new.txt", "x")
    project.write("ignored.log", "x")
    assert read_checkout(repo).differences(first) == ("a.txt", "new.txt")
    project.commit("moved")
    assert "HEAD" in read_checkout(repo).differences(first)


def test_a_checkout_with_a_split_index_is_read(tmp_path: Path) -> None:
    """Large repositories use one."""
    project = Project.create(tmp_path / "p")
    project.git("update-index", "--split-index")
    project.write("a.txt", "dirty\n")
    assert list(read_checkout(project.open()).files) == ["a.txt"]


@pytest.mark.parametrize("target", ["main", "other"])
def test_a_run_that_landed_survives_a_power_cut(tmp_path: Path, target: str) -> None:
    """The branch, what it holds and, where it is checked out, its files."""
    project = Project.create(tmp_path / "p")
    project.git("branch", "other")
    code = f"""
from holdfast.repo.land_run import land_on_branch
git("checkout", "-q", "-b", "holdfast/{RUN}")
done = commit("run.txt", "run")
git("checkout", "-q", "main")
repo = Repository.open(Path.cwd())
land_on_branch(repo, done, {target!r}, "m")
"""
    left = after_power_cut(project, code)
    assert left.git("show", f"{target}:run.txt") == "run"
    assert left.git("status", "--porcelain") == ""


@pytest.mark.parametrize("method", ["SQUASH", "REBASE"])
def test_a_run_that_landed_without_a_merge_survives_a_power_cut(tmp_path: Path, method: str) -> None:
    """The branch, its files, and the ref that says what they are."""
    project = Project.create(tmp_path / "p")
    done = run_commit(project)
    project.write("main.txt", "main\n")
    project.commit("main goes on")
    code = f"""
from holdfast.repo.land_run import LandingMethod, land_on_branch
from holdfast.repo.landed_results import RunTip
land_on_branch(repo, {done!r}, "main", "m", LandingMethod.{method}, [RunTip({RUN!r}, {done!r})])
"""
    left = after_power_cut(project, code)
    assert left.git("show", "main:run.txt") == "run"
    assert left.git("status", "--porcelain") == ""
    (kept,) = left.git("for-each-ref", "--format=%(objectname)", f"refs/holdfast/{RUN}/landed").split()
    assert kept == left.head()


@pytest.mark.parametrize("step", ["_merge", "_sync_files"])
def test_a_killed_landing_that_was_completed_survives_a_power_cut(tmp_path: Path, step: str) -> None:
    """Who says "already there", or lands again, answers for what the killed one did not sync."""
    project = Project.create(tmp_path / "p")
    commit = run_commit(project, "new/run.txt", "run\n" * 3000)
    code = f"""
import signal
from holdfast.repo.checkout_update import CheckoutUpdate
from holdfast.repo.land_run import land_on_branch
if os.fork() == 0:
    CheckoutUpdate.{step} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    land_on_branch(repo, {commit!r}, "main", "m")
os.wait()
land_on_branch(Repository.open(Path.cwd()), {commit!r}, "main", "m")
"""
    left = after_power_cut(project, code)
    assert (left.head(), left.git("status", "--porcelain")) == (commit, "")
    assert (left.path / "new/run.txt").read_text() == "run\n" * 3000


def test_what_is_put_back_survives_a_power_cut(tmp_path: Path) -> None:
    """The record of it is gone then, so nobody would do it again."""
    project = Project.create(tmp_path / "p")
    before = (project.path / "a.txt").read_text()
    commit = run_commit(project, "a.txt", "changed\n")
    fields = ["main", project.head(), commit, "a.txt"]
    (project.git_dir / "holdfast-update").write_text("\0".join(fields))
    (project.path / "a.txt").unlink()
    code = """
from holdfast.repo.checkout_update import CheckoutUpdate
CheckoutUpdate(repo, Path.cwd(), Path.cwd() / ".git").complete()
"""
    left = after_power_cut(project, code)
    assert not (left.git_dir / "holdfast-update").exists()
    assert (left.path / "a.txt").read_text() == before
    assert left.git("status", "--porcelain") == ""


@pytest.mark.parametrize("model", [("least", 0), ("names", 0), ("names", 1), ("subset", 0)])
def test_a_landing_cut_by_a_power_cut_is_completed_by_landing_again(
    tmp_path: Path, model: tuple[str, int]
) -> None:
    """Before git is done, before the branch is synced and before the files are."""
    project = Project.create(tmp_path / "p")
    commit = run_commit(project, "a.txt", "run\n" * 3000)
    code = f"""
from holdfast.repo.land_run import land_on_branch
land_on_branch(repo, {commit!r}, "main", "m")
"""
    for number, tree in enumerate(cut_disks(using(project, code), model)):
        left = Project(tmp_path / f"left-{number}")
        tree.write_to(left.path)
        land_on_branch(left.open(), commit, "main", "m")
        assert (left.head(), left.git("status", "--porcelain")) == (commit, "")
        assert (left.path / "a.txt").read_text() == "run\n" * 3000


def cut_disks(program: Program, model: tuple[str, int]) -> Iterator[Tree]:
    """Yield what power cuts in a landing leave, each disk once: around all that is done to `a.txt` and the branch."""
    recording = record(program)
    touched = [
        point.number
        for point in recording.points
        if point.path.endswith(("/a.txt", "/refs/heads/main", "/refs/heads/main.lock", "/.git/index.lock"))
    ]
    seen = set()
    for moment in recording.moments():
        if {moment.number, moment.number - 1} & set(touched):
            tree = moment.disk.after(choice_of(*model, moment.number))
            if (digest := tree.digest(times=False)) not in seen:
                seen.add(digest)
                yield tree


def test_a_discarded_run_stays_discarded_after_a_power_cut(tmp_path: Path) -> None:
    """Its branch is gone and its tip kept, both on disk."""
    code = f"""
from holdfast.repo.land_run import discard_run
repo.keep("{run_branch(RUN)}", commit("run.txt", "run"))
discard_run(repo, {RUN!r})
"""
    left = after_power_cut(Project.create(tmp_path / "p"), code)
    (kept,) = left.git("for-each-ref", "--format=%(refname)", "refs/holdfast", "refs/heads/holdfast").split()
    assert left.git("show", f"{kept}:run.txt") == "run"
