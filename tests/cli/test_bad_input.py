"""Bad input ends with exit code 2, one clear sentence and a way out, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import Cli, fails, writes
from tests.support.repositories import Project, git


def test_a_broken_plan_is_refused_with_file_line_and_fix(tmp_path: Path) -> None:
    """The author sees where and what to change."""
    cli = Cli(Project.create(tmp_path / "p").path)
    cli.project.write("plan.yaml", "holdfast: 1\ngoal: g\ntaks:\n  - {id: a, prompt: x}\n")
    done = cli("run", "--yes")
    assert done.code == 2
    assert "plan.yaml:3" in done.err
    assert '"tasks"' in done.err


def test_no_plan_at_all_points_to_init(tmp_path: Path) -> None:
    """Somebody new is told the first step."""
    done = Cli(Project.create(tmp_path / "p").path)("run")
    assert done.code == 2
    assert "holdfast init" in done.err


def test_an_unknown_agent_is_refused(tmp_path: Path) -> None:
    """`--agent` takes a preset or an entry of the plan, and says which there are."""
    cli = Cli.of(tmp_path / "p", {"id": "a", "prompt": "x"})
    done = cli("run", "--yes", "--agent", "cluade")
    assert done.code == 2
    assert '"claude"' in done.err


def test_an_agent_that_is_not_installed_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    """The error names the agent and its command; no state appears."""
    agents = {"mine": {"command": ["no-such-agent-here", "{brief}"]}}
    cli = Cli.of(tmp_path / "p", {"id": "a", "prompt": "x"}, agent="mine", agents=agents)
    done = cli("run", "--yes")
    assert done.code == 2
    assert "agent mine" in done.err
    assert "no-such-agent-here" in done.err
    assert not (cli.here / ".holdfast").exists()


def test_a_base_that_names_no_commit_is_refused(tmp_path: Path) -> None:
    """A run cannot begin nowhere."""
    cli = Cli.of(tmp_path / "p", writes("a"), base="no-such-branch")
    done = cli("run", "--yes")
    assert (done.code, "no-such-branch" in done.err) == (2, True)
    assert cli.json("list") == []


def test_outside_a_repository_every_look_is_refused(tmp_path: Path) -> None:
    """The way out is named: git init, or another directory."""
    done = Cli(tmp_path)("status")
    assert done.code == 2
    assert "not inside a git repository" in done.err


def test_a_bare_repository_is_refused(tmp_path: Path) -> None:
    """There is no checkout to work for."""
    git(tmp_path, "init", "-q", "--bare", "b.git")
    done = Cli(tmp_path / "b.git")("run")
    assert (done.code, "bare" in done.err) == (2, True)


def test_a_repository_without_a_commit_is_refused(tmp_path: Path) -> None:
    """A run needs a commit to start from."""
    git(tmp_path, "init", "-q")
    done = Cli(tmp_path)("run")
    assert (done.code, "no commit" in done.err) == (2, True)


def test_naming_a_run_that_does_not_exist_is_refused(completed: Cli) -> None:
    """The error says how to find the runs there are."""
    done = completed("status", "7")
    assert (done.code, "holdfast list" in done.err) == (2, True)


@pytest.mark.parametrize(
    "words", ["retry bb", "skip bb", "inspect 1 bb", "logs 1 bb", "resume --only bb --dry-run"]
)
def test_a_task_that_does_not_exist_is_refused(words: str, blocked: Cli) -> None:
    """Wherever a task is named, by the same words."""
    done = blocked(*words.split())
    assert (done.code, 'has no task "bb"' in done.err) == (2, True)


@pytest.mark.parametrize(
    "words",
    [["run", "--jobs", "0"], ["logs", "--attempt", "0"], ["inspect", "--at", "-1"], ["run", "--nope"]],
)
def test_wrong_usage_ends_with_2(words: list[str], tmp_path: Path) -> None:
    """Argument mistakes have the same code as any bad input."""
    assert Cli(tmp_path)(*words).code == 2


def test_an_unknown_option_gets_the_usage_of_its_command(tmp_path: Path) -> None:
    """What the command does take stands right above the complaint."""
    done = Cli(tmp_path)("status", "--jsn")
    assert (done.code, "usage: holdfast status [-h] [-f] [--json] [RUN]" in done.err) == (2, True)


@pytest.mark.parametrize("words", [["export", "--as"], ["mirror", "1"], ["run", "--mirror"]])
def test_a_system_that_nobody_knows_is_answered_with_those_that_are_known(
    words: list[str], tmp_path: Path
) -> None:
    """The names are those that the user can type."""
    done = Cli(Project.create(tmp_path / "p").path)(*words, "nosuch")
    assert (done.code, "System." in done.err) == (2, False)
    assert "auto-claude" in done.err


def test_a_number_that_is_none_is_refused_in_words(tmp_path: Path) -> None:
    """The user hears what a number is, not the name of a function of ours."""
    assert "x is not a whole number above 0" in Cli(tmp_path)("run", "--jobs", "x").err
    assert "nan is not an amount above 0" in Cli(tmp_path)("run", "--cost-usd", "nan").err


def test_a_dry_run_promises_nothing_for_an_abandoned_run(tmp_path: Path) -> None:
    """`resume` refuses such a run, so its dry run does too."""
    cli = Cli.of(tmp_path / "p", fails("a"), limits={"attempts": 1})
    cli("run", "--yes")
    cli("abandon", "--yes")
    assert [cli("resume", *more).code for more in ([], ["--dry-run"])] == [2, 2]


def test_a_damaged_journal_is_refused_and_kept(completed: Cli) -> None:
    """The bytes stay for `rebuild`; the error says what the file is."""
    journal = completed.here / ".holdfast" / "journal.db"
    journal.write_bytes(b"not a journal at all" * 100)
    done = completed("status")
    assert (done.code, "rebuild" in done.err) == (2, True)
    assert journal.read_bytes().startswith(b"not a journal")


@pytest.mark.parametrize("command", ["status", "resume", "land", "recap"])
def test_a_task_in_the_place_of_a_run_is_recognised(ended: Cli, command: str) -> None:
    """The hint shows the task, and how to name both."""
    done = ended(command, "b")
    assert (done.code, 'there is no run "b"' in done.err) == (2, True), done.err
    assert "b is a task of run 01-try-it: `holdfast inspect 1 b` shows it" in done.err
