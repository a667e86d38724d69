"""`inspect`: what a run and its attempts left behind."""

from __future__ import annotations

from pathlib import Path

from tests.support.command import Cli, cli_at_work, killed_cli
from tests.support.scripted_agents import (
    FINISHED,
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


def test_inspect_shows_every_attempt_with_its_error(ended: Cli) -> None:
    """Kind, times, error and output of each: what the next attempt was told."""
    (task,) = ended.json("inspect", "1", "b")["tasks"]
    assert [(a["attempt"], a["kind"], a["outcome"]) for a in task["attempts"]] == [
        (1, "implementation", "failed"),
        (2, "implementation", "failed"),
    ]
    error = task["attempts"][0]["errors"][0]
    assert (error["failure"], error["detail"].strip()) == ("agent", "no luck")
    assert "no luck" in ended("inspect", "1", "b").out


def test_inspect_names_the_commits_and_refs_of_a_landed_task(ended: Cli) -> None:
    """Each commit is kept under a ref that git knows."""
    (task,) = ended.json("inspect", "1", "a")["tasks"]
    assert ended.project.git("rev-parse", task["refs"][0]) == task["attempts"][0]["commit"]


def test_inspect_shows_a_run_as_it_was(ended: Cli) -> None:
    """`--at` folds the events up to a number; the run looked different then."""
    events = ended.json("inspect", "1")["events"]
    landed = next(line["seq"] for line in events if line["event"]["kind"] == "TaskLanded")
    before = ended.json("inspect", "1", "--at", str(landed - 1))
    assert [task["status"] for task in before["tasks"]] == ["merging", "pending", "pending"]
    assert before["run"]["status"] == "running"
    assert ended("inspect", "1", "--at", "9999").code == 2


def test_a_brief_is_json_for_programs_too(ended: Cli) -> None:
    """`--json` holds wherever it is offered."""
    assert ended.json("inspect", "1", "c", "--brief").startswith("# Task c\n")


def test_the_brief_of_an_attempt_and_of_the_next_one_can_be_read(blocked: Cli) -> None:
    """A9: what the agent was told, and what the next would be told."""
    assert "# Task b" in blocked("inspect", "1", "b", "--brief", "--attempt", "1").out
    following = blocked("inspect", "1", "b", "--brief").out
    assert "This is attempt 2" in following
    assert "no luck" in following
    assert blocked("inspect", "1", "b", "--brief", "--attempt", "7").code == 2


def test_snapshots_are_listed_and_restored(tmp_path: Path) -> None:
    """C3: unfinished work can be had back without resuming, never over existing files."""
    cli, _ = killed_cli(tmp_path)
    cli("stop")
    (saved,) = cli.json("inspect", "1", "a", "--wip")
    assert (saved["number"], saved["files"]) == (1, 1)
    assert "WIP a: checkpoint 1, 1 file changed" in saved["message"]
    target = tmp_path / "restored"
    assert cli("inspect", "1", "a", "--restore", str(target)).code == 0
    assert (target / "half.txt").read_text() == "half\n"
    assert cli("inspect", "1", "a", "--restore", str(target)).code == 2
    assert cli("inspect", "1", "a", "--restore", str(tmp_path / "x"), "--snapshot", "9").code == 2


def test_one_word_says_that_work_is_kept(tmp_path: Path) -> None:
    """Finished or not, by an attempt or by a snapshot: nobody has to find out whether two words differ."""
    cli, runner, _ = cli_at_work(tmp_path)
    assert cli("save").code == 0
    shown = cli("inspect", "1", "a").out
    assert "\n  unfinished work is kept as " in shown
    assert "a: unfinished work kept, " in shown
    assert cli("stop").code == 0
    runner.wait()
    assert "saved" not in shown + cli("inspect", "1", "a").out


def test_inspect_tells_what_each_attempt_used_and_where_it_ended(tmp_path: Path) -> None:
    """The limited attempt is no failure; tokens and session are on record."""
    limit = agent_fails("You have hit your usage limit. Please try again in 1s.")
    script = once(tmp_path / "hit", f"{say(THREAD, uses(30), limit)}; exit 1", work())
    cli = Cli.of(tmp_path / "p", {"id": "a", "prompt": "x"}, agent="c", agents={"c": codex(script)})
    assert cli("run", "--yes").code == 0
    first, second = cli.json("inspect", "1", "a")["tasks"][0]["attempts"]
    assert (first["outcome"], first["tokens"], first["session"]) == ("limited", 30, "T-1")
    assert (second["outcome"], second["tokens"]) == ("landed", 100)


def test_an_attempt_that_ended_in_an_outage_is_not_called_limited(tmp_path: Path) -> None:
    """Its outcome, its error and the timeline say that the provider was out of reach."""
    script = once(tmp_path / "hit", f"{say(refused(503))}; exit 1", f"{say(FINISHED)}; echo x > a.txt")
    limits = {"limit_wait": 0.2}
    cli = Cli.of(
        tmp_path / "p", {"id": "a", "prompt": "x"}, agent="c", agents={"c": claude(script)}, limits=limits
    )
    assert cli("run", "--yes").code == 0
    first, _ = cli.json("inspect", "1", "a")["tasks"][0]["attempts"]
    assert (first["outcome"], first["errors"][0]["failure"]) == ("outage", "outage")
    shown = cli("inspect", "1", "a").out
    assert "attempt 1 (implementation): outage" in shown
    assert "a: attempt 1 does not reach anthropic" in shown
    assert "limit" not in shown


def test_one_word_names_a_run_or_a_task_whichever_it_fits(ended: Cli) -> None:
    """A task needs no run in front of it, and the beginning of a name is enough."""
    run = ended.json("status")["run"]["id"]
    assert [task["id"] for task in ended.json("inspect", "b")["tasks"]] == ["b"]
    assert len(ended.json("inspect", run)["tasks"]) == len(ended.json("inspect", "1")["tasks"]) == 3
    assert ended("inspect", "zzz").code == 2
