"""What a repository shows at one moment, gathered with plain git and a read-only look at the journal. Decides nothing."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from holdfast.core import events as ev
from holdfast.core.event_codec import Recorded, decode_event
from holdfast.core.facts import BranchFacts, Landing
from holdfast.core.ids import run_branch
from holdfast.core.state import RunState
from holdfast.journal import open_reader
from holdfast.journal.address import JournalAddress
from holdfast.journal.protocol import StoredRun
from tests.crash.sample_run import RUN, environment, git

BRANCH = run_branch(RUN)
_TRAILER = re.compile(r"^Holdfast-(Task|Attempt): (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Commit:
    """What a commit says."""

    tree: str
    parents: tuple[str, ...]
    message: str


class GitObjects:
    """Reads many objects with one `git cat-file --batch`."""

    def __init__(self, repository: Path) -> None:
        self._process = subprocess.Popen(
            ["git", "-C", str(repository), "cat-file", "--batch"],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._process as process:
            assert process.stdin
            process.stdin.close()

    def read(self, name: str) -> bytes:
        """Return an object's bytes. Raises AssertionError if it is not there, or cannot be read."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{name}\n".encode())
        self._process.stdin.flush()
        head = self._process.stdout.readline().split()
        assert len(head) == 3, f"git cannot read {name}: {head}"
        return self._process.stdout.read(int(head[2]) + 1)[:-1]

    def commit(self, name: str) -> Commit:
        """Return a commit."""
        head, _, message = self.read(name).decode(errors="replace").partition("\n\n")
        words = [line.split(" ") for line in head.splitlines()]
        parents = tuple(line[1] for line in words if line[0] == "parent")
        return Commit(words[0][1], parents, message)

    def files(self, tree: str) -> dict[str, str]:
        """Return the texts of a tree's own files, not those of its folders."""
        found, rest = {}, self.read(tree)
        while rest:
            head, _, rest = rest.partition(b"\0")
            mode, _, name = head.partition(b" ")
            if mode != b"40000":
                found[name.decode()] = self.read(rest[:20].hex()).decode(errors="replace")
            rest = rest[20:]
        return found

    def first_parents(self, tip: str, base: str) -> list[tuple[str, Commit]]:
        """Return the first-parent line of `tip`, oldest first, from above `base`, or from the root if it is not there."""
        line = []
        while tip and tip != base:
            commit = self.commit(tip)
            line.append((tip, commit))
            tip = next(iter(commit.parents), "")
        return line[::-1]


@dataclass(frozen=True, slots=True)
class Moment:
    """The run as the journal has it (None: there is none yet), the refs, the run branch and its first-parent line.

    The line begins with the commit that the run branch began at.
    """

    stored: StoredRun | None
    recorded: tuple[Recorded, ...]
    refs: dict[str, str]
    branch: BranchFacts
    line: tuple[str, ...] = ()

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


def look(repository: Path, store: JournalAddress | None = None, *, with_journal: bool = True) -> Moment:
    """Return what the repository shows now; `with_journal=False` where the journal is damaged on purpose.

    The journal is in the repository, unless it is in a `store`.
    """
    stored, recorded = _journal(repository, store) if with_journal else (None, ())
    listing = git(repository, "for-each-ref", "--format=%(refname) %(objectname)").split()
    refs = dict(zip(listing[::2], listing[1::2], strict=True))
    tip = refs.get(BRANCH, "")
    if not tip:
        return Moment(stored, recorded, refs, BranchFacts(""))
    base = refs["refs/heads/main"] if stored is None else stored.row.base
    with GitObjects(repository) as objects:
        line = objects.first_parents(tip, base)
    landings = tuple(landing for name, commit in line if (landing := _landing(name, commit)) is not None)
    lowest = line[0][1].parents[:1] if line else (tip,)
    branch = BranchFacts(tip, landings, lowest == (base,))
    return Moment(stored, recorded, refs, branch, (*lowest, *(name for name, _ in line)))


def _journal(repository: Path, store: JournalAddress | None) -> tuple[StoredRun | None, tuple[Recorded, ...]]:
    path = repository / ".holdfast" / "journal.db"
    if store is None and not path.exists():
        return None, ()
    with closing(open_reader(store or path)) as reader:
        if not any(listing.row.run == RUN for listing in reader.runs()):
            return None, ()
        return reader.load(RUN), tuple(reader.events(RUN))


def _landing(name: str, commit: Commit) -> Landing | None:
    trailers = dict(_TRAILER.findall(commit.message))
    if len(commit.parents) != 2 or len(trailers) != 2:
        return None
    return Landing(trailers["Task"], int(trailers["Attempt"]), name, commit.parents[1], commit.tree)


def reachable(repository: Path) -> set[str]:
    """Return every commit that a ref, or an earlier value of one, leads to."""
    return set(git(repository, "rev-list", "--all", "--reflog").split())


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
