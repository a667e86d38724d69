"""What an agent plants in the shared git directory does not run in Holdfast's own git calls; the user's settings do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.core.ids import archive_ref, run_branch, snapshot_ref, task_ref
from holdfast.repo.checkout import checkout_notices, read_checkout
from holdfast.repo.debris import clear_debris
from holdfast.repo.git import GitError, git_version
from holdfast.repo.landing import (
    Conflicted,
    branch_facts,
    commit_merge,
    merge,
    move_branch,
    trailers,
)
from holdfast.repo.snapshots import take_snapshot
from holdfast.repo.workspace_commit import commit_work
from holdfast.repo.workspaces import Workspaces
from tests.support.power_cut import after_power_cut
from tests.support.repositories import RUN, PreparedWorkspace, Project, fingerprint, git, write

HOOKS = (
    "reference-transaction",
    "post-index-change",
    "post-checkout",
    "pre-commit",
    "post-merge",
    "post-rewrite",
)


def planted_program(tmp_path: Path) -> tuple[str, Path]:
    """Return a program that leaves a trace when it is run, and the trace."""
    trace = tmp_path / "trace"
    program = tmp_path / "planted"
    program.write_text(f"#!/bin/sh\necho ran >> {trace}\ncat\n")
    program.chmod(0o755)
    return str(program), trace


def use_everything(prepared: PreparedWorkspace) -> None:
    """Do what a run does to a repository: snapshot, capture, merge, land, look, prepare, tidy up."""
    prepared.agent_writes("a.txt", "agent\n")
    prepared.agent_writes("planted.dat", "agent\n")
    take_snapshot(prepared.repo, prepared.workspace, snapshot_ref(RUN, "T1"), "wip")
    done = commit_work(
        prepared.repo,
        prepared.workspace,
        prepared.base,
        task_ref(RUN, "T1", 1),
        "work",
        archive_ref(RUN, "T1-1"),
    )
    other = prepared.project.git("rev-parse", "rival")
    conflict = merge(prepared.repo, other, done.commit)
    assert isinstance(conflict, Conflicted)
    commit_merge(prepared.repo, conflict.tree, other, done.commit, "conflict")
    message = f"T1\n\n{trailers(RUN, 'T1', 1)}"
    landed = commit_merge(prepared.repo, done.tree, prepared.base, done.commit, message)
    assert move_branch(prepared.repo, run_branch(RUN), landed, "")
    branch_facts(prepared.repo, run_branch(RUN), prepared.base, RUN)
    prepared.repo.diff(prepared.base, landed, 1000)
    list(checkout_notices(prepared.repo))
    read_checkout(prepared.repo)
    prepared.pool.prepare("0", landed)
    clear_debris(prepared.repo, prepared.pool)


def hooks(prepared: PreparedWorkspace, program: str) -> None:
    """Plant a hook for every event."""
    for name in HOOKS:
        (prepared.project.git_dir / "hooks").mkdir(exist_ok=True)
        (prepared.project.git_dir / "hooks" / name).symlink_to(program)


def hooks_path(prepared: PreparedWorkspace, program: str) -> None:
    """Point git at another folder of hooks."""
    for name in HOOKS:
        write(prepared.project.path.parent / "hooks" / name, Path(program).read_text())
        (prepared.project.path.parent / "hooks" / name).chmod(0o755)
    prepared.agent("config", "core.hooksPath", str(prepared.project.path.parent / "hooks"))


def configured_hooks(prepared: PreparedWorkspace, program: str) -> None:
    """Plant hooks that are configuration alone, as git has them since 2.54."""
    prepared.agent("config", "hook.evil.command", program)
    for name in HOOKS:
        prepared.agent("config", "--add", "hook.evil.event", name)


def monitor(prepared: PreparedWorkspace, program: str) -> None:
    """Plant a file system monitor."""
    prepared.agent("config", "core.fsmonitor", program)


def content_filter(prepared: PreparedWorkspace, program: str) -> None:
    """Plant a content filter and apply it to every file."""
    prepared.agent("config", "filter.evil.clean", program)
    prepared.agent("config", "filter.evil.smudge", program)
    write(prepared.project.git_dir / "info" / "attributes", "* filter=evil\n")


def merge_driver(prepared: PreparedWorkspace, program: str) -> None:
    """Plant a merge driver and an external diff, and apply them to every file."""
    prepared.agent("config", "merge.evil.driver", program)
    prepared.agent("config", "diff.evil.command", program)
    prepared.agent("config", "diff.evil.textconv", program)
    prepared.agent("config", "diff.external", program)
    write(prepared.project.git_dir / "info" / "attributes", "* merge=evil diff=evil\n")


def signing(prepared: PreparedWorkspace, program: str) -> None:
    """Plant a signing program."""
    for key, value in {"gpg.program": program, "commit.gpgsign": "true", "log.showSignature": "true"}.items():
        prepared.agent("config", key, value)


def nested_repository(prepared: PreparedWorkspace, program: str) -> None:
    """Plant a repository with a monitor of its own inside the workspace."""
    prepared.agent("init", "-q", "inner")
    prepared.agent_writes("inner/file", "x")
    prepared.agent("-C", "inner", "config", "core.fsmonitor", program)


def worktree_files(prepared: PreparedWorkspace, program: str) -> None:
    """Lead git from the workspace to a repository of the agent's own."""
    own = Project.create(prepared.project.path.parent / "own")
    own.git("config", "core.fsmonitor", program)
    (prepared.workspace.path / ".git").write_text(f"gitdir: {own.git_dir}\n")
    (prepared.workspace.git_dir / "commondir").write_text(f"{own.git_dir}\n")


# Each with an ordinary git command in the workspace that does run it: without that, silence would prove nothing.
PLANTS = [
    (hooks, "update-ref refs/tags/x HEAD"),
    (hooks_path, "update-ref refs/tags/x HEAD"),
    pytest.param(
        configured_hooks,
        "update-ref refs/tags/x HEAD",
        marks=pytest.mark.skipif(git_version() < (2, 54), reason="this git knows no such hooks"),
    ),
    (monitor, "status"),
    (content_filter, "hash-object --path=a.txt .gitignore"),
    (merge_driver, "diff --no-index a.txt .gitignore"),
    (signing, "commit-tree -S -m x HEAD^{tree}"),
    (nested_repository, "-C inner status"),
    (worktree_files, "status"),
]


@pytest.mark.parametrize(("plant", "provocation"), PLANTS)
def test_nothing_an_agent_planted_is_run(
    tmp_path: Path, plant: Callable[[PreparedWorkspace, str], None], provocation: str
) -> None:
    """Every step of a run is done with the program planted, and it is never run."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.project.git("checkout", "-q", "-b", "rival")
    prepared.project.write("a.txt", "rival\n")
    prepared.project.commit("rival")
    prepared.project.git("checkout", "-q", "main")
    program, trace = planted_program(tmp_path)
    plant(prepared, program)
    git(prepared.workspace.path, *provocation.split(), check=False)
    assert trace.exists()
    trace.unlink()
    use_everything(prepared)
    assert not trace.exists()


def test_a_filter_of_the_users_global_configuration_is_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What git-lfs and its like need keeps working: content is stored as the filter writes it."""
    settings = tmp_path / "gitconfig"
    settings.write_text('[filter "caps"]\n\tclean = tr a-z A-Z\n\tsmudge = tr A-Z a-z\n\trequired = true\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent_writes(".gitattributes", "*.cap filter=caps\n")
    prepared.agent_writes("x.cap", "shout\n")
    done = commit_work(
        prepared.repo, prepared.workspace, prepared.base, task_ref(RUN, "T1", 1), "x", archive_ref(RUN, "x")
    )
    assert prepared.repo.file_at(done.commit, "x.cap") == b"SHOUT\n"
    assert (prepared.pool.prepare("1", done.commit) / "x.cap").read_text() == "shout\n"


def test_only_an_accepted_filter_of_the_repositorys_configuration_is_used(tmp_path: Path) -> None:
    """It counts with its very command; others are known, so that the user can be asked."""
    project = Project.create(tmp_path / "p")
    command = 'sed "s/x/\\"y\\"/"'
    project.git("config", "filter.early.clean", command)
    project.git("config", "filter.late.clean", "cat")
    repo = project.open().with_filters([("filter.early.clean", command), ("filter.late.clean", "other")])
    assert repo.private_git.text("config", "filter.early.clean") == command
    assert repo.private_git.try_run("config", "filter.late.clean").rc == 1
    assert [key for key, _ in repo.unused_filters()] == ["filter.late.clean"]


@pytest.mark.parametrize(
    "key",
    ["lfs.extension.x.clean", "lfs.customtransfer.x.path", "lfs.standalonetransferagent", "core.sshCommand"],
)
def test_no_setting_of_the_repository_that_names_a_program_is_in_force(tmp_path: Path, key: str) -> None:
    """Git-lfs runs programs of its own configuration, and git those that reach a remote."""
    project = Project.create(tmp_path / "p")
    project.git("config", key, "planted")
    repo = project.open()
    assert [git.try_run("config", key).rc for git in (repo.git, repo.private_git)] == [1, 1]


def test_the_exclude_file_survives_a_power_cut(tmp_path: Path) -> None:
    """It is the user's own."""
    project = Project.create(tmp_path / "p")
    write(project.git_dir / "info" / "exclude", "mine")
    left = after_power_cut(project, "repo.prepare_state_dir()").git_dir
    assert (left / "info" / "exclude").read_text() == "mine\n/.holdfast/\n"


def test_a_partial_clone_is_used_without_fetching_anything(tmp_path: Path) -> None:
    """What its checkout has is enough for a run; what it lacks is named, with the way to get it."""
    origin = Project.create(tmp_path / "origin")
    origin.git("config", "uploadpack.allowFilter", "true")
    origin.write("old.txt", "only in history\n")
    old = origin.commit("old")
    origin.git("rm", "-q", "old.txt")
    origin.commit("new")
    origin.git("clone", "-q", "--filter=blob:none", f"file://{origin.path}", str(tmp_path / "p"))
    clone = Project(tmp_path / "p")
    repo = clone.open()
    pool = Workspaces(repo, repo.state_dir.run(RUN).workspaces)
    assert (pool.prepare("0", clone.head()) / "a.txt").exists()
    with pytest.raises(GitError) as lacking:
        pool.prepare("0", old)
    assert "git fetch --refetch" in lacking.value.hint
    clone.git("fetch", "-q", "--refetch", "--no-filter")
    assert (pool.prepare("0", old) / "old.txt").exists()


def test_the_users_checkout_is_the_same_to_the_byte(tmp_path: Path) -> None:
    """Files, index, HEAD and stash are untouched by everything a run does."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.project.git("branch", "rival")
    prepared.project.git("worktree", "add", "-q", str(tmp_path / "side"), "rival")
    write(tmp_path / "side" / "a.txt", "rival\n")
    prepared.project.git("-C", str(tmp_path / "side"), "commit", "-q", "-am", "rival")
    prepared.project.write("a.txt", "mine, uncommitted\n")
    prepared.project.write("untracked.txt", "mine\n")
    prepared.project.write("src/b.txt", "staged\n")
    prepared.project.git("add", "src/b.txt")
    index = prepared.project.git_dir / "index"
    before = (
        fingerprint(prepared.project.path),
        index.read_bytes(),
        index.stat().st_mtime_ns,
        prepared.project.head(),
    )
    use_everything(prepared)
    after = (
        fingerprint(prepared.project.path),
        index.read_bytes(),
        index.stat().st_mtime_ns,
        prepared.project.head(),
    )
    assert after == before


def test_git_syncs_refs_whatever_the_user_configured(tmp_path: Path) -> None:
    """A ref is synced before it is renamed into place; objects are synced by `object_sync.py`."""
    project = Project.create(tmp_path / "p")
    project.git("config", "core.fsync", "none")
    project.git("config", "core.fsyncMethod", "writeout-only")
    settings = project.open().git
    assert settings.text("config", "core.fsync") == "reference"
    assert settings.text("config", "core.fsyncMethod") == "fsync"


def test_a_command_that_needs_more_memory_than_it_may_use_fails(tmp_path: Path) -> None:
    """With enough of it, it works."""
    private = Project.create(tmp_path / "p").open().private_git
    question, text = ("hash-object", "--stdin"), bytes(32 << 20)
    enough = private.run(*question, stdin=text, memory_bytes=256 << 20)
    assert enough == private.run(*question, stdin=text)
    with pytest.raises(GitError, match="memory"):
        private.run(*question, stdin=text, memory_bytes=16 << 20)


def test_only_as_much_of_the_output_is_read_as_asked_for(tmp_path: Path) -> None:
    """A command that reads something from us, too."""
    project = Project.create(tmp_path / "p")
    said = project.git("rev-list", "HEAD").encode() + b"\n"
    private, question = project.open().private_git, ("rev-list", "--stdin")
    assert private.read_up_to(100, *question, stdin=b"main\n") == (said, False)
    assert private.read_up_to(10, *question, stdin=b"main\n") == (said[:10], True)
    with pytest.raises(GitError, match="bad revision"):
        private.read_up_to(100, *question, stdin=b"nothing\n")
