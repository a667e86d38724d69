"""News of a run: a command and a webhook are told, and neither can hold the run up or fail it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.core import events as ev
from holdfast.core.status import RunStatus
from tests.support.command import Cli, writes
from tests.support.http_receiver import http_receiver
from tests.support.repositories import Project
from tests.support.runs import Trial, sh, stage


def _trial(tmp_path: Path, script: str = "echo a > a.txt", **notify: Any) -> Trial:
    return Trial.of(
        Project.create(tmp_path / "p"), stage("one", sh("A", script)), notify=notify, limits={"attempts": 1}
    )


def _told(trial: Trial) -> list[tuple[str, str]]:
    return [(event.channel, event.error) for event in trial.of_kind(ev.NotificationFailed)]


def _status(code: int, location: str = "") -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        if location:
            handler.send_header("Location", location)
        handler.end_headers()

    return answer


def _wait(over: threading.Event) -> None:
    assert over.wait(60)


def test_a_command_gets_the_news_of_a_finished_run_on_its_standard_input(tmp_path: Path) -> None:
    """Event, run, goal, status, reason, counts, branch."""
    trial = _trial(tmp_path, command=["sh", "-c", f"cat > {tmp_path}/news"])
    assert trial.execute() is RunStatus.COMPLETED
    assert msgspec.json.decode((tmp_path / "news").read_bytes()) == {
        "event": "finished",
        "run": "01-try-it",
        "goal": "Try it",
        "status": "completed",
        "reason": "",
        "branch": "holdfast/01-try-it",
        "counts": {"tasks": 1, "completed": 1, "failed": 0},
    }
    assert _told(trial) == []


def _news(tmp_path: Path) -> list[Any]:
    """Return what the command was told, in order."""
    return [msgspec.json.decode(line) for line in (tmp_path / "news").read_bytes().splitlines()]


def _noting(tmp_path: Path) -> list[str]:
    """Return a command that notes each notification on a line of its own, whole even if two come at once."""
    return ["sh", "-c", f"flock {tmp_path}/lock sh -c 'cat >> {tmp_path}/news; echo >> {tmp_path}/news'"]


def test_each_failure_and_the_abandoned_task_are_told_if_that_is_asked_for(tmp_path: Path) -> None:
    """Which task, which attempt and what went wrong; what was not asked for is not told."""
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", "exit 7"), sh("B", "echo b > b.txt; sync", verify=["false"], attempts=1)),
        notify={"command": _noting(tmp_path), "on": ["task_failed", "task_abandoned"]},
        limits={"attempts": 2, "retry_delay": 0, "keep_going": True, "jobs": 1},
    )
    assert trial.execute() is RunStatus.BLOCKED
    told = sorted((one["task"], one["event"], one["attempt"]) for one in _news(tmp_path))
    assert told == [
        ("A", "task_abandoned", 2),
        ("A", "task_failed", 1),
        ("A", "task_failed", 2),
        ("B", "task_abandoned", 1),
        ("B", "task_failed", 1),
    ]
    reasons = {one["task"]: one["reason"] for one in _news(tmp_path) if one["event"] == "task_failed"}
    assert "exit" in reasons["A"]
    assert "false" in reasons["B"]
    assert _told(trial) == []


@pytest.mark.parametrize("keep_going", [True, False])
def test_an_abandoned_task_is_told_by_default_if_the_run_goes_on(tmp_path: Path, keep_going: bool) -> None:
    """Else the run stops for it and says so: once is enough."""
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", "exit 7"), sh("B", "echo b > b.txt")),
        notify={"command": _noting(tmp_path)},
        limits={"attempts": 1, "keep_going": keep_going, "jobs": 1},
    )
    trial.execute()
    assert ("task_abandoned" in [one["event"] for one in _news(tmp_path)]) == keep_going
    assert "needs_decision" in [one["event"] for one in _news(tmp_path)]


def test_a_webhook_gets_the_news_of_a_run_that_needs_a_decision(tmp_path: Path) -> None:
    """The same JSON, with the reason."""
    with http_receiver(_status(204)) as (url, posted):
        trial = _trial(tmp_path, "exit 1", webhook=url)
        assert trial.execute() is RunStatus.BLOCKED
    (news,) = map(msgspec.json.decode, posted)
    assert (news["event"], news["status"]) == ("needs_decision", "blocked")
    assert "A abandoned" in news["reason"]
    assert _told(trial) == []


def test_the_address_of_a_webhook_may_be_in_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address is a secret, and a plan is kept: `$NAME` is read when there is something to post."""
    with http_receiver(_status(204)) as (url, posted):
        monkeypatch.setenv("TEAM_WEBHOOK", url)
        trial = _trial(tmp_path, webhook="$TEAM_WEBHOOK")
        assert trial.execute() is RunStatus.COMPLETED
    assert len(posted) == 1
    assert _told(trial) == []


def test_a_webhook_whose_variable_is_not_set_is_told(tmp_path: Path) -> None:
    """The run goes on, and its journal says what is missing."""
    trial = _trial(tmp_path, webhook="$NO_SUCH_WEBHOOK")
    assert trial.execute() is RunStatus.COMPLETED
    assert _told(trial) == [("the webhook at $NO_SUCH_WEBHOOK", "this variable is not set")]


def test_a_webhook_that_answers_with_an_error_is_told_without_its_address(tmp_path: Path) -> None:
    """The run is as completed as ever; the journal has one line, and the secret path is not in it."""
    with http_receiver(_status(500)) as (url, _):
        trial = _trial(tmp_path, webhook=url)
        assert trial.execute() is RunStatus.COMPLETED
    assert _told(trial) == [("the webhook at http://127.0.0.1/…", "it answered with 500")]
    assert trial.violations() == []


def test_a_webhook_is_not_followed_to_another_place(tmp_path: Path) -> None:
    """A redirection is an error, whatever it leads to."""
    with http_receiver(_status(200)) as (other, reached), http_receiver(_status(307, other)) as (url, _):
        trial = _trial(tmp_path, webhook=url)
        trial.execute()
    assert reached == []
    assert _told(trial)[0][1] == "it answered with 307"


def test_a_webhook_that_hangs_does_not_hold_the_run_up(tmp_path: Path) -> None:
    """The run ends after a few seconds, although the server never answers."""
    over = threading.Event()
    with http_receiver(lambda _: _wait(over)) as (url, posted):
        trial = _trial(tmp_path, webhook=url)
        try:
            assert trial.execute() is RunStatus.COMPLETED
        finally:
            over.set()
    assert len(posted) == 1
    assert [whom for whom, _ in _told(trial)] == ["the webhook at http://127.0.0.1/…"]


def test_nobody_listening_is_told_and_nothing_more(tmp_path: Path) -> None:
    """A service that is down is no reason to fail."""
    with http_receiver(_status(200)) as (url, _):
        closed = url
    trial = _trial(tmp_path, webhook=closed)
    assert trial.execute() is RunStatus.COMPLETED
    assert "refused" in _told(trial)[0][1]


def test_a_command_that_hangs_is_ended_and_told(tmp_path: Path) -> None:
    """Nothing of the run lives on after it."""
    trial = _trial(tmp_path, command=["sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 1000"])
    assert trial.execute() is RunStatus.COMPLETED
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()
    assert [whom for whom, _ in _told(trial)] == ["the command sh"]
    assert trial.violations() == []


def test_a_command_that_fails_or_does_not_exist_is_told(tmp_path: Path) -> None:
    """One line each."""
    failing = _trial(tmp_path / "1", command=["false"])
    missing = _trial(tmp_path / "2", command=["no-such-program"])
    assert failing.execute() is missing.execute() is RunStatus.COMPLETED
    assert _told(failing) == [("the command false", "it exited with 1")]
    assert "not found" in _told(missing)[0][1]


def test_the_webhooks_address_is_never_printed(tmp_path: Path) -> None:
    """Not when consent is asked for, not in a dry run, not in the history of a run that could not tell it."""
    cli = Cli.of(tmp_path / "p", writes("a"), notify={"webhook": "http://127.0.0.1:9/s3cret"})
    said = [
        cli("run"),
        cli("run", "--dry-run", "--json"),
        cli("run", "--yes", "--json"),
        *(cli(*words) for words in (["inspect"], ["inspect", "--json"], ["status"], ["recap"])),
    ]
    assert "was not notified" in said[3].out
    assert not [done for done in said if "s3cret" in done.out + done.err]
