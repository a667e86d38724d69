"""Checks judge what lands: nothing that an agent left beside its commit decides one."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core import events as ev
from holdfast.core.status import RunStatus
from tests.support.repositories import Project
from tests.support.runs import Fifo, Trial, kill, sh, stage, start_runner
from tests.support.sandboxes import needs_sandbox

LEFT_BEHIND = {
    "private exclude file": "echo ok.txt >> $(git rev-parse --git-common-dir)/info/exclude; touch ok.txt",
    ".gitignore": "echo ok.txt >> .gitignore; touch ok.txt",
    "ignored by the project": "touch ok.log; ln -s ok.log other.log",
    "empty folder": "mkdir ok.txt",
}

# Git does not tell of these: they are in folders that it passes over, or it takes the file for unchanged.
HIDDEN = {
    "folder of reports": "mkdir -p .holdfast; echo good > .holdfast/ok; ln -s .holdfast/ok ok.txt",
    "git directory": "echo good > $(git rev-parse --git-dir)/ok; ln -s $(git rev-parse --git-dir)/ok ok.txt",
    "nested repository": "git init -q n; echo x > n/x; echo good > n/.git/ok; ln -s n/.git/ok ok.txt",
    "folder called .git": "mkdir src/.git; echo good > src/.git/ok; ln -s src/.git/ok ok.txt",
    "keyword of git": "echo '* ident' > .gitattributes; echo '$Id: good $' > ok.txt",
}
# In a sandbox the git directory is the agent's own.
OF_A_CLONE = {
    "branch": ("echo b > a.txt; git commit -qam b; git branch -f main", "git diff --quiet main -- a.txt"),
    "monitor": ("git config core.fsmonitor 'echo fixed > a.txt; true'", "git status -s; grep fixed a.txt"),
    "file": ("echo good > .git/ok; ln -s .git/ok ok.txt", "grep good ok.txt"),
}


def try_once(tmp_path: Path, script: str, check: str, **plan: str) -> Trial:
    """Return what became of an attempt that did this, and of a check that must not pass."""
    task = sh("A", f"{script}; echo a > A.txt")
    trial = Trial.of(
        Project.create(tmp_path / "p"), stage("one", task), verify=[check], limits={"attempts": 1}, **plan
    )
    assert trial.execute() is RunStatus.BLOCKED
    return trial


@pytest.mark.parametrize("script", LEFT_BEHIND.values(), ids=LEFT_BEHIND)
def test_a_file_that_does_not_land_passes_no_check(tmp_path: Path, script: str) -> None:
    """The check fails as it would fail on the landed tree, and says what was not there."""
    trial = try_once(tmp_path, script, "test -e ok.txt || test -e ok.log")
    (failed,) = trial.of_kind(ev.ChecksFailed)
    assert "do not land and were not there: ok." in failed.error
    assert trial.landed() == []


@pytest.mark.parametrize("script", HIDDEN.values(), ids=HIDDEN)
def test_what_git_passes_over_passes_no_check(tmp_path: Path, script: str) -> None:
    """The check sees a workspace that was made from the commit."""
    trial = try_once(tmp_path, script, "grep good ok.txt")
    assert trial.of_kind(ev.ChecksFailed)


@needs_sandbox
@pytest.mark.parametrize(("script", "check"), OF_A_CLONE.values(), ids=OF_A_CLONE)
def test_what_an_agent_does_to_its_git_directory_passes_no_check(
    tmp_path: Path, script: str, check: str
) -> None:
    """Its branches, settings and files are not those that its checks find."""
    trial = try_once(tmp_path, script, check, sandbox="workspace")
    assert trial.of_kind(ev.ChecksFailed)


def test_what_a_check_makes_is_there_for_the_next_one(tmp_path: Path) -> None:
    """A check may install what the others need; it does so from what lands. Once, for the merged tree is the same."""
    count = tmp_path / "count"
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", "echo old > tool.log; echo a > A.txt")),
        verify=[
            f"echo x >> {count}; test ! -e tool.log && echo new > tool.log",
            "grep new tool.log",
            "test -f A.txt",
        ],
    )
    assert trial.execute() is RunStatus.COMPLETED
    assert count.read_text() == "x\n"


def test_validators_see_what_lands(tmp_path: Path) -> None:
    """Without any check, too."""
    judge = {
        "id": "v",
        "run": ["sh", "-c", "test -e ok.log && echo '{\"score\": 1}' || echo '{\"score\": 0}'"],
    }
    task = sh("A", "touch ok.log; echo a > A.txt", validators=[judge], gate=0.5)
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", task), limits={"attempts": 1})
    assert trial.execute() is RunStatus.BLOCKED
    assert trial.of_kind(ev.ValidationFailed)


def test_after_a_crash_checks_still_see_only_what_lands(tmp_path: Path) -> None:
    """The runner was killed in the first check; the next one knows nothing of the file, and does not need to."""
    here, never = Fifo(tmp_path / "here"), Fifo(tmp_path / "never")
    flag = tmp_path / "flag"
    waits = f"[ -e {flag} ] || {{ touch {flag}; {here.give}; {never.take}; }}"
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", "touch ok.log; echo a > A.txt")),
        verify=[waits, "test ! -e ok.log"],
    )
    runner = start_runner(trial)
    here.wait()
    kill(runner)
    assert trial.execute() is RunStatus.COMPLETED
