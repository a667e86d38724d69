"""Every command syncs what it writes before anything relies on it; a command that forgot one sync would be found."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.crash.faults import Program
from tests.crash.recording import record
from tests.crash.sample_run import HOLDFAST, PLANTED, START, environment, git, make_template
from tests.crash.sync_trace import SyncTrace

RUN = "01-synced"
_COMMIT = "git add -A; git -c user.name=A -c user.email=a@b commit -q -m mine"
PLAN = f"""\
holdfast: 1
goal: synced
limits: {{jobs: 1, attempts: 2, retry_delay: 0s}}
stages:
  - id: one
    tasks:
      - {{id: plain, run: [sh, -c, "echo plain > plain; echo plain > shared"]}}
      - {{id: commits, run: [sh, -c, "mkdir -p sub; echo one > sub/one; {_COMMIT}; echo two > sub/two; {_COMMIT}; echo three > three"]}}
  - id: two
    tasks:
      - {{id: fails, run: [sh, -c, "echo half > half; test -f ../../../../ready || exit LAST"]}}
"""

pytestmark = pytest.mark.crash


def _holdfast(repository: Path, *words: str) -> None:
    subprocess.run([*HOLDFAST, *words], cwd=repository, env=environment(), capture_output=True, check=False)


def _plan(repository: Path, last: int = 0) -> None:
    make_template(repository, PLAN.replace("LAST", str(last)))


def _ran(repository: Path, last: int = 0) -> None:
    _plan(repository, last)
    _holdfast(repository, "run", "plan.yaml", "--yes")


def _retried(repository: Path) -> None:
    _stopped_badly(repository)
    _holdfast(repository, "retry", "fails")
    (repository / "ready").write_text("")


def _stopped_badly(repository: Path) -> None:
    _ran(repository, last=1)


def _lost_journal(repository: Path) -> None:
    _ran(repository)
    (repository / ".holdfast" / "journal.db").unlink()


def _foreign(repository: Path) -> None:
    """Make what Execute left: a task that is done, and one at work in a branch of its own."""
    make_template(repository)
    first = git(repository, "rev-parse", "HEAD").strip()
    git(repository, "update-ref", "refs/heads/task/two", first)
    git(repository, "worktree", "add", "-q", "../two", "task/two")
    (repository.with_name("two") / "half").write_text("half of two\n")
    tasks = {
        "L1-001": {"status": "completed", "title": "One", "commit": first},
        "L1-002": {"status": "in_progress", "title": "Two", "branch": "task/two", "attempts": 1},
    }
    state = repository / "docs/tasks/thing/execute-state.json"
    state.parent.mkdir(parents=True)
    state.write_text(json.dumps({"version": "2.0", "status": "in_progress", "tasks": tasks}))


@dataclass(frozen=True, slots=True)
class TracedCommand:
    """A command, and the repository that it is given."""

    words: tuple[str, ...]
    prepare: Callable[[Path], None]
    moves_refs: bool = True
    one_at_a_time: bool = True


RUN_IT = TracedCommand(("run", "plan.yaml", "--yes"), _plan)
COMMANDS = {
    "run": RUN_IT,
    "run, with a conflict": TracedCommand(START, make_template, one_at_a_time=False),
    "resume": TracedCommand(("resume", "--yes"), _retried),
    "retry": TracedCommand(("retry", "fails"), _stopped_badly, moves_refs=False),
    "land": TracedCommand(("land", "--yes"), _ran, moves_refs=False),
    "discard": TracedCommand(("discard", "--yes"), _stopped_badly),
    "reset": TracedCommand(("reset", RUN, "--yes"), _stopped_badly),
    "clean": TracedCommand(("clean", "--all", "--yes"), _ran, moves_refs=False),
    "rebuild": TracedCommand(("rebuild",), _lost_journal, moves_refs=False),
    "adopt": TracedCommand(("adopt", "docs/tasks/thing/execute-state.json", "--agent", "claude"), _foreign),
}


def traced(folder: Path, command: TracedCommand, bug: str = "") -> SyncTrace:
    """Run a command, with a bug in it or without, and return its trace."""
    repository = folder / "repository"
    command.prepare(repository)
    program = [*PLANTED, bug] if bug else [*HOLDFAST]
    recording = record(
        Program([*program, *command.words], repository, repository, environment(), timeout_s=120)
    )
    return SyncTrace(recording, repository, one_at_a_time=command.one_at_a_time)


@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_command_relies_on_is_on_disk(name: str, tmp_path: Path) -> None:
    """Invariant 7: objects before the ref that needs them, refs before the event that tells of them, all before the end."""
    trace = traced(tmp_path, COMMANDS[name])
    assert trace.violations() == []
    assert (trace.refs_moved > 0) == COMMANDS[name].moves_refs


@pytest.mark.parametrize(
    ("bug", "said"),
    [
        ("sync-nothing", "needs .git/objects/"),
        ("sync-no-objects", "needs .git/objects/"),
        ("sync-no-ref-names", "the journal is written, and .git/"),
        ("refs-unsynced-by-git", "the journal is written, and .git/refs/"),
        ("sync-no-folders", "the journal was synced, and .holdfast/journal.db is not"),
    ],
)
def test_a_missing_sync_is_found(bug: str, said: str, tmp_path: Path) -> None:
    """The same check fails if the program, or a git that it starts, leaves out one kind of sync."""
    found = traced(tmp_path, RUN_IT, bug).violations()
    assert any(said in violation.sentence for violation in found), found
