"""Cuts the power right after a program ended: what was synced is left of what it did, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.crash.disk_image import Choice
from tests.crash.faults import Program
from tests.crash.power_models import Least
from tests.crash.recording import record
from tests.support.repositories import Project

OPEN = """
import os, subprocess
from pathlib import Path
from holdfast.repo.repository import Repository
os.environ |= {"GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z"}
def git(*args):
    return subprocess.run(["git", *args], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
def commit(name, content):
    Path(name).write_text(content)
    git("add", "-A")
    git("commit", "-q", "-m", name)
    return git("rev-parse", "HEAD")
repo = Repository.open(Path.cwd()) if Path(".git").exists() else None
"""
"""The beginning of a program that uses a repository: `repo` is ours, `git` and `commit` are the user's own."""


def using(project: Project, code: str) -> Program:
    """Return a program that runs `code` in the checkout of a project."""
    return Program([sys.executable, "-c", OPEN + code], project.path, project.path)


def after_power_cut(project: Project, code: str, choice: Choice | None = None) -> Project:
    """Run a program in a project, cut the power when it ends, and return what is left, in a folder beside it."""
    return Project(left_by(using(project, code), choice))


def left_in(folder: Path, code: str) -> Path:
    """Run Python code in a folder, cut the power when it ends, and return what is left, in a folder beside it."""
    return left_by(Program([sys.executable, "-c", code], folder, folder))


def left_by(program: Program, choice: Choice | None = None) -> Path:
    """Run a program, cut the power when it and all that it started have ended, and return what is left of its root."""
    left = program.root.with_name(f"{program.root.name}-after")
    *_, last = record(program).moments()
    last.disk.after(choice or Least()).write_to(left)
    return left
