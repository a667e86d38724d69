"""`amend`: a run in flight gets its edited plan. What landed stays, and nothing is done again for a wrong check."""

from __future__ import annotations

import json
import subprocess
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import (
    COMMAND,
    Cli,
    cli_at_work,
    eventually,
    fails,
    is_alive,
    on_terminal,
    writes,
)
from tests.support.repositories import write

RUN = "01-try-it"


def _attempts(cli: Cli, task: str) -> list[dict[str, Any]]:
    (found,) = cli.json("inspect", task)["tasks"]
    attempts: list[dict[str, Any]] = found["attempts"]
    return attempts


def _edit(cli: Cli, *tasks: dict[str, Any], first: dict[str, Any] | None = None) -> None:
    """Edit the plan of a run at work: another first task, and more tasks."""
    path = cli.here / "plan.json"
    plan = json.loads(path.read_text())
    of_stage = plan["stages"][0]["tasks"] if "stages" in plan else plan["tasks"]
    of_stage[0] = first or of_stage[0]
    of_stage += tasks
    path.write_text(json.dumps(plan))


@pytest.fixture
def mistyped(tmp_path: Path) -> Cli:
    """A run that waits because its check has a typo: `a` is done, `b` never began."""
    cli = Cli.of(tmp_path / "p", writes("a"), writes("b"), verify=["tesst -e a.txt"], limits={"jobs": 1})
    assert cli("run", "--yes").code == 3
    return cli


def test_a_corrected_check_is_run_on_the_work_that_waits(mistyped: Cli) -> None:
    """One agent was paid, and its work lands; no attempt was charged."""
    before = _attempts(mistyped, "a")[0]["commit"]
    mistyped.plan(writes("a"), writes("b"), verify=["test -e a.txt || test -e b.txt"], limits={"jobs": 1})
    done = mistyped("amend", "--yes")
    assert (done.code, "verify: tesst -e a.txt → test -e a.txt" in done.out) == (0, True)
    assert "= task a: its work is checked again, not done again" in done.out
    assert mistyped("resume", "--yes").code == 0
    (attempt,) = _attempts(mistyped, "a")
    assert (attempt["outcome"], attempt["commit"]) == ("landed", before)


def test_a_dry_run_shows_the_difference_and_changes_nothing(blocked: Cli) -> None:
    """Added, changed field by field, dropped, and what landed stays as it is."""
    blocked.plan(
        writes("a", title="another title"), writes("c", needs=["a"]), limits={"attempts": 3}, base="main"
    )
    done = blocked("amend", "--dry-run")
    said = done.out
    for line in (
        "  limits.attempts: 1 → 3",
        "+ task c: new",
        "- task b: dropped; its work stays at its refs",
        "= task a: already landed, unchanged",
        "! base: main is not taken; a run keeps its base (HEAD)",
    ):
        assert line in said
    assert blocked.task("b")["status"] == "abandoned"


def test_an_amendment_is_asked_about(blocked: Cli) -> None:
    """Without a terminal it needs --yes; what the plan would run now and did not before is shown."""
    blocked.plan(writes("a"), writes("c", needs=["a"]), limits={"attempts": 1})
    refused = blocked("amend")
    assert (refused.code, "runs: sh -c 'echo c > c.txt'" in refused.err) == (3, True)
    code, said = on_terminal(blocked, "amend", answers="n\n")
    assert (code, "the run keeps its plan" in said) == (3, True)
    code, said = on_terminal(blocked, "amend", answers="y\n")
    assert (code, "has the amended plan" in said) == (0, True)
    assert blocked("resume", "--yes").code == 0


def test_what_landed_is_not_done_again(blocked: Cli) -> None:
    """A landed task that the plan changes stays landed, once."""
    landed = blocked.task("a")["merge_commit"]
    changed = {"id": "a", "run": ["sh", "-c", "echo other > a.txt"]}
    blocked.plan(changed, writes("b", needs=["a"]), limits={"attempts": 1})
    assert blocked("amend", "--yes").code == 0
    assert blocked("resume", "--yes").code == 0
    assert blocked.task("a")["merge_commit"] == landed
    assert blocked.project.git("show", f"holdfast/{RUN}:a.txt") == "a"


def test_a_landing_that_somebody_put_back_is_known_before_the_plan_is_amended(blocked: Cli) -> None:
    """Otherwise it would have landed before a task that it needs only since then."""
    ref, tip = f"refs/heads/holdfast/{RUN}", blocked.task("a")["merge_commit"]
    blocked.project.git("update-ref", ref, f"{tip}^")
    assert blocked("resume", "--yes").code == 1
    assert blocked.task("a")["status"] == "pending"
    blocked.project.git("update-ref", ref, tip)
    blocked.plan(writes("a", needs=["c"]), writes("b"), writes("c"), limits={"attempts": 1})
    refused = blocked("amend", "--yes")
    assert (refused.code, "task a is on the run branch again" in refused.err) == (2, True)
    assert blocked("resume", "--yes").code == 1
    assert blocked("amend", "--yes").code == 0
    assert blocked("resume", "--yes").code == 0
    assert blocked.task("a")["merge_commit"] == tip
    assert blocked("doctor").code == 0


def test_a_plan_that_the_run_has_is_said_and_nothing_is_asked(blocked: Cli) -> None:
    """Also if what landed is written otherwise in the file."""
    blocked.plan(writes("a", title="x"), fails("b", needs=["a"]), limits={"attempts": 1})
    done = blocked("amend")
    assert (done.code, f"{RUN} has this plan already." in done.out) == (0, True)


def test_programs_get_the_difference(blocked: Cli) -> None:
    """Everything that people read is there, and whether it was taken."""
    blocked.plan(writes("a"), writes("c", needs=["a"]), limits={"attempts": 1})
    view = blocked.json("amend", "--yes")
    assert view["amended"]
    assert {(one["id"], one["change"]) for one in view["difference"]["tasks"]} == {
        ("c", "added"),
        ("b", "dropped"),
    }
    assert view["fates"]["c"] == "new"


def test_the_webhooks_address_of_an_amended_plan_is_never_printed(blocked: Cli) -> None:
    """Not when it is amended, and not in the history of the run."""
    secret = {"webhook": "http://127.0.0.1:9/s3cret"}
    blocked.plan(writes("a"), writes("c", needs=["a"]), limits={"attempts": 1}, notify=secret)
    said = [blocked(*words) for words in (["amend", "--yes", "--json"], ["inspect"], ["inspect", "--json"])]
    assert "PlanAmended" in said[2].out
    assert not [done for done in said if "s3cret" in done.out + done.err]


def test_who_follows_a_run_is_not_told_the_webhooks_address_of_its_amended_plan(tmp_path: Path) -> None:
    """As little as who started it."""
    cli, runner, _ = cli_at_work(tmp_path)
    numbers, told = count(), tmp_path / "told"

    def is_told_of_an_amendment() -> bool:
        cli.plan(*(writes(name) for name in "ab"), goal=f"try it {next(numbers)}", notify=secret)
        assert cli("amend", "--yes").code == 0
        return "PlanAmended" in told.read_text()

    secret = {"webhook": "http://127.0.0.1:9/s3cret"}
    with (
        told.open("w") as out,
        subprocess.Popen([*COMMAND, "status", "-f", "--json"], cwd=cli.here, stdout=out) as follower,
    ):
        eventually(is_told_of_an_amendment, "the follower has seen an amendment")
        cli("stop")
        runner.wait()
    assert (follower.returncode, "s3cret" in told.read_text()) == (0, False)


def test_a_live_runner_takes_the_amended_plan(tmp_path: Path) -> None:
    """A new task is done beside the one under way; nobody has to stop the run."""
    cli, runner, agent = cli_at_work(tmp_path)
    _edit(cli, writes("c"))
    done = cli("amend", "--yes")
    assert (done.code, "Its runner goes on with it" in done.out) == (0, True)
    eventually(lambda: cli.task("c")["status"] == "completed", "c landed")
    assert is_alive(agent)
    cli("stop")
    runner.wait()


def test_restart_ends_only_the_agent_of_the_changed_task(tmp_path: Path) -> None:
    """Its work is kept, nothing is charged, and it begins again with what it is now."""
    cli, runner, agent = cli_at_work(tmp_path)
    _edit(cli, first=writes("a"))
    assert "its agent finishes what it began" in cli("amend", "--dry-run").out
    done = cli("amend", "--restart", "--yes")
    assert (done.code, "its agent is stopped, its work kept" in done.out) == (0, True)
    assert runner.wait() == 0
    assert not is_alive(agent)
    first, second = _attempts(cli, "a")
    assert (first["outcome"], bool(first["set_aside"]), second["outcome"]) == ("lost", True, "landed")
    assert cli.project.git("show", f"holdfast/{RUN}:a.txt") == "a"


def test_without_restart_the_agent_finishes_what_it_began(tmp_path: Path) -> None:
    """It works on after the amendment."""
    cli, runner, agent = cli_at_work(tmp_path)
    _edit(cli, first=writes("a"))
    assert cli("amend", "--yes").code == 0
    assert is_alive(agent)
    cli("stop")
    runner.wait()


def test_an_agent_that_was_left_to_finish_can_be_restarted_later(tmp_path: Path) -> None:
    """The run has the plan already, and its agent still works on what was asked before."""
    cli, runner, agent = cli_at_work(tmp_path)
    _edit(cli, first=writes("a"))
    assert cli("amend", "--yes").code == 0
    done = cli("amend", "--restart", "--yes")
    assert (done.code, "its agent is stopped, its work kept" in done.out) == (0, True)
    assert runner.wait() == 0
    assert not is_alive(agent)
    assert cli.project.git("show", f"holdfast/{RUN}:a.txt") == "a"


def test_the_difference_shows_what_differs_in_long_texts(blocked: Cli) -> None:
    """Two prompts that begin alike are told from where they part: that is what the user agrees to."""
    long = "x" * 100
    blocked.plan(writes("a"), {"id": "b", "run": ["sh", "-c", f"echo {long} one"]}, limits={"attempts": 1})
    blocked("amend", "--yes")
    blocked.plan(writes("a"), {"id": "b", "run": ["sh", "-c", f"echo {long} two"]}, limits={"attempts": 1})
    said = blocked("amend", "--dry-run").out
    assert ("one" in said, "two" in said) == (True, True)


def test_a_task_under_way_is_not_dropped(tmp_path: Path) -> None:
    """It is refused before anything is asked, and says what to do."""
    cli, runner, _ = cli_at_work(tmp_path)
    cli.plan(writes("c"))
    for done in (cli("amend", "--yes"), cli("amend", "--dry-run")):
        assert (done.code, "task a is running and cannot be dropped" in done.err) == (2, True)
    assert "- task a: under way, cannot be dropped" in cli("amend", "--dry-run").out
    cli("stop")
    runner.wait()
    assert cli("amend", "--yes").code == 0
    assert cli("resume", "--yes").code == 0
    assert [task["id"] for task in cli.json("status")["tasks"]] == ["c"]


def test_a_finished_run_is_not_amended(completed: Cli) -> None:
    """What is over stays as it is; the edited plan is a new run."""
    completed.plan(writes("a"), writes("b"))
    done = completed("amend", "--yes", "1")
    assert (done.code, "holdfast run" in done.err) == (2, True)


def test_a_bad_plan_is_refused_like_any_other(blocked: Cli) -> None:
    """Cycles, unknown needs and agents are found before anything is changed."""
    blocked.plan(writes("a"), writes("b", needs=["c"]), writes("c", needs=["b"]))
    done = blocked("amend", "--yes")
    assert (done.code, "need each other" in done.err) == (2, True)


def test_the_amended_plan_is_rebuilt_from_git(blocked: Cli) -> None:
    """The journal is gone: git has the plan as it was amended, and what landed."""
    blocked.plan(writes("a"), writes("c", needs=["a"]), limits={"attempts": 2})
    assert blocked("amend", "--yes").code == 0
    for path in blocked.here.glob(".holdfast/journal.db*"):
        path.unlink()
    assert blocked("rebuild", "--yes").code == 0
    assert {task["id"]: task["status"] for task in blocked.json("status")["tasks"]} == {
        "a": "completed",
        "c": "pending",
    }
    blocked.plan(writes("a"), writes("b", needs=["a"]), writes("c", needs=["a"]), limits={"attempts": 2})
    assert blocked("amend", "--yes").code == 0
    assert blocked("resume", "--yes").code == 0
    assert blocked.task("b")["attempts"] == 2
    assert blocked("doctor").code == 0


def test_the_past_of_an_amended_run_can_be_looked_at(blocked: Cli) -> None:
    """Before the amendment the run had the plan of that time; doctor finds the fold of all events sound."""
    before = blocked.json("inspect")["seq"]
    blocked.plan(writes("a"), writes("c", needs=["a"]), limits={"attempts": 1})
    assert blocked("amend", "--yes").code == 0
    tasks = blocked.json("inspect", "--at", str(before))["tasks"]
    assert [task["id"] for task in tasks] == ["a", "b"]
    assert [task["id"] for task in blocked.json("inspect")["tasks"]] == ["a", "c"]
    assert blocked("doctor").code == 0


def test_the_files_of_a_mirror_follow_the_amended_plan(blocked: Cli) -> None:
    """Another system's files show the new task as soon as the run has it."""
    assert blocked("mirror", "1", "apex").code == 0
    blocked.plan(writes("a"), writes("newcomer", needs=["a"]), limits={"attempts": 1})
    assert blocked("amend", "--yes").code == 0
    state = [
        path
        for path in blocked.here.rglob("*.json")
        if path.name != "plan.json" and ".holdfast" not in path.parts
    ]
    assert any("newcomer" in path.read_text() for path in state)


def test_a_plan_comes_from_a_pipe_like_that_of_a_run(blocked: Cli) -> None:
    """A run that began with a pipe has no plan file."""
    blocked.plan(writes("a"), writes("c", needs=["a"]), limits={"attempts": 1})
    text = (blocked.here / "plan.json").read_text()
    for words in (["-"], ["1", "-"]):
        assert "+ task c: new" in blocked.piped(text, "amend", *words, "--dry-run").out


def test_a_plan_file_that_is_not_there_is_named(blocked: Cli) -> None:
    """Whether it was named, or is the one that the run began with: nobody is told of a missing run."""
    assert "there is no plan file other.yaml" in blocked("amend", "other.yaml").err
    (blocked.here / "plan.json").unlink()
    done = blocked("amend")
    assert (done.code, "is gone: plan.json" in done.err) == (2, True)


def test_a_command_is_shown_as_a_shell_would_read_it(blocked: Cli) -> None:
    """Words of a command are no list to people."""
    blocked.plan(writes("a"), writes("b", needs=["a"]), limits={"attempts": 1})
    said = blocked("amend", "--dry-run").out
    assert "run: sh -c 'echo no luck; exit 3' → sh -c 'echo b > b.txt'" in said


def test_what_a_new_task_is_to_do_is_shown(blocked: Cli) -> None:
    """Its own fields are part of what the user agrees to; a long prompt is wrapped, not cut after a few words."""
    prompt = "Limit the requests of each client. " * 6
    asks = {"id": "c", "needs": ["a"], "prompt": prompt, "agent": "claude"}
    blocked.plan(writes("a"), fails("b", needs=["a"]), asks, limits={"attempts": 1})
    said = blocked("amend", "--dry-run").out
    assert ("needs: a" in said, "agent: claude" in said) == (True, True)
    assert " ".join(said.split()).count("Limit the requests") == 6


def test_an_agent_that_was_agreed_to_for_a_task_needs_no_new_agreement_after_an_amendment(
    tmp_path: Path,
) -> None:
    """The user said yes to the agent and to the amended plan: the run goes on without a question."""
    agents = {"mine": {"command": ["false"]}, "other": {"command": ["sh", "-c", "echo done > out.txt"]}}
    task = {"id": "a", "prompt": "do it"}
    cli = Cli.of(tmp_path / "p", task, agent="mine", agents=agents, limits={"attempts": 1})
    assert cli("run", "--yes").code == 1
    assert cli("retry", "a", "--agent", "other", "--yes").code == 0
    cli.plan(task, agent="mine", agents=agents, limits={"attempts": 1}, verify=["test -e out.txt"])
    assert cli("amend", "--yes").code == 0
    done = cli("resume")
    assert (done.code, cli.run_status()) == (0, "completed"), done.err


def test_an_agent_that_was_redefined_is_shown_before_its_run_is_amended(tmp_path: Path) -> None:
    """Agents can write `agents.toml`. Who says yes to another prompt must not agree to that unseen."""
    cli = Cli.of(tmp_path / "p", {"id": "a", "prompt": "x"}, agent="mine", limits={"attempts": 1})
    own = cli.here / ".holdfast" / "agents.toml"
    write(own, '[mine]\ncommand = ["false"]\n')
    assert cli("run", "--yes").code == 1
    write(own, '[mine]\ncommand = ["touch", "evil"]\n')
    cli.plan({"id": "a", "prompt": "y"}, agent="mine", limits={"attempts": 1})
    refused = cli("amend")
    assert (refused.code, "agent mine starts: touch evil" in refused.err) == (3, True)
