"""The simulated repository: a run branch as its first-parent line, every commit ever made, and what is in them.

It does what git promises and no more. Nothing here knows how a run is driven.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.amended_rows import STANDS
from holdfast.core.facts import BranchFacts, Equivalent, Landing
from holdfast.core.state import RunState


class SimulatedWork(NamedTuple):
    """What a commit holds of its task: how often the first and the second half of the work were done.

    An agent looks at what is there and does what is missing. A command does both halves each time it runs. So no
    task may land with other than equal halves, and an agent's with other than one of each.
    """

    first: int = 0
    second: int = 0


NO_WORK = SimulatedWork()
TORN_WORK = SimulatedWork(-1, -1)
"""Files as a power cut may leave them if nobody synced them: nothing may be built on them."""


class SimulatedRepository:
    """The run branch and every commit. A branch that was moved is synced before anybody is told."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.line = [base]
        self.lost: list[str] = []
        self.work: dict[str, SimulatedWork] = {}
        self.missing: set[str] = set()
        self.squashed: set[str] = set()
        self.exists = True
        self.moves = 0
        """How often Holdfast moved the branch."""
        self._parents: dict[str, str] = {}
        self._landings: dict[str, Landing] = {}
        self._same: dict[str, str] = {}
        self._unsynced_from: list[str] | None = None
        self._taken_off: list[str] = []

    @property
    def tip(self) -> str:
        """The commit that the run branch points at."""
        return self.line[-1]

    # -- what Holdfast does ---------------------------------------------------------------------------------

    def commit(self, parent: str, work: SimulatedWork = NO_WORK) -> str:
        """Make a commit that no branch points at yet."""
        name = f"c{len(self._parents) + 1}"
        self._parents[name] = parent
        if work is not NO_WORK:
            self.work[name] = work
        return name

    def merge(self, onto: str, task: str, attempt: int, head: str) -> str:
        """Make a merge with our trailers that no branch points at yet."""
        commit = self.commit(onto)
        self._landings[commit] = Landing(task=task, attempt=attempt, commit=commit, head=head, tree=commit)
        return commit

    def commit_adoption(self, finished: dict[str, str]) -> str:
        """Put the commit on the branch that says which tasks another system had finished, each with its proof."""
        commit = self.commit(self.base)
        for task, evidence in finished.items():
            self._landings[f"{commit} {task}"] = Landing(task, 1, commit, evidence, commit, adopted=True)
        self.line.append(commit)
        return commit

    def swap(self, old: str, new: str) -> bool:
        """Move the run branch to `new` if it is at `old`; tell whether it was."""
        if self.tip != old:
            return False
        self.move(new)
        return True

    def move(self, new: str) -> None:
        """Move the run branch, whatever it pointed at. What falls off its line is remembered as lost."""
        self.moves += 1
        if self._unsynced_from is None:
            self._unsynced_from = list(self.line)
        chain = [new]
        while (parent := self._parents[chain[-1]]) not in self.line:
            chain.append(parent)
        cut = self.line.index(parent) + 1
        self.lost += self.line[cut:]
        self.line[cut:] = reversed(chain)

    def sync(self) -> None:
        """Make the place of the branch survive a power cut."""
        self._unsynced_from = None

    def lose_unsynced(self) -> None:
        """A power cut takes back what was not synced."""
        if self._unsynced_from is not None:
            self.line, self._unsynced_from = self._unsynced_from, None

    def restore(self, tip: str) -> None:
        """Make the branch again where the journal knows it to be, if somebody deleted it."""
        if not self.exists:
            self.exists = True
            self.line = [tip]
            while self.line[0] != self.base:
                self.line.insert(0, self._parents[self.line[0]])

    def contains(self, commit: str) -> bool:
        """Tell whether a commit is on the run branch's first-parent line."""
        return commit in self.line

    def landed(self) -> list[Landing]:
        """Return what landed, oldest first."""
        found = [self._landings[commit] for commit in self.line if commit in self._landings]
        if len(self.line) > 1 and len(self._landings) > len(found):
            prefix = f"{self.line[1]} "
            found[:0] = [one for name, one in self._landings.items() if name.startswith(prefix)]
        return found

    def has_more_than(self, state: RunState) -> bool:
        """Tell whether somebody put a landing back on the branch that the run does not know of: then it is not amended.

        `runner/amendments.py` refuses it, too. A landing whose result is not recorded yet is the run's own.
        """
        known = {name for name, row in state.tasks.items() if row.status in STANDS}
        return any(landing.task in state.tasks and landing.task not in known for landing in self.landed())

    def facts(self) -> BranchFacts:
        """Return what the repository shows."""
        return BranchFacts(tip=self.tip, landings=tuple(self.landed()))

    def equivalents(self, vanished: dict[str, str]) -> dict[str, Equivalent]:
        """Return, for each task whose merge is gone, the commit on the branch that holds the same change."""
        same = {task: self._same.get(commit, "") for task, commit in vanished.items()}
        return {task: Equivalent(commit, "patch") for task, commit in same.items() if commit in self.line}

    # -- what others do -------------------------------------------------------------------------------------

    def commit_by_somebody(self) -> None:
        """A commit that is not ours appears on the run branch."""
        self.line.append(self.commit(self.tip))

    def rewind_by_somebody(self) -> bool:
        """The user takes the last commit off the run branch; tell whether there was one."""
        if len(self.line) < 2:
            return False
        self._taken_off.append(self.line.pop())
        return True

    def taken_off(self) -> str:
        """Return the task whose landing somebody took off, if the branch is still where he left it."""
        if not self._taken_off or self._parents[self._taken_off[-1]] != self.tip:
            return ""
        landing = self._landings.get(self._taken_off[-1])
        return landing.task if landing is not None else ""

    def put_back_by_somebody(self) -> None:
        """The user puts back what he took off."""
        self.line.append(self._taken_off.pop())

    def squash_by_somebody(self) -> bool:
        """The user replaces the last merge of ours by a plain commit with the same change."""
        merge = self.line[-1]
        if merge not in self._landings:
            return False
        self.line[-1] = self._same[merge] = self.commit(self._parents[merge])
        self.squashed.add(self._landings[merge].task)
        return True
