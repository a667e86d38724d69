"""`list`: every run in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import Cli, eventually
from tests.support.scripted_agents import claude, refused, say


def test_list_shows_every_run(ended: Cli) -> None:
    """Status, last stage, time and whether it can be resumed."""
    (line,) = ended.json("list")
    assert (line["id"], line["status"], line["stage"], line["resumable"]) == (
        "01-try-it",
        "blocked",
        "main",
        True,
    )
    assert "01-try-it" in ended("list").out


def test_list_tells_how_much_landed_and_where_the_result_is(completed: Cli) -> None:
    """n of m, and the branch: whoever has ten runs looks at one table."""
    assert "1/1" in completed("list").out
    assert "to land" in completed("list").out
    completed("land", "--yes")
    assert completed.json("list")[0]["landed_in"] == ["main"]
    assert "in main" in completed("list").out


def test_a_discarded_result_is_not_offered_for_landing(completed: Cli) -> None:
    """It says what was decided, to programs as well."""
    assert completed("discard", "--yes").code == 0
    listed = completed("list").out
    assert ("discarded" in listed, "to land" in listed) == (True, False)
    assert completed.json("list")[0]["discarded"] is True


def test_a_result_that_landed_elsewhere_and_lost_its_branch_was_not_discarded(completed: Cli) -> None:
    """Its branch is archived, too; the branch with the result is named."""
    completed.project.git("branch", "next")
    assert completed("land", "--squash", "--into", "next", "--delete-branch", "--yes").code == 0
    assert "in next" in completed("list").out
    (line,) = completed.json("list")
    assert (line["discarded"], line["landed_in"]) == (False, ["next"])


def test_after_everything_was_cleaned_the_summaries_are_named(completed: Cli) -> None:
    """There was a run here, so nobody is told that there never was one."""
    completed("clean", "--all", "--yes")
    for command in ("list", "status"):
        said = completed(command).out
        assert "No run here now" in said
        assert str(completed.here / ".holdfast" / "outputs") in said


def test_tasks_that_never_began_are_counted(ended: Cli) -> None:
    """`list` and `status` agree on how many there are."""
    (line,) = ended.json("list")
    assert (line["completed"], line["tasks"]) == (1, ended.json("status")["metrics"]["tasks"])


@pytest.mark.parametrize(
    ("status", "words", "reason"), [(429, "limit", "limit"), (503, "unreachable", "outage")]
)
def test_a_run_whose_provider_is_waited_for_is_not_plainly_running(
    tmp_path: Path, status: int, words: str, reason: str
) -> None:
    """Whoever looks at the list sees that it waits, and for what; programs get what `status` gives them."""
    agents = {"c": claude(f"{say(refused(status))}; exit 1")}
    task = {"id": "a", "prompt": "x"}
    cli = Cli.of(tmp_path / "p", task, agent="c", agents=agents, limits={"limit_wait": "30m"})
    runner = cli.start("run", "--yes")
    eventually(lambda: bool(cli.json("list") and cli.json("list")[0]["providers"]), "its provider is parked")
    (line,), shown = cli.json("list"), cli("list").out
    assert (line["status"], line["ending"]) == ("running", "running")
    assert [one["reason"] for one in line["providers"]] == [reason]
    assert f"running ({reason})" in shown
    assert "(waits: anthropic" in shown
    assert words in shown
    assert cli("stop").code == 0
    runner.wait()
