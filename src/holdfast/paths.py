"""Where everything of Holdfast lives below `.holdfast/`, each path spelled once.

Pure path arithmetic: nothing here touches the disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

STATE_DIR = ".holdfast"


@dataclass(frozen=True, slots=True)
class StateDir:
    """The `.holdfast/` folder of one repository."""

    root: Path

    @classmethod
    def of_checkout(cls, checkout: Path) -> StateDir:
        """Return the state folder that belongs to a repository's main checkout."""
        return cls(checkout / STATE_DIR)

    @property
    def journal(self) -> Path:
        """The journal: the one file whose loss matters."""
        return self.root / "journal.db"

    @property
    def fleet(self) -> str:
        """The URL of the fleet that runs the agents: this machine."""
        return f"local:{self.root}"

    @property
    def agents(self) -> Path:
        """What this repository changes or adds to the known agents."""
        return self.root / "agents.toml"

    def slot(self, name: str, index: int) -> Path:
        """The file whose lock is one of the places of a slot, shared by all runs."""
        return self.root / "slots" / f"{name}.{index}"

    @property
    def backups(self) -> Path:
        """Where copies of the journal go before something is taken out of it."""
        return self.root / "backups"

    def outputs(self, run: str) -> Path:
        """Return what stays of a run that was cleaned away."""
        return self.root / "outputs" / run

    @property
    def plans(self) -> Path:
        """Where the plans that planners wrote are kept, one per goal."""
        return self.root / "plans"

    def run(self, run: str) -> RunDir:
        """Return the folder of one run."""
        return RunDir(self._runs / run, self.root / "work" / run)

    def runs(self) -> list[str]:
        """Return the runs that have a folder, also those that the journal does not know."""
        return sorted(folder.name for folder in self._runs.glob("*"))

    @property
    def _runs(self) -> Path:
        return self.root / "runs"


@dataclass(frozen=True, slots=True)
class RunDir:
    """The files of one run: its lease, its requests, its attempts, its workspaces."""

    root: Path
    workspaces: Path

    @property
    def lease(self) -> Path:
        """The file whose lock says who runs this run."""
        return self.root / "lease"

    @property
    def requests(self) -> Path:
        """Where other processes leave what they ask of the runner."""
        return self.root / "requests"

    @property
    def wake_pipe(self) -> Path:
        """The FIFO that wakes the runner: somebody left a request, or an agent reported."""
        return self.requests / "bell"

    @property
    def note(self) -> Path:
        """The resume note: there while the run rests unfinished."""
        return self.root / "continue-here.md"

    def mirror_ledger(self, system: str) -> Path:
        """Return the list of the native files that are ours."""
        return self.root / "mirrors" / f"{system}.json"

    @property
    def staging_notice(self) -> Path:
        """What was last said about a staging worktree that could not show the build; said once."""
        return self.root / "mirrors" / "staging.txt"

    @property
    def attempts(self) -> Path:
        """Where every supervised process of the run has its folder."""
        return self.root / "attempts"

    def brief(self, task: str, attempt: int) -> Path:
        """Return the brief that an attempt was given."""
        return self.attempts / task / str(attempt) / "brief.md"

    def workspace(self, name: str) -> Path:
        """Return the working tree of one slot."""
        return self.workspaces / name
