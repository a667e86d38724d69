"""`run` before the first agent is paid: set-up and checks on the base, once, and what a user decides about it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Cli, Done, eventually, on_terminal, writes
from tests.support.repositories import Project
from tests.support.runs import Fifo, Trial

AGENT = {"mine": {"command": ["sh", "-c", "echo work > $HOLDFAST_TASK.txt; echo paid >> ../../../paid.log"]}}
TASK = {"id": "a", "prompt": "Do it"}


def cli_of(path: Path, *verify: str, **plan: Any) -> Cli:
    """Return a command line with a plan whose one agent leaves a note when it is paid."""
    return Cli.of(path, TASK, agent="mine", agents=AGENT, verify=list(verify), **plan)


def was_paid(cli: Cli) -> bool:
    """Tell whether an agent was started."""
    return any(cli.here.rglob("paid.log"))


def run_agreed(cli: Cli, *args: str) -> Done:
    """Run a plan that the user agreed to before, without a terminal and without `--yes`."""
    plan = (cli.here / "plan.json").read_text()
    _record_consent(cli, plan)
    return cli("run", *args)


def _record_consent(cli: Cli, plan: str) -> None:
    from holdfast.plans import parse_plan

    run = Trial.of_plan(Project(cli.here), parse_plan(plan.encode(), "plan.json", [])).run
    assert cli("abandon", run, "--yes").code == 0


def test_a_base_that_holds_is_told_and_agents_start(tmp_path: Path) -> None:
    """It is checked before the first attempt begins."""
    cli = cli_of(tmp_path / "p", "test -e a.txt")
    done = cli("run", "--yes")
    assert done.code == 0, done.err
    assert (
        done.out.index("checking the base") < done.out.index("the base holds") < done.out.index("attempt 1")
    )


def test_the_next_run_on_the_same_base_does_not_pay_again(tmp_path: Path) -> None:
    """What held on a tree is remembered; another check, or another tree, is not known."""
    times = tmp_path / "times"
    cli = cli_of(tmp_path / "p", f"echo x >> {times}")
    assert cli("run", "--yes").code == 0
    first = times.read_text().count("x")
    done = cli("run", "--yes")
    assert "the base holds, as an earlier run found" in done.out
    assert times.read_text().count("x") == first * 2 - 1
    cli.project.write("a.txt", "other\n")
    cli.project.git("commit", "-qam", "another tree")
    assert "the base holds, as" not in cli("run", "--yes").out


def test_a_red_base_stops_a_run_that_nobody_watches(tmp_path: Path) -> None:
    """Exit 3, with the check, its output and the way on; no agent was paid."""
    cli = cli_of(tmp_path / "p", "echo all is red; test -e a.txt.done || exit 4")
    done = run_agreed(cli)
    assert (done.code, was_paid(cli)) == (3, False)
    assert "the base fails a check before any task has begun" in done.out
    assert "all is red" in done.out
    assert "--accept-base` starts the agents" in done.out
    assert cli("doctor").code == 0


@pytest.mark.parametrize("said", ["printf 'all is %s' red; false", "false"])
def test_why_a_base_is_red_is_told_once(tmp_path: Path, said: str) -> None:
    """What the check said and what to do, where the run rests; on a terminal, before the question."""
    cli = cli_of(tmp_path / "p", said)
    done = run_agreed(cli)
    assert (done.code, done.out.count("No agent was started")) == (3, 1), done.out
    assert done.out.count("all is red") == ("red" in said)
    assert "run blocked: the base fails a check before any task has begun" in done.out
    code, screen = on_terminal(cli, "run", "--fresh", answers="n\n")
    assert (code, screen.count("No agent was started")) == (3, 1), screen
    assert "`holdfast resume 3 --accept-base`" in screen


@pytest.mark.parametrize(
    ("check", "helps"), [("false", "--accept-base"), ("no-such-program-here", "`holdfast amend")]
)
def test_the_last_hint_for_a_failing_base_is_the_one_that_helps(
    tmp_path: Path, check: str, helps: str
) -> None:
    """Just resuming would check the same base again."""
    cli = cli_of(tmp_path / "p", check)
    assert run_agreed(cli).code == 3
    assert helps in cli("status").out.strip().splitlines()[-1]


def test_going_on_with_a_red_base_is_remembered(tmp_path: Path) -> None:
    """Many checks only the tasks make pass: accepted once, the base is not asked about again in this run."""
    gate = Fifo(tmp_path / "gate")
    wait = {"mine": {"command": ["sh", "-c", f"{gate.give}; sleep 60"]}}
    cli = Cli.of(tmp_path / "p", TASK, agent="mine", agents=wait, verify=["test -e out.txt"])
    assert run_agreed(cli).code == 3
    runner = cli.start("resume", "--yes", "--accept-base")
    gate.wait()
    os.killpg(runner.pid, signal.SIGKILL)
    runner.wait()
    assert cli.run_status() == "interrupted"
    runner = cli.start("resume", "--yes")
    eventually(lambda: cli.run_status() == "running", "the second runner has it")
    assert cli("stop").code == 0
    assert runner.wait() == 130
    assert cli.run_status() == "stopped"


def test_yes_goes_on_with_a_red_base_and_says_so(tmp_path: Path) -> None:
    """A script that answers every question in advance is not stopped by a friendly notice."""
    cli = cli_of(tmp_path / "p", "test -e a.txt && test -s $HOLDFAST_WORKSPACE/a.txt && grep -q work a.txt")
    done = cli("run", "--yes")
    assert done.code == 0, done.out
    assert "the base fails a check" in done.out
    assert "agents start all the same" in done.out


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 3)])
def test_on_a_terminal_the_user_is_asked(tmp_path: Path, answer: str, code: int) -> None:
    """The check and its output are shown first."""
    cli = cli_of(tmp_path / "p", "echo not yet; grep -q work a.txt")
    ended, screen = on_terminal(cli, "run", answers=f"y\n{answer}\n")
    assert ended == code, screen
    assert screen.index("not yet") < screen.index("Start the agents all the same?")
    assert was_paid(cli) == (code == 0)


def test_a_check_that_cannot_be_executed_stops_the_run_before_anybody_is_paid(tmp_path: Path) -> None:
    """A typo costs nothing, even with --yes; `--no-preflight` is the way past it."""
    cli = cli_of(tmp_path / "p", "pytset -q", limits={"attempts": 1})
    done = cli("run", "--yes")
    assert (done.code, was_paid(cli)) == (3, False)
    assert "a check of the plan cannot be executed" in done.out
    assert "pytset" in done.out
    assert cli("resume", "--yes", "--accept-base").code == 3
    assert not was_paid(cli)
    cli("resume", "--yes", "--no-preflight")
    assert was_paid(cli)


def test_a_program_that_a_task_will_write_is_no_typo(tmp_path: Path) -> None:
    """`./check.sh` is missing on the base like any file that a task makes."""
    agent = {"mine": {"command": ["sh", "-c", "echo true > check.sh; chmod +x check.sh"]}}
    cli = Cli.of(tmp_path / "p", TASK, agent="mine", agents=agent, verify=["./check.sh"])
    assert cli("run", "--yes").code == 0


def test_a_failing_set_up_stops_the_run_before_any_task_begins(tmp_path: Path) -> None:
    """Its output and the way out are shown; no task has had an attempt."""
    cli = cli_of(tmp_path / "p", "true", workspace={"setup": ["echo no network; exit 5"]})
    done = cli("run", "--yes")
    assert (done.code, was_paid(cli)) == (3, False)
    assert "no network" in done.out
    assert cli.task("a")["status"] == "pending"


@pytest.mark.parametrize("args", [("--dry-run",), ("--yes",)])
def test_a_file_that_workspaces_lack_is_told_before_anything_starts(
    tmp_path: Path, args: tuple[str, ...]
) -> None:
    """It is an input that is wrong: exit 2, with what to make; there is no run of it."""
    cli = cli_of(tmp_path / "p", "true", workspace={"copy": [".env"], "link": []})
    done = cli("run", *args)
    assert (done.code, was_paid(cli)) == (2, False)
    assert "workspace.copy names .env, which is not in your checkout" in done.err
    assert f"make {cli.here}/.env, or take it out of the plan" in done.err
    assert cli.json("list") == []


def test_a_pipe_cannot_be_copied_and_is_told_before_anything_starts(tmp_path: Path) -> None:
    """Nobody could read it to its end: exit 2, with what to replace; there is no run of it."""
    cli = cli_of(tmp_path / "p", workspace={"copy": [".env"]})
    os.mkfifo(cli.here / ".env")
    done = cli("run", "--yes")
    assert (done.code, was_paid(cli), cli.json("list")) == (2, False, [])
    assert "workspace.copy names .env, which is neither a file nor a folder" in done.err
    assert f"replace {cli.here}/.env, or take it out of the plan" in done.err


def test_a_pipe_that_takes_the_place_of_a_copied_file_charges_nothing(tmp_path: Path) -> None:
    """It is the user's to repair; then `resume` goes on."""
    swap = {
        "id": "a",
        "run": ["sh", "-c", f"rm {tmp_path}/p/.env; mkfifo {tmp_path}/p/.env; echo a > a1.txt"],
    }
    cli = Cli.of(
        tmp_path / "p", swap, writes("b", needs=["a"]), workspace={"copy": [".env"]}, limits={"attempts": 1}
    )
    (cli.here / ".env").write_text("x")
    assert cli("run", "--yes", "--no-sandbox").code == 3
    assert (cli.task("a")["status"], cli.task("b")["status"]) == ("completed", "blocked")
    (cli.here / ".env").unlink()
    (cli.here / ".env").write_text("x")
    assert cli("resume", "--yes").code == 0


@pytest.mark.parametrize("key", ["copy", "link"])
@pytest.mark.parametrize("place", [".git", ".git/refs", ".holdfast", ".", "/"])
def test_a_link_to_a_private_folder_is_not_brought_in(tmp_path: Path, key: str, place: str) -> None:
    """No more than the folder itself: an agent in a sandbox must not see it, nor one that holds it."""
    cli = cli_of(tmp_path / "p", workspace={key: ["data"]})
    (cli.here / ".holdfast").mkdir(exist_ok=True)
    (cli.here / "data").symlink_to(place)
    done = cli("run", "--dry-run")
    assert (done.code, was_paid(cli)) == (2, False)
    assert f"workspace.{key} names data, a link to a folder of git or of Holdfast" in done.err


def test_where_a_link_leads_outside_of_the_checkout_is_shown(tmp_path: Path) -> None:
    """Before the user agrees; a link within the checkout leads to what is the project's anyway."""
    cli = cli_of(tmp_path / "p", workspace={"link": ["data", "inner"]})
    (tmp_path / "outside").mkdir()
    (cli.here / "data").symlink_to(tmp_path / "outside")
    (cli.here / "inner").symlink_to("src")
    done = cli("run", COLUMNS="400")
    assert (done.code, was_paid(cli)) == (3, False)
    assert f"data is a link out of your checkout, to {tmp_path}/outside" in done.err
    assert "inner is a link" not in done.err


def test_an_amended_plan_needs_its_files_too(tmp_path: Path) -> None:
    """The run keeps the plan it has."""
    cli = cli_of(tmp_path / "p", "false", limits={"attempts": 1})
    assert run_agreed(cli).code == 3
    cli.plan(TASK, agent="mine", agents=AGENT, workspace={"link": ["modules"]})
    done = cli("amend", "--yes")
    assert (done.code, "workspace.link names modules" in done.err) == (2, True)


def test_a_kill_in_the_check_of_the_base_repeats_it(tmp_path: Path) -> None:
    """The intent is on disk; the next runner checks before any agent starts."""
    at_work = Fifo(tmp_path / "at-work")
    cli = cli_of(tmp_path / "p", f"test -e {tmp_path}/quick || {{ {at_work.give}; sleep 60; }}")
    runner = cli.start("run", "--yes")
    at_work.wait()
    os.killpg(runner.pid, signal.SIGKILL)
    runner.wait()
    assert not was_paid(cli)
    (tmp_path / "quick").touch()
    done = cli("resume", "--yes")
    assert done.code == 0, done.err
    assert done.out.index("the base holds") < done.out.index("attempt 1")


def test_a_plan_of_commands_is_not_checked_beforehand(tmp_path: Path) -> None:
    """Nobody is paid, so nothing is to be known before."""
    cli = Cli.of(tmp_path / "p", writes("a"), verify=["test -e a.txt"])
    assert "the base" not in cli("run", "--yes").out


def test_no_preflight_checks_nothing_beforehand(tmp_path: Path) -> None:
    """The user knows the base."""
    cli = cli_of(tmp_path / "p", "true")
    done = cli("run", "--yes", "--no-preflight")
    assert (done.code, "the base" in done.out) == (0, False)


def test_a_dry_run_shows_everything_that_will_be_executed_whole(tmp_path: Path) -> None:
    """Set-up, checks, gates, validators and agents' commands, however long; and who runs beside whom."""
    long = "echo " + "x" * 300
    validated = {**TASK, "validators": [{"id": "v", "run": ["./score.sh"]}]}
    stages = [
        {"id": "one", "entry": ["./entry.sh"], "tasks": [validated, {**TASK, "id": "b"}]},
        {"id": "two", "tasks": [{**TASK, "id": "c"}], "exit": ["./exit.sh"]},
    ]
    cli = Cli.of(
        tmp_path / "p",
        agent="mine",
        agents=AGENT,
        stages=stages,
        verify=[long],
        workspace={"setup": ["npm ci"]},
    )
    done = cli("run", "--dry-run")
    joined = "".join(done.out.split())
    for command in (
        long,
        "./entry.sh",
        "./exit.sh",
        "./score.sh",
        "npm ci",
        "echo paid >> ../../../paid.log",
    ):
        assert "".join(command.split()) in joined
    assert "batch 1: 2 side by side" in done.out
    assert "no history of this repository yet" in done.out
    view = cli.json("run", "--dry-run")["execution"]
    assert (view["waves"], view["estimate"]) == ([["a", "b"], ["c"]], None)
    assert f"runs: {long}" in view["executes"]


def test_a_dry_run_estimates_time_and_cost_from_earlier_runs(tmp_path: Path) -> None:
    """What tasks of the same agent took here before, and what they reported to have cost."""
    script = "holdfast report cost 0.5; echo $HOLDFAST_TASK > $HOLDFAST_TASK.txt"
    agents = {"mine": {"command": ["sh", "-c", script]}}
    cli = Cli.of(tmp_path / "p", TASK, agent="mine", agents=agents)
    assert cli("run", "--yes").code == 0
    cli.plan(TASK, {**TASK, "id": "b", "needs": ["a"]}, agent="mine", agents=agents)
    estimate = cli.json("run", "--dry-run")["execution"]["estimate"]
    assert estimate["cost_usd"] == pytest.approx(1.0)
    assert estimate["seconds"] == pytest.approx(2 * estimate["history"][0]["seconds"], abs=0.01)
    assert "a task of mine took" in cli("run", "--dry-run").out


def test_the_dry_run_speaks_of_set_up_only_if_there_is_some(tmp_path: Path) -> None:
    """What runs on the base is what the plan has."""
    cli = cli_of(tmp_path / "p", "true")
    assert "starts, the checks of every task run once on the base" in cli("run", "--dry-run").out
    cli = cli_of(tmp_path / "q", workspace={"setup": ["true"]})
    assert "starts, set-up and the checks of every task run once on the base" in cli("run", "--dry-run").out
