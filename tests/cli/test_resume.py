"""The recovery report: shown on a terminal with one-key choices, by flags without one."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from tests.support.command import (
    Cli,
    cli_at_work,
    eventually,
    fails,
    is_alive,
    killed_cli,
    on_terminal,
    writes,
)
from tests.support.repositories import write
from tests.support.runs import Fifo


def test_the_dry_run_tells_what_is_safe_and_what_resuming_does(blocked: Cli) -> None:
    """C8: per task its status, what git has, and what happens next."""
    said = blocked("resume", "--dry-run").out
    assert "1 of 2 tasks landed" in said
    assert "landed " in said
    assert "skip: abandoned" in said
    assert "work to redo" in said
    assert "time to finish" not in said  # nothing is left that an agent could do


def test_the_report_offers_four_choices_each_with_its_command(blocked: Cli) -> None:
    """C8: resume, restart failed only, inspect, abandon."""
    view = blocked.json("resume", "--dry-run")
    assert [choice["key"] for choice in view["choices"]] == ["r", "f", "i", "a"]
    assert view["report"]["failed"] == ["b"]
    assert view["choices"][1]["command"] == "holdfast resume 01-try-it --failed-only"


def test_the_report_fits_the_terminal(blocked: Cli) -> None:
    """No row runs over the edge, however narrow; without a terminal there is room for 120 columns."""
    for columns in (80, 100, 140):
        report = blocked("resume", "--dry-run", COLUMNS=str(columns)).out
        assert max(map(len, report.splitlines())) <= columns
    assert max(map(len, blocked("resume", "--dry-run", COLUMNS="").out.splitlines())) <= 120


def test_whoever_edited_the_plan_file_hears_what_gives_it_to_the_run(blocked: Cli) -> None:
    """The report, the menu and the resume itself say it. A file that is no plan, or says the same, is not mentioned."""
    told = "plan.json has changed since; `holdfast amend 1` gives the run the changed plan"
    plan = (blocked.here / "plan.json").read_text()
    assert "has changed" not in blocked("resume", "--dry-run").out
    write(blocked.here / "plan.json", plan.replace("exit 3", "exit 4"))
    assert told in " ".join(blocked("resume", "--dry-run").out.split())
    assert told in " ".join(on_terminal(blocked, "resume", answers="q")[1].split())
    assert told in " ".join(blocked("resume").err.split())
    write(blocked.here / "plan.json", plan[:-5])
    assert "has changed" not in blocked("resume", "--dry-run").out


def test_an_agent_chosen_for_the_run_is_no_change_of_the_plan_file(tmp_path: Path) -> None:
    """`run --agent` leaves the file as it is."""
    agent = {"command": ["sh", "-c", "exit 3"]}
    task = {"id": "a", "prompt": "do it"}
    cli = Cli.of(
        tmp_path / "p", task, agent="one", agents={"one": agent, "two": agent}, limits={"attempts": 1}
    )
    assert cli("run", "--yes", "--agent", "two").code == 1
    assert "has changed" not in cli("resume", "--dry-run").out


def test_the_dry_run_knows_that_the_budget_of_the_run_is_spent(tmp_path: Path) -> None:
    """Just resuming would block at once. What raises the budget is named, also as the last hint of all."""
    agent = {"command": ["sh", "-c", "holdfast report cost 2; exit 3"]}
    tasks = ({"id": "a", "prompt": "do it"}, {"id": "b", "prompt": "do it"})
    limits = {"attempts": 3, "jobs": 1, "cost_usd": 1}
    cli = Cli.of(tmp_path / "p", *tasks, agent="one", agents={"one": agent}, limits=limits)
    raises = "holdfast resume 1 --cost-usd N"
    done = cli("run", "--yes")
    assert (done.code, raises in done.out.strip().splitlines()[-2]) == (3, True), done.out
    assert raises in cli("status").out.strip().splitlines()[-1]
    assert {task["move"] for task in cli.json("resume", "--dry-run")["report"]["tasks"]} == {"wait"}
    assert raises in cli("resume", "--dry-run").out
    raised = cli.json("resume", "--dry-run", "--cost-usd", "9")["report"]["tasks"]
    assert {task["move"] for task in raised} == {"redo", "run"}


def test_a_budget_that_was_raised_before_is_named_again(tmp_path: Path) -> None:
    """A raised budget is that of one runner. Who raises them one after the other would not get past both."""
    script = "if test -f half; then holdfast report tokens 40; else touch half; holdfast report cost 2; fi; sleep 600"
    agent = {"command": ["sh", "-c", script]}
    limits = {"attempts": 3, "jobs": 1, "cost_usd": 1, "tokens": 30}
    cli = Cli.of(
        tmp_path / "p", {"id": "a", "prompt": "x"}, agent="one", agents={"one": agent}, limits=limits
    )
    assert "`holdfast resume 1 --cost-usd N` raises" in cli("run", "--yes").out
    done = cli("resume", "--cost-usd", "9")
    assert (done.code, "the budget of 30 tokens is spent" in done.out) == (3, True), done.out
    assert done.out.count("`holdfast resume 1 --cost-usd N --tokens N` raises") == 3
    assert "`holdfast resume 1 --cost-usd N --tokens N` raises" in cli("status").out


def test_the_dry_run_of_a_completed_run_offers_nothing_that_does_nothing(completed: Cli) -> None:
    """There is nothing to resume, to restart or to abandon."""
    shown = completed("resume", "1", "--dry-run").out
    assert "there is nothing to resume" in shown
    assert ("holdfast inspect 1" in shown, "holdfast resume" in shown, "abandon" in shown) == (
        True,
        False,
        False,
    )


def test_a_chosen_task_that_cannot_start_is_told_with_the_reason(blocked: Cli) -> None:
    """Its need is not among the chosen ones, so the run just rests again."""
    blocked.plan(writes("a"), fails("b", needs=["a"]), writes("c", needs=["b"]), limits={"attempts": 1})
    assert blocked("amend", "--yes").code == 0
    assert "c does not start: it waits for b, which does not land now" in blocked("resume", "--only", "c").err


@pytest.fixture(scope="module")
def long_names(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """A run that rests, whose tasks have long ids and long errors, only to look at."""
    check = "cat tests/integration/backend/authentication/test_token_service.py"
    tasks = (
        writes("backend-authentication-token-service"),
        writes("frontend-login-page-with-remember-me", verify=[check]),
        writes("mail", needs=["frontend-login-page-with-remember-me"]),
    )
    cli = Cli.of(tmp_path_factory.mktemp("long") / "p", *tasks, goal="Rework " * 30, limits={"attempts": 1})
    assert cli("run", "--yes").code == 1
    return cli


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_long_names_and_errors_read_well_on_any_terminal(long_names: Cli, columns: int) -> None:
    """No line of a table runs over the edge, and no id, commit or command of it is cut or broken."""
    tip = long_names.json("inspect")["tasks"][0]["merge_commit"][:12]
    for command in (("resume", "--dry-run"), ("status",)):
        lines = long_names(*command, COLUMNS=str(columns)).out.split("\n\n`")[0].splitlines()
        assert max(map(len, lines)) <= columns, "\n".join(lines)
        words = " ".join(lines).split()
        for whole in ("backend-authentication-token-service", "frontend-login-page-with-remember-me", tip):
            assert whole in words
    report = long_names("resume", "--dry-run", COLUMNS=str(columns)).out
    assert "`holdfast resume 1 --failed-only`" in report


def test_a_dry_run_of_failed_only_shows_the_failed_tasks_redone(blocked: Cli) -> None:
    """C8: what is shown is what the same command without `--dry-run` does; nothing is recorded."""
    before = blocked.json("inspect")["seq"]
    view = blocked.json("resume", "--failed-only", "--dry-run")
    assert {task["id"]: task["move"] for task in view["report"]["tasks"]} == {"a": "skip", "b": "redo"}
    assert view["does"] == ["nothing new starts but b; tasks under way continue"]
    assert view["choices"][0]["command"] == "holdfast resume 01-try-it --failed-only"
    assert (view["report"]["undecided"], blocked.json("inspect")["seq"]) == (0, before)


def test_a_dry_run_of_failed_only_needs_a_failed_task_too(completed: Cli) -> None:
    """A command that would be refused is refused."""
    done = completed("resume", "--failed-only", "--dry-run")
    assert (done.code, "no task of run 01-try-it has failed" in done.err) == (2, True)


def test_a_dry_run_of_chosen_tasks_leaves_the_others(tmp_path: Path) -> None:
    """C8: a task that is not chosen is left alone, and so is a chosen one that waits for it."""
    tasks = (writes("a"), writes("b", needs=["a"]), writes("c"))
    cli = Cli.of(tmp_path / "p", stages=[{"id": "s", "entry": ["false"], "tasks": tasks}])
    cli("run", "--yes")
    view = cli.json("resume", "--only", "b,c", "--dry-run")
    assert {task["id"]: task["move"] for task in view["report"]["tasks"]} == {
        "a": "leave",
        "b": "leave",
        "c": "run",
    }


def test_a_dry_run_of_accepting_says_which_check_is_passed_over(tmp_path: Path) -> None:
    """The check stays failed; going on is the user's decision, shown before it is made."""
    stage = {"id": "s", "entry": ["false"], "tasks": [writes("a")]}
    cli = Cli.of(tmp_path / "p", stages=[stage])
    assert cli("run", "--yes").code == 3
    assert (
        "stage s continues although its entry check failed" in cli("resume", "--accept", "s", "--dry-run").out
    )
    assert cli("resume", "--accept", "t", "--dry-run").code == 2
    assert cli.run_status() == "blocked"


def test_a_crashed_run_says_so_and_since_when(tmp_path: Path) -> None:
    """A10: `status`, `list` and a plain `run` know the crash at once."""
    cli, agent = killed_cli(tmp_path)
    run = cli.json("status")["run"]
    assert (run["status"], run["ending"]) == ("interrupted", "crash")
    assert f"last sign of life {run['last_sign_at']}" in run["detail"]
    assert "interrupted (crash)" in cli("list").out
    refused = cli("run")
    assert (refused.code, "unfinished (interrupted (crash))" in refused.err) == (3, True)
    cli("stop")
    assert not is_alive(agent)


def test_the_report_counts_files_that_exist_only_in_a_workspace(tmp_path: Path) -> None:
    """C8: what no commit has yet is said."""
    cli, _ = killed_cli(tmp_path)
    task = cli.json("resume", "--dry-run")["report"]["tasks"][0]
    assert (task["move"], task["unsaved"], task["snapshot"]) == ("re-attach", 1, None)
    cli("stop")


def test_enter_resumes(blocked: Cli) -> None:
    """The recommended way needs no thought."""
    code, screen = on_terminal(blocked, "resume", answers="\n")
    assert "RESUME WOULD" in screen
    assert (code, "run blocked" in screen) == (1, True)


def test_one_key_restarts_the_failed_tasks_only(blocked: Cli) -> None:
    """C8: `f` gives them all attempts again, without Enter."""
    on_terminal(blocked, "resume", answers="f")
    assert blocked.task("b")["attempts"] == 2
    assert blocked.task("a")["attempts"] == 1


def test_inspecting_comes_back_to_the_question_and_runs_nothing(blocked: Cli) -> None:
    """C8: `i` shows every attempt; `q` leaves all as it was."""
    before = blocked.json("inspect")["seq"]
    code, screen = on_terminal(blocked, "resume", answers="iq")
    assert (code, "timeline" in screen, "nothing was done" in screen) == (3, True, True)
    assert blocked.json("inspect")["seq"] == before


def test_the_report_on_a_terminal_is_for_the_options_given(blocked: Cli) -> None:
    """C8: it shows what this very command would do, as `--dry-run` does."""
    _, screen = on_terminal(blocked, "resume", "--jobs", "3", "--land", answers="q")
    assert "once it is completed, its result is merged into main" in screen
    assert "--jobs 3 --land" in " ".join(screen.split())


def test_abandoning_asks_once_more_and_keeps_the_branch(blocked: Cli) -> None:
    """C9: asks first; what was done stays."""
    code, _ = on_terminal(blocked, "resume", answers="an\n")
    assert (code, blocked.run_status()) == (3, "blocked")
    code, _ = on_terminal(blocked, "resume", answers="ay\n")
    assert (code, blocked.run_status()) == (0, "abandoned")
    assert blocked.project.git("rev-parse", "--verify", "holdfast/01-try-it")


def test_failed_only_without_a_terminal(blocked: Cli) -> None:
    """C8: the same choice as a flag."""
    assert blocked("resume", "--failed-only").code == 1
    assert blocked.task("b")["attempts"] == 2


def test_failed_only_needs_a_failed_task(tmp_path: Path) -> None:
    """Nothing is reset by accident."""
    cli, _ = killed_cli(tmp_path)
    done = cli("resume", "--failed-only")
    assert (done.code, "no task of run 01-try-it has failed" in done.err) == (2, True)
    cli("stop")


def test_a_plain_run_shows_the_unfinished_one_and_continues_it(blocked: Cli) -> None:
    """U3, A7: Enter continues; no second run begins."""
    _, screen = on_terminal(blocked, "run", answers="\n")
    assert "1 of 2 tasks landed" in screen
    assert "Resuming 01-try-it" in screen
    assert len(blocked.json("list")) == 1


def test_a_plain_run_starts_fresh_and_archives_the_old_one(blocked: Cli) -> None:
    """A7: declining archives; the branch stays."""
    on_terminal(blocked, "run", answers="f")
    assert [run["status"] for run in blocked.json("list")] == ["abandoned", "blocked"]
    assert blocked.project.git("rev-parse", "--verify", "holdfast/01-try-it")


def test_a_plain_run_reviews_and_lands_what_there_is(blocked: Cli) -> None:
    """U3: review comes back to the question; landing brings the finished part into the branch."""
    code, screen = on_terminal(blocked, "run", answers="vly\nq")
    assert "in all," in screen
    assert "is in main" in screen
    assert (code, (blocked.here / "a.txt").read_text()) == (3, "a\n")


def test_auto_continue_resumes_without_asking(blocked: Cli) -> None:
    """U3: for scripts that start the same plan again and again."""
    done = blocked("run", "--auto-continue")
    assert "Resuming 01-try-it" in done.out
    assert len(blocked.json("list")) == 1


def test_a_run_whose_agent_is_gone_from_the_users_file_says_so(tmp_path: Path) -> None:
    """Nothing is started or charged until it is back."""
    cli = Cli.of(tmp_path / "p", {"id": "a", "prompt": "x"}, agent="mine", limits={"attempts": 1})
    own = cli.here / ".holdfast" / "agents.toml"
    write(own, '[mine]\ncommand = ["false"]\n')
    cli("run", "--yes")
    own.unlink()
    cli("retry", "a")
    done = cli("resume")
    assert (done.code, 'agent "mine" is not known any more' in done.err) == (2, True)


def test_the_preview_starts_nothing_behind_an_abandoned_task(tmp_path: Path) -> None:
    """Neither in its stage nor in the stages after it: `resume` does not start them, either."""
    stages = [
        {"id": "one", "tasks": [fails("a"), writes("b", needs=["c"]), {"id": "c", "run": ["sleep", "60"]}]},
        {"id": "two", "tasks": [writes("d")]},
    ]
    cli = Cli.of(tmp_path / "p", stages=stages, limits={"attempts": 1, "jobs": 1})
    assert cli("run", "--yes").code == 1
    told = {
        one["id"]: (one["move"], one["why"]) for one in cli.json("resume", "--dry-run")["report"]["tasks"]
    }
    assert told["c"] == ("wait", "its stage stopped: a was abandoned")
    assert told["d"] == ("wait", "its stage waits for a, which was abandoned")


def test_the_commands_of_a_note_lead_on(blocked: Cli) -> None:
    """As they stand there, in their order, on a real run."""
    note = (blocked.here / ".holdfast" / "runs" / "01-try-it" / "continue-here.md").read_text()
    commands = re.findall(r"^    holdfast (.+)$", note, re.M)
    assert commands == ["retry 1 b", "resume 1"]
    assert blocked(*commands[0].split()).code == 0
    assert blocked(*commands[1].split(), "--yes").code == 1
    assert blocked.task("b")["attempts"] == 2


def test_a_run_that_is_held_names_the_way_to_follow_it(tmp_path: Path) -> None:
    """`resume` and `run` refuse it with 4; looking at it is what the user wants."""
    cli, runner, _ = cli_at_work(tmp_path)
    for command in ("resume", "run"):
        done = cli(command, "--yes")
        assert (done.code, "`holdfast status 1 -f` follows it" in done.err) == (4, True), done.err
    cli("stop")
    assert runner.wait() == 130


@pytest.mark.parametrize(
    ("attempts", "told"),
    [
        (
            5,
            (
                "redo",
                "the agent was killed by signal 9; its work is saved, and a fresh agent continues from it",
            ),
        ),
        (
            1,
            ("collect", "the agent was killed by signal 9; its work is saved, and that was its last attempt"),
        ),
    ],
)
def test_an_agent_that_was_killed_is_not_collected_like_one_that_finished(
    tmp_path: Path, attempts: int, told: tuple[str, str]
) -> None:
    """What the report says is what happens: its work is saved, and the task is tried again if it may be."""
    at_work = Fifo(tmp_path / "at-work")
    again = "test -e half.txt && mv half.txt whole.txt && exit"
    agents = {
        "mine": {"command": ["sh", "-c", f"{again}; echo half > half.txt; {at_work.give}; exec sleep 60"]}
    }
    limits = {"attempts": attempts}
    cli = Cli.of(tmp_path / "p", {"id": "a", "prompt": "x"}, agent="mine", agents=agents, limits=limits)
    runner = cli.start("run", "--yes", "--no-sandbox")
    agent = int(at_work.wait())
    os.killpg(runner.pid, signal.SIGKILL)
    runner.wait()
    os.kill(agent, signal.SIGKILL)

    def preview() -> tuple[str, str]:
        task = cli.json("resume", "--dry-run")["report"]["tasks"][0]
        return task["move"], task["why"]

    eventually(lambda: preview()[0] != "re-attach", "its supervisor has recorded its end")
    assert preview() == told
    assert cli("resume", "--yes").code == (0 if attempts > 1 else 1)
    if attempts > 1:
        assert cli.project.git("show", "holdfast/01-try-it:whole.txt") == "half"
