"""What an agent in a sandbox makes of its own `.git`: Holdfast reads and repairs it from outside, with all the user's rights."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from holdfast.core.status import SandboxLevel
from tests.attacks.attacked_run import RUN, AttackedRun, attacked_run
from tests.support.command import eventually
from tests.support.repositories import write
from tests.support.runs import DEADLINE_S
from tests.support.sandboxes import needs_sandbox

pytestmark = needs_sandbox
HOSTILE = {
    "objects/info is the user's": "rm -rf .git/objects/info; ln -s $users .git/objects/info",
    "objects is the user's": "rm -rf .git/objects; ln -s $users .git/objects",
    "objects leads to itself": "rm -rf .git/objects; ln -s objects .git/objects",
    "objects/info leads nowhere": "rm -rf .git/objects/info; ln -s /nowhere .git/objects/info",
    "a branch is a file of the kernel": (
        "rm -rf .git/refs/heads; ln -s /proc/self .git/refs/heads; printf 'ref: refs/heads/mem\\n' > .git/HEAD"
    ),
}


def _stopped(aim: AttackedRun, script: str) -> None:
    """Run task `a` until it has done that, and kill the runner. Its second attempt just ends."""
    workspace = aim.here / ".holdfast" / "work" / RUN / "0"
    again = "case $HOLDFAST_BRIEF in */2/*) exit;; esac"
    agent = f"{again}; users={aim.home}/users; {script}; echo ok > n; touch done.log; sleep 600"
    agents = {"hostile": {"command": ["sh", "-c", agent], "prompt": "file"}}
    aim.cli.plan({"id": "a", "prompt": "Attack.", "agent": "hostile"}, agents=agents)
    runner = aim.cli.start("run", "--yes", "--sandbox", aim.level, HOME=str(aim.home))
    eventually((workspace / "done.log").exists, "the agent has done it")
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait(timeout=DEADLINE_S)
    assert aim("stop").code == 0


@pytest.mark.parametrize("name", HOSTILE)
def test_a_strange_clone_leads_no_repair_to_the_users_files_and_keeps_nobody_from_going_on(
    tmp_path: Path, name: str
) -> None:
    """Neither `doctor --fix` nor `resume` writes behind a link, and the files that the agent made are landed."""
    with attacked_run(tmp_path, SandboxLevel.WORKSPACE) as aim:
        users = aim.home / "users"
        for path in (users / "alternates", users / "info" / "alternates"):
            write(path, "mine")
        _stopped(aim, HOSTILE[name])
        assert aim("doctor", "--fix").code == 0
        done = aim("resume", "--yes", "--sandbox", aim.level)
        assert done.code == 0, done
        assert aim.landed("n") == "ok"
        assert {path.read_text() for path in users.rglob("*") if path.is_file()} == {"mine"}
        assert len(list(users.rglob("*"))) == 3
