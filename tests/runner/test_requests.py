"""Requests of other processes: each becomes the one event that is meant, and who asks to save is answered once it is saved."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from holdfast.core import events as ev
from holdfast.core.status import RunStatus
from holdfast.fleet.protocol import LaunchSpec
from holdfast.paths import StateDir
from holdfast.runner.requests import (
    Request,
    RequestListener,
    SaveRequests,
    event_for,
    pending_requests,
    send_request,
)
from holdfast.testing import FunctionFleet
from tests.support.command import eventually
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
_WITHOUT_EVENT = ("save", "amend")
"""What becomes of these is no event of the request alone: the loop saves, and judges an amendment by the state."""


@pytest.mark.parametrize("action", [name for name in _ACTIONS if name not in ("skip", *_WITHOUT_EVENT)])
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
import sys
from pathlib import Path
from holdfast.paths import StateDir
from holdfast.runner.requests import Request, send_request
send_request(StateDir(Path(sys.argv[1])).run(sys.argv[2]), Request(action="skip", task="A"))
"""


WAIT = """
import time
while not sent.is_answered:
    time.sleep(0.02)
print(sent.refusal())
"""


def test_a_request_counts_only_while_its_sender_lives(tmp_path: Path) -> None:
    """Nobody was told that it was done, and nobody can say who it was."""
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", "echo a > A.txt")))
    state = trial.project.open().state_dir
    subprocess.run([sys.executable, "-c", SEND, state.root, trial.run], check=True)
    assert len(list(pending_requests(state.run(trial.run)))) == 1
    assert trial.execute() is RunStatus.COMPLETED
    assert (trial.landed(), list(pending_requests(state.run(trial.run)))) == (["A"], [])


def test_an_agent_that_empties_the_pipe_disturbs_nobody(tmp_path: Path) -> None:
    """It can open the pipe that wakes the runner. The runner looks all the same, and reports no error of its own."""
    directory = StateDir(tmp_path / ".holdfast").run("01-try-it")
    directory.requests.mkdir(parents=True)
    os.mkfifo(directory.wake_pipe)
    faults: list[object] = []

    async def listen() -> None:
        loop, looked = asyncio.get_running_loop(), asyncio.Event()
        loop.set_exception_handler(lambda _, context: faults.append(context))
        # Whoever waits before the runner, or after it, is served first.
        pipes = [os.open(directory.wake_pipe, os.O_RDWR | os.O_NONBLOCK) for _ in range(2)]
        loop.add_reader(pipes[0], _empty, pipes[0])
        with RequestListener(directory, looked.set, lambda: None, lambda: None):
            loop.add_reader(pipes[1], _empty, pipes[1])
            os.write(pipes[0], b"!")
            async with asyncio.timeout(60):
                await looked.wait()
        for pipe in pipes:
            loop.remove_reader(pipe)
            os.close(pipe)

    asyncio.run(listen())
    assert faults == []


def _empty(pipe: int) -> None:
    with suppress(BlockingIOError):
        os.read(pipe, 4096)


def two_tasks(tmp_path: Path, script: str) -> Trial:
    """Return a run whose first agent runs a script in the user's checkout and keeps what came of it; the second waits for it."""
    first = sh("A", f"(cd {tmp_path}/p; {script}) > A.txt 2>&1; echo $? >> A.txt")
    return Trial.of(
        Project.create(tmp_path / "p"), stage("one", first, sh("B", "echo b > B.txt", needs=["A"]))
    )


@pytest.mark.parametrize("clear", ["", "env -i PATH=$PATH "], ids=["as it is", "without our variables"])
def test_the_command_refuses_an_agent_that_decides(tmp_path: Path, clear: str) -> None:
    """It says who it takes the caller for, and the other task is done as if nobody had asked."""
    trial = two_tasks(tmp_path, f"{clear}{sys.executable} -m holdfast skip B")
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.landed() == ["A", "B"]
    assert "agents decide nothing" in trial.show("A.txt")
    assert trial.show("A.txt").endswith("\n3")


def test_a_runner_refuses_a_request_that_an_agent_wrote_by_itself(tmp_path: Path) -> None:
    """The sender of a request must be outside of every attempt, whatever it knows."""
    ask = SEND.replace('"A"', '"B"').replace("send_request(", "sent = send_request(") + WAIT
    (tmp_path / "ask.py").write_text(ask)
    trial = two_tasks(tmp_path, f"{sys.executable} {tmp_path}/ask.py {tmp_path}/p/.holdfast $HOLDFAST_RUN")
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.landed() == ["A", "B"]
    assert "it came from the agent of task A" in trial.show("A.txt")


def test_a_request_that_nothing_can_come_of_is_answered_at_once(tmp_path: Path) -> None:
    """A gate that nobody holds up cannot be waived. Who asks is not left waiting until the agent is done."""
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", "")))
    directory = trial.project.open().state_dir.run(trial.run)

    def work(spec: LaunchSpec) -> int:
        (spec.cwd / "A.txt").touch()
        asked = send_request(directory, Request(action="accept", stage="one"))
        eventually(lambda: asked.is_answered, "the request is gone")
        return 0

    assert trial.execute(FunctionFleet(work)) is RunStatus.COMPLETED
