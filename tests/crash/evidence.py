"""What a repository shows at one moment, gathered with plain git and a read-only look at the journal. Decides nothing."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from holdfast.core import events as ev
from holdfast.core.event_codec import Recorded, decode_event
from holdfast.core.facts import BranchFacts, Landing
from holdfast.core.ids import run_branch
from holdfast.core.state import RunState
from holdfast.journal import open_reader
from holdfast.journal.protocol import StoredRun
from tests.crash.sample_run import RUN, git

BRANCH = run_branch(RUN)
_TRAILER = "%(trailers:key={},valueonly,separator=)"
_LINE = " ".join(["%H", "%T", "%P;", *(_TRAILER.format(f"Holdfast-{key}") for key in ("Task", "Attempt"))])


@dataclass(frozen=True, slots=True)
class Moment:
    """The run as the journal has it (None: there is none yet), and the repository's refs and run branch."""

    stored: StoredRun | None
    recorded: tuple[Recorded, ...]
    refs: dict[str, str]
    branch: BranchFacts

    @property
    def events(self) -> list[ev.Event]:
        """The run's history."""
        return [record.event for record in self.recorded]

    @property
    def landed(self) -> dict[str, Landing]:
        """What git proves: each task on the first-parent line, as its newest landing."""
        return {landing.task: landing for landing in self.branch.landings}

    def state(self) -> RunState:
        """Return the stored state."""
        assert self.stored is not None
        return RunState(self.stored.plan, self.stored.row, self.stored.tasks)

    def attempts(self) -> dict[str, int]:
        """Return how many attempts each task has had."""
        return {} if self.stored is None else {task.id: task.attempt for task in self.stored.tasks}


def look(repository: Path) -> Moment:
    """Return what the repository shows now."""
    stored, recorded = _journal(repository)
    listing = git(repository, "for-each-ref", "--format=%(refname) %(objectname)").split()
    refs = dict(zip(listing[::2], listing[1::2], strict=True))
    return Moment(stored, recorded, refs, _branch(repository, refs.get(BRANCH, "")))


def _journal(repository: Path) -> tuple[StoredRun | None, tuple[Recorded, ...]]:
    path = repository / ".holdfast" / "journal.db"
    if not path.exists():
        return None, ()
    reader = open_reader(path)
    if not any(listing.row.run == RUN for listing in reader.runs()):
        return None, ()
    return reader.load(RUN), tuple(reader.events(RUN))


def _branch(repository: Path, tip: str) -> BranchFacts:
    """Read the first-parent line without the product's own reader of it."""
    if not tip:
        return BranchFacts("")
    base = git(repository, "rev-parse", "main").strip()
    lines = git(
        repository, "log", "--first-parent", "--reverse", f"--format={_LINE}", f"main..{tip}"
    ).splitlines()
    landings = [landing for line in lines if (landing := _landing(line)) is not None]
    first = lines[0].partition(";")[0].split()[2:3] if lines else [tip]
    return BranchFacts(tip, tuple(landings), first == [base])


def _landing(line: str) -> Landing | None:
    ids, _, trailers = line.partition(";")
    commit, tree, *parents = ids.split()
    if len(parents) != 2 or len(trailers.split()) != 2:
        return None
    task, attempt = trailers.split()
    return Landing(task, int(attempt), commit, parents[1], tree)


def reachable(repository: Path) -> set[str]:
    """Return every commit that a ref, or an earlier value of one, leads to."""
    return set(git(repository, "rev-list", "--all", "--reflog").split())


def is_ancestor(repository: Path, ancestor: str, descendant: str) -> bool:
    """Tell whether one commit contains another."""
    try:
        git(repository, "merge-base", "--is-ancestor", ancestor, descendant)
    except AssertionError:
        return False
    return True


def said(output: str) -> list[ev.Event]:
    """Return the events that a program printed before it ended; a last line that was cut off was not said."""
    told = []
    for line in output.splitlines(keepends=True):
        if line.startswith('{"kind"') and line.endswith("}\n"):
            with suppress(msgspec.DecodeError):
                told.append(decode_event(line.encode()))
    return told


def processes_of(repository: Path) -> list[str]:
    """Return the live processes that have this repository in their environment or command line."""
    mark = os.fsencode(repository) + b"/"
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            with suppress(OSError):
                command = (folder / "cmdline").read_bytes()
                if mark in command or mark in (folder / "environ").read_bytes():
                    found.append(
                        f"{folder.name} {command.replace(bytes(1), b' ').decode(errors='replace')[:120]}"
                    )
    return found
