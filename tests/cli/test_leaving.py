"""Leaving always works: whatever an agent, a crash or somebody else left, the commands that end a run end it.

Or they say within seconds which command leads out, and that one does.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.core.ids import snapshot_ref
from holdfast.repo.files import remove
from holdfast.repo.workspaces import Workspaces
from tests.crash.preloaded_program import Ended, PreloadedProgram
from tests.support.command import Cli, cli_at_work, eventually, is_alive, writes
from tests.support.repositories import git, write
from tests.support.runs import holder_pid

LEAVING = (
    ("stop",),
    ("abandon", "--yes"),
    ("discard", "--yes"),
    ("clean", "--all", "--yes"),
    ("skip", "b"),
    ("reset", "1", "a", "--yes"),
    ("reset", "1", "--yes"),
    ("rebuild", "--yes"),
)
DONE = 0
CODES = (DONE, 2, 3)
"""What these commands may end with: done, refused with the reason, or a decision that only the user can make."""


@dataclass(frozen=True, slots=True)
class Left:
    """A project whose runner and agents were killed in the middle of a run, which stands at the same place each time."""

    program: PreloadedProgram
    template: Path
    here: Path

    def run(self, *words: str) -> Ended:
        """Run a command. It is ended if it takes a minute."""
        return self.program.run(self.here, *words)

    def again(self) -> Cli:
        """Return it as it was left."""
        remove(self.here)
        _copy(self.template, self.here)
        return Cli(self.here)


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Left]:
    """Kill a run and keep a copy. Git's worktrees know where they are, so every trial is at the same path."""
    folder = tmp_path_factory.mktemp("left")
    cli, runner, agent = cli_at_work(folder, writes("b", needs=["a"]))
    records = list((cli.here / ".holdfast").glob("runs/*/attempts/*/*/*/supervisor.json"))
    for pid in (runner.pid, *map(holder_pid, records), agent):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    runner.wait()
    eventually(lambda: not is_alive(agent), "the agent is gone")
    _copy(cli.here, folder / "template")
    program = PreloadedProgram()
    yield Left(program, folder / "template", cli.here)
    program.close()


def _copy(source: Path, target: Path) -> None:
    """Copy a folder with its pipes."""
    subprocess.run(["cp", "-a", source, target], check=True)


def _workspace(cli: Cli) -> Path:
    return next((cli.here / ".holdfast" / "work").glob("*/0"))


def _run_folder(cli: Cli) -> Path:
    return next((cli.here / ".holdfast" / "runs").glob("*"))


def _damaged_journal(cli: Cli) -> None:
    journal = cli.here / ".holdfast" / "journal.db"
    with journal.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * (journal.stat().st_size - 100))
    for name in ("-wal", "-shm"):
        journal.with_name(journal.name + name).unlink(missing_ok=True)


def _no_journal(cli: Cli) -> None:
    for path in (cli.here / ".holdfast").glob("journal.db*"):
        path.unlink()


def _newer_journal(cli: Cli) -> None:
    with closing(sqlite3.connect(cli.here / ".holdfast" / "journal.db")) as db:
        db.execute("PRAGMA user_version = 99")


def _pipe(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True, parents=True)
    os.mkfifo(path)


def _piped_journal(cli: Cli) -> None:
    _no_journal(cli)
    _pipe(cli.here / ".holdfast" / "journal.db")


def _linked_workspace(cli: Cli) -> None:
    shutil.rmtree(_workspace(cli))
    (cli.here / ".holdfast" / "work" / _run_folder(cli).name / "0").symlink_to(cli.here.parent)


def _no_refs(cli: Cli) -> None:
    for ref in cli.project.git("for-each-ref", "--format=%(refname)").splitlines():
        if "holdfast" in ref:
            cli.project.git("update-ref", "-d", ref)


def _encoding(cli: Cli) -> None:
    write(_workspace(cli) / ".gitattributes", "*.u working-tree-encoding=UTF-16\n")
    write(_workspace(cli) / "x.u", "plain\n")


def _deep(cli: Cli) -> None:
    before = Path.cwd()
    os.chdir(_workspace(cli))
    for _ in range(60):
        Path("n" * 100).mkdir()
        os.chdir("n" * 100)
    os.chdir(before)


def _closed(cli: Cli) -> None:
    write(_workspace(cli) / "closed" / "deeper" / "x.txt", "x")
    (_workspace(cli) / "closed").chmod(0o500)
    _workspace(cli).chmod(0o500)


def _file_as_private(cli: Cli) -> None:
    shutil.rmtree(cli.project.git_dir / "holdfast-private")
    write(cli.project.git_dir / "holdfast-private", "a file")


def _gone_worktrees(cli: Cli) -> None:
    shutil.rmtree(cli.project.git_dir / "worktrees")


def _torn_worktree(cli: Cli) -> None:
    for folder in (cli.project.git_dir / "worktrees").iterdir():
        for name in ("index", "HEAD", "commondir", "gitdir"):
            (folder / name).write_bytes(b"")


def _no_run_folder(cli: Cli) -> None:
    shutil.rmtree(_run_folder(cli))


def _file_as_requests(cli: Cli) -> None:
    shutil.rmtree(_run_folder(cli) / "requests")
    write(_run_folder(cli) / "requests", "a file")


def _huge(path: Path) -> None:
    """Make a file of 8 TB that occupies nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.touch()
    os.truncate(path, 8 << 40)


def _huge_rules(cli: Cli) -> None:
    cli.project.git("init", "-q", str(_workspace(cli) / "n"))
    write(_workspace(cli) / "n" / "x.txt", "x")
    for name in (".gitignore", ".gitattributes", "n/.gitignore"):
        _huge(_workspace(cli) / name)


def _huge_git_files(cli: Cli) -> None:
    (folder,) = (cli.project.git_dir / "worktrees").iterdir()
    for name in ("index", "HEAD"):
        _huge(folder / name)


def _commit_of(cli: Cli, name: str, mode: str = "100644") -> None:
    """Put the workspace on a commit that has a blob of this name, made as git itself would not make it."""
    start = cli.project.git("rev-parse", "HEAD")
    blob = git(cli.here, "hash-object", "-w", "--stdin", stdin="hi")
    entry = f"{mode} {name}\0".encode() + bytes.fromhex(blob)
    hash_tree = ["git", "hash-object", "-t", "tree", "--literally", "-w", "--stdin"]
    done = subprocess.run(hash_tree, cwd=cli.here, input=entry, capture_output=True, check=True)
    commit = cli.project.git("commit-tree", "-p", start, "-m", "odd", done.stdout.decode().strip())
    (folder,) = (cli.project.git_dir / "worktrees").iterdir()
    (folder / "HEAD").write_text(f"{commit}\n")


def _clone(cli: Cli) -> Path:
    """Make the workspace what it is in a sandbox; return its git directory. The agent has done something in it."""
    repo = cli.project.open()
    pool = Workspaces(repo, repo.state_dir.run(_run_folder(cli).name).workspaces, clones=True)
    pool.prepare("0", cli.project.head())
    write(_workspace(cli) / "half.txt", "half")
    return pool.get("0").git_dir


def _clone_with_link(cli: Cli, part: str, target: str) -> None:
    clone = _clone(cli)
    shutil.rmtree(clone / part)
    (clone / part).symlink_to(target)


def _clone_on_branch_of_kernel(cli: Cli) -> None:
    _clone_with_link(cli, "refs/heads", "/proc/self")
    write(_workspace(cli) / ".git" / "HEAD", "ref: refs/heads/mem\n")


def _taken_ref(cli: Cli) -> None:
    """Git cannot make the ref of the task's snapshots: one is there that needs its name for a folder."""
    cli.project.git("update-ref", f"{snapshot_ref(_run_folder(cli).name, 'a')}/taken", "HEAD")
    write(_workspace(cli) / "half.txt", "half")


REBUILD, FIX, MOVE = "`holdfast rebuild`", "`holdfast doctor --fix`", "move it away"
STATES: dict[str, tuple[Callable[[Cli], object], str]] = {
    "as it was left": (lambda _: None, ""),
    "a damaged journal": (_damaged_journal, REBUILD),
    "no journal": (_no_journal, REBUILD),
    "the journal of a newer version": (_newer_journal, REBUILD),
    "a pipe as journal": (_piped_journal, REBUILD),
    "a pipe as info/attributes": (lambda cli: _pipe(cli.project.git_dir / "info" / "attributes"), FIX),
    "a pipe as commondir": (lambda cli: _pipe(cli.project.git_dir / "commondir"), FIX),
    "a pipe as lease": (lambda cli: _pipe(_run_folder(cli) / "lease"), ""),
    "a pipe as ignore rules": (lambda cli: _pipe(_workspace(cli) / ".gitignore"), ""),
    "a link as workspace": (_linked_workspace, ""),
    "no refs": (_no_refs, ""),
    "an encoding that the file does not have": (_encoding, ""),
    "folders deeper than any path": (_deep, ""),
    "rule files that fit into no memory": (_huge_rules, ""),
    "files of git that fit into no memory": (_huge_git_files, ""),
    "a committed name that no file can have": (lambda cli: _commit_of(cli, "x" * 300), ""),
    "a committed .git": (lambda cli: _commit_of(cli, ".git"), ""),
    "a committed .GIT": (lambda cli: _commit_of(cli, ".GIT"), ""),
    "a committed git~1": (lambda cli: _commit_of(cli, "git~1"), ""),
    "a committed ..": (lambda cli: _commit_of(cli, ".."), ""),
    "a committed link as .gitmodules": (lambda cli: _commit_of(cli, ".gitmodules", "120000"), ""),
    "a ref where the snapshot belongs": (_taken_ref, ""),
    "a clone": (_clone, ""),
    "a clone on a branch that is a file of the kernel": (_clone_on_branch_of_kernel, ""),
    "a clone whose files of git are the user's": (
        lambda cli: _clone_with_link(cli, ".", str(cli.project.git_dir)),
        "",
    ),
    "a clone whose objects lead to themselves": (
        lambda cli: _clone_with_link(cli, "objects", "objects"),
        "",
    ),
    "a clone whose borrowed objects are nowhere": (
        lambda cli: _clone_with_link(cli, "objects/info", "/nowhere/at/all"),
        "",
    ),
    "closed folders": (_closed, ""),
    "a file as Holdfast's git directory": (_file_as_private, MOVE),
    "no files of git about the workspace": (_gone_worktrees, ""),
    "torn files of git about the workspace": (_torn_worktree, ""),
    "no folder of the run": (_no_run_folder, ""),
    "a file as folder of requests": (_file_as_requests, MOVE),
}
"""How each state is made, and the words of the way out that is offered where a command cannot do what it says at once."""


@pytest.mark.parametrize("state", STATES)
def test_a_run_in_any_state_can_be_left(left: Left, state: str) -> None:
    """Each command does what it says, or names the way out, and that one leads out; then a new run completes."""
    make, way_out = STATES[state]
    for command in LEAVING:
        cli = left.again()
        make(cli)
        ended = left.run(*command)
        assert ended.code in CODES, (command, ended)
        if ended.code != DONE and way_out:
            # It may be in two lines.
            assert way_out in " ".join(ended.output.split()), (command, ended)
            _follow(left, way_out)
            ended = left.run(*command)
        assert ended.code == DONE, (command, ended)
    Cli(left.here).plan(writes("c"))
    ended = left.run("run", "--yes", "--fresh")
    assert ended.code == DONE, ended


@pytest.mark.parametrize("words", [("abandon", "--yes"), ("discard", "--yes"), ("reset", "1", "a", "--yes")])
def test_files_that_cannot_be_committed_stay_where_the_command_says(
    left: Left, words: tuple[str, ...]
) -> None:
    """They are moved aside with all that was in the workspace. Only `clean` removes them."""
    _taken_ref(left.again())
    said = left.run(*words).output
    (kept,) = left.here.glob(".holdfast/work/*/.uncommitted-*")
    assert (kept / "half.txt").read_text() == "half"
    assert f"{kept} holds files that could not be committed" in said
    left.run("abandon", "--yes")
    assert left.run("clean", "--all", "--yes").code == DONE
    assert not kept.exists()


def _follow(left: Left, way_out: str) -> None:
    """Do what the message says."""
    if way_out == MOVE:
        for path in (left.here / ".git" / "holdfast-private", *left.here.glob(".holdfast/runs/*/requests")):
            if path.is_file():
                path.unlink()
    else:
        left.run(*way_out.strip("`").split()[1:])
