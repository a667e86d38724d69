"""`doctor`: what it finds, and what it repairs when asked."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from holdfast.process.cgroups import CONTROLLERS, available_groups
from tests.support.command import COMMAND, Cli, fails, writes
from tests.support.installed_tools import install, only_tools
from tests.support.repositories import Project, git, write
from tests.support.sandboxes import needs_landlock
from tests.support.users import powerless, require_root


def test_doctor_finds_a_finished_run_healthy(tmp_path: Path) -> None:
    """Every invariant holds after an ordinary run, also after one with a failure."""
    cli = Cli.of(tmp_path / "p", writes("a"), fails("b", needs=["a"]), limits={"attempts": 2})
    cli("run", "--yes")
    done = cli("doctor")
    assert done.code == 0, done.out


def test_doctor_notices_a_branch_that_went_back(completed: Cli) -> None:
    """What the journal says landed must be in git."""
    completed.project.git("update-ref", "refs/heads/holdfast/01-try-it", "main")
    health = completed.json("doctor")
    assert health["healthy"] is False
    broken = {promise["number"] for one in health["judged"] for promise in one["broken"]}
    assert broken >= {1, 3}


def test_doctor_removes_stale_locks_when_asked(completed: Cli) -> None:
    """A killed git leaves a lock; `doctor` finds it, `--fix` removes it."""
    lock = completed.here / ".git" / "packed-refs.lock"
    lock.touch()
    assert completed("doctor").code == 1
    assert completed("doctor", "--fix").code == 0
    assert not lock.exists()


def test_doctor_removes_stale_locks_where_no_run_is_left(completed: Cli) -> None:
    """No recovery of a run will do it."""
    lock = completed.here / ".git" / "packed-refs.lock"
    completed("clean", "--all", "--yes")
    lock.touch()
    assert completed("doctor", "--fix").code == 0
    assert not lock.exists()


def test_doctor_reports_outside_a_repository(tmp_path: Path) -> None:
    """It describes the trouble instead of stumbling over it."""
    done = Cli(tmp_path)("doctor")
    assert (done.code, "not inside a git repository" in done.out) == (1, True)


def test_doctor_names_installed_agents_with_version_and_readiness(tmp_path: Path) -> None:
    """Only `--version` is run: which agents there are, how new, and what each still needs."""
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["true"]})
    install(tmp_path / "bin", "codex", 'test "$*" = --version && echo codex-cli 0.166.0')
    install(tmp_path / "bin", "vibe", "echo vibe 3.0.2")
    done = cli("doctor", **only_tools(tmp_path / "bin", OPENAI_API_KEY="x"))
    assert "agent codex: codex 0.166.0\n" in done.out
    assert "agent vibe: vibe 3.0.2 (not ready: set MISTRAL_API_KEY or log in with it once)" in done.out


def test_doctor_warns_of_a_version_that_the_preset_was_not_recorded_with(tmp_path: Path) -> None:
    """It may print something else. That is no failure; a version that differs only at the end is not told."""
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["true"]})
    install(tmp_path / "bin", "codex", "echo codex-cli 0.170.1")
    install(tmp_path / "bin", "qwen", "echo 0.24.9")
    variables = only_tools(tmp_path / "bin", OPENAI_API_KEY="x")
    done = cli("doctor", **variables)
    warning = "its stream was read with 0.166.0; if attempts end oddly, try `holdfast agents try codex`"
    assert (done.code, done.out.count("warn ")) == (0, 1)
    assert f"ok   agent codex: codex 0.170.1\nwarn agent codex: {warning}\n" in done.out
    told = {
        found["what"]: found["warning"]
        for found in json.loads(cli("doctor", "--json", **variables).out)["environment"]
    }
    assert (told["agent codex"], told["agent qwen"]) == (warning, "")


def test_doctor_tells_what_launches_can_be_bounded_in(tmp_path: Path) -> None:
    """By what this user may do on this machine."""
    said = Cli.of(tmp_path / "p", writes("A"))("doctor").out
    (line,) = [line for line in said.splitlines() if line.startswith("ok   bounds: ")]
    able = line.partition("none for")[0]
    assert {name for name in CONTROLLERS if name in able} == set(available_groups())


def test_doctor_tells_whether_there_is_a_sandbox_and_which_level_runs_get(tmp_path: Path) -> None:
    """Without bubblewrap it says what to install, and is healthy all the same."""
    cli = Cli.of(tmp_path / "p", writes("A"))
    install(
        tmp_path / "bin", "bwrap", 'test "${*#*--unshare-net}" = "$*" || { echo no network >&2; exit 1; }'
    )
    path = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    found = "ok   sandbox: works; runs that name no level get: off, network: on; no level strict: bubblewrap cannot make namespaces"
    assert found in cli("doctor", **path).out
    unnamed = cli("doctor", HOLDFAST_SANDBOX="", **path)
    assert "runs that name no level get: workspace" in unnamed.out
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "git").symlink_to(shutil.which("git") or "git")
    without = cli("doctor", PATH=str(tmp_path / "none"), HOLDFAST_SANDBOX_BY="bubblewrap")
    assert "ok   sandbox: none: bubblewrap is not installed; install the package bubblewrap" in without.out


@needs_landlock
def test_doctor_tells_what_a_sandbox_by_landlock_alone_leaves_open(tmp_path: Path) -> None:
    """Whoever gets it without being asked must know, and how to get more. A mistake in the variable is told."""
    cli = Cli.of(tmp_path / "p", writes("A"))
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "git").symlink_to(shutil.which("git") or "git")
    found = cli("doctor", PATH=str(tmp_path / "none"), HOLDFAST_SANDBOX="").out
    assert "ok   sandbox: Landlock, without namespaces: " in found
    assert (
        "runs that name no level get: workspace, network: on; no level strict: bubblewrap is not installed, and Landlock"
        in found
    )
    assert 'HOLDFAST_SANDBOX_BY is "x"' in cli("doctor", HOLDFAST_SANDBOX_BY="x").out
    refused = cli("doctor", HOLDFAST_SANDBOX_BY="landlock", HOLDFAST_SANDBOX="strict")
    assert "BAD  sandbox: this machine cannot close the network of a sandbox" in refused.out


def test_doctor_starts_no_program_that_agents_toml_names(tmp_path: Path) -> None:
    """An agent can write that file. Nobody agreed to what it defines."""
    cli = Cli.of(tmp_path / "p", writes("A"))
    version = f'version = ["sh", "-c", "touch {tmp_path}/ran; echo 1.2.3"]'
    agents = f'[mine]\ncommand = ["true"]\n{version}\n[codex]\nprogram = "true"\n{version}\n'
    write(cli.here / ".holdfast" / "agents.toml", agents)
    assert "agent mine" in cli("doctor").out
    assert cli("init", "--goal", "x").code in (0, 2)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("torn", [b"", b"DIRC\0\0\0\2", b"\0" * 300])
def test_a_torn_index_of_a_worktree_is_told_and_made_anew(tmp_path: Path, torn: bytes) -> None:
    """A power cut leaves it. Until then the user's `git gc` fails; no file of the worktree changes."""
    cli = Cli(Project.create(tmp_path / "p").path)
    cli.project.git("worktree", "add", "-q", str(tmp_path / "other"))
    write(tmp_path / "other" / "a.txt", "edited\n")
    assert cli("doctor").code == 0
    index = cli.project.git_dir / "worktrees" / "other" / "index"
    index.write_bytes(torn)
    done = cli("doctor")
    assert (done.code, f"{index} is torn" in done.out) == (1, True)
    assert f"Made {index} anew" in cli("doctor", "--fix").out
    cli.project.git("gc", "-q")
    assert git(tmp_path / "other", "status", "--short") == "M a.txt"
    assert index.with_name("index.torn").read_bytes() == torn


def test_small_sizes_of_the_disk_are_told_in_mebibytes(completed: Cli) -> None:
    """`0.5` or `0.0 GiB` tells nobody how little there is."""
    assert "at least 512 MiB is needed" in completed("doctor").out


@pytest.mark.parametrize(
    "place",
    [
        ".holdfast",
        ".holdfast/journal.db",
        ".holdfast/runs",
        ".holdfast/work",
        ".git/holdfast-private/indexes",
    ],
)
def test_doctor_names_what_a_run_could_not_write_to(completed: Cli, place: str) -> None:
    """A run would only find out when it has begun, so `doctor` looks at each place, as the user that it runs as."""
    require_root()
    path = completed.here / place
    assert powerless(completed.here, *COMMAND, "doctor").code == 0
    path.chmod(0o500 if path.is_dir() else 0o400)
    done = powerless(completed.here, *COMMAND, "doctor")
    path.chmod(0o700)
    assert (done.code, str(path) in done.out, "not healthy" in done.out) == (1, True, True)
