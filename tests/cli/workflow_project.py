"""A repository with a scripted agent, in which workflows run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from tests.support.command import Cli, Done
from tests.support.repositories import Project, write

WORKER = """\
#!/bin/sh
# Plans, judges or works, whatever its brief asks for, and keeps what it was told.
root={root}
if grep -q '^# Write a plan' "$1"; then
  echo planned >> $root/planned
  cp "$1" $root/planning.md
  exec cp $root/answer.yaml plan.yaml
fi
if grep -q 'Judge this work' "$1"; then
  echo "$HOLDFAST_TASK" >> $root/judged
  exec holdfast report confidence 0.95 --summary fine
fi
cp "$1" "$root/brief-$HOLDFAST_TASK.md"
echo "$HOLDFAST_TASK" >> $root/order
while [ -e "$root/hold-$HOLDFAST_TASK" ]; do sleep 0.05; done
echo "$HOLDFAST_TASK" > "work-$HOLDFAST_TASK.txt"
holdfast report summary "Found by $HOLDFAST_TASK:
- the second line of it"
"""


@dataclass(frozen=True, slots=True)
class WorkflowProject:
    """A user with a repository and one agent, `worker`, which is a script."""

    cli: Cli
    root: Path

    @classmethod
    def create(cls, root: Path) -> WorkflowProject:
        """Make the repository and the agent."""
        write(root / "worker", WORKER.replace("{root}", str(root)))
        command = msgspec.json.encode(["sh", str(root / "worker"), "{brief}"]).decode()
        write(root / "config" / "holdfast" / "agents.toml", f"[worker]\ncommand = {command}\n")
        return cls(Cli(Project.create(root / "p").path), root)

    def write(self, name: str, content: object) -> None:
        """Write a file of the checkout; what is no text becomes JSON."""
        text = content if isinstance(content, str) else msgspec.json.encode(content).decode()
        write(self.cli.here / name, text)

    def __call__(self, *args: str) -> Done:
        """Give a command."""
        return self.cli(*args, XDG_CONFIG_HOME=str(self.root / "config"))

    def run(self, *args: str) -> Done:
        """Run a workflow with the agent, without questions."""
        return self("run", "--agent", "worker", "--yes", "--workflow", *args)

    def lines(self, name: str) -> list[str]:
        """Return what the agent noted."""
        path = self.root / name
        return path.read_text().splitlines() if path.exists() else []

    def brief(self, task: str) -> str:
        """Return the brief of a task's last attempt."""
        return (self.root / f"brief-{task}.md").read_text()

    def landed(self) -> list[str]:
        """Return the files that the run branch has and the user's does not."""
        branch = self.cli.project.git("for-each-ref", "--format=%(refname)", "refs/heads/holdfast/").split()[
            -1
        ]
        return self.cli.project.git("diff", "--name-only", "HEAD", branch).split()
