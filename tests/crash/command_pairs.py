"""Two commands at once: every pair of those that change something, started together in the same repository.

`python -m tests.crash.command_pairs --rounds 30` is the long form; `test_command_pairs.py` runs a sample. The seed decides
which of the two comes first, and by how much. Afterwards no run exists twice, git is sound, and nothing landed twice.
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

from holdfast.errors import ExitCode
from holdfast.repo.files import remove
from tests.crash.preloaded_program import Ended, PreloadedProgram
from tests.support.command import Cli, fails, writes
from tests.support.repositories import write

FOREIGN = "docs/tasks/thing/execute-state.json"
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
    "retry": ("retry", "b"),
    "skip": ("skip", "b"),
    "pause": ("pause",),
    "status": ("status",),
    "doctor --fix": ("doctor", "--fix"),
}
PAIRS = tuple(combinations_with_replacement(COMMANDS, 2))
CODES = frozenset(ExitCode)
_APART_S = 0.06


@dataclass(frozen=True, slots=True)
class PairTrial:
    """A repository in two states, and two interpreters to run commands in it at once: before any run, and with a blocked one."""

    folder: Path
    programs: tuple[PreloadedProgram, PreloadedProgram]

    @property
    def here(self) -> Path:
        """Where the repository is. Git's worktrees know the path, so it is the same each time."""
        return self.folder / "p"

    def prepare(self) -> None:
        """Make both states."""
        cli = Cli.of(self.here, writes("a"), fails("b"), limits={"attempts": 1, "keep_going": True})
        state = {
            "version": "2.0",
            "status": "in_progress",
            "tasks": {"L1-001": {"status": "pending", "title": "One"}},
        }
        write(cli.here / FOREIGN, json.dumps(state))
        _copy(self.here, self.folder / "new")
        assert cli("run", "--yes").code == 1
        _copy(self.here, self.folder / "blocked")

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
        return [*wrong, *said] if wrong else []

    def _run(self, program: PreloadedProgram, name: str, delay: float) -> Ended:
        time.sleep(delay)
        return program.run(self.here, *COMMANDS[name])

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
    parser.add_argument("--only", default="", help="pairs with this command")
    args = parser.parse_args()
    wrong, done = 0, 0
    with ExitStack() as held, tempfile.TemporaryDirectory() as folder:
        trial = open_trial(Path(folder), held)
        for number in range(args.rounds):
            for pair in PAIRS:
                for begun in ("new", "blocked"):
                    if args.only and args.only not in pair:
                        continue
                    found = trial.problems(pair, begun, seed := hash((args.seed, number)))
                    done += 1
                    wrong += bool(found)
                    for line in found:
                        print(f"{' + '.join(pair)} ({begun}, seed {seed}): {line}", flush=True)
    print(f"{done} pairs of commands at once, {wrong} with something wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
