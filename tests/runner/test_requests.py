"""Requests of other processes: each becomes the one event that is meant, and who asks to save is answered once it is saved."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from holdfast.core import events as ev
from holdfast.core.status import RunStatus
from holdfast.fleet.protocol import LaunchSpec
from holdfast.paths import StateDir
from holdfast.runner.requests import Request, SaveRequests, event_for, pending_requests, send_request
from holdfast.testing import FunctionFleet
from tests.support.command import eventually
from tests.support.power_cut import left_in
from tests.support.repositories import Project
from tests.support.runs import Trial, sh, stage


def test_who_asks_while_a_save_is_under_way_waits_for_the_next() -> None:
    """A save that began before the question may lack what was written since."""

    async def play() -> None:
        checkpoints = SaveRequests()
        with checkpoints.open_for("t") as wanted:
            with checkpoints.taking("t"):
                asked = asyncio.ensure_future(checkpoints.take())
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert (asked.done(), wanted.is_set()) == (False, True)
            with checkpoints.taking("t"):
                assert not wanted.is_set()
            await asked

    asyncio.run(play())


def test_nobody_waits_for_an_attempt_that_has_ended() -> None:
    """What it leaves is kept by its end."""

    async def play() -> None:
        checkpoints = SaveRequests()
        with checkpoints.open_for("t"):
            asked = asyncio.ensure_future(checkpoints.take())
            await asyncio.sleep(0)
        await asked

    asyncio.run(play())


_ACTIONS = get_args(get_type_hints(Request)["action"])


@pytest.mark.parametrize("action", [name for name in _ACTIONS if name not in ("skip", "save")])
def test_only_a_request_to_skip_skips_a_task(action: str) -> None:
    """An action that somebody adds and forgets to handle must not skip a task."""
    request = Request(action=action, task="a", stage="s", system="apex")  # type: ignore[arg-type]
    assert not isinstance(event_for(request, "1"), ev.TaskSkipped)


def test_a_request_to_skip_skips_the_task_that_it_names() -> None:
    """The user's word about one task is about that task alone."""
    assert event_for(Request(action="skip", task="a"), "1") == ev.TaskSkipped(task="a", request="1")


def test_an_unknown_request_is_refused() -> None:
    """Nothing is done for a request that nobody understands."""
    with pytest.raises(KeyError):
        event_for(Request(action="restart", task="a"), "1")  # type: ignore[arg-type]


def test_a_request_that_was_taken_back_meanwhile_does_not_hide_the_others(tmp_path: Path) -> None:
    """`stop` removes its own once the run rests, and the next runner may be starting at that moment."""
    directory = StateDir(tmp_path / ".holdfast").run("01-run")
    send_request(directory, Request(action="stop"))
    (directory.requests / "gone.json").symlink_to("nowhere")  # it has a name, and nothing to read
    assert [request for _, request in pending_requests(directory)] == [Request(action="stop")]


SEND = """
from pathlib import Path
from holdfast.journal.lease import Lease
from holdfast.core.status import RunStatus
from holdfast.fleet.protocol import LaunchSpec
from holdfast.paths import StateDir
from holdfast.runner.requests import Request, remove_requests, send_request
directory = StateDir(Path.cwd() / ".holdfast").run("01-run")
Lease.acquire(directory.lease)
sent = [send_request(directory, Request(action="skip", task=name)) for name in ("a", "b")]
"""


def test_a_request_survives_a_power_cut(tmp_path: Path) -> None:
    """It was acknowledged when the command returned, also if no runner has read it yet."""
    (tmp_path / "checkout").mkdir()
    left = left_in(tmp_path / "checkout", SEND)
    requests = [request for _, request in pending_requests(StateDir(left / ".holdfast").run("01-run"))]
    assert {request.task for request in requests if request} == {"a", "b"}


def test_an_answered_request_does_not_come_back(tmp_path: Path) -> None:
    """A stop that was obeyed must not stop the run again after the machine restarts."""
    (tmp_path / "checkout").mkdir()
    left = left_in(tmp_path / "checkout", SEND + "remove_requests(directory, sent[:1])")
    requests = [request for _, request in pending_requests(StateDir(left / ".holdfast").run("01-run"))]
    assert [request.task for request in requests if request] == ["b"]


def test_a_request_that_nothing_can_come_of_is_answered_at_once(tmp_path: Path) -> None:
    """A gate that nobody holds up cannot be waived. Who asks is not left waiting until the agent is done."""
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", "")))
    directory = trial.project.open().state_dir.run(trial.run)

    def work(spec: LaunchSpec) -> int:
        (spec.cwd / "A.txt").touch()
        asked = send_request(directory, Request(action="accept", stage="one"))
        eventually(lambda: not asked.exists(), "the request is gone")
        return 0

    assert trial.execute(FunctionFleet(work)) is RunStatus.COMPLETED
