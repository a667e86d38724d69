"""Which peers there are, in which servers they keep their tasks, and the Python environment of each: pinned, made when it is needed."""

from __future__ import annotations

import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

from bench.measurement import RESULTS


@dataclass(frozen=True, slots=True)
class Peer:
    """A system that is measured beside Holdfast."""

    name: str
    module: str
    server: str
    """`redis` (and Valkey) or `postgres`."""
    requirements: tuple[str, ...]
    environments: Path = RESULTS / "peers"

    @property
    def version(self) -> str:
        """Its name and version, for people."""
        return f"{self.name} {self.requirements[0].partition('==')[2]}"

    @property
    def python(self) -> Path:
        """The interpreter of its environment."""
        return self.environments / self.name.lower() / "bin" / "python"

    @property
    def is_installed(self) -> bool:
        """Whether its environment was made. An installation that was cut short, or of another version, has another mark."""
        return self._mark.exists() and self._mark.read_text() == " ".join(self.requirements)

    def install(self) -> str:
        """Make its environment if there is none. Return why that failed; empty if it is there."""
        if self.is_installed:
            return ""
        print(f"installing {', '.join(self.requirements)} …", file=sys.stderr)
        pip = [str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        try:
            venv.create(self.python.parents[1], clear=True, with_pip=True)
            subprocess.run([*pip, *self.requirements], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            said = str(getattr(error, "stderr", None) or error).strip().splitlines()[-1]
            return f"{self.version} cannot be installed: {said}"
        self._mark.write_text(" ".join(self.requirements))
        return ""

    @property
    def _mark(self) -> Path:
        return self.python.parents[1] / "installed"


PEERS = (
    Peer("Celery", "bench.peers.celery", "redis", ("celery[redis]==5.7.0", "redis==8.1.0")),
    Peer("huey", "bench.peers.huey", "redis", ("huey==3.5.4", "redis==8.1.0")),
    Peer("DBOS", "bench.peers.dbos", "postgres", ("dbos==3.4.0", "psycopg[binary]==3.3.9")),
)
