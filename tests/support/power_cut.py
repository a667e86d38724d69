"""Cuts the power right after a program ended: what was synced is left of what it did, and nothing else."""

from __future__ import annotations

import sys

from tests.crash.disk_image import Content, Inode
from tests.crash.faults import Program
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


class OnlySynced:
    """The least that a power cut leaves: no name and no byte that was not synced."""

    def steps(self, _folder: Inode) -> int:
        """Let no change of names through."""
        return 0

    def content(self, node: Inode) -> Content:
        """Return what was synced last. A file that never was is empty."""
        return node.synced or Content(b"", node.content.mode, node.content.mtime)


def using(project: Project, code: str) -> Program:
    """Return a program that runs `code` in the checkout of a project."""
    return Program([sys.executable, "-c", OPEN + code], project.path, project.path)


def after_power_cut(project: Project, code: str) -> Project:
    """Run a program in a project, cut the power when it ends, and return what is left, in a folder beside it."""
    left = project.path.with_name(f"{project.path.name}-after")
    *_, last = record(using(project, code)).moments()
    last.disk.after(OnlySynced()).write_to(left)
    return Project(left)
