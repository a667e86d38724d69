"""Runs that have ended, made once and copied for each test that needs one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.workflow_project import WorkflowProject
from tests.support.command import Cli, fails, writes


@pytest.fixture(scope="session")
def original_completed(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """A completed run of one task, to copy from."""
    cli = Cli.of(tmp_path_factory.mktemp("completed") / "p", writes("a"))
    assert cli("run", "--yes").code == 0
    return cli


@pytest.fixture(scope="session")
def original_blocked(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """A run that rests with `a` landed and `b` abandoned, to copy from."""
    tasks = (writes("a"), fails("b", needs=["a"]))
    cli = Cli.of(tmp_path_factory.mktemp("blocked") / "p", *tasks, limits={"attempts": 1})
    assert cli("run", "--yes").code == 1
    return cli


@pytest.fixture(scope="session")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """A run that rests, only to look at: `a` landed, `b` was given up after two tries, `c` waits for it."""
    tasks = [writes("a"), fails("b", needs=["a"]), writes("c", needs=["b"])]
    cli = Cli.of(tmp_path_factory.mktemp("ended") / "p", *tasks, limits={"attempts": 2})
    assert cli("run", "--yes").code == 1
    return cli


@pytest.fixture
def completed(original_completed: Cli, tmp_path: Path) -> Cli:
    """A completed run whose task `a` wrote `a.txt`."""
    return _copy(original_completed, tmp_path)


@pytest.fixture
def blocked(original_blocked: Cli, tmp_path: Path) -> Cli:
    """A run that rests: `a` landed, `b` was tried once and abandoned."""
    return _copy(original_blocked, tmp_path)


def _copy(original: Cli, tmp_path: Path) -> Cli:
    return Cli(shutil.copytree(original.here, tmp_path / "p", symlinks=True))


@pytest.fixture
def project(tmp_path: Path) -> WorkflowProject:
    """A user with an agent."""
    return WorkflowProject.create(tmp_path)
