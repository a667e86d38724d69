"""Programs with no more rights than an ordinary user has, and files of somebody else, for tests that root runs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.support.command import Done, run_program

OTHER_USER = 65534
POWERLESS = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
"""Root without capabilities may no more than any user: what others own in their folders it cannot delete."""


def powerless(here: Path, *argv: str) -> Done:
    """Run a program with no more rights than an ordinary user has."""
    return run_program(here, [*POWERLESS, *argv])


def require_root() -> None:
    """Skip the test unless it can make files of another user."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can make files of another user")
