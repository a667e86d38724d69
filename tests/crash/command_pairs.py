"""Two commands at once: every pair of those that change something, started together in the same repository.

`python -m tests.crash.command_pairs --rounds 30` is the long form; `test_command_pairs.py` runs a sample. The seed decides
which of the two comes first, and by how much. Beside `resume` the others meet a live runner, mostly. Afterwards no run exists
twice, git is sound, nothing landed twice, and what a person wrote by hand is there.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

from holdfast.errors import ExitCode
from holdfast.repo.files import remove
from tests.crash.preloaded_program import Ended, PreloadedProgram
from tests.support.command import Cli, fails, writes
from tests.support.repositories import write

FOREIGN = "docs/tasks/thing/execute-state.json"
RUN = "01-try-it"
TODO = "TODO.md"
BEGINNINGS = ("new", "blocked", "taken")
"""Before any run; with one whose task `b` failed and whose task `c` asks; and with `b` taken, and worked on by hand."""
COMMANDS = {
    "run": ("run", "--yes"),
    "run --fresh": ("run", "--yes", "--fresh"),
    "resume": ("resume", "--yes"),
    "adopt": ("adopt", FOREIGN, "--agent", "claude"),
    "stop": ("stop",),
    "abandon": ("abandon", "--yes"),
    "discard": ("discard", "--yes"),
    "clean": ("clean", "--all", "--yes"),
    "rebuild": ("rebuild", "--yes"),
    "land": ("land", "--yes"),
    "land --squash": ("land", "--squash", "--yes"),
    "retry": ("retry", "b"),
    "skip": ("skip", "b"),
    "take": ("take", "b", "--no-shell"),
    "give": ("give", "b"),
    "answer": ("answer", "c", "this"),
    "amend": ("amend", RUN, "amended.json", "--yes"),
    "tick": ("tick",),
    "save": ("save",),
    "pause": ("pause",),
    "review": ("review",),
    "status": ("status",),
    "doctor --fix": ("doctor", "--fix"),
}
PAIRS = tuple(combinations_with_replacement(COMMANDS, 2))
CODES = frozenset(ExitCode)
_APART_S = 0.06
_BY_HAND = "by hand\n"
_ASKS = """
if test $HOLDFAST_ATTEMPT_NUMBER = 1; then
  mkdir -p ${HOLDFAST_REPORT%/*}
  echo '{"question": "Which?", "options": []}' >> $HOLDFAST_REPORT
fi
echo c > c.txt
"""


def _plan(*more: dict[str, Any]) -> dict[str, Any]:
    """Return the plan: one task lands, one fails, one asks. Its list has a point of the first."""
    asks = {"id": "c", "prompt": "ask", "agent": "asker"}
    return {
        "agents": {"asker": {"command": ["sh", "-c", _ASKS], "prompt": "file"}},
        "tasks": [writes("a", points=["Begin"]), fails("b"), asks, *more],
        "limits": {"attempts": 1, "keep_going": True},
        "task_list": {"path": TODO, "kind": "checklist"},
    }


@dataclass(frozen=True, slots=True)
class PairTrial:
    """A repository as it is at each of the `BEGINNINGS`, and two interpreters to run commands in it at once."""

    folder: Path
    programs: tuple[PreloadedProgram, PreloadedProgram]

    @property
    def here(self) -> Path:
        """Where the repository is. Git's worktrees know the path, so it is the same each time."""
        return self.folder / "p"

    def prepare(self) -> None:
        """Make the repository of each beginning."""
        cli = Cli.of(self.here, **_plan())
        cli.plan(name="amended.json", **_plan(writes("d")))
        state = {
            "version": "2.0",
            "status": "in_progress",
            "tasks": {"L1-001": {"status": "pending", "title": "One"}},
        }
        write(cli.here / FOREIGN, json.dumps(state))
        write(cli.here / TODO, "# L\n\n- [ ] Begin\n")
        _copy(self.here, self.folder / "new")
        ended = cli("run", "--yes")
        assert (ended.code, "c asks: Which?" in ended.out) == (1, True), ended
        _copy(self.here, self.folder / "blocked")
        assert cli("take", "b", "--no-shell").code == 0
        write(self.by_hand, _BY_HAND)
        _copy(self.here, self.folder / "taken")

    @property
    def by_hand(self) -> Path:
        """What the person who took `b` wrote."""
        return self.here / f".holdfast/work/{RUN}/taken-b/mine.txt"

    def problems(self, pair: tuple[str, str], begun: str, seed: int) -> list[str]:
        """Run two commands at once on one of the states; return what is wrong afterwards."""
        remove(self.here)
        _copy(self.folder / begun, self.here)
        lead = random.Random(seed).uniform(-_APART_S, _APART_S)
        with ThreadPoolExecutor(2) as threads:
            delays = (max(0.0, -lead), max(0.0, lead))
            asked = zip(self.programs, pair, delays, strict=True)
            ended = list(threads.map(lambda one: self._run(*one), asked))
        said = [
            f"{name} ended with {one.code}: {one.output[-400:]}"
            for name, one in zip(pair, ended, strict=True)
        ]
        wrong = [line for line, one in zip(said, ended, strict=True) if one.code not in CODES]
        wrong += self._wrong_afterwards()
        if begun == "taken" and not self._has_work_by_hand():
            wrong.append("what a person wrote is gone")
        return [*wrong, *said] if wrong else []

    def _run(self, program: PreloadedProgram, name: str, delay: float) -> Ended:
        time.sleep(delay)
        return program.run(self.here, *COMMANDS[name])

    def _has_work_by_hand(self) -> bool:
        if self.by_hand.exists():
            return self.by_hand.read_text() == _BY_HAND
        git = Cli(self.here).project.git
        write(self.folder / "mine.txt", _BY_HAND)
        return git("hash-object", str(self.folder / "mine.txt")) in git("rev-list", "--objects", "--all")

    def _wrong_afterwards(self) -> Iterator[str]:
        cli, program = Cli(self.here), self.programs[0]
        git = subprocess.run(
            ["git", "fsck", "--strict", "--no-dangling"],
            cwd=self.here,
            capture_output=True,
            text=True,
            check=False,
        )
        if git.returncode:
            yield f"git fsck: {git.stdout}{git.stderr}"
        yield from (f"{path} is left" for path in cli.project.git_dir.rglob("*.lock"))
        doctor = json.loads(program.run(self.here, "doctor", "--json").output)
        yield from (f"doctor: {part}" for part in doctor["judged"] if part["broken"])
        yield from (
            f"doctor: {found['detail']}"
            for found in doctor["environment"]
            if not found["ok"] and found["what"] in ("journal", "repository")
        )
        yield from _twins(json.loads(program.run(self.here, "list", "--json").output))
        for branch in cli.project.git("for-each-ref", "--format=%(refname)", "refs/heads").splitlines():
            landed = Counter(
                cli.project.git(
                    "log",
                    "--first-parent",
                    "--format=%(trailers:key=Holdfast-Task)%(trailers:key=Holdfast-Run)",
                    branch,
                ).split("\n\n")
            )
            yield from (
                f"{branch}: {what!r} landed {n} times" for what, n in landed.items() if what.strip() and n > 1
            )


def _twins(runs: list[dict[str, str]]) -> Iterator[str]:
    """Yield the plans of which more than one run is neither finished nor given up."""
    unfinished = Counter(run["goal"] for run in runs if run["status"] not in ("completed", "abandoned"))
    yield from (f"{number} runs of {goal!r}" for goal, number in unfinished.items() if number > 1)


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", source, target], check=True)


def open_trial(folder: Path, held: ExitStack) -> PairTrial:
    """Prepare a repository and two interpreters, which end with `held`."""
    trial = PairTrial(folder, (PreloadedProgram(), PreloadedProgram()))
    for program in trial.programs:
        held.enter_context(closing(program))
    trial.prepare()
    return trial


def main() -> int:
    """Run every pair as often as asked, and print what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="pairs with one of these commands, separated by commas")
    parser.add_argument("--begun", choices=BEGINNINGS, help="this beginning only")
    args = parser.parse_args()
    wrong, done = 0, 0
    with ExitStack() as held, tempfile.TemporaryDirectory() as folder:
        trial = open_trial(Path(folder), held)
        only = frozenset(args.only.split(",")) if args.only else frozenset(COMMANDS)
        pairs = [pair for pair in PAIRS if only.intersection(pair)]
        for number in range(args.rounds):
            for pair in pairs:
                for begun in (args.begun,) if args.begun else BEGINNINGS:
                    found = trial.problems(pair, begun, seed := hash((args.seed, number)))
                    done += 1
                    wrong += bool(found)
                    for line in found:
                        print(f"{' + '.join(pair)} ({begun}, seed {seed}): {line}", flush=True)
    print(f"{done} pairs of commands at once, {wrong} with something wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
