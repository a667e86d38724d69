"""The paths of everything below `.holdfast/`, each spelled once.

Pure path arithmetic: nothing here touches the disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

STATE_DIR = ".holdfast"


def is_of_state_dir(path: str) -> bool:
    """Tell whether a path of a repository is Holdfast's own folder, or in it. On some systems case makes no difference."""
    return path.partition("/")[0].casefold() == STATE_DIR


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
        """The journal: the only file whose loss matters."""
        return self.root / "journal.db"

    @property
    def store(self) -> Path:
        """Which server keeps the journal, if it is not the file here."""
        return self.root / "store.json"

    @property
    def fleet(self) -> str:
        """The URL of the fleet that runs the agents: this machine."""
        return f"local:{self.root}"

    @property
    def clone_name(self) -> Path:
        """The name by which a fleet of many machines knows this clone of the repository."""
        return self.root / "clone"

    @property
    def agents(self) -> Path:
        """What this repository changes in the known agents, or adds to them."""
        return self.root / "agents.toml"

    def slot(self, name: str, index: int) -> Path:
        """Return the file whose lock is one place of a slot, which all runs share."""
        return self.root / "slots" / f"{name}.{index}"

    @property
    def runs_lock(self) -> Path:
        """The file whose lock keeps others from making runs, or another journal, at the same time."""
        return self.root / "runs.lock"

    @property
    def backups(self) -> Path:
        """The folder for copies of the journal, made before something is removed from it."""
        return self.root / "backups"

    def outputs(self, run: str) -> Path:
        """Return the folder of what remains of a run after `clean`."""
        return self.root / "outputs" / run

    @property
    def plans(self) -> Path:
        """The folder of the plans that planners wrote, one per goal."""
        return self.root / "plans"

    @property
    def agreements(self) -> Path:
        """The folder of what was shown when the user agreed to a plan, one file per goal."""
        return self.root / "agreements"

    def base_check(self, digest: str) -> Path:
        """Return the file that says that the checks of a plan held on a tree, by the digest of all of that."""
        return self.root / "base-checks" / digest

    def run(self, run: str) -> RunDir:
        """Return the folder of one run."""
        return RunDir(self._runs / run, self.root / "work" / run)

    def runs(self) -> list[str]:
        """Return the runs that have a folder, also runs that the journal does not know."""
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
    def fleet(self) -> Path:
        """Which fleet of many machines the run began on; not there if it is this machine."""
        return self.root / "fleet"

    @property
    def requests(self) -> Path:
        """The folder where other processes leave requests for the runner."""
        return self.root / "requests"

    @property
    def wake_pipe(self) -> Path:
        """The FIFO that wakes the runner: somebody left a request, or an agent reported."""
        return self.requests / "bell"

    @property
    def note(self) -> Path:
        """The resume note: it is there while an unfinished run rests."""
        return self.root / "continue-here.md"

    @property
    def pushed_to(self) -> Path:
        """Where the user had the run branch pushed to: the remote's name, and a digest of its address."""
        return self.root / "pushed-to.json"

    def mirror_ledger(self, system: str) -> Path:
        """Return the list of the native files that a mirror wrote."""
        return self.root / "mirrors" / f"{system}.json"

    @property
    def staging_notice(self) -> Path:
        """The last message about a staging worktree that could not show the build, so that it is said once."""
        return self.root / "mirrors" / "staging.txt"

    @property
    def attempts(self) -> Path:
        """The folder that holds the folder of every supervised process of the run."""
        return self.root / "attempts"

    @property
    def homes(self) -> Path:
        """The folder of the private homes that agents in a sandbox have. They hold copies of logins."""
        return self.root / "homes"

    @property
    def git_identity(self) -> Path:
        """The settings of git that tell launches in a sandbox who commits. No task has a name that begins with a dot."""
        return self.homes / ".gitconfig"

    def brief(self, task: str, attempt: int) -> Path:
        """Return the brief that an attempt was given."""
        return self.attempts / task / str(attempt) / "brief.md"

    def workspace(self, name: str) -> Path:
        """Return the working tree of the workspace with this number."""
        return self.workspaces / name
