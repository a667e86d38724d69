"""Content filters of the repository's configuration: whose are used, and when the user is asked."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from holdfast.journal import open_journal
from holdfast.journal.protocol import Journal
from holdfast.repo.git import Setting
from holdfast.repo.repository import Repository
from holdfast.runner.content_filters import accept_filters, with_accepted_filters
from tests.support.repositories import Project

EARLY: Setting = ("filter.early.clean", "cat")
LATE: Setting = ("filter.late.clean", "cat -u")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A repository with one filter of the user's."""
    made = Project.create(tmp_path / "p")
    made.git("config", *EARLY)
    return made


def opened(project: Project) -> tuple[Repository, Journal]:
    """Open repository and journal, as every command does."""
    repo = project.open()
    repo.prepare_state_dir()
    return repo, open_journal(repo.state_dir.journal)


def test_filters_that_were_there_before_the_first_run_are_accepted_unasked(project: Project) -> None:
    """No agent was at work yet."""
    repo, journal = opened(project)
    with closing(journal):
        assert accept_filters(repo, journal, lambda _: False).unused_filters() == []


@pytest.mark.parametrize("answer", [True, False])
def test_a_later_filter_is_used_only_if_the_user_agrees(project: Project, answer: bool) -> None:
    """The user is asked about that one alone, and the answer is on record for the next command."""
    repo, journal = opened(project)
    with closing(journal):
        accept_filters(repo, journal, lambda _: False)
        project.git("config", *LATE)
        accept_filters(project.open(), journal, lambda asked: asked == [LATE] and answer)
        left_out = with_accepted_filters(project.open(), journal).unused_filters()
        assert left_out == ([] if answer else [LATE])


def test_a_filter_with_another_command_is_another_filter(project: Project) -> None:
    """Who accepted one command did not accept every later one under its name."""
    repo, journal = opened(project)
    with closing(journal):
        accept_filters(repo, journal, lambda _: False)
        project.git("config", EARLY[0], "planted")
        assert with_accepted_filters(project.open(), journal).unused_filters() == [(EARLY[0], "planted")]
