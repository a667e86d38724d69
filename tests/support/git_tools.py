"""A newer git and git-lfs, as `make test` puts them beside the tests' Python. Tests that need one are skipped without it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

_FOLDER = Path(sys.prefix) / "git-tools"
_NEWER_GIT, _LFS = _FOLDER / "newer", _FOLDER / "lfs"

needs_newer_git = pytest.mark.skipif(not (_NEWER_GIT / "git").exists(), reason="no newer git was installed")
needs_lfs = pytest.mark.skipif(not (_LFS / "git-lfs").exists(), reason="git-lfs was not installed")


def with_newer_git() -> str:
    """Return a search path on which git is the newer one."""
    return f"{_NEWER_GIT}:{os.environ['PATH']}"


def with_lfs() -> str:
    """Return a search path with git-lfs on it."""
    return f"{_LFS}:{os.environ['PATH']}"
