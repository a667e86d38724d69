"""`plan "goal"` and `run "goal"`, with a scripted `claude` on the PATH."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from tests.support.command import Cli, Done, eventually, is_alive
from tests.support.preloaded_command import ForkedProcess
from tests.support.repositories import Project
from tests.support.runs import Fifo
from tests.support.scripted_agents import FINISHED, say

GOAL = "Add a greeting"


@dataclass(frozen=True, slots=True)
class Planner:
    """A user whose only agent is a script that plans."""

    cli: Cli
    root: Path

    @classmethod
    def create(cls, root: Path, *, task: str = "echo hi > hi.txt", before: str = "true") -> Planner:
        """Make a project and a planner that answers with one task; `before` runs first."""
        plan = f"holdfast: 1\ngoal: {GOAL}\ntasks:\n  - id: a\n    run: {msgspec.json.encode(['sh', '-c', task]).decode()}\n"
        program = root / "bin" / "claude"
        program.parent.mkdir(parents=True)
        program.write_text(
            f"#!/bin/sh\necho x >> {root}/calls\ncat > /dev/null\n{before}\ncat > plan.yaml <<'END'\n{plan}END\n{say(FINISHED)}\n"
        )
        program.chmod(0o755)
        return cls(Cli(Project.create(root / "p").path), root)

    @property
    def path(self) -> str:
        """The PATH with the planner on it."""
        return f"{self.root / 'bin'}:{os.environ['PATH']}"

    def __call__(self, *args: str) -> Done:
        """Give a command."""
        return self.cli(*args, PATH=self.path)

    def start(self, *args: str) -> ForkedProcess:
        """Start a command that a test will kill."""
        return self.cli.start(*args, PATH=self.path)

    @property
    def asked(self) -> int:
        """How often the planner was started."""
        return (self.root / "calls").read_text().count("x") if (self.root / "calls").exists() else 0


def _kill(command: ForkedProcess) -> None:
    os.killpg(command.pid, signal.SIGKILL)
    command.wait()


def test_a_plan_is_written_shown_and_valid(tmp_path: Path) -> None:
    """One command from a goal to a plan that runs."""
    planner = Planner.create(tmp_path)
    done = planner("plan", GOAL)
    assert done.code == 0, done.err
    assert "a:" in done.out
    assert planner("run", "plan.yaml", "--dry-run").code == 0


def test_the_same_goal_is_not_planned_again(tmp_path: Path) -> None:
    """U1: the file is reused, and if it is gone the kept plan is written anew."""
    planner = Planner.create(tmp_path)
    planner("plan", GOAL)
    assert "already" in planner("plan", GOAL.upper()).out
    (planner.cli.here / "plan.yaml").unlink()
    assert "already" in planner("plan", GOAL).out
    assert (planner.cli.here / "plan.yaml").exists()
    assert planner.asked == 1


def test_another_file_is_not_overwritten_without_a_word(tmp_path: Path) -> None:
    """The question comes before the planner is paid for; --yes answers it."""
    planner = Planner.create(tmp_path)
    (planner.cli.here / "plan.yaml").write_text("mine\n")
    assert planner("plan", GOAL).code == 3
    assert (planner.cli.here / "plan.yaml").read_text() == "mine\n"
    assert planner.asked == 0
    assert planner("plan", GOAL, "-o", "other.yaml").code == 0
    assert planner("plan", GOAL, "--yes").code == 0
    assert "goal: Add a greeting" in (planner.cli.here / "plan.yaml").read_text()


def test_json_tells_where_the_plan_is_and_what_is_in_it(tmp_path: Path) -> None:
    """Programs get the plan, its hash and how many tries it took."""
    done = Planner.create(tmp_path)("plan", GOAL, "--json")
    result = msgspec.json.decode(done.out)
    assert (result["path"], result["goal"], result["tries"]) == ("plan.yaml", GOAL, 1)
    assert len(result["hash"]) == 64


def test_without_any_agent_the_ways_on_are_named(tmp_path: Path) -> None:
    """Nobody can plan; that is said before anything happens."""
    cli = Cli(Project.create(tmp_path / "p").path)
    git = tmp_path / "git"
    git.mkdir()
    (git / "git").symlink_to("/usr/bin/git")
    done = cli("plan", GOAL, PATH=str(git))
    assert (done.code, "no known agent is on the PATH" in done.err) == (2, True)
    assert "did you mean" in cli("plan", GOAL, "--agent", "claud").err


def test_no_plan_and_no_run_plans_first_and_then_runs(tmp_path: Path) -> None:
    """U8, no plan: a planner runs, its plan is shown, and with consent it is run."""
    planner = Planner.create(tmp_path)
    done = planner("run", GOAL, "--yes")
    assert done.code == 0, done.err
    assert done.out.index("is planning") < done.out.index("stage main") < done.out.index("a: landed as")
    assert planner.asked == 1


def test_a_goals_plan_runs_only_after_consent(tmp_path: Path) -> None:
    """What a planner wrote is confirmed like any plan; asking for consent again plans nothing again."""
    planner = Planner.create(tmp_path)
    assert planner("run", GOAL).code == 3
    done = planner("run", "--goal", GOAL)
    assert (done.code, "echo hi > hi.txt" in done.err) == (3, True)
    assert planner.asked == 1


def test_a_plan_without_a_run_is_started_without_planning(tmp_path: Path) -> None:
    """U8, plan without worktree: planning is done, coding begins."""
    planner = Planner.create(tmp_path)
    planner("plan", GOAL)
    done = planner("run", GOAL, "--yes")
    assert (done.code, planner.asked) == (0, 1)
    assert "Using the existing plan" in done.out


def test_a_plan_with_an_unfinished_run_is_continued(tmp_path: Path) -> None:
    """U8, both: nothing is planned or started anew."""
    planner = Planner.create(tmp_path, task=f"test -f {tmp_path}/go && echo hi > hi.txt")
    assert planner("run", GOAL, "--yes").code == 1
    (tmp_path / "go").touch()
    planner("retry", "a")
    done = planner("run", GOAL, "--yes")
    assert "Resuming 01-add-a-greeting" in done.out
    assert (done.code, planner.asked, len(planner.cli.json("list"))) == (0, 1, 1)


def test_a_run_continues_after_a_crash_while_coding(tmp_path: Path) -> None:
    """U8, crash while coding: the agent works on, and the same command finds it."""
    at_work, go_on = Fifo(tmp_path / "at-work"), Fifo(tmp_path / "go-on")
    planner = Planner.create(tmp_path, task=f"{at_work.give}; {go_on.take}; echo hi > hi.txt")
    runner = planner.start("run", GOAL, "--yes")
    at_work.wait()
    _kill(runner)
    go_on.release()
    assert planner("run", GOAL, "--yes").code == 0
    assert (planner.asked, planner.cli.task("a")["attempts"]) == (1, 1)


@pytest.mark.parametrize("finishes_first", [False, True], ids=["working", "finished"])
def test_a_killed_planning_is_taken_up_where_it_was(tmp_path: Path, *, finishes_first: bool) -> None:
    """The planner outlives the command: at work it is waited for, finished it is collected. It is asked once."""
    at_work, go_on = Fifo(tmp_path / "at-work"), Fifo(tmp_path / "go-on")
    planner = Planner.create(tmp_path, before=f"{at_work.give}; {go_on.take}")
    command = planner.start("plan", GOAL)
    at_work.wait()
    _kill(command)
    assert not (planner.cli.here / "plan.yaml").exists()
    go_on.release()
    if finishes_first:
        attempts = planner.cli.here / ".holdfast" / "runs"
        eventually(lambda: bool(list(attempts.rglob("exit.json"))), "the planner ends")
    assert planner("plan", GOAL).code == 0
    assert planner.asked == 1


def test_an_interrupted_planning_ends_the_planner(tmp_path: Path) -> None:
    """Ctrl-C: nobody goes on spending, nothing is written, and the next request plans."""
    at_work, go_on = Fifo(tmp_path / "at-work"), Fifo(tmp_path / "go-on")
    planner = Planner.create(tmp_path, before=f"{at_work.give}; {go_on.take}")
    command = planner.start("plan", GOAL)
    agent = int(at_work.wait())
    command.send_signal(signal.SIGINT)
    assert command.wait() == 130
    assert not is_alive(agent)
    go_on.release()
    assert planner("plan", GOAL).code == 0
    assert planner.asked == 2


def test_a_dry_run_of_a_goal_starts_no_planner(tmp_path: Path) -> None:
    """It says who would plan, and that is all."""
    planner = Planner.create(tmp_path)
    done = planner("run", GOAL, "--dry-run")
    assert (done.code, planner.asked) == (3, 0)
    assert "claude would write one" in done.err
    assert not (planner.cli.here / ".holdfast").exists()


def test_a_goal_may_be_longer_than_any_file_name(tmp_path: Path) -> None:
    """Whoever describes a goal well must not be told that a file name is too long."""
    planner = Planner.create(tmp_path)
    done = planner("run", "make it work " * 40, "--dry-run")
    assert (done.code, "would write one" in done.err) == (3, True)


def test_the_name_of_a_missing_file_is_no_goal(tmp_path: Path) -> None:
    """A slip in a file's name does not set an agent to work."""
    planner = Planner.create(tmp_path)
    done = planner("run", "my plan.yaml", "--yes")
    assert (done.code, planner.asked) == (2, 0)
    assert "there is no plan file" in done.err
