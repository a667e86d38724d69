"""When the machine refuses something: each message says what was being done, on which file, why, and what to do.

Exit code 3, no traceback, nothing lost: once the cause is gone, the same command or `resume` goes on.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.faults import Fault, Program, run_with_fault
from tests.support.command import COMMAND, Cli, Done, cli_at_work, writes
from tests.support.limited_filesystem import limited_filesystem

RUN = ("run", "--yes")
AGAIN = "then run the command again."
RESUME = "then `holdfast resume"
IN_THE_WAY = "Something else is in that place: move it away"
CLOSED = "Check who owns the file and its folder, and their modes (`ls -ld`)"
READ_ONLY = "The file system is read-only: mount it for writing, or work in a copy on another disk"
FULL = "The disk is full: free some space"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """A project with one task, in which nothing ran yet."""
    return Cli.of(tmp_path / "p", writes("a"))


def under(prefix: list[str], cli: Cli, *words: str) -> Done:
    """Run a command below another program, which limits it."""
    done = subprocess.run(
        [*prefix, *COMMAND, *words], cwd=cli.here, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    return Done(done.returncode, done.stdout, done.stderr)


def assert_told(done: Done, here: Path, sentence: str, way_out: str) -> None:
    """Check that a command that the machine stopped explains itself."""
    said = (done.out + done.err).replace(f"{here}/", "")
    assert done.code == 3, said
    assert "Traceback" not in said
    assert sentence in said
    assert way_out in said


def assert_goes_on(cli: Cli) -> None:
    """Check that the run completes once nothing is in its way."""
    resumed = cli("resume", "--yes") if (cli.here / ".holdfast" / "journal.db").is_file() else cli(*RUN)
    if "there is no run" in resumed.err:
        resumed = cli(*RUN)
    assert (resumed.code, cli.run_status()) == (0, "completed"), resumed.err


FOLDERS = [
    (
        ".git/info/exclude",
        "could not keep .holdfast out of `git status`: .git/info/exclude: Is a directory",
        AGAIN,
    ),
    (
        ".holdfast/agents.toml",
        "could not read which agents are known: .holdfast/agents.toml: Is a directory",
        AGAIN,
    ),
    (
        ".git/holdfast-private/sealed/HEAD",
        "could not prepare Holdfast's own git directory: .git/holdfast-private/sealed/HEAD: Is a directory",
        AGAIN,
    ),
    (
        ".holdfast/runs/01-try-it/lease",
        "could not carry on with run 01-try-it: take the lease of the run: .holdfast/runs/01-try-it/lease: Is a directory",
        RESUME,
    ),
    (
        ".holdfast/runs/01-try-it/requests/x.json",
        "read the requests to the runner: .holdfast/runs/01-try-it/requests/x.json: Is a directory",
        RESUME,
    ),
]


@pytest.mark.parametrize(("place", "sentence", "next_step"), FOLDERS, ids=[row[0] for row in FOLDERS])
def test_a_folder_in_place_of_a_file_is_named(cli: Cli, place: str, sentence: str, next_step: str) -> None:
    """Whoever put it there can move it away."""
    (cli.here / place / "x").mkdir(parents=True)
    assert_told(cli(*RUN), cli.here, sentence, f"{IN_THE_WAY}, {next_step}")
    (cli.here / place / "x").rmdir()
    (cli.here / place).rmdir()
    assert_goes_on(cli)


FILES = [
    (".git/holdfast-private", "could not prepare Holdfast's own git directory: ", AGAIN),
    (".holdfast/runs", "take the lease of the run: .holdfast/runs", RESUME),
    (".holdfast/runs/01-try-it/requests", "make the folder for requests: ", RESUME),
    (".holdfast/runs/01-try-it/attempts", "could not carry out attempt 1 of task a: ", RESUME),
]


@pytest.mark.parametrize(("place", "sentence", "next_step"), FILES, ids=[row[0] for row in FILES])
def test_a_file_in_place_of_a_folder_is_named(cli: Cli, place: str, sentence: str, next_step: str) -> None:
    """The other way round it is the same."""
    (cli.here / place).parent.mkdir(parents=True, exist_ok=True)
    (cli.here / place).touch()
    assert_told(cli(*RUN), cli.here, sentence, f"{IN_THE_WAY}, {next_step}")
    (cli.here / place).unlink()
    assert_goes_on(cli)


CLOSED_PLACES = [
    (".", 0o500, "could not use the journal: .holdfast: Permission denied"),
    (
        ".git",
        0o500,
        "could not prepare Holdfast's own git directory: .git/holdfast-private: Permission denied",
    ),
    (
        ".git/info",
        0o500,
        "could not keep .holdfast out of `git status`: .git/info/exclude: Permission denied",
    ),
    (
        ".git/objects",
        0o500,
        "insufficient permission for adding an object to repository database .git/objects",
    ),
]


@pytest.mark.parametrize(("place", "mode", "sentence"), CLOSED_PLACES, ids=[row[0] for row in CLOSED_PLACES])
def test_a_place_that_is_closed_to_us_is_named(cli: Cli, place: str, mode: int, sentence: str) -> None:
    """Its owner can open it."""
    (cli.here / place).mkdir(exist_ok=True)
    (cli.here / place).chmod(mode)
    try:
        done = under(without_privileges(), cli, *RUN)
    finally:
        (cli.here / place).chmod(0o755)
    assert_told(done, cli.here, sentence, "Check who owns the file")
    assert_goes_on(cli)


def test_a_closed_repository_is_not_taken_for_none(cli: Cli) -> None:
    """Git itself says that there is no repository; a person would look in the wrong place."""
    (cli.here / ".git").chmod(0)
    try:
        done = under(without_privileges(), cli, *RUN)
    finally:
        (cli.here / ".git").chmod(0o755)
    assert done.code == 2
    assert f"The repository at {cli.here}/.git cannot be read: Permission denied." in done.err


def test_a_name_in_other_bytes_than_utf8_is_named(cli: Cli) -> None:
    """Old archives have them; Holdfast stores text, and says which name it cannot store."""
    subprocess.run(["git", "switch", "--quiet", "-c", b"caf\xe9"], cwd=cli.here, check=True)
    done = cli(*RUN)
    assert (done.code, "Traceback" in done.err) == (2, False)
    assert r"could not finish `holdfast run`: 'caf\udce9' is not valid UTF-8" in done.err


def without_privileges() -> list[str]:
    """Return what keeps root from passing over modes. Others cannot do that anyway."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--inh-caps", "-dac_override"]


LIMITS = [
    ("--nofile=10:10", "could not start git: Too many open files", "raise the limit (`ulimit -n 4096`)"),
    (
        "--fsize=20000:20000",
        "could not use the journal: .holdfast/journal.db: File too large",
        "ulimit -f unlimited",
    ),
    (
        "--fsize=40000:40000",
        "could not use the journal: .holdfast/journal.db: File too large",
        "ulimit -f unlimited",
    ),
    ("--as=60000000:60000000", "could not finish `holdfast run`: ", "or raise the limit"),
]


@pytest.mark.parametrize(("limit", "sentence", "way_out"), LIMITS, ids=[row[0] for row in LIMITS])
def test_a_limit_of_the_process_is_named(cli: Cli, limit: str, sentence: str, way_out: str) -> None:
    """Files that are open, the size of a file, memory: the message has the command that raises the limit."""
    assert_told(under(["prlimit", limit], cli, *RUN), cli.here, sentence, way_out)
    assert_goes_on(cli)


class SmallDisk:
    """A disk of its own for a project, in a mount namespace that ends with the command."""

    SCRIPT = """
set -e
mount -t tmpfs -o size=12M small "$MOUNT"
cp -a "$PROJECT" "$MOUNT/p"
cd "$MOUNT/p"
if [ "$AFTER" = yes ]; then "$PYTHON" -P -m holdfast run --yes > "$MOUNT/log" 2>&1; fi
if [ "$DISK" = full ]; then dd if=/dev/zero of="$MOUNT/fill" bs=4096 2> /dev/null || true; fi
if [ "$DISK" = read-only ]; then mount -o remount,ro "$MOUNT"; fi
for words in "$@"; do "$PYTHON" -P -m holdfast $words; done
"""

    def __init__(self, project: Path, mount: Path) -> None:
        self.project = project
        self.mount = mount

    def try_when(self, disk: str, *commands: str, after_a_run: bool) -> Done:
        """Type commands, until one fails, on a disk that is full or read-only; before that, a run, if wanted."""
        env = {
            **os.environ,
            "MOUNT": str(self.mount),
            "PROJECT": str(self.project),
            "PYTHON": sys.executable,
            "DISK": disk,
            "AFTER": "yes" if after_a_run else "no",
        }
        argv = ["unshare", "-rm", "sh", "-c", self.SCRIPT, "sh", *commands]
        done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def small_disk(cli: Cli, tmp_path: Path) -> SmallDisk:
    """A small disk with the project on it."""
    (tmp_path / "mount").mkdir()
    tried = subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "small", str(tmp_path / "mount")])
    if tried.returncode != 0:
        pytest.skip("this machine does not allow mounting in a user namespace")
    return SmallDisk(cli.here, tmp_path / "mount")


NEW, ENDED = "a new project", "a project whose run has ended"
DISKS = [
    ("read-only", NEW, "run --yes", "could not prepare Holdfast's own git directory: ", READ_ONLY),
    ("read-only", NEW, "init x.yaml", "could not write the starter plan: x.yaml: Read-only file system", READ_ONLY),
    ("read-only", ENDED, "land --yes", "could not use the journal: .holdfast/journal.db: Read-only file system", READ_ONLY),
    ("read-only", ENDED, "export 1 --as apex -o out/", "could not finish `holdfast export`: out: Read-only", READ_ONLY),
    ("full", NEW, "run --yes", "could not prepare Holdfast's own git directory: ", FULL),
    ("full", NEW, "init x.yaml", "could not write the starter plan: x.yaml: No space left on device", FULL),
    ("full", ENDED, "discard --yes", "could not use the journal: .holdfast/journal.db: No space left on device", FULL),
    ("full", ENDED, "export 1 --as apex -o out/", "could not finish `holdfast export`: out/", FULL),
]  # fmt: skip


@pytest.mark.parametrize(("disk", "project", "command", "sentence", "way_out"), DISKS)
def test_a_disk_that_takes_no_more_is_named(
    small_disk: SmallDisk, disk: str, project: str, command: str, sentence: str, way_out: str
) -> None:
    """Whether it is full or read-only, also for the commands that come after a run."""
    done = small_disk.try_when(disk, command, after_a_run=project is ENDED)
    assert_told(done, small_disk.mount / "p", sentence, way_out)


@pytest.mark.parametrize("disk", ["read-only", "full"])
def test_looking_needs_no_room(small_disk: SmallDisk, disk: str) -> None:
    """What only reads works on a disk that takes no more."""
    looks = ("status", "list", "recap", "review", "inspect", "resume --dry-run", "export 1 --as apex")
    done = small_disk.try_when(disk, *looks, after_a_run=True)
    assert done.code == 0, done.err


def test_a_file_system_that_went_away_is_named(cli: Cli, tmp_path: Path) -> None:
    """Its server died: every file is there and none can be reached."""
    behind = tmp_path / "behind"
    behind.mkdir()
    cli.here.rename(behind / "p")
    with limited_filesystem(behind) as mounted:
        shell = ["sh", "-c", 'read _; exec "$@"', "sh", *COMMAND, *RUN]
        waiting = subprocess.Popen(
            shell, cwd=mounted.root / "p", stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        mounted.die()
        _, said = waiting.communicate("\n")
    assert waiting.returncode == 3, said
    assert "Transport endpoint is not connected" in said
    assert "The file system went away: mount it again, then run the command again." in said


def test_a_full_disk_does_not_keep_a_runner_from_being_stopped(tmp_path: Path) -> None:
    """The request to stop has no room, but the message names the signal that needs none."""
    cli, runner, _ = cli_at_work(tmp_path)
    requests = cli.here / ".holdfast/runs/01-try-it/requests"
    refused = run_with_fault(
        Program([*COMMAND, "stop"], cli.here, requests), Fault("errno", 1, errno.ENOSPC, lasting=True)
    )
    assert refused.exit_status == 3
    assert "could not leave a request for the runner" in refused.output
    assert f"or stop the runner with `kill {runner.pid}`, which loses nothing" in refused.output
    runner.terminate()
    assert (runner.wait(), cli.run_status()) == (130, "stopped")


INJECTED = [
    (".git/info", errno.EDQUOT, "could not keep .holdfast out of `git status`: .git/info/exclude: Disk quota exceeded", "Your quota on this disk is used up"),
    (".holdfast/runs/01-try-it", errno.ESTALE, "take the lease of the run: .holdfast/runs/01-try-it/lease: Stale file handle", "The file system went away"),
    (".holdfast/work", errno.ENAMETOOLONG, "could not carry out attempt 1 of task a: could not start the agent of task a: .holdfast/work/01-try-it: File name too long", "move the repository to a shorter path"),
    (".git/refs", errno.EROFS, "", "Fix what git names"),
    (".git/objects", errno.EIO, "Input/output error", "look for it in `dmesg`"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("place", "error", "sentence", "way_out"), INJECTED, ids=[row[0] for row in INJECTED]
)
def test_what_the_system_refuses_once_is_told_and_done_again(
    cli: Cli, place: str, error: int, sentence: str, way_out: str
) -> None:
    """The first change below a folder fails, and `resume` does it after all."""
    (cli.here / place).mkdir(parents=True, exist_ok=True)
    refused = run_with_fault(Program([*COMMAND, *RUN], cli.here, cli.here / place), Fault("errno", 1, error))
    assert refused.fired
    assert_told(Done(refused.exit_status, refused.output, ""), cli.here, sentence, way_out)
    assert_goes_on(cli)
