"""`status`: what it promises to people and programs, and that looking changes nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.views.status import StatusView
from holdfast.views.text import when
from tests.support.command import COMMAND, Cli, cli_at_work, eventually, writes
from tests.support.repositories import fingerprint
from tests.support.runs import Fifo
from tests.support.scripted_agents import (
    DONE,
    SAID,
    THREAD,
    claude,
    codex,
    fails as agent_fails,
    once,
    refused,
    say,
    uses,
    work,
)

KEYS = {
    "run": {"id", "goal", "status", "branch", "base", "started_at", "updated_at", "resumable", "detail"},
    "stages": {"id", "status", "tasks", "completed", "failed"},
    "tasks": {"id", "stage", "status", "attempts", "agent", "merge_commit", "progress", "error"},
    "metrics": {"tasks", "completed", "failed", "attempts", "redone", "commits", "elapsed_s"},
}
"""What `status --json` promises at least."""


def test_status_json_has_the_promised_shape(ended: Cli) -> None:
    """Programs rely on every key of it."""
    view: dict[str, Any] = ended.json("status")
    assert view["run"].keys() >= KEYS["run"]
    assert view["metrics"].keys() >= KEYS["metrics"]
    assert all(stage.keys() >= KEYS["stages"] for stage in view["stages"])
    assert all(task.keys() >= KEYS["tasks"] for task in view["tasks"])
    assert msgspec.convert(view, StatusView).run is not None


def test_status_json_tells_where_each_task_stands(ended: Cli) -> None:
    """What waits for an abandoned task is blocked."""
    view = ended.json("status")
    assert [task["status"] for task in view["tasks"]] == ["completed", "abandoned", "blocked"]
    (main,) = view["stages"]
    assert main["status"] == "running"
    assert (main["tasks"], main["completed"], main["failed"]) == (3, 1, 1)
    assert (main["error"], main["gate"], main["waived"]) == (None, None, [])
    assert (view["run"]["status"], view["run"]["resumable"]) == ("blocked", True)
    assert view["run"]["branch"] == "holdfast/01-try-it"


def test_status_json_counts_what_was_done_and_redone(ended: Cli) -> None:
    """Two tries at `b` left nothing behind, so both were for nothing."""
    metrics = ended.json("status")["metrics"]
    assert (metrics["tasks"], metrics["completed"], metrics["failed"]) == (3, 1, 1)
    assert (metrics["attempts"], metrics["redone"], metrics["commits"]) == (3, 2, 1)


def test_status_says_what_to_do_next(ended: Cli) -> None:
    """Nobody has to know the commands by heart."""
    said = ended("status").out
    assert "holdfast retry 1 b" in said
    assert "holdfast resume 1" in said
    assert "1 merged" in said


def test_a_repository_without_runs_has_a_friendly_status(tmp_path: Path) -> None:
    """Nothing is wrong, so the exit code is 0, and nothing is created."""
    cli = Cli.of(tmp_path / "p")
    before = fingerprint(cli.here)
    assert (cli("status").code, cli("list").code) == (0, 0)
    assert cli.json("status")["run"] is None
    assert (fingerprint(cli.here), (cli.here / ".holdfast").exists()) == (before, False)


def test_looking_needs_no_right_to_write(ended: Cli) -> None:
    """`status` works on a journal in a folder that cannot be written, as on a full disk."""
    state = ended.here / ".holdfast"
    before = sorted((path, path.stat().st_mtime_ns) for path in state.iterdir())
    state.chmod(0o500)
    try:
        assert ended("status").code == 0
    finally:
        state.chmod(0o700)
    assert sorted((path, path.stat().st_mtime_ns) for path in state.iterdir()) == before


def test_looking_at_a_run_starts_no_git(ended: Cli) -> None:
    """A journal beside `.git` is all that `status` needs, also from a folder below."""
    below = ended.here / "below" / "it"
    below.mkdir(parents=True, exist_ok=True)
    for place in (ended, Cli(below)):
        assert "01-try-it" in place("status", PATH="/nonexistent").out


def test_the_run_is_shown_in_every_worktree(ended: Cli, tmp_path: Path) -> None:
    """A linked worktree has no journal of its own; the main checkout's is found."""
    ended.project.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    assert Cli(tmp_path / "linked").json("status")["run"]["id"] == "01-try-it"


def test_runs_are_found_by_number_and_by_name(ended: Cli) -> None:
    """`1`, `01`, `try` and the whole id mean the same run."""
    for name in ("1", "01", "try", "01-try-it"):
        assert ended.json("status", name)["run"]["id"] == "01-try-it"


def test_a_name_that_fits_two_runs_is_refused(completed: Cli) -> None:
    """Nothing is guessed where guessing could hit the wrong run."""
    completed("run", "--yes")
    done = completed("status", "try")
    assert (done.code, "02-try-it" in done.err) == (2, True)


def test_a_reader_that_leaves_early_is_no_error(ended: Cli) -> None:
    """`holdfast inspect | head -1` ends quietly."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as nobody:
        done = subprocess.run(
            [*COMMAND, "inspect"], cwd=ended.here, stdout=nobody, stderr=subprocess.PIPE, check=False
        )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_run_goes_on_when_its_reader_leaves(tmp_path: Path) -> None:
    """`holdfast run | head -1` still finishes the run."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as nobody:
        argv = [*COMMAND, "run", "--yes"]
        done = subprocess.run(argv, cwd=cli.here, stdout=nobody, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, cli.run_status()) == (0, "completed"), done.stderr


def test_a_live_runner_is_named_in_the_status(tmp_path: Path) -> None:
    """Who works on the run, and that it cannot be resumed meanwhile."""
    at_work = Fifo(tmp_path / "at-work")
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", f"{at_work.give}; sleep 60"]})
    runner = cli.start("run", "--yes")
    at_work.wait()
    view = cli.json("status")
    runner.send_signal(signal.SIGINT)
    runner.wait()
    assert f"pid {runner.pid} " in view["run"]["held_by"]
    assert (view["run"]["status"], view["run"]["resumable"]) == ("running", False)


def test_a_terminal_without_unicode_still_gets_its_answer(tmp_path: Path) -> None:
    """A goal in any script is written as well as the encoding allows."""
    cli = Cli.of(tmp_path / "p", writes("a"), goal="Füge 認証 hinzu")
    done = cli("run", "--dry-run", PYTHONIOENCODING="ascii")
    assert (done.code, "F\\xfcge \\u8a8d\\u8a3c hinzu" in done.out) == (0, True), done.err


def test_status_shows_what_agents_report_of_their_progress(tmp_path: Path) -> None:
    """The table has a column for it as soon as one of them said something, and none before."""
    at_work = Fifo(tmp_path / "at-work")
    script = f"{sys.executable} -P -m holdfast report progress 40; {at_work.give}; sleep 60"
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", script]}, writes("b", needs=["a"]))
    runner = cli.start("run", "--yes")
    at_work.wait()
    eventually(lambda: cli.task("a")["reported"] == 40.0, "the runner hears of it")
    assert "40 %" in cli("status").out
    assert (cli("stop").code, runner.wait()) == (0, 130)
    assert "PROGRESS" not in cli("status").out


def test_status_knows_that_a_result_has_landed_because_git_does(completed: Cli) -> None:
    """Landing is offered until the branch has the result, also when the user merged it by hand."""
    assert "holdfast land 1" in completed("status").out
    completed.project.git("merge", "-q", "--no-edit", "holdfast/01-try-it")
    said = completed("status").out
    assert ("Its result is in main." in said, "holdfast land" in said) == (True, False)
    assert completed.json("status")["run"]["landed_in"] == ["main"]


def _running(cli: Cli, at_work: Fifo) -> Any:
    process = cli.start("run", "--yes")
    at_work.wait()
    return process


def _worked_on_by(tmp_path: Path, agent: dict[str, Any], **limits: Any) -> Cli:
    """Return a project with one task, for an agent."""
    return Cli.of(tmp_path / "p", {"id": "a", "prompt": "x"}, agent="c", agents={"c": agent}, limits=limits)


def test_status_tells_how_it_goes_with_an_agent_at_work(tmp_path: Path) -> None:
    """C2: its liveness, what it is doing and what it has used, from its own stream."""
    at_work, go_on = Fifo(tmp_path / "at"), Fifo(tmp_path / "on")
    tool = {"type": "item.started", "item": {"type": "command_execution", "command": "make test"}}
    script = f"{say(THREAD, uses(70), tool)}; {at_work.give}; {go_on.take}; {work()}"
    cli = _worked_on_by(tmp_path, codex(script))
    process = _running(cli, at_work)
    while not (task := cli.task("a"))["tokens"]:
        assert process.poll() is None
    assert (task["liveness"], task["activity"], task["tokens"]) == ("working", "make test", 70)
    shown = next(line for line in cli("status").out.splitlines() if line.split()[:1] == ["a"])
    assert "70" in shown.split()
    assert "working: make test" in shown
    go_on.release()
    process.wait()


def test_status_tells_until_when_a_task_waits_for_a_limit(tmp_path: Path) -> None:
    """X5: `waiting_limit` with its time, in JSON and in words; the run's reason has it where it stopped for it."""
    limit = say(agent_fails("You have hit your usage limit. Please try again in 2h."))
    cli = _worked_on_by(tmp_path, codex(f"{limit}; exit 1"), on_limit="stop")
    assert cli("run", "--yes").code == 3
    view = cli.json("status")
    (task,) = view["tasks"]
    assert (task["status"], task["attempts"], view["run"]["ending"]) == ("waiting_limit", 1, "limit")
    assert f"until {when(task['waiting_until'])}" in cli("status").out
    assert "openai is at its limit until" in view["run"]["detail"]


def test_attempts_that_count_against_the_limit_are_told_from_the_others(tmp_path: Path) -> None:
    """The first one met a limit and charges nothing, the second one failed, the third one did the task."""
    soon = say(agent_fails("You have hit your usage limit. Please try again in 1s."))
    script = once(tmp_path / "1", f"{soon}; exit 1", once(tmp_path / "2", "exit 1", work("a")))
    cli = _worked_on_by(tmp_path, codex(script), attempts=4)
    assert cli("run", "--yes").code == 0
    assert "3 (1 of 4 charged)" in cli("status").out
    assert "\n  1 of 4 attempts charged\n" in cli("inspect").out
    for task in (cli.task("a"), *cli.json("inspect")["tasks"]):
        assert (task["charged"], task["attempts_max"]) == (1, 4)


def test_status_tells_since_when_a_provider_is_out_of_reach(tmp_path: Path) -> None:
    """Since when, the provider's last words and the next try, for people and programs; a limit is told apart from it."""
    cli = _worked_on_by(tmp_path, claude(f"{say(refused(503))}; exit 1"), limit_wait="30m")
    runner = cli.start("run", "--yes")
    while not cli.json("status")["providers"]:
        assert runner.poll() is None
    [provider] = cli.json("status")["providers"]
    assert (provider["provider"], provider["reason"], provider["tries"]) == ("anthropic", "outage", 1)
    assert (provider["error"], provider["probe"]) == ("API Error: 503", None)
    assert provider["since"] < provider["next_try"]
    said = " ".join(cli("status").out.split())
    assert "anthropic unreachable since " in said
    assert "), next try at " in said
    assert cli("stop").code == 0
    runner.wait()


def test_status_tells_whose_try_a_task_waits_for(tmp_path: Path) -> None:
    """Its own time has come, and one agent finds out for all: a time in the past would tell nothing."""
    trying, go_on = Fifo(tmp_path / "at"), Fifo(tmp_path / "on")
    probe = f"{trying.give}; {go_on.take}; {say(refused(503))}; exit 1"
    cli = Cli.of(
        tmp_path / "p",
        {"id": "a", "prompt": "x"},
        {"id": "b", "prompt": "x"},
        agent="c",
        agents={
            "c": claude(f"if [ $HOLDFAST_ATTEMPT_NUMBER = 1 ]; then {say(refused(503))}; exit 1; fi; {probe}")
        },
        limits={"limit_wait": "2s"},
    )
    runner = cli.start("run", "--yes", "--no-sandbox")
    trying.wait()
    tasks = {task["status"]: task for task in cli.json("status")["tasks"]}
    assert tasks["waiting_limit"]["waiting_for"] == f"the try of {tasks['running']['id']}"
    assert f"waits for the try of {tasks['running']['id']}" in cli("status").out
    runner.send_signal(signal.SIGTERM)
    runner.wait()


@pytest.mark.parametrize(("says", "unclosed"), [((THREAD, SAID, DONE), True), ((THREAD,), False)])
def test_an_unfinished_task_can_be_taken_and_its_agent_excused(
    tmp_path: Path, says: tuple[dict[str, Any], ...], unclosed: bool
) -> None:
    """Its model may never write the closing line: the hints say so, where nothing else was missing."""
    agent = codex(f"{say(*says)}; echo a > a.txt", closing_line=True)
    cli = _worked_on_by(tmp_path, agent, attempts=1)
    assert cli("run", "--yes").code == 1
    task, said = cli.task("a"), cli("status").out
    assert (task["failure"], task["closing_line_missing"]) == ("unfinished", unclosed)
    assert "`holdfast take 1 a` hands you its work" in said
    hint = "`closing_line: false` for c under `agents:` in the plan, `holdfast amend 1`;"
    assert (hint in said) is unclosed


def test_a_killed_runner_takes_no_word_of_an_outage_with_it(tmp_path: Path) -> None:
    """`status` still has the line, and the preview of `resume` speaks of no limit."""
    cli = _worked_on_by(tmp_path, claude(f"{say(refused(503))}; exit 1"), limit_wait="30m")
    runner = cli.start("run", "--yes")
    while not cli.json("status")["providers"]:
        assert runner.poll() is None
    runner.kill()
    runner.wait()
    said = " ".join(cli("status").out.split())
    assert "(crash)" in said
    assert "anthropic unreachable since " in said
    assert "), next try at " in said
    preview = cli("resume", "--dry-run").out
    assert "anthropic is out of reach" in preview
    assert "usage limit" not in preview


def test_following_shows_a_run_of_another_process_to_its_end(tmp_path: Path) -> None:
    """Who follows sees what happened before and what happens now, changes nothing, and ends with the run."""
    at_work, go = Fifo(tmp_path / "at-work"), Fifo(tmp_path / "go")
    script = f"{at_work.give}; {go.take}; echo a > a.txt"
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", script]})
    runner = cli.start("run", "--yes", "--no-sandbox")
    at_work.wait()
    with subprocess.Popen(
        [*COMMAND, "status", "-f"], cwd=cli.here, stdout=subprocess.PIPE, text=True
    ) as follower:
        assert follower.stdout is not None
        first = follower.stdout.readline()
        go.release()
        rest = follower.stdout.read()
    assert runner.wait() == 0
    assert "run 01-try-it begins" in first
    assert "a: landed as" in rest
    assert "1 of 1 task landed" in rest
    assert follower.returncode == 0


def test_status_without_a_run_shows_the_one_in_which_something_happened_last(blocked: Cli) -> None:
    """Who has just completed a run asks about that one, not about an older one that rests."""
    blocked.plan(writes("z"), name="other.json", goal="Another")
    assert blocked("run", "other.json", "--yes").code == 0
    assert blocked.json("status")["run"]["id"] == "02-another"
    assert blocked.json("inspect")["run"]["id"] == "02-another"
    blocked("retry", "b")
    assert blocked.json("status")["run"]["id"] == "01-try-it"


def test_an_agent_that_ended_by_itself_is_not_called_dead(tmp_path: Path) -> None:
    """Its runner was killed, and it finished: its work waits to be collected."""
    at_work, go = Fifo(tmp_path / "at-work"), Fifo(tmp_path / "go")
    script = f"{at_work.give}; {go.take}; echo a > a.txt"
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", script]})
    runner = cli.start("run", "--yes")
    at_work.wait()
    os.killpg(runner.pid, signal.SIGKILL)
    runner.wait()
    go.release()
    eventually(lambda: cli.task("a")["liveness"] == "finished", "the agent has ended")
    assert "finished" in cli("status").out


def test_who_follows_a_run_is_told_that_its_repository_was_moved(tmp_path: Path) -> None:
    """Its runs are where it is now. Nobody is told to start a first one."""
    cli, runner, _ = cli_at_work(tmp_path)
    argv = [*COMMAND, "status", "-f"]
    with subprocess.Popen(argv, cwd=cli.here, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as follower:
        assert follower.stdout
        assert follower.stdout.readline()
        moved = Cli(cli.here.rename(tmp_path / "moved"))
        said = follower.communicate()[1].decode()
    assert (follower.returncode, "was moved or deleted" in said, "first run" in said) == (2, True, False), (
        said
    )
    runner.wait()
    assert moved("abandon", "--yes").code == 0
