"""What an attack is aimed at: a user with a home, a checkout, programs at work, and a run whose task `a` is the attacker's.

Everything that an attacker may want says `loot`, a word that no other test has. Nothing here attacks.
"""

from __future__ import annotations

import secrets
import shlex
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.core.status import SandboxLevel
from tests.support.command import Cli, Done
from tests.support.repositories import write

RUN = "01-try-it"
BRANCH = f"holdfast/{RUN}"
_TRIED = "the attacker came to its end"


@dataclass(frozen=True, slots=True)
class AttackedRun:
    """The user's things while task `a` attacks them. `shared` is a folder for everybody's temporary files."""

    cli: Cli
    home: Path
    shared: Path
    level: SandboxLevel
    loot: str
    bystander: subprocess.Popen[bytes]
    port: int

    @property
    def here(self) -> Path:
        """The user's checkout."""
        return self.cli.here

    @property
    def logs(self) -> Path:
        """The attempts of the run, with all that its processes said."""
        return self.here / ".holdfast" / "runs" / RUN / "attempts"

    def attack(
        self, script: str, task: dict[str, Any], plan: dict[str, Any], env: dict[str, str] | None = None
    ) -> Done:
        """Run a plan whose task `a` does this. The script knows where everything is: an attacker does."""
        names = {
            "here": self.here,
            "git": self.here / ".git",
            "state": self.here / ".holdfast",
            "run": self.here / ".holdfast" / "runs" / RUN,
            "home": self.home,
            "shared": self.shared,
            "loot": self.loot,
            "bystander": self.bystander.pid,
            "port": self.port,
        }
        known = "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in names.items())
        agent = {"id": "a", "run": ["sh", "-c", f"{known}{script}\necho {_TRIED}; exit 0"], **task}
        tasks = [agent, *plan.get("others", ())]
        stages = [{"id": "one", "tasks": tasks, **plan.get("stage", {})}, *plan.get("later", ())]
        self.cli.plan(stages=stages, limits={"attempts": 1}, agents=plan.get("agents", {}))
        # What looks at processes must meet one that shows what it was started with.
        command = self.cli.started if "/proc/" in script else self.cli
        return command("run", "--yes", "--sandbox", self.level, **self._variables, **env or {})

    def __call__(self, *args: str, **env: str) -> Done:
        """Run a command as the user, whose environment has a credential."""
        return self.cli(*args, **self._variables, **env)

    @property
    def _variables(self) -> dict[str, str]:
        return {"HOME": str(self.home), "DEPLOY_TOKEN": self.loot}

    def was_tried(self) -> bool:
        """Tell whether the attacker came to the end of its script: an attack that did not start proves nothing."""
        return _TRIED in (self.logs / "a" / "1" / "agent" / "output.log").read_text(errors="replace")

    def landed(self, path: str) -> str:
        """Return a file of the run branch, or nothing if it is not there."""
        return self.cli.project.git("show", f"{BRANCH}:{path}", check=False)

    def git(self, *args: str) -> str:
        """Ask the user's own repository."""
        return self.cli.project.git(*args, check=False)


@contextmanager
def attacked_run(folder: Path, level: SandboxLevel) -> Iterator[AttackedRun]:
    """Set everything up, and end what was started."""
    loot = f"loot{secrets.token_hex(8)}"
    write(folder / "home" / ".ssh" / "id_ed25519", loot)
    write(folder / "home" / ".bashrc", "true\n")
    with ExitStack() as stack:
        shared = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shared-")))
        write(shared / "secret", loot)
        bystander = stack.enter_context(subprocess.Popen(["sleep", "600"]))
        stack.callback(bystander.kill)
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        for address in (f"{shared}/socket", f"\0{shared}"):
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(address)
            server.listen()
        cli = Cli.of(folder / "p")
        write(cli.here / "notes.txt", loot)
        yield AttackedRun(cli, folder / "home", shared, level, loot, bystander, listener.getsockname()[1])
