"""Making a new repository out of a folder of files. Used by the demo only; a user's repository is never created."""

from __future__ import annotations

from pathlib import Path

from holdfast.repo.git import Git


def create_repository(folder: Path, message: str) -> None:
    """Turn `folder` into a repository with one commit of all its files, on branch main."""
    git_dir = folder / ".git"
    git_dir.mkdir()
    git = Git(git_dir)
    git.run("init", "--quiet", "--initial-branch=main")
    # With an explicit git directory, git takes a new repository for one without files.
    git.run("config", "core.bare", "false")
    git.run("add", "--all", work_tree=folder)
    git.run("commit", "--quiet", "--message", message, work_tree=folder)
