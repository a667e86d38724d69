"""Workspaces that are clones: git works in them, their commits are taken over, and nothing else that lies in them is."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import zlib
from pathlib import Path

import pytest

from holdfast.core.ids import archive_ref, snapshot_ref, task_ref
from holdfast.repo import workspace_clone
from holdfast.repo.debris import clear_debris
from holdfast.repo.private_git_dir import private_dir
from holdfast.repo.snapshots import take_snapshot
from holdfast.repo.workspace_commit import WorkCommit, commit_work
from holdfast.repo.workspaces import Workspaces
from tests.support.opened_files import OpenedFiles
from tests.support.repositories import RUN, PreparedWorkspace, Project, git
from tests.support.users import powerless, require_root

REF = task_ref(RUN, "T1", 1)
STRAY = archive_ref(RUN, "T1-1")
ON_NO_COMMIT = "The agent left its workspace on no commit of its own; the files were taken as they are."


@pytest.fixture
def prepared(tmp_path: Path) -> PreparedWorkspace:
    """A project with one workspace that is a clone."""
    return PreparedWorkspace.create(tmp_path / "p", clones=True)


CAPTURE = """
import sys; from pathlib import Path
from holdfast.core.ids import archive_ref, task_ref
from holdfast.repo.workspace_commit import commit_work
from holdfast.repo.workspaces import Workspaces
from tests.support.repositories import RUN, Project
repo = Project(Path(sys.argv[1])).open()
pool = Workspaces(repo, repo.state_dir.run(RUN).workspaces, clones=True)
done = commit_work(repo, pool.get("0"), sys.argv[2], task_ref(RUN, "T1", 1), "T1", archive_ref(RUN, "T1-1"))
print(*done.remarks, *done.changed, sep="|")
pool.prepare("0", done.commit)
"""


def capture(prepared: PreparedWorkspace) -> WorkCommit:
    """Commit the workspace's work, as after an attempt."""
    return commit_work(prepared.repo, prepared.workspace, prepared.base, REF, "T1: work\n", STRAY)


def agent_commits(prepared: PreparedWorkspace, name: str = "new.txt") -> str:
    """Let the agent commit a file and return its commit."""
    prepared.agent_writes(name, f"{name}\n")
    git(prepared.workspace.path, "add", "-A")
    git(prepared.workspace.path, "commit", "-q", "-m", f"agent: {name}")
    return git(prepared.workspace.path, "rev-parse", "HEAD")


def is_in_repository(prepared: PreparedWorkspace, thing: str) -> bool:
    """Say whether the user's repository has an object or a ref."""
    return bool(prepared.project.git("rev-parse", "--verify", "--quiet", f"{thing}^{{object}}", check=False))


def test_git_works_and_shows_the_users_branches(prepared: PreparedWorkspace) -> None:
    """An agent may compare with any of them; what is Holdfast's own is not among them."""
    prepared.project.git("tag", "v1")
    prepared.project.git("branch", "holdfast/01-demo")
    path = prepared.pool.prepare("0", prepared.base)
    assert git(path, "status", "--porcelain") == ""
    assert git(path, "for-each-ref", "--format=%(refname)").split() == ["refs/heads/main", "refs/tags/v1"]
    assert git(path, "diff", "--stat", "main") == ""


def test_the_commits_of_an_agent_are_below_ours(prepared: PreparedWorkspace) -> None:
    """On a branch of its own, too, and if git has packed both."""
    git(prepared.workspace.path, "checkout", "-q", "-b", "idea")
    first = agent_commits(prepared, "one.txt")
    second = agent_commits(prepared, "two.txt")
    git(prepared.workspace.path, "pack-refs", "--all")
    git(prepared.workspace.path, "repack", "-adlq")
    prepared.agent_writes("three.txt", "3\n")
    done = capture(prepared)
    assert done.problems == done.remarks == ()
    history = prepared.project.git("rev-list", f"{prepared.base}..{REF}").split()
    assert history == [done.commit, second, first]
    assert prepared.project.git("fsck", "--strict", "--no-dangling") == ""


def test_nothing_of_an_agents_git_reaches_the_repository(prepared: PreparedWorkspace) -> None:
    """Neither branches nor hooks nor settings: those are the clone's own, and gone with the next task."""
    path = prepared.workspace.path
    git(path, "config", "core.sshCommand", "touch /tmp/never")
    git(path, "config", "core.hooksPath", "hooks")
    (path / ".git" / "hooks").mkdir()
    git(path, "branch", "planted")
    before = (prepared.project.git_dir / "config").read_bytes()
    agent_commits(prepared)
    capture(prepared)
    assert (prepared.project.git_dir / "config").read_bytes() == before
    assert prepared.project.git("branch", "--list", "planted") == ""
    prepared.pool.prepare("0", prepared.base)
    assert not (path / ".git" / "hooks").exists()
    assert git(path, "config", "--get", "core.sshCommand", check=False) == ""


def test_other_branches_and_the_stash_are_kept(prepared: PreparedWorkspace) -> None:
    """Nobody else has them, and the next task gets a new clone. Capturing again changes nothing."""
    path = prepared.workspace.path
    git(path, "checkout", "-q", "-b", "idea")
    idea = agent_commits(prepared, "idea.txt")
    git(path, "checkout", "-q", "--detach", prepared.base)
    prepared.agent_writes("a.txt", "stashed\n")
    git(path, "stash")
    stash = git(path, "rev-parse", "refs/stash")
    done = capture(prepared)
    assert len(done.remarks) == 2
    assert capture(prepared) == done
    prepared.pool.prepare("0", prepared.base)
    kept = prepared.project.git("for-each-ref", "--format=%(objectname)", f"{STRAY}-*").split()
    assert sorted(kept) == sorted([idea, stash])
    assert prepared.project.git("fsck", "--strict", "--no-dangling") == ""


def test_a_thousand_branches_are_not_all_looked_at(prepared: PreparedWorkspace) -> None:
    """An agent can make as many as it likes."""
    first = agent_commits(prepared, "one.txt")
    git(prepared.workspace.path, "checkout", "-q", "--detach", prepared.base)
    lines = "".join(f"create refs/heads/b{number} {first}\n" for number in range(1000))
    git(prepared.workspace.path, "update-ref", "--stdin", stdin=lines)
    assert len(capture(prepared).remarks) == 1


def test_a_history_without_the_start_is_not_taken_but_the_files_are(prepared: PreparedWorkspace) -> None:
    """An agent could bring in anything with it."""
    git(prepared.workspace.path, "checkout", "-q", "--orphan", "other")
    stranger = agent_commits(prepared)
    done = capture(prepared)
    assert done.remarks == (ON_NO_COMMIT,)
    assert "new.txt" in done.changed
    assert not is_in_repository(prepared, stranger)


def test_a_list_of_other_repositories_is_not_followed(tmp_path: Path, prepared: PreparedWorkspace) -> None:
    """Else an agent could have us store the content of a repository that it cannot see."""
    other = Project.create(tmp_path / "other")
    other.write("secret.txt", "hunter2\n")
    other.commit("secret")
    blob = other.git("rev-parse", "HEAD:secret.txt")
    alternates = prepared.workspace.git_dir / "objects" / "info" / "alternates"
    alternates.write_text(f"{alternates.read_text()}{other.git_dir}/objects\n")
    tree = git(prepared.workspace.path, "mktree", stdin=f"100644 blob {blob}\tstolen.txt\n")
    stolen = git(prepared.workspace.path, "commit-tree", "-p", prepared.base, "-m", "x", tree)
    git(prepared.workspace.path, "update-ref", "--no-deref", "HEAD", stolen)
    assert capture(prepared).remarks == (ON_NO_COMMIT,)
    assert not is_in_repository(prepared, blob)
    assert not is_in_repository(prepared, stolen)


@pytest.mark.parametrize("what", ["folder", "file", "objects", "clone"])
def test_a_link_in_the_place_of_objects_is_not_followed(
    tmp_path: Path, prepared: PreparedWorkspace, what: str
) -> None:
    """Whatever part of the clone is a link now: nothing outside the clone is read."""
    commit = agent_commits(prepared)
    clone = prepared.workspace.git_dir
    part = {
        "folder": clone / "objects" / commit[:2],
        "file": clone / "objects" / commit[:2] / commit[2:],
        "objects": clone / "objects",
        "clone": clone,
    }[what]
    shutil.move(part, tmp_path / "moved")
    part.symlink_to(tmp_path / "moved")
    capture(prepared)
    assert not is_in_repository(prepared, commit)


@pytest.mark.parametrize("target", ["/proc/self", "/proc/self/task", "refs"])
@pytest.mark.parametrize("head", ["ref: refs/heads/mem\n", ""])
def test_branches_that_are_a_link_stop_nothing(prepared: PreparedWorkspace, target: str, head: str) -> None:
    """To files of the kernel, say, which are like no others. The files are taken."""
    prepared.agent_writes("new.txt", "new\n")
    branches = prepared.workspace.git_dir / "refs" / "heads"
    shutil.rmtree(branches)
    branches.symlink_to(target)
    if head:
        (prepared.workspace.git_dir / "HEAD").write_text(head)
    done = capture(prepared)
    assert done.changed == ("new.txt",)
    assert done.remarks == ((ON_NO_COMMIT,) if head else ())


def test_nothing_that_a_link_leads_to_is_opened(tmp_path: Path, prepared: PreparedWorkspace) -> None:
    """In a folder of the user's there may be pipes, and somebody who waits for a reader."""
    users = tmp_path / "users"
    users.mkdir()
    os.mkfifo(users / "pipe")
    for name in ("HEAD", "index", "info"):
        (users / name).write_text("mine")
    clone = prepared.workspace.git_dir
    for name in ("refs/heads", "objects/info"):
        shutil.rmtree(clone / name)
        (clone / name).symlink_to(users)
    for name in ("HEAD", "index"):
        (clone / name).unlink()
        (clone / name).symlink_to(users / name)
    with OpenedFiles(users) as opened:
        capture(prepared)
        prepared.pool.repair("0")
        assert opened.names() == []


def test_objects_that_an_agent_closed_are_not_taken_but_the_files_are(prepared: PreparedWorkspace) -> None:
    """And the workspace can be used again."""
    require_root()
    commit = agent_commits(prepared)
    for folder in (prepared.workspace.git_dir / "objects").glob("??"):
        folder.chmod(0)
    done = powerless(
        Path(__file__).parents[2], sys.executable, "-c", CAPTURE, str(prepared.project.path), prepared.base
    )
    assert done.out == f"{ON_NO_COMMIT}|new.txt\n", done.err
    assert not is_in_repository(prepared, commit)


def test_pipes_in_the_place_of_gits_files_block_nothing(prepared: PreparedWorkspace) -> None:
    """The attempt is captured without the agent's commits."""
    commit = agent_commits(prepared)
    clone = prepared.workspace.git_dir
    for path in (clone / "objects" / commit[:2] / commit[2:], clone / "HEAD", clone / "packed-refs"):
        path.unlink()
        os.mkfifo(path)
    done = capture(prepared)
    assert ON_NO_COMMIT in done.remarks
    assert "new.txt" in done.changed


def test_an_object_that_is_not_what_its_name_says_is_not_taken(prepared: PreparedWorkspace) -> None:
    """The names of objects are computed anew."""
    commit = agent_commits(prepared)
    blob = git(prepared.workspace.path, "rev-parse", "HEAD:new.txt")
    other = git(prepared.workspace.path, "hash-object", "-w", "--stdin", stdin="forged\n")
    objects = prepared.workspace.git_dir / "objects"
    (objects / blob[:2] / blob[2:]).unlink()
    shutil.copy(objects / other[:2] / other[2:], objects / blob[:2] / blob[2:])
    assert capture(prepared).remarks == (ON_NO_COMMIT,)
    assert not is_in_repository(prepared, commit)


def test_a_broken_commit_is_not_taken(prepared: PreparedWorkspace) -> None:
    """Git checks what it gets as if it came from a stranger: a tree that would write into `.git` is refused."""
    path = prepared.workspace.path
    blob = git(path, "hash-object", "-w", "--stdin", stdin="[core]\n")
    raw = b"100644 .git\0" + bytes.fromhex(blob)
    (path / "raw").write_bytes(raw)
    tree = git(path, "hash-object", "-t", "tree", "-w", "--literally", "raw")
    (path / "raw").unlink()
    bad = git(path, "commit-tree", "-p", prepared.base, "-m", "x", tree)
    git(path, "update-ref", "--no-deref", "HEAD", bad)
    assert ON_NO_COMMIT in capture(prepared).remarks
    assert not is_in_repository(prepared, bad)


def test_a_commit_that_needs_all_memory_is_not_taken(prepared: PreparedWorkspace) -> None:
    """Its message has hundreds of megabytes, and next to nothing on disk. Each git command that reads it would need them."""
    path = prepared.workspace.path
    tree = git(path, "rev-parse", "HEAD^{tree}")
    who = "Ada <ada@example.org> 1700000000 +0000"
    text = f"tree {tree}\nparent {prepared.base}\nauthor {who}\ncommitter {who}\n\n".encode()
    line, count = b"a" * (1 << 20), 600
    head = b"commit %d\0" % (len(text) + len(line) * count) + text
    name, packer = hashlib.sha1(head, usedforsecurity=False), zlib.compressobj(1)
    parts = [packer.compress(head)]
    for _ in range(count):
        name.update(line)
        parts.append(packer.compress(line))
    bomb = name.hexdigest()
    loose = prepared.workspace.git_dir / "objects" / bomb[:2] / bomb[2:]
    loose.parent.mkdir(exist_ok=True)
    loose.write_bytes(b"".join([*parts, packer.flush()]))
    git(path, "update-ref", "--no-deref", "HEAD", bomb)
    prepared.agent_writes("new.txt", "new\n")
    done = capture(prepared)
    assert done.remarks == (ON_NO_COMMIT,)
    assert done.changed == ("new.txt",)
    assert not is_in_repository(prepared, bomb)


def test_a_large_file_of_an_agents_commit_is_taken(
    prepared: PreparedWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is larger than the memory that our git may use: files are passed on in pieces."""
    monkeypatch.setattr(workspace_clone, "_MEMORY_BYTES", 64 << 20)
    (prepared.workspace.path / "large.bin").write_bytes(bytes(100 << 20))
    commit = agent_commits(prepared)
    (prepared.workspace.path / "large.bin").unlink()
    assert capture(prepared).remarks == ()
    assert is_in_repository(prepared, commit)


def test_a_snapshot_has_the_commits_of_a_living_agent(prepared: PreparedWorkspace) -> None:
    """They survive if the agent does not."""
    commit = agent_commits(prepared)
    prepared.agent_writes("more.txt", "more\n")
    saved = take_snapshot(prepared.repo, prepared.workspace, snapshot_ref(RUN, "T1"), "wip")
    assert prepared.project.git("rev-parse", f"{saved}^") == commit


def test_what_a_killed_take_over_left_is_removed(prepared: PreparedWorkspace) -> None:
    """The second names of objects are debris of this run."""
    left = private_dir(prepared.repo.common_dir) / "staging" / f"{prepared.workspace.index.stem}.0123abcd"
    (left / "ab").mkdir(parents=True)
    clear_debris(prepared.repo, prepared.pool)
    assert not left.exists()


def test_a_clone_that_a_power_cut_tore_is_repaired(prepared: PreparedWorkspace) -> None:
    """Its files stay, and git works again."""
    prepared.agent_writes("a.txt", "changed\n")
    for name in ("HEAD", "objects/info/alternates"):
        (prepared.workspace.git_dir / name).write_bytes(b"")
    assert prepared.pool.repair("0")
    assert prepared.pool.is_intact("0")
    assert git(prepared.workspace.path, "status", "--porcelain") == "M a.txt"
    assert prepared.pool.repair("0") == []


@pytest.mark.parametrize("part", ["objects", "objects/info"])
def test_a_repair_writes_through_no_link(tmp_path: Path, prepared: PreparedWorkspace, part: str) -> None:
    """What it leads to is the user's."""
    users = tmp_path / "users"
    (users / "info").mkdir(parents=True)
    for folder in (users, users / "info"):
        (folder / "alternates").write_text("mine\n")
    shutil.rmtree(prepared.workspace.git_dir / part)
    (prepared.workspace.git_dir / part).symlink_to(users)
    prepared.pool.repair("0")
    assert {path.read_text() for path in users.rglob("alternates")} == {"mine\n"}
    assert len(list(users.rglob("*"))) == 3


@pytest.mark.parametrize("target", ["objects", "/nowhere/at/all", "/dev/null"])
@pytest.mark.parametrize("part", ["objects", "objects/info", "objects/info/alternates"])
def test_a_clone_beyond_repair_stops_no_other_repair(
    prepared: PreparedWorkspace, part: str, target: str
) -> None:
    """It is made anew before it is used."""
    shutil.rmtree(prepared.workspace.git_dir / part, ignore_errors=True)
    (prepared.workspace.git_dir / part).unlink(missing_ok=True)
    (prepared.workspace.git_dir / part).symlink_to(target)
    (prepared.workspace.git_dir / "HEAD").write_text("")
    assert "HEAD" in prepared.pool.repair("0")
    prepared.pool.prepare("0", prepared.base)
    assert prepared.pool.is_intact("0")


@pytest.mark.parametrize("clones", [True, False])
def test_a_workspace_changes_its_kind_when_it_is_prepared_again(tmp_path: Path, *, clones: bool) -> None:
    """A run may go on without the sandbox that it began with, or the other way round."""
    prepared = PreparedWorkspace.create(tmp_path / "p", clones=clones)
    other = Workspaces(prepared.repo, prepared.pool.directory, clones=not clones)
    assert other.get("0").is_clone is clones
    path = other.prepare("0", prepared.base)
    assert (other.get("0").is_clone, other.is_intact("0")) == (not clones, True)
    assert git(path, "rev-parse", "HEAD") == prepared.base
    assert len(prepared.project.git("worktree", "list").splitlines()) == (2 if clones else 1)
