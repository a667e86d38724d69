"""`give`: what a person did by hand is committed, checked and landed like any attempt, or goes back to the agents."""

from __future__ import annotations

from pathlib import Path

from tests.support.command import Cli, cli_at_work, eventually, fails, writes
from tests.support.repositories import git
from tests.support.runs import Fifo


def _workspace(cli: Cli, task: str = "b") -> Path:
    return cli.here / ".holdfast" / "work" / "01-try-it" / f"taken-{task}"


def _take(cli: Cli, task: str = "b", **files: str) -> None:
    """Take a task and write these files."""
    assert cli("take", task).code == 0
    for name, text in files.items():
        (_workspace(cli, task) / name).write_text(text)


def test_what_is_given_lands_as_an_attempt_of_the_person(blocked: Cli) -> None:
    """With its message, the trailers and the next number; the workspace is gone when the run is over."""
    _take(blocked, mine="mine\n")
    done = blocked("give", "b", "-m", "Made by hand")
    assert (done.code, "holdfast resume" in done.out) == (0, True)
    assert blocked("resume", "--yes").code == 0
    assert git(blocked.here, "show", "holdfast/01-try-it:mine") == "mine"
    merge = git(blocked.here, "log", "-1", "--format=%B", "holdfast/01-try-it")
    assert "Holdfast-Task: b\nHoldfast-Attempt: 2" in merge
    assert git(blocked.here, "log", "-1", "--format=%s", "holdfast/01-try-it^2") == "Made by hand"
    assert (blocked.task("b")["agent"], blocked.task("b")["attempts"]) == ("you", 2)
    assert not _workspace(blocked).exists()


def test_a_live_runner_checks_and_lands_what_is_given(tmp_path: Path) -> None:
    """While another task is at work."""
    busy = Fifo(tmp_path / "busy")
    other: dict[str, object] = {"id": "b", "run": ["sh", "-c", f"{busy.give}; sleep 60"]}
    cli, runner, _ = cli_at_work(tmp_path, other)
    busy.wait()
    _take(cli, "a", mine="mine\n")
    assert "goes on with it" in cli("give", "a").out
    eventually(lambda: cli.task("a")["status"] == "completed", "it landed")
    cli("stop")
    runner.wait()
    assert git(cli.here, "show", "holdfast/01-try-it:mine") == "mine"


def test_the_status_of_a_run_at_rest_says_what_is_given(blocked: Cli) -> None:
    """Neither that the task is abandoned or taken, nor a command that would be refused."""
    _take(blocked, mine="mine\n")
    assert blocked("give", "b").code == 0
    detail = blocked.json("status")["run"]["detail"]
    assert detail == "b is given by you; it is taken in when the run goes on"
    assert blocked.task("b")["error"] == "is given by you; it is taken in when the run goes on"


def test_giving_a_task_of_a_run_that_is_over_does_not_lead_to_take(completed: Cli) -> None:
    """Nobody can take it: the run is completed."""
    done = completed("give", "a")
    assert (done.code, "run 01-try-it is completed" in done.err) == (2, True), done.err
    assert "holdfast take" not in done.err


def test_giving_a_landed_task_does_not_lead_to_take(blocked: Cli) -> None:
    """Nobody can take it: it has landed."""
    done = blocked("give", "a")
    assert (done.code, "task a is completed" in done.err) == (2, True), done.err
    assert "holdfast take" not in done.err


def _checked(tmp_path: Path) -> Cli:
    """Return a run whose task `b` was abandoned, and that is checked for a file `good`."""
    cli = Cli.of(tmp_path / "p", fails("b", verify=["test -f good"]), limits={"attempts": 1})
    assert cli("run", "--yes").code == 1
    return cli


def test_a_failed_check_comes_back_to_the_person_and_charges_nothing(tmp_path: Path) -> None:
    """The feedback is shown, the workspace is as it was, and the next try lands."""
    cli = _checked(tmp_path)
    _take(cli, mine="mine\n")
    cli("give", "b")
    assert cli("resume", "--yes").code == 3
    assert "`test -f good` exited with 1" in cli("status").out
    assert (_workspace(cli) / "mine").read_text() == "mine\n"
    (_workspace(cli) / "good").write_text("good\n")
    cli("give", "b")
    assert cli("resume", "--yes").code == 0
    assert cli.task("b")["attempts"] == 3


def _by_agent(path: Path, script: str, **more: object) -> Cli:
    """Return a run of one task of an agent, which did not get it done."""
    agent = {"command": ["sh", "-c", script]}
    task = {"id": "b", "prompt": "do it", **more}
    cli = Cli.of(path, task, agent="one", agents={"one": agent}, limits={"attempts": 1})
    assert cli("run", "--yes", "--no-preflight").code == 1
    return cli


def test_an_agents_work_that_a_person_gives_as_it_is_is_checked_again(tmp_path: Path) -> None:
    """The person mended what the check needs, outside of the workspace. Only an agent has to change a file."""
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\nexit 1\n")
    tool.chmod(0o755)
    cli = _by_agent(tmp_path / "p", "echo b > b.txt", verify=[str(tool)])
    _take(cli)
    tool.write_text("#!/bin/sh\nexit 0\n")
    assert cli("give", "b").code == 0
    done = cli("resume", "--yes")
    assert done.code == 0, done.out
    assert git(cli.here, "show", "holdfast/01-try-it:b.txt") == "b"


def test_a_person_who_gives_nothing_is_told_so(tmp_path: Path) -> None:
    """In words about the person: no agent reported anything."""
    cli = _by_agent(tmp_path / "p", "exit 3")
    _take(cli)
    assert cli("give", "b").code == 0
    done = cli("resume", "--yes")
    assert (done.code, "agent reported" in done.out) == (3, False), done.out
    assert "what you gave changes no file" in done.out


def test_what_is_given_anew_replaces_what_waited_for_a_check(tmp_path: Path) -> None:
    """A check could not run. The person gives again: that is checked and lands, not what waited."""
    tool = tmp_path / "tool"
    cli = Cli.of(tmp_path / "p", fails("b", verify=[str(tool)]), limits={"attempts": 1, "jobs": 2})
    assert cli("run", "--yes").code == 1
    _take(cli, mine="first\n")
    assert cli("give", "b").code == 0
    assert cli("resume", "--yes").code == 3
    tool.write_text("#!/bin/sh\ngrep -q second mine\n")
    tool.chmod(0o755)
    (_workspace(cli) / "mine").write_text("second\n")
    assert cli("give", "b").code == 0
    (foretold,) = cli.json("resume", "--dry-run")["report"]["tasks"]
    assert foretold["move"] == "collect"
    done = cli("resume", "--yes")
    assert done.code == 0, done.err
    assert git(cli.here, "show", "holdfast/01-try-it:mine") == "second"


def test_what_is_given_back_is_continued_by_an_agent(tmp_path: Path) -> None:
    """It finds the person's work, and has all attempts."""
    script = "test -f mine && echo done > done.txt"
    cli = Cli.of(tmp_path / "p", {"id": "b", "run": ["sh", "-c", script]}, limits={"attempts": 1})
    assert cli("run", "--yes").code == 1
    _take(cli, mine="mine\n")
    assert "back to the agents" in cli("give", "b", "--back").out
    assert cli("resume", "--yes").code == 0
    tip = git(cli.here, "ls-tree", "--name-only", "holdfast/01-try-it").split()
    assert {"mine", "done.txt"} <= set(tip)


def test_what_is_given_back_is_continued_and_not_fixed(tmp_path: Path) -> None:
    """Nothing is wrong with it: neither the label nor the brief says so."""
    cli = Cli.of(tmp_path / "p", fails("b"), limits={"attempts": 1})
    cli("run", "--yes")
    _take(cli, mine="mine\n")
    cli("give", "b", "--back")
    shown = cli("resume", "--yes")
    assert "b: attempt 3 started (continuation)" in shown.out + shown.err
    assert "b: attempt 2 started (person)" in shown.out + shown.err


def test_a_persons_own_commits_land_with_the_work(blocked: Cli) -> None:
    """Git works in the workspace as usual."""
    _take(blocked, mine="mine\n")
    git(_workspace(blocked), "add", "mine")
    git(_workspace(blocked), "commit", "-q", "-m", "my own commit")
    (_workspace(blocked) / "more").write_text("more\n")
    blocked("give", "b")
    assert blocked("resume", "--yes").code == 0
    said = git(blocked.here, "log", "--format=%s", "holdfast/01-try-it")
    assert "my own commit" in said
    assert git(blocked.here, "show", "holdfast/01-try-it:more") == "more"


def _messages(cli: Cli) -> list[str]:
    """Return the first lines of the last landing and of the work that it brought in."""
    return git(cli.here, "log", "-2", "--topo-order", "--format=%s", "holdfast/01-try-it").splitlines()


def test_a_message_is_not_lost_when_the_work_is_given_again(tmp_path: Path) -> None:
    """A check refused it the first time; nobody types the same message twice. Another one replaces it."""
    cli = _checked(tmp_path)
    _take(cli, mine="mine\n")
    cli("give", "b", "-m", "Made by hand")
    assert cli("resume", "--yes").code == 3
    (_workspace(cli) / "good").write_text("good\n")
    cli("give", "b")
    assert cli("resume", "--yes").code == 0
    assert _messages(cli) == ["Land b: Made by hand", "Made by hand"]


def test_the_latest_message_counts(tmp_path: Path) -> None:
    """Who corrects the work may say so."""
    cli = _checked(tmp_path)
    _take(cli, mine="mine\n")
    cli("give", "b", "-m", "A first try")
    assert cli("resume", "--yes").code == 3
    (_workspace(cli) / "good").write_text("good\n")
    cli("give", "b", "-m", "Made by hand")
    assert cli("resume", "--yes").code == 0
    assert _messages(cli) == ["Land b: Made by hand", "Made by hand"]


def _commit_wip(cli: Cli) -> None:
    git(_workspace(cli), "add", "-A")
    git(_workspace(cli), "commit", "-q", "-m", "WIP")


def test_the_message_counts_also_if_the_person_committed_everything(blocked: Cli) -> None:
    """The person's own commits are below a commit with the message."""
    _take(blocked, mine="mine\n")
    _commit_wip(blocked)
    blocked("give", "b", "-m", "Made by hand")
    assert blocked("resume", "--yes").code == 0
    assert _messages(blocked) == ["Land b: Made by hand", "Made by hand"]
    assert "WIP" in git(blocked.here, "log", "--format=%s", "holdfast/01-try-it")


def test_a_persons_own_commit_is_not_the_message_of_the_task(blocked: Cli) -> None:
    """Without `-m` the title of the task is, as for any attempt."""
    _take(blocked, mine="mine\n")
    _commit_wip(blocked)
    blocked("give", "b")
    assert blocked("resume", "--yes").code == 0
    assert _messages(blocked) == ["Land b", "b"]


def test_a_conflict_is_handed_to_the_person_with_both_sides(tmp_path: Path) -> None:
    """`take` again puts the merge with its markers into the workspace; resolved, it lands."""
    cli = Cli.of(tmp_path / "p", fails("b"), writes("a"), limits={"attempts": 1, "jobs": 1})
    assert cli("run", "--yes").code == 1
    _take(cli, **{"a.txt": "mine\n"})
    assert cli("resume", "--yes").code == 3
    assert cli.task("a")["status"] == "completed"
    cli("give", "b")
    assert cli("resume", "--yes").code == 3
    assert cli("take", "b").code == 0
    text = (_workspace(cli) / "a.txt").read_text()
    assert ("<<<<<<<" in text, "mine" in text) == (True, True)
    (_workspace(cli) / "a.txt").write_text("a\nmine\n")
    cli("give", "b")
    assert cli("resume", "--yes").code == 0
    assert git(cli.here, "show", "holdfast/01-try-it:a.txt") == "a\nmine"


def test_what_the_plan_brings_is_there_for_the_person_and_never_lands(tmp_path: Path) -> None:
    """Not even if the person commits it; what stands at the place of a kept folder does not land, either."""
    workspace = {"copy": [".env"], "link": ["models"], "keep": ["packages"]}
    cli = Cli.of(tmp_path / "p", fails("b"), limits={"attempts": 1}, workspace=workspace)
    (cli.here / ".env").write_text("secret\n")
    (cli.here / "models").mkdir()
    assert cli("run", "--yes", "--no-sandbox").code == 1
    _take(cli, mine="mine\n")
    here = _workspace(cli)
    assert ((here / ".env").read_text(), (here / "models").is_symlink()) == ("secret\n", True)
    (here / "packages").mkdir()
    (here / "packages" / "one").write_text("1\n")
    git(here, "add", "-A")
    git(here, "commit", "-qm", "mine")
    cli("give", "b")
    assert cli("resume", "--yes").code == 0
    history = git(cli.here, "log", "-m", "--format=", "--name-only", "holdfast/01-try-it").splitlines()
    assert {path.partition("/")[0] for path in history} & {"mine", ".env", "models", "packages"} == {"mine"}


def test_a_task_that_nobody_has_cannot_be_given(blocked: Cli) -> None:
    """The error says how to take it."""
    done = blocked("give", "b")
    assert (done.code, "holdfast take 1 b" in done.err) == (2, True)


def test_what_is_given_may_be_given_otherwise_until_it_is_taken_in(blocked: Cli) -> None:
    """`take` does not say that it is the person's, but what can be done; `--back` gives it to the agents instead."""
    _take(blocked, mine="mine\n")
    assert blocked("give", "b").code == 0
    said = blocked("take", "b").out
    assert ("b is yours" in said, "holdfast give 1 b --back" in said) == (False, True)
    assert blocked("give", "b", "--back").code == 0
    shown = blocked("resume", "--yes")
    assert "b: attempt 3 started (continuation)" in shown.out + shown.err
