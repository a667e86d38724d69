"""`holdfast run -` and `holdfast run <(command)`: a plan that is in no file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.command import COMMAND, Cli, writes

TASK = "{id: a, run: [sh, -c, echo a > a.txt]}"
PLAN = f"holdfast: 1\ngoal: Try it\ntasks: [{TASK}]\n"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """A project without a plan file."""
    made = Cli.of(tmp_path / "p")
    (made.here / "plan.json").unlink()
    return made


def test_a_plan_is_read_from_standard_input(cli: Cli) -> None:
    """Programs need not write a file first."""
    done = cli.piped(PLAN, "run", "-", "--yes")
    assert (done.code, cli.run_status()) == (0, "completed"), done.err


def test_a_plan_is_read_from_a_process_substitution(cli: Cli) -> None:
    """The shell's own pipe is as good as a file, for plans in JSON too."""
    cli.plan(writes("a"), name="there.json")
    words = " ".join([*COMMAND, "run", "<(cat there.json)", "--yes"])
    done = subprocess.run(["bash", "-c", words], cwd=cli.here, capture_output=True, text=True, check=False)
    assert (done.returncode, cli.run_status()) == (0, "completed"), done.stderr


def test_a_piped_plan_needs_consent_given_in_advance(cli: Cli) -> None:
    """Its commands would run with the user's rights, and nobody is there to be asked."""
    done = cli.piped(PLAN, "run", "-")
    assert (done.code, "use --yes" in done.err) == (3, True)
    assert not cli.json("list")


def test_a_piped_plan_can_be_looked_at(cli: Cli) -> None:
    """`--dry-run` shows it and leaves nothing behind."""
    assert "Try it" in cli.piped(PLAN, "run", "-", "--dry-run").out
    assert not (cli.here / ".holdfast").exists()


def test_the_same_plan_piped_again_finds_its_unfinished_run(cli: Cli) -> None:
    """A plan in no file is known by its content; the run has kept it, so `resume` needs no pipe."""
    failing = PLAN.replace("echo a > a.txt", "exit 3").replace("tasks:", "limits: {attempts: 1}\ntasks:")
    assert cli.piped(failing, "run", "-", "--yes").code == 1
    assert "is unfinished" in cli.piped(failing, "run", "-").err
    assert cli("resume").code == 1
    assert len(cli.json("list")) == 1


@pytest.mark.parametrize("text", ["", "holdfast: 1\ngoal: [", "holdfast: 1\n"])
def test_a_broken_piped_plan_is_refused_with_its_line(text: str, cli: Cli) -> None:
    """What is wrong is told as of a file, with a way out that fits a pipe."""
    done = cli.piped(text, "run", "-", "--yes")
    assert (done.code, "-:" in done.err, "fix the text that comes through the pipe" in done.err) == (
        2,
        True,
        True,
    )
