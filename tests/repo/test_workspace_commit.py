"""Capturing an agent's work: all of it, whatever the agent did to git, and nothing of it changed by looking."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast.core.ids import archive_ref, snapshot_ref, task_ref
from holdfast.repo import index, workspace_commit
from holdfast.repo.snapshots import take_snapshot
from holdfast.repo.workspace import WorkspaceGoneError
from holdfast.repo.workspace_commit import WorkCommit, commit_work
from tests.support.repositories import RUN, PreparedWorkspace, git

REF = task_ref(RUN, "T1", 1)
WIP = snapshot_ref(RUN, "T1")
STRAY = archive_ref(RUN, "T1-1")


def capture(prepared: PreparedWorkspace, ref: str = REF) -> WorkCommit:
    """Commit the workspace's work, as after an attempt."""
    return commit_work(prepared.repo, prepared.workspace, prepared.base, ref, "T1: work\n", STRAY)


def save(prepared: PreparedWorkspace) -> str:
    """Take a snapshot."""
    return take_snapshot(prepared.repo, prepared.workspace, WIP, "wip")


def files_in(prepared: PreparedWorkspace, commit: str) -> list[str]:
    """Return the paths a commit holds."""
    return prepared.project.git("ls-tree", "-r", "--name-only", commit).splitlines()


def test_changed_new_and_deleted_files_become_one_commit(tmp_path: Path) -> None:
    """The commit follows the start, and the ref keeps it."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent_writes("a.txt", "changed\n")
    prepared.agent_writes("new dir/ü.txt", "new\n")
    (prepared.workspace.path / "src" / "b.txt").unlink()
    prepared.agent_writes("trace.log", "ignored\n")
    done = capture(prepared)
    assert done.changed == ("a.txt", "new dir/ü.txt", "src/b.txt")
    assert (bool(done.changed), done.problems) == (True, ())
    assert prepared.project.git("rev-parse", REF, f"{REF}^") == f"{done.commit}\n{prepared.base}"
    assert prepared.repo.tree_of(done.commit) == done.tree


def test_ignore_rules_that_take_too_long_leave_new_files_out_and_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git would compare one pattern with one name for years."""
    monkeypatch.setattr(index, "LISTING_S", 2.0)
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent_writes("a.txt", "changed\n")
    prepared.agent_writes("sub/.gitignore", "**/a/" * 12 + "**/b\n")
    prepared.agent_writes("sub/" + "a/" * 100 + "c", "new\n")
    done = capture(prepared)
    assert done.changed == ("a.txt",)
    assert any("rules in .gitignore" in problem for problem in done.problems)


def test_rule_files_that_fit_into_no_memory_are_removed_and_told(tmp_path: Path) -> None:
    """Git would read them as a whole. Eight terabytes of nothing occupy no disk."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent_writes("a.txt", "changed\n")
    for name in (".gitignore", "sub/.gitattributes"):
        prepared.agent_writes(name, "")
        os.truncate(prepared.workspace.path / name, 8 << 40)
    done = capture(prepared)
    assert "a.txt" in done.changed
    told = [remark for remark in done.remarks if "too large for git to read" in remark]
    assert [remark.split()[0] for remark in told] == [".gitignore", "sub/.gitattributes"]


def _stored(prepared: PreparedWorkspace, kind: str, content: bytes) -> str:
    """Store an object by hand, whatever is in it."""
    store = ["git", "hash-object", "-t", kind, "--literally", "-w", "--stdin"]
    done = subprocess.run(store, cwd=prepared.workspace.path, input=content, capture_output=True, check=True)
    return done.stdout.decode().strip()


def _malformed(prepared: PreparedWorkspace, what: str) -> str:
    """Return a commit on top of the base that no server takes."""
    blob = bytes.fromhex(git(prepared.workspace.path, "hash-object", "-w", "--stdin", stdin="hi"))
    entries = {"duplicate entries": b"x", "full pathname": b"d/x"}
    entry = b"100644 " + entries.get(what, b"y") + b"\0" + blob
    tree = _stored(prepared, "tree", entry * (2 if what == "duplicate entries" else 1))
    date = "99999999999999999999" if what == "date overflow" else "1"
    who = f"A <a@example.com> {date} +0000"
    head = f"tree {tree}\nparent {prepared.base}\nauthor {who}\ncommitter {who}\n\nodd\n"
    return _stored(prepared, "commit", head.encode())


@pytest.mark.parametrize("what", ["duplicate entries", "full pathname", "date overflow"])
def test_a_malformed_commit_of_an_agent_is_not_taken_but_its_files_are(tmp_path: Path, what: str) -> None:
    """Git would store it, and the user's server would refuse the whole history later. The same below an honest commit."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent_writes("new.txt", "new\n")
    odd = _malformed(prepared, what)
    above = prepared.agent("commit-tree", "-p", odd, "-m", "honest", f"{prepared.base}^{{tree}}")
    for head in (odd, above):
        (prepared.workspace.git_dir / "HEAD").write_text(f"{head}\n")
        done = capture(prepared)
        assert (done.changed, done.problems) == (("new.txt",), ())
        assert prepared.project.git("rev-parse", f"{done.commit}^") == prepared.base
    assert prepared.project.git("rev-list", f"{prepared.base}..{save(prepared)}", "--count") == "1"


@pytest.mark.parametrize("name", [".git", "..", "x" * 300])
def test_a_commit_with_a_name_that_no_file_can_have_costs_no_file(tmp_path: Path, name: str) -> None:
    """An agent can write such a tree by hand. What is in its workspace is taken, that name is not."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent_writes("new.txt", "new\n")
    blob = git(prepared.workspace.path, "hash-object", "-w", "--stdin", stdin="hi")
    entry = f"100644 {name}\0".encode() + bytes.fromhex(blob)
    store = ["git", "hash-object", "-t", "tree", "--literally", "-w", "--stdin"]
    made = subprocess.run(store, cwd=prepared.workspace.path, input=entry, capture_output=True, check=True)
    commit = prepared.agent("commit-tree", "-p", prepared.base, "-m", "odd", made.stdout.decode().strip())
    (prepared.workspace.git_dir / "HEAD").write_text(f"{commit}\n")
    done = capture(prepared)
    assert (done.changed, done.problems) == (("new.txt",), ())
    assert files_in(prepared, save(prepared)) == files_in(prepared, done.commit)


def test_an_attempt_that_changed_nothing_is_empty(tmp_path: Path) -> None:
    """It still has a commit of its own, which a merge can prove it by."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    done = capture(prepared)
    assert done.changed == ()
    assert prepared.project.git("rev-parse", f"{done.commit}^") == prepared.base


def test_capturing_twice_gives_the_same_commit(tmp_path: Path) -> None:
    """A kill after the capture costs nothing."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent_writes("a.txt", "changed\n")
    assert capture(prepared) == capture(prepared)


def test_an_agents_own_commits_are_kept_below(tmp_path: Path) -> None:
    """What it committed and what it left uncommitted are both there."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    own = prepared.agent_commits("one.txt", "1\n")
    prepared.agent_writes("two.txt", "2\n")
    done = capture(prepared)
    assert prepared.project.git("rev-parse", f"{done.commit}^") == own
    assert done.changed == ("one.txt", "two.txt")


def test_an_agent_that_committed_everything_needs_no_commit_of_ours(tmp_path: Path) -> None:
    """Its HEAD is the result, also from a branch it made."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent("checkout", "-q", "-b", "feature")
    own = prepared.agent_commits("one.txt", "1\n")
    assert capture(prepared).commit == own
    assert prepared.project.git("rev-parse", REF) == own


def test_a_head_moved_elsewhere_is_archived_and_the_files_are_taken(tmp_path: Path) -> None:
    """Our commit follows the start; the stray history stays reachable, and somebody is told."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent("checkout", "-q", "--orphan", "stray")
    stray = prepared.agent_commits("one.txt", "1\n")
    done = capture(prepared)
    assert prepared.project.git("rev-parse", f"{done.commit}^", STRAY) == f"{prepared.base}\n{stray}"
    assert done.changed == ("one.txt",)
    assert "lacks the commit it started from" in done.remarks[0]


@pytest.mark.parametrize("clones", [False, True])
@pytest.mark.parametrize("ref", [task_ref(RUN, "T2", 1), f"refs/heads/holdfast/{RUN}"])
def test_an_agent_that_builds_on_the_work_of_others_gives_up_only_its_files(
    tmp_path: Path, ref: str, *, clones: bool
) -> None:
    """Merged with its history, that work would count as landed although its files are not there. Snapshots are the same."""
    prepared = PreparedWorkspace.create(tmp_path / "p", clones=clones)
    project = prepared.project
    others = project.git("commit-tree", "-p", prepared.base, "-m", "work of T2", f"{prepared.base}^{{tree}}")
    project.git("update-ref", ref, others)
    prepared.agent("update-ref", "--no-deref", "HEAD", others)
    own = prepared.agent_commits("one.txt", "1\n")
    snapshot, done = save(prepared), capture(prepared)
    assert project.git("rev-parse", f"{done.commit}^", f"{snapshot}^") == f"{prepared.base}\n{prepared.base}"
    assert done.changed == ("one.txt",)
    assert "on no commit of its own" in done.remarks[0]
    project.git("update-ref", "-d", ref)
    assert prepared.repo.exists(own)
    assert project.git("rev-parse", f"{capture(prepared).commit}^1") == others


@pytest.mark.parametrize("name", [".git\u200c", ".GIT", ".git ", "git~1", ".git."])
def test_a_folder_that_is_git_s_own_on_other_machines_does_not_land(tmp_path: Path, name: str) -> None:
    """A server would refuse it, and a clone on such a machine would run what is in it."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent_writes(f"{name}/config", "[core]\n")
    prepared.agent_writes("ok.txt", "1\n")
    assert capture(prepared).changed == ("ok.txt",)


def test_a_broken_head_still_gives_up_the_files(tmp_path: Path) -> None:
    """Without a HEAD to follow, the start is the parent."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent_writes("a.txt", "changed\n")
    (prepared.workspace.git_dir / "HEAD").write_text("0" * 40)
    done = capture(prepared)
    assert prepared.project.git("rev-parse", f"{done.commit}^") == prepared.base
    assert done.changed == ("a.txt",)


def test_edits_hidden_from_git_are_captured(tmp_path: Path) -> None:
    """Assume-unchanged and skip-worktree fool the agent's git, not ours."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent("update-index", "--assume-unchanged", "a.txt")
    prepared.agent("update-index", "--skip-worktree", "src/b.txt")
    prepared.agent_writes("a.txt", "hidden\n")
    prepared.agent_writes("src/b.txt", "hidden\n")
    assert capture(prepared).changed == ("a.txt", "src/b.txt")


def test_files_directories_and_links_may_take_each_others_place(tmp_path: Path) -> None:
    """What the commit holds is what the directory holds."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    root = prepared.workspace.path
    (root / "a.txt").unlink()
    prepared.agent_writes("a.txt/inside", "x\n")
    shutil.rmtree(root / "src")
    (root / "src").symlink_to("/etc")
    done = capture(prepared)
    assert files_in(prepared, done.commit) == [".gitignore", "a.txt/inside", "src"]
    assert prepared.repo.file_at(done.commit, "src") == b"/etc"


def test_a_file_added_by_force_is_kept_although_ignored(tmp_path: Path) -> None:
    """Staging it was a decision, whether or not it was committed."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent_writes("one.log", "1\n")
    prepared.agent("add", "-f", "one.log")
    prepared.agent("commit", "-q", "-m", "log")
    prepared.agent_writes("two.log", "2\n")
    prepared.agent("add", "-f", "two.log")
    assert capture(prepared).changed == ("one.log", "two.log")


def test_files_of_a_nested_repository_are_taken_as_plain_files(tmp_path: Path) -> None:
    """A scaffolding tool that ran `git init` loses nothing; a pointer to nowhere is never committed."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent("init", "-q", "app")
    prepared.agent_writes("app/main.py", "x\n")
    prepared.agent("init", "-q", "app/lib")
    prepared.agent_writes("app/lib/util.py", "y\n")
    done = capture(prepared)
    assert done.changed == ("app/lib/util.py", "app/main.py")
    assert "app is a nested repository" in done.remarks[0]
    assert prepared.project.git("ls-tree", "-r", done.commit).count("160000") == 0


def test_a_nested_repository_that_the_agent_committed_is_reported(tmp_path: Path) -> None:
    """A pointer into a repository that nobody else has cannot be merged by anybody."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent("init", "-q", "app")
    prepared.agent_writes("app/main.py", "x\n")
    prepared.agent("-C", "app", "add", "-A")
    prepared.agent("-C", "app", "-c", "user.name=A", "-c", "user.email=a@b.c", "commit", "-q", "-m", "x")
    prepared.agent_commits("one.txt", "1\n")
    assert any("app" in problem for problem in capture(prepared).problems)


def test_a_file_over_the_limit_is_left_out_and_named(tmp_path: Path) -> None:
    """Objects cannot be taken back, so huge ones never get in."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent_writes("small.txt", "x")
    with (prepared.workspace.path / "huge.bin").open("wb") as file:
        file.truncate(workspace_commit.FILE_BYTES_MAX + 1)
    done = capture(prepared)
    assert done.changed == ("small.txt",)
    assert "huge.bin has 50 MB and was left out" in done.problems[0]


def test_a_deleted_workspace_is_an_error_of_its_own(tmp_path: Path) -> None:
    """The runner can tell this from a failing git; a link in its place counts as deleted."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    shutil.rmtree(prepared.workspace.path)
    with pytest.raises(WorkspaceGoneError):
        capture(prepared)
    prepared.workspace.path.symlink_to(tmp_path)
    with pytest.raises(WorkspaceGoneError):
        save(prepared)


def test_work_is_captured_even_without_holdfasts_own_index(tmp_path: Path) -> None:
    """The index only saves time: deleting everything private loses no work."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent_writes("a.txt", "changed\n")
    for path in (prepared.workspace.index, prepared.workspace.start_file):
        path.unlink()
    assert capture(prepared).changed == ("a.txt",)


@pytest.mark.parametrize("left", [b"", bytes(300), b"DIRC\0\0\0\2\0\0\0\3"])
def test_work_is_captured_although_a_power_cut_tore_holdfasts_own_index(tmp_path: Path, left: bytes) -> None:
    """Nobody syncs an index: it only saves reading files."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent_writes("a.txt", "changed\n")
    prepared.workspace.index.write_bytes(left)
    assert capture(prepared).changed == ("a.txt",)


@pytest.mark.parametrize("left", [b"", bytes(40), b"\xff\xfe" * 20, b"0" * 40, b"3f786850e387"])
def test_work_is_saved_although_a_power_cut_tore_the_note_of_its_start(tmp_path: Path, left: bytes) -> None:
    """Nobody syncs it; what is no commit id counts as no note."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent_writes("a.txt", "changed\n")
    prepared.workspace.start_file.write_bytes(left)
    assert prepared.workspace.start() == ""
    assert prepared.project.git("show", f"{save(prepared)}:a.txt") == "changed"


def test_commits_of_an_agent_whose_objects_are_gone_are_not_built_on(tmp_path: Path) -> None:
    """An agent's git syncs nothing. Its files are there, so nothing is lost but the steps between."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent_commits("new.txt", "first\n")
    prepared.agent_commits("new.txt", "second\n")
    blob = prepared.agent("rev-parse", "HEAD~1:new.txt")
    (prepared.project.git_dir / "objects" / blob[:2] / blob[2:]).unlink()
    done = capture(prepared)
    assert done.changed == ("new.txt",)
    assert prepared.project.git("rev-parse", f"{REF}^") == prepared.base
    assert prepared.project.git("show", f"{REF}:new.txt") == "second"


def test_ids_with_difficult_dots_become_valid_refs(tmp_path: Path) -> None:
    """Task ids may contain what git forbids in a ref."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent_writes("a.txt", "changed\n")
    for task in ("a..b", "x.lock", "end.", "a.b-c_d"):
        done = capture(prepared, task_ref(RUN, task, 1))
        assert prepared.repo.read_ref(task_ref(RUN, task, 1)) == done.commit


def test_a_snapshot_saves_everything_and_leaves_no_trace(tmp_path: Path) -> None:
    """Index, HEAD, branch, stash and files of the agent are as before, to the byte."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent_writes("a.txt", "staged\n")
    prepared.agent("add", "a.txt")
    prepared.agent_writes("new.txt", "new\n")
    watched = [
        prepared.workspace.git_dir / "index",
        prepared.workspace.git_dir / "HEAD",
        prepared.workspace.path / "a.txt",
    ]
    before = [(path.read_bytes(), path.stat().st_mtime_ns) for path in watched]
    saved = save(prepared)
    assert files_in(prepared, saved) == [".gitignore", "a.txt", "new.txt", "src/b.txt"]
    assert [(path.read_bytes(), path.stat().st_mtime_ns) for path in watched] == before
    assert prepared.agent("status", "--porcelain") == "M  a.txt\n?? new.txt"
    assert prepared.pool.leftovers() == []


def test_a_snapshot_of_an_untouched_workspace_is_nothing(tmp_path: Path) -> None:
    """No ref is made for no work."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    assert save(prepared) == ""
    assert prepared.repo.read_ref(WIP) == ""


def test_snapshots_are_taken_only_when_something_changed_and_older_ones_stay(tmp_path: Path) -> None:
    """The same files give the same snapshot; the reflog keeps the earlier ones."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent_writes("a.txt", "1\n")
    first = save(prepared)
    assert save(prepared) == first
    prepared.agent_writes("a.txt", "2\n")
    second = save(prepared)
    assert second != first
    assert prepared.project.git("log", "-g", "--format=%H", WIP).splitlines() == [second, first]


def test_a_snapshot_keeps_commits_that_only_the_workspace_knows(tmp_path: Path) -> None:
    """An agent killed right after its own commit loses nothing."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    own = prepared.agent_commits("one.txt", "1\n")
    assert save(prepared) == own
    assert prepared.repo.read_ref(WIP) == own


def test_a_snapshot_names_what_it_leaves_out(tmp_path: Path) -> None:
    """Whoever restores it learns what is not in it."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent_writes("a.txt", "1\n")
    with (prepared.workspace.path / "huge.bin").open("wb") as file:
        file.truncate(workspace_commit.FILE_BYTES_MAX + 1)
    assert "huge.bin" in prepared.project.git("log", "-1", "--format=%b", save(prepared))


def test_a_snapshot_can_be_put_into_a_new_workspace(tmp_path: Path) -> None:
    """A fresh agent continues from exactly these files."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent_writes("deep/new.txt", "new\n")
    prepared.pool.prepare("1", save(prepared))
    assert (prepared.pool.path("1") / "deep" / "new.txt").read_text() == "new\n"
