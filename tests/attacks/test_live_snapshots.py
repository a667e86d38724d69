"""Snapshots are taken outside the sandbox, of a workspace that a hostile agent changes at the same time."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from holdfast.core.status import SandboxLevel
from tests.attacks.attacked_run import attacked_run
from tests.support.command import eventually
from tests.support.repositories import write
from tests.support.runs import DEADLINE_S, kill
from tests.support.sandboxes import needs_sandbox

pytestmark = needs_sandbox
# It waits until our git has begun to read, and then makes its folder a link to one of the user's. No longer than the test
# waits: nobody would end it if the test failed.
SWAPS = """
import ctypes, os, sys, time
link, there, stop = sys.argv[1:4]
ends_at = time.monotonic() + float(sys.argv[4])
os.symlink(link, "z")
os.mkdir("d")
for number in range(1500):
    with open(f"d/a{number:04}", "w") as file:
        file.write(os.urandom(4000).hex())
with open("d/id_ed25519", "w") as file:
    file.write("mine")
objects = os.path.join(".git/objects", open(".git/objects/info/alternates").readline().strip())
count = lambda: sum(len(files) for _, _, files in os.walk(objects))
before = count()
open(there, "w").close()
while count() < before + 20 and time.monotonic() < ends_at:
    pass
ctypes.CDLL(None).renameat2(-100, b"d", -100, b"z", 2)
while not os.path.exists(stop) and time.monotonic() < ends_at:
    time.sleep(0.01)
"""


@pytest.mark.parametrize("level", [SandboxLevel.WORKSPACE, SandboxLevel.STRICT])
def test_a_folder_that_becomes_a_link_leads_no_snapshot_to_the_users_files(
    tmp_path: Path, level: SandboxLevel
) -> None:
    """Neither is a file of the user's taken into the repository, nor is one removed in place of the agent's."""
    with attacked_run(tmp_path, level) as aim:
        users = aim.home / ".ssh" / ".gitignore"
        write(users, aim.loot)
        workspace = aim.here / ".holdfast" / "work" / "01-try-it" / "0"
        script = f"cat > swaps.py <<'END'\n{SWAPS}\nEND\npython3 swaps.py {aim.home}/.ssh there stop {DEADLINE_S * 4}"
        aim.cli.plan({"id": "a", "run": ["sh", "-c", script]})
        runner = aim.cli.start("run", "--yes", "--sandbox", level, HOME=str(aim.home))
        try:
            eventually((workspace / "there").exists, "the agent is at work")
            aim("save")
            write(workspace / "stop", "")
            runner.wait(timeout=DEADLINE_S * 2)
        finally:
            kill(runner)
        assert users.read_text() == aim.loot
        listing = ["git", "cat-file", "--batch-all-objects", "--batch"]
        objects = subprocess.run(listing, cwd=aim.here, capture_output=True, check=True).stdout
        assert b"mine" in objects
        assert aim.loot.encode() not in objects
