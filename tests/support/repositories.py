"""Real, tiny git repositories for tests, and a plain git to look at them with.

Nothing of the machine's own git configuration takes part.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from holdfast.repo.repository import Repository
from holdfast.repo.workspace import Workspace
from holdfast.repo.workspaces import Workspaces

RUN = "01-demo"

# The configuration of whoever runs the tests must not decide how they end.
os.environ["GIT_CONFIG_GLOBAL"] = "/dev/null"
os.environ["GIT_CONFIG_NOSYSTEM"] = "1"


@dataclass(frozen=True, slots=True)
class Project:
    """A user's repository with one commit: `a.txt`, `src/b.txt`, and `*.log` ignored."""

    path: Path

    @classmethod
    def create(cls, path: Path) -> Project:
        """Make the repository at `path`."""
        shutil.copytree(_template(), path, symlinks=True)
        return cls(path)

    @property
    def git_dir(self) -> Path:
        """The repository's `.git`."""
        return self.path / ".git"

    def git(self, *args: str, check: bool = True) -> str:
        """Run the user's git in the checkout and return what it printed."""
        return git(self.path, *args, check=check)

    def write(self, name: str, content: str) -> None:
        """Write a file of the checkout."""
        write(self.path / name, content)

    def commit(self, message: str) -> str:
        """Commit everything in the checkout and return the commit."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def head(self) -> str:
        """Return the commit the checkout is on."""
        return self.git("rev-parse", "HEAD")

    def open(self) -> Repository:
        """Open it as Holdfast does."""
        return Repository.open(self.path)


@dataclass(frozen=True, slots=True)
class PreparedWorkspace:
    """A project with an opened repository and one prepared workspace, `0`."""

    project: Project
    repo: Repository
    pool: Workspaces
    base: str

    @classmethod
    def create(cls, path: Path, *, clones: bool = False) -> PreparedWorkspace:
        """Make project, repository and workspace."""
        project = Project.create(path)
        repo = project.open()
        repo.prepare_state_dir()
        pool = Workspaces(repo, repo.state_dir.run(RUN).workspaces, clones=clones)
        prepared = cls(project, repo, pool, project.head())
        prepared.pool.prepare("0", prepared.base)
        return prepared

    @property
    def workspace(self) -> Workspace:
        """The prepared workspace."""
        return self.pool.get("0")

    def agent(self, *args: str) -> str:
        """Run git as an agent would, in the workspace."""
        return git(self.workspace.path, *args)

    def agent_writes(self, name: str, content: str) -> None:
        """Write a file in the workspace."""
        write(self.workspace.path / name, content)

    def agent_commits(self, name: str, content: str, message: str = "by the agent") -> str:
        """Write a file in the workspace and commit it there, as an agent would."""
        self.agent_writes(name, content)
        self.agent("add", "-A")
        self.agent("commit", "-q", "-m", message)
        return self.agent("rev-parse", "HEAD")


@functools.cache
def _template() -> Path:
    """Make the repository that all projects are copies of: copying is faster than half a dozen processes."""
    project = Project(Path(tempfile.mkdtemp(prefix="gitkit-")) / "template")
    atexit.register(shutil.rmtree, project.path.parent)
    project.path.mkdir()
    project.git("init", "-q", "-b", "main", "--template=")
    project.git("config", "user.name", "Ada")
    project.git("config", "user.email", "ada@example.org")
    project.write("a.txt", "one\ntwo\nthree\n")
    project.write("src/b.txt", "b\n")
    project.write(".gitignore", "*.log\n")
    project.commit("start")
    return project.path


def git(where: Path, *args: str, check: bool = True, stdin: str = "") -> str:
    """Run a plain git in a directory and return what it printed."""
    done = subprocess.run(["git", *args], cwd=where, input=stdin, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise AssertionError(f"git {' '.join(args)}: {done.stderr}")
    return done.stdout.strip()


def write(path: Path, content: str) -> None:
    """Write a file and the directories above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def fingerprint(root: Path) -> dict[str, str]:
    """Return the content hash and time stamp of every file below `root`, without Holdfast's folders."""
    marks = {}
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if name not in (".holdfast", ".git")]
        for name in files:
            path = Path(folder, name)
            content = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
            marks[str(path)] = f"{hashlib.sha256(content).hexdigest()} {path.lstat().st_mtime_ns}"
    return marks
