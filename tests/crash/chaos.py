"""Chaos: a wide run whose runner, supervisors and agents are killed at random, again and again, until it is done.

`python -m tests.crash.chaos` is the long form; `test_chaos.py` runs a short one. With `--person` somebody amends, answers, takes
and gives meanwhile (`chaos_person.py`), and those commands are killed, too. The seed decides who is killed and after how long; the
machine's own timing does the rest.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from holdfast.core import events as ev
from holdfast.core.status import RunStatus
from holdfast.process import procfs
from holdfast.runner.store_choice import STORE_VARIABLE
from tests.crash.chaos_person import ASKER, ASKING, Person, asking_tasks
from tests.support.repositories import Project
from tests.support.runs import Trial, open_project_journal, sh, stage
from tests.support.servers import SERVERS, ServerProcess, start_server

ROOT = Path(__file__).parents[2]
DEADLINE_S = 900.0
_VICTIMS = ("runner", "supervisor", "agent")
_VICTIMS_WITH_PERSON = (*_VICTIMS, "command")
_PAUSE_S = {False: 0.6, True: 2.0}
"""The longest time between two kills, without a person and with one, whose commands need some time to come to anything."""
_POLL_S = 0.01
_APPENDING = 3
"""How many tasks append a line to the same file, before a kill is likely: each line must land once."""


def plan(tasks: int, jobs: int, work: str) -> dict[str, Any]:
    """Return stages with dependencies and checks, enough attempts for bad luck, and conflicts among commands that append."""
    half = tasks // 2
    shared = (
        "if grep -q '<<<<' a.txt; then sed -i '/^[<=>]\\{7\\}/d' a.txt; else echo $HOLDFAST_TASK >> a.txt; fi"
    )
    first = [
        sh(f"A{n}", f"{shared if n < _APPENDING else ':'}; {work}; echo {n} > A{n}.txt") for n in range(half)
    ]
    second = [sh(f"B{n}", f"{work}; cat A{n % half}.txt > B{n}.txt") for n in range(tasks - half)]
    limits = {"jobs": jobs, "attempts": 50, "retry_delay": 0, "stall": "5m"}
    return {
        "stages": [stage("one", *first), stage("two", *second)],
        "limits": limits,
        "verify": ["test -f a.txt"],
    }


@dataclass(slots=True)
class Chaos:
    """One run under fire."""

    folder: Path
    seed: int
    tasks: int
    jobs: int
    kills: int
    with_person: bool = False
    server: ServerProcess | None = None
    """The server that has the journal, which is killed and started again, too."""
    fired: Counter[str] = field(default_factory=Counter)
    person: Person | None = None

    def run(self) -> Trial:
        """Kill until the kills are used up, then let the run finish; return it."""
        dice = random.Random(self.seed)
        trial = self._begin()
        runner = self._start(trial)
        deadline = time.monotonic() + DEADLINE_S
        next_kill = 0.0
        while runner.poll() is None or not self._is_over(trial, runner):
            assert time.monotonic() < deadline, f"seed {self.seed}: the run did not end"
            if runner.poll() is not None:
                runner = self._start(trial)
            if self.fired.total() < self.kills and time.monotonic() >= next_kill:
                self._kill(trial, runner, dice)
                next_kill = time.monotonic() + dice.uniform(0.0, _PAUSE_S[self.with_person])
                if self.person is not None:
                    self.person.act(dice)
            time.sleep(_POLL_S)
        if self.person is not None:
            self.person.finish()
        return trial

    def _begin(self) -> Trial:
        """Make the run; with a person, one whose agents ask, too."""
        made = plan(self.tasks, self.jobs, "sleep 1; echo working")
        if self.with_person:
            made["agents"] = ASKER
            made["stages"][0]["tasks"] += asking_tasks()
        document = {"holdfast": 1, "goal": "Try it", **made}
        trial = Trial.of(Project.create(self.folder), *made.pop("stages"), **made)
        if self.with_person:
            names = {task["id"] for one in document["stages"] for task in one["tasks"]}
            self.person = Person(trial, document, names - {f"A{n}" for n in range(_APPENDING)} - {*ASKING})
        return trial

    def _start(self, trial: Trial) -> subprocess.Popen[bytes]:
        if self.person is not None:
            self.person.has_acted = self.person.is_at_work
        argv = [sys.executable, "-m", "holdfast", "resume", trial.run, "--yes"]
        return subprocess.Popen(
            argv,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _is_over(self, trial: Trial, runner: subprocess.Popen[bytes]) -> bool:
        """Tell whether the run has come to its end. Whoever it waits for does what it needs, and it goes on.

        A runner that was killed may not have seen what was decided before.
        """
        status = trial.stored().row.status
        if status is RunStatus.BLOCKED and self.person is not None:
            self.person.settle()
            return runner.returncode > 0 and not self.person.has_acted
        return status in (RunStatus.COMPLETED, RunStatus.BLOCKED)

    def _kill(self, trial: Trial, runner: subprocess.Popen[bytes], dice: random.Random) -> None:
        """Kill somebody of the run that lives right now; every kill is counted only if it hit."""
        kinds = _VICTIMS if self.person is None else _VICTIMS_WITH_PERSON
        kind = dice.choice(kinds if self.server is None else (*kinds, "server"))
        if kind == "server" and self.server is not None:
            self.server.kill()
            self.server.launch()
            self.fired[kind] += 1
            return
        pids = [runner.pid] if kind == "runner" else self._pids(trial, kind)
        if not pids:
            return
        try:
            os.kill(dice.choice(pids), signal.SIGKILL)
        except ProcessLookupError:
            return
        self.fired[kind] += 1

    def _pids(self, trial: Trial, kind: str) -> list[int]:
        if kind == "command":
            command = self.person.command if self.person is not None else None
            return [command.pid] if command is not None and command.poll() is None else []
        if kind == "agent":
            tokens = {task.latest.token for task in trial.state().active.values() if task.latest.token}
            found = procfs.open_carriers(tokens)
            for fd in found.values():
                os.close(fd)
            return list(found)
        records = (self.folder / ".holdfast" / "runs" / trial.run / "attempts").glob("*/*/*/supervisor.json")
        pids = [msgspec.json.decode(path.read_bytes())["pid"] for path in records if path.stat().st_size]
        return [pid for pid in pids if self._is_supervisor(pid)]

    @staticmethod
    def _is_supervisor(pid: int) -> bool:
        """A recorded pid may have ended, or be somebody else by now: only a living supervisor may be hit."""
        try:
            return Path(f"/proc/{pid}/comm").read_text().strip() == "hf-supervisor"
        except OSError:
            return False


def redone(events: list[ev.Event]) -> list[str]:
    """Return the tasks that were started again after they had landed."""
    landed: set[str] = set()
    again = []
    for event in events:
        if isinstance(event, ev.TaskLanded):
            landed.add(event.task)
        elif isinstance(event, ev.AttemptStarted) and event.task in landed:
            again.append(event.task)
    return again


def problems_of(trial: Trial, person: Person | None = None) -> list[str]:
    """Return what is wrong with the run after all is over; empty when nothing was lost, doubled or redone."""
    tasks = sum(1 for _ in trial.stored().plan.tasks())
    with open_project_journal(trial.project.open()) as journal:
        events = [record.event for record in journal.events(trial.run)]
    landed = trial.landed()
    wrong = [f"invariant {found.number}: {found.sentence}" for found in trial.violations()]
    if trial.stored().row.status is not RunStatus.COMPLETED:
        wrong.append(f"the run is {trial.stored().row.status}: {trial.stored().row.reason}")
    if len(landed) != tasks or len(set(landed)) != tasks:
        wrong.append(f"{len(landed)} landings of {len(set(landed))} tasks, expected {tasks}")
    lines = Counter(trial.show("a.txt").split())
    appended = {f"A{n}": lines[f"A{n}"] for n in range(_APPENDING)}
    wrong += [f"{name} appended its line {times} times" for name, times in appended.items() if times != 1]
    wrong += person.problems(events) if person is not None else ()
    return wrong + [f"{name} had landed and was started again" for name in redone(events)]


def main() -> int:
    """Run the long chaos and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", choices=SERVERS, help="the journal is in a server, which is killed, too")
    parser.add_argument("--person", action="store_true", help="somebody amends, answers, takes and gives")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    server = start_server(args.store) if args.store else None
    if server is not None:
        os.environ[STORE_VARIABLE] = server.url
    chaos = Chaos(
        folder / "repo", args.seed, args.tasks, args.jobs, args.kills, with_person=args.person, server=server
    )
    try:
        trial = chaos.run()
        wrong = problems_of(trial, chaos.person)
        attempts = sum(task.attempt for task in trial.state().tasks.values())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if server is not None:
            server.stop()
    sys.stdout.write(
        f"seed {args.seed}: {chaos.fired.total()} kills {dict(chaos.fired)}, {attempts} attempts\n"
    )
    if chaos.person is not None:
        sys.stdout.write(f"commands: {dict(Counter(chaos.person.typed))}\n")
    sys.stdout.write("\n".join(wrong) + "\n" if wrong else "0 lost, 0 landed twice, 0 redone after landing\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
