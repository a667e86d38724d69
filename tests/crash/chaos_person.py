"""A person at a run under fire: amends its plan, answers its agents, takes tasks and gives them, beside the live runner.

Each of these is a process of its own, which `chaos.py` may kill like any other. What the person began and somebody cut short, the
person does again in the end; so the run is completed, with every line that was written by hand.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.core import events as ev
from holdfast.core.people import open_questions
from holdfast.core.projection import TaskRow
from holdfast.core.status import TASK_IS_SETTLED
from tests.support.runs import Trial, sh

ASKING = ("Q0", "Q1")
_AMENDMENTS_MAX = 3
_COMMAND_S = 120
_ASK = """
if ! grep -q 'The answer' "$1"; then
  mkdir -p "${HOLDFAST_REPORT%/*}"
  echo '{"question": "Which?", "options": []}' >> "$HOLDFAST_REPORT"
fi
echo asked > $HOLDFAST_TASK.txt
"""
ASKER = {"asker": {"command": ["sh", "-c", _ASK, "agent", "{brief}"], "stream": "raw"}}


def asking_tasks() -> list[dict[str, Any]]:
    """Return the tasks whose agent asks before it does anything."""
    return [{"id": name, "prompt": "ask first", "agent": "asker"} for name in ASKING]


def by_hand(task: str) -> str:
    """Return what the person writes into the file of a task."""
    return f"{task} by hand\n"


@dataclass(slots=True)
class Person:
    """Who decides about one run. `plan` is the plan file as the person has it; `takes` are the tasks that may be taken.

    `has_acted` since somebody last cleared it: then a run that rests may go on.
    """

    trial: Trial
    plan: dict[str, Any]
    takes: set[str]
    command: subprocess.Popen[bytes] | None = None
    typed: list[str] = field(default_factory=list)
    has_acted: bool = False

    @property
    def is_at_work(self) -> bool:
        """Whether a command of the person's has not ended yet."""
        return self.command is not None and self.command.poll() is None

    def act(self, dice: random.Random) -> None:
        """Start a command, if none of ours is at work. What it is about may be outdated when it comes to it."""
        if self.is_at_work:
            return
        state = self.trial.state()
        tasks = list(state.tasks.values())
        free = [t.id for t in tasks if t.id in self.takes and t.status not in TASK_IS_SETTLED and not t.taken]
        choices: list[Sequence[str]] = [*self._answers(tasks), *self._gifts(tasks)]
        choices += [("take", self.trial.run, dice.choice(free), "--no-shell")] if free else []
        if self.typed.count("amend") < _AMENDMENTS_MAX and dice.random() < 0.3:
            choices.append(self._amendment())
        if choices:
            self._type(dice.choice(choices))

    def finish(self) -> None:
        """Wait for the command that is at work, if any."""
        if self.command is not None:
            self.command.wait(_COMMAND_S)

    def settle(self) -> None:
        """Do to the end all that the run waits for."""
        self.finish()
        tasks = list(self.trial.state().tasks.values())
        for words in [*self._answers(tasks), *self._gifts(tasks)]:
            self._type(words)
            assert self.command is not None
            assert self.command.wait(_COMMAND_S) == 0, words

    def problems(self, events: Sequence[ev.Event]) -> Iterator[str]:
        """Yield what is wrong in the end with what the person did."""
        for name in sorted({event.task for event in events if isinstance(event, ev.TaskGiven)}):
            file = f"holdfast/{self.trial.run}:{name}.txt"
            if f"{self.trial.project.git('show', file, check=False)}\n" != by_hand(name):
                yield f"what was given of {name} is not what landed"

    def _answers(self, tasks: Sequence[TaskRow]) -> Iterator[Sequence[str]]:
        return (("answer", self.trial.run, task.id, "this") for task in tasks if open_questions(task))

    def _gifts(self, tasks: Sequence[TaskRow]) -> Iterator[Sequence[str]]:
        """Do the work of the tasks that we have; yield the commands that give them."""
        for task in tasks:
            if task.taken is not None and task.taken.ready and not task.taken.given:
                place = self.trial.project.path / task.taken.place
                if place.is_dir():
                    (place / f"{task.id}.txt").write_text(by_hand(task.id))
                    yield "give", self.trial.run, task.id

    def _amendment(self) -> Sequence[str]:
        """Add a task to the plan file; return the command that amends the run to it."""
        of_stage = self.plan["stages"][1]["tasks"]
        name = f"N{len(of_stage)}"
        of_stage.append(sh(name, f"echo {name} > {name}.txt"))
        Path(self.trial.project.path, "plan.json").write_text(json.dumps(self.plan))
        return "amend", self.trial.run, "plan.json", "--yes"

    def _type(self, words: Sequence[str]) -> None:
        self.typed.append(words[0])
        self.has_acted = True
        self.command = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *words],
            cwd=self.trial.project.path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
