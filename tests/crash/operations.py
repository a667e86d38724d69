"""The operations that are broken: for each, the repository it is given, what a user does next, and what must hold then.

One row of `OPERATIONS` is one command in one situation; `name` is its row in the kill matrix. What must hold of every
repository whatever the operation (no process, lock or draft left, `git fsck` and `doctor` content, the user's files as
they were) is not repeated here: `trial.py` asks for it each time.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from holdfast.core.ids import run_branch
from holdfast.core.invariants import Violation
from holdfast.core.status import RunStatus
from tests.crash.evidence import Commit, GitObjects, Moment, reachable
from tests.crash.faults import Fault, Point, Program, list_points, run_with_fault
from tests.crash.invariants import BeforeCrash, Harm, Harmful, end_violations, work_violations
from tests.crash.preloaded_program import STOPPED_BY_USER, Ended
from tests.crash.recording import record
from tests.crash.sample_run import (
    AGENTS,
    CARRY_ON,
    COMMANDS,
    CONFLICT,
    LIMITS,
    OUTAGE,
    RESOLVE,
    RUN,
    START,
    SamplePlan,
    SampleTask,
    command,
    copy,
    git,
    make_template,
)
from tests.crash.swept_store import SweptStore


class Workbench(Protocol):
    """A repository at its place, and the program in it: run to its end, or given to the fault injector.

    With a store, the journal is there.
    """

    repository: Path
    store: SweptStore | None

    def run(self, *words: str) -> Ended:
        """Run one command of the program, unbroken."""

    def program(self, words: Sequence[str]) -> Program:
        """Return one command of the program, for the fault injector."""


@dataclass(frozen=True, slots=True)
class NextCommand:
    """Something that a user types next, and the exit codes with which it is done. It is typed again a few times at most."""

    words: tuple[str, ...]
    codes: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True)
class Judged:
    """A repository at the end of a cycle: as it was before the operation, at each fault, and now."""

    repository: Path
    before: Moment
    cuts: Sequence[BeforeCrash]
    end: Moment
    holdfast: Callable[..., Ended]


@dataclass(frozen=True, slots=True)
class Operation:
    """One command in one situation.

    `prepare` makes the repository, at the place where it is then broken: git and the journal know it by its path.
    `also` is a pattern of files that it may leave in `.holdfast`, `repetition` what to type to do nothing once more.
    `is_done_at_once` says that it is all done once it has said so, and that no other command has to follow.
    """

    name: str
    situation: str
    prepare: Callable[[Workbench], None]
    words: tuple[str, ...]
    next_steps: Callable[[Moment], Sequence[NextCommand]]
    violations: Callable[[Judged], Iterator[Violation]]
    repetition: NextCommand
    also: str = ""
    exit_status: int = 0
    has_agents: bool = False
    is_done_at_once: bool = False
    changes_checkout: bool = False
    repairs_journal: bool = False

    def __str__(self) -> str:
        return f"{self.name}/{self.situation}"


# ---- runs ----


def _continue(moment: Moment) -> tuple[NextCommand, ...]:
    """Go on with the run; if it was never recorded, start it."""
    return (NextCommand(START if moment.stored is None else CARRY_ON),)


def _completes(plan: SamplePlan) -> Callable[[Judged], Iterator[Violation]]:
    """Judge a run that must be completed, with all that stood before the operation and at each fault."""

    def violations(judged: Judged) -> Iterator[Violation]:
        stood = [] if judged.before.stored is None else [BeforeCrash((), judged.before)]
        return end_violations(judged.repository, judged.end, [*stood, *judged.cuts], plan)

    return violations


def run_of(text: str, plan: SamplePlan = CONFLICT, situation: str = "") -> Operation:
    """Return the operation of running a plan file, which is judged as this plan."""
    return Operation(
        "run",
        situation,
        lambda bench: make_template(bench.repository, text),
        START,
        _continue,
        _completes(plan),
        NextCommand(CARRY_ON),
        has_agents=True,
    )


CONFLICTING_RUN = run_of(CONFLICT.text(), CONFLICT, "conflict")


# ---- resume, of runs that were killed at the worst moments; with one task, since all that follows is a run's again ----

_SINGLE = SamplePlan(
    stages=((SampleTask("a", command("echo a >> a && echo left >> shared")),),),
    lines={"shared": ("base", "left"), "kept": ("kept",), "a": ("a",)},
)
_TOGGLED = SamplePlan(
    stages=(COMMANDS.stages[0][:1],),
    lines={"shared": ("base",), "kept": ("kept",), "on": ("on",)},
)


def _leave_killed(
    bench: Workbench,
    plan: str,
    at: Callable[[Sequence[Point]], Point],
    words: tuple[str, ...] = START,
    exit_status: int = 0,
) -> None:
    """Run a plan, and leave the repository as a kill at one of its points does."""
    make_template(bench.repository, plan)
    if bench.store is not None:
        _kill_at(bench, bench.store, at, words, exit_status)
        return
    recording = record(bench.program(words), exit_status)
    moment = recording.moment(at(recording.points).number)
    shutil.rmtree(bench.repository)
    moment.disk.whole().write_to(bench.repository)


def _kill_at(
    bench: Workbench,
    store: SweptStore,
    at: Callable[[Sequence[Point]], Point],
    words: tuple[str, ...],
    exit_status: int,
) -> None:
    """Kill a run at one of its points. What is in the store cannot be played back, so it is really killed there."""
    fresh = bench.repository.with_name("fresh")
    copy(bench.repository, fresh)
    while True:
        wanted = at(list_points(bench.program(words), exit_status))
        shutil.rmtree(bench.repository)
        copy(fresh, bench.repository)
        store.server.put_back()
        struck = run_with_fault(bench.program(words), Fault("kill", wanted.number)).point
        if struck is not None and struck.stratum == wanted.stratum:
            break  # else another of its threads was faster this time
        shutil.rmtree(bench.repository)
        copy(fresh, bench.repository)
        store.server.put_back()
    shutil.rmtree(fresh)
    store.wait_until_quiet()
    store.end_lease(bench.repository, RUN)


def _first_landing(points: Sequence[Point]) -> Point:
    """Return where the run branch takes in the first task, under git's lock. The branch was made before."""
    moves = [
        point for point in points if (point.syscall, point.path) == ("rename", f".git/{run_branch(RUN)}")
    ]
    return moves[1]


def _first_exit(points: Sequence[Point]) -> Point:
    """Return where the first command's exit is written: it has done all it does, and nobody knows."""
    return next(p for p in points if p.syscall == "rename" and p.path.endswith("/agent/exit.json"))


def _resume(situation: str, plan: SamplePlan, at: Callable[[Sequence[Point]], Point]) -> Operation:
    return Operation(
        "resume",
        situation,
        lambda bench: _leave_killed(bench, plan.text(), at),
        CARRY_ON,
        _continue,
        _completes(plan),
        NextCommand(CARRY_ON),
        has_agents=True,
    )


# ---- stop: a user at another terminal asks for it, so that one tree of processes holds both sides ----

_USER = "../user"
"""The file with the user's process id, as the repository sees it. The task works until it is stopped if there is a user."""
_STOPPED = SamplePlan(
    stages=(
        (SampleTask("first", command("echo first >> first")),),
        (
            SampleTask(
                "stopped",
                command(
                    f"echo more >> more && if grep -q . /proc/$(cat REPOSITORY/{_USER})/cmdline; then exec sleep 60; fi"
                ),
                after=("first",),
            ),
        ),
    ),
    lines={"shared": ("base",), "kept": ("kept",), "first": ("first",), "more": ("more",)},
)
STOP = ("stop", RUN, "--json")
INTERRUPTED = 130


def _stopped(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command whose run a user stops once the second task is at work."""
    return STOPPED_BY_USER, f".holdfast/work/{RUN}/0/more", _USER, *words


def _prepare_stop(bench: Workbench) -> None:
    """Let the first task be about to land: the runner that is stopped lands it and starts the second."""
    _leave_killed(
        bench,
        _STOPPED.text().replace("REPOSITORY", str(bench.repository)),
        _first_landing,
        _stopped(START),
        INTERRUPTED,
    )


# ---- commands about a run that has ended: one task landed, the other failed for good and left half its work ----

_HALF = "if test $HOLDFAST_ATTEMPT_NUMBER = 1; then echo half > half; exit 1; else echo b >> b; fi"
_FAILS = SamplePlan(
    stages=(
        (SampleTask("a", command("echo a >> a")),),
        (SampleTask("b", {"run": ["sh", "-c", _HALF]}, after=("a",)),),
    ),
    lines={"shared": ("base",), "kept": ("kept",), "a": ("a",), "b": ("b",), "half": ("half",)},
    limits={"jobs": 1, "attempts": 1},
)
_ANEW = SamplePlan(_FAILS.stages, {name: text for name, text in _FAILS.lines.items() if name != "half"})
"""The same once `b` was reset, or its failure forgotten: its next attempt does not go on from what the first left."""


def _ended(plan: SamplePlan, code: int) -> Callable[[Workbench], None]:
    """Run the plan to its end in the user's repository."""

    def prepare(bench: Workbench) -> None:
        make_template(bench.repository, plan.text())
        ended = bench.run(*START)
        assert ended.code == code, ended.output

    return prepare


# ---- amend: a check was wrong; the corrected plan has one more task, and what was done is checked, not done again ----

AMEND = ("amend", RUN, "plan.yaml", "--yes", "--json")
_MISTAKEN = SamplePlan(
    stages=((SampleTask("a", command("echo a >> a"), check=("a", "b")),),),
    lines={},
    limits={"jobs": 1, "attempts": 1},
)
_CORRECTED = SamplePlan(
    stages=(
        (SampleTask("a", command("echo a >> a"), check=("a", "a")), SampleTask("c", command("echo c >> c"))),
    ),
    lines={"shared": ("base",), "kept": ("kept",), "a": ("a",), "c": ("c",)},
    limits={**LIMITS, "jobs": 1},
)


def _prepare_amend(bench: Workbench) -> None:
    """Let the check fail for good, then correct the plan file."""
    _ended(_MISTAKEN, 1)(bench)
    (bench.repository / "plan.yaml").write_text(_CORRECTED.text())


def _prepare_amended(bench: Workbench) -> None:
    _prepare_amend(bench)
    ended = bench.run(*AMEND)
    assert ended.code == 0, ended.output


# ---- land ----

LAND = ("land", RUN, "--yes", "--json")
_RESOLVABLE = SamplePlan(
    stages=_SINGLE.stages,
    lines=_SINGLE.lines,
    agents={"resolver": {"command": ["sh", "-c", RESOLVE], "prompt": "file"}},
)
_RESOLVE = (*LAND, "--resolve", "--agent", "resolver")


def _prepare_merge(bench: Workbench) -> None:
    """Let the user's branch go on beside the run, so that landing takes a merge commit."""
    _ended(_SINGLE, 0)(bench)
    path = bench.repository
    (path / "theirs").write_text("theirs\n")
    git(path, "add", "theirs")
    git(path, "commit", "-q", "-m", "theirs", "--", "theirs")


def _prepare_conflict(bench: Workbench) -> None:
    """Let the user's branch change the line that the run changed."""
    _ended(_RESOLVABLE, 0)(bench)
    path = bench.repository
    (path / "shared").write_text("base\ntheirs\n")
    git(path, "commit", "-q", "-m", "theirs", "--", "shared")


def _is_landed(judged: Judged) -> Iterator[Violation]:
    """Judge `land`: the branch has the run's work once, above what it had; files and index follow; edits stay."""
    tip = judged.before.branch.tip
    yield from _landed_once(judged, lambda main, old, line: main == tip or _parents(line) == [(old, tip)])


def _is_landed_linearly(judged: Judged) -> Iterator[Violation]:
    """Judge `land --squash` and `--rebase`, of a run of one task: one commit, without a merge."""
    yield from _landed_once(judged, lambda _, old, line: _parents(line) == [(old,)])


def _is_resolved(judged: Judged) -> Iterator[Violation]:
    """Judge `land --resolve`: one run more, whose landing is on top of the branch, with both sides of the conflict."""
    repository, tip, old = judged.repository, judged.before.branch.tip, judged.before.refs["refs/heads/main"]
    main = judged.end.refs["refs/heads/main"]
    runs = json.loads(judged.holdfast("list", "--json").output)
    if [(run["status"], run["landed_in"]) for run in runs] != [("completed", ["main"])] * 2:
        yield Harmful(13, f"the runs are {runs}", Harm.DOUBLED)
    with GitObjects(repository) as objects:
        line = objects.first_parents(main, old)
        if len(line) != 1 or not {tip, old} <= set(git(repository, "rev-list", main).split()):
            yield Harmful(2, f"main has {line} above {old}", Harm.LANDED_TWICE if line else Harm.LOST)
        found = objects.files(objects.commit(main).tree)
    lines = sorted(found.get("shared", "").split())
    if lines != ["base", "left", "theirs"]:
        yield Harmful(1, f"`shared` has {lines}", Harm.LOST)
    yield from _checkout_follows(repository)


def _parents(line: Sequence[tuple[str, Commit]]) -> list[tuple[str, ...]]:
    return [commit.parents for _, commit in line]


def _landed_once(
    judged: Judged, is_right: Callable[[str, str, Sequence[tuple[str, Commit]]], bool]
) -> Iterator[Violation]:
    repository, tip, old = judged.repository, judged.before.branch.tip, judged.before.refs["refs/heads/main"]
    main = judged.end.refs["refs/heads/main"]
    if judged.end.branch.tip != tip:
        yield Violation(7, f"the run branch was {tip} and is {judged.end.branch.tip}")
    with GitObjects(repository) as objects:
        line = objects.first_parents(main, old)
        if not is_right(main, old, line):
            harm = Harm.LANDED_TWICE if len(line) > 1 else Harm.LOST
            yield Harmful(2, f"main has not the run once above {old}: {line}", harm)
        theirs = {
            name: text for name, text in objects.files(objects.commit(old).tree).items() if name == "theirs"
        }
        found = objects.files(objects.commit(main).tree)
    yield from work_violations(_SINGLE, {name: text for name, text in found.items() if name not in theirs})
    yield from _checkout_follows(repository)


def _checkout_follows(repository: Path) -> Iterator[Violation]:
    status = git(repository, "status", "--porcelain", "-uall").splitlines()
    wanted = [" M kept", "A  staged", "?? plan.yaml", "?? untracked"]
    if [line for line in status if not line.startswith("?? .holdfast")] != wanted:
        yield Violation(16, f"the checkout is not at the new commit with the user's edits, but: {status}")
    if (repository / "kept").read_text() != "edited by the user\n":
        yield Harmful(16, "the user's edit of `kept` is gone", Harm.LOST)


# ---- discard, reset, clean, rebuild ----

DISCARD = ("discard", RUN, "--yes", "--json")
RESET = ("reset", RUN, "--yes", "--json")
RESET_TASK = ("reset", RUN, "b", "--yes", "--json")
CLEAN = ("clean", "--all", "--yes", "--json")
REBUILD = ("rebuild", "--json")
DAMAGED = b"\xff" * 8192


def _archived_once(judged: Judged) -> Iterator[Violation]:
    """Judge `discard`: the run is given up, its branch archived, its unlanded work still there."""
    tip, refs = judged.before.branch.tip, judged.end.refs
    stored = judged.end.stored
    if stored is None or stored.row.status is not RunStatus.ABANDONED:
        yield Violation(14, f"the run is {'gone' if stored is None else stored.row.status}")
    if run_branch(RUN) in refs:
        yield Violation(12, "the run branch is still there")
    kept = [
        ref for ref, name in refs.items() if ref.startswith(f"refs/holdfast/{RUN}/archive/") and name == tip
    ]
    if len(kept) != 1:
        yield Harmful(6, f"the branch is archived {len(kept)} times", Harm.OTHER if kept else Harm.LOST)
    for ref, name in judged.before.refs.items():
        if ref.startswith(f"refs/holdfast/{RUN}/") and refs.get(ref) != name:
            yield Violation(6, f"{ref} was {name} and is {refs.get(ref)}")


def _is_reset(judged: Judged) -> Iterator[Violation]:
    """Judge `reset` of a run: as discarded, with a whole backup."""
    yield from _archived_once(judged)
    backups = judged.repository / ".holdfast" / "backups"
    if not any(
        path.with_name(path.name.replace("-refs.txt", "-journal.db")).exists()
        for path in backups.glob("*-refs.txt")
    ):
        yield Violation(6, "there is no whole backup")


def _is_cleaned(judged: Judged) -> Iterator[Violation]:
    """Judge `clean`: only the branch and the outputs are left."""
    if judged.end.stored is not None:
        yield Violation(14, "the journal still has the run")
    if judged.end.branch.tip != judged.before.branch.tip:
        yield Violation(7, f"the run branch is {judged.end.branch.tip}")
    left = [ref for ref in judged.end.refs if ref.startswith("refs/holdfast/")]
    if left:
        yield Violation(12, f"{left} are still there")
    if not (judged.repository / f".holdfast/outputs/{RUN}/recap.json").exists():
        yield Violation(6, "there is no recap of the run")


def _prepare_rebuild(bench: Workbench) -> None:
    _ended(_FAILS, 1)(bench)
    (bench.repository / ".holdfast" / "journal.db").write_bytes(DAMAGED)


def _is_rebuilt(judged: Judged) -> Iterator[Violation]:
    """Judge `rebuild` and the resume after it: the damaged file is kept once, and the run went on to its end."""
    damaged = [path.read_bytes() for path in (judged.repository / ".holdfast").glob("journal.db.damaged-*")]
    if damaged.count(DAMAGED) != 1:
        yield Violation(15, f"the damaged journal is kept {damaged.count(DAMAGED)} times")
    yield from _is_restored(judged)


def _prepare_emptied(bench: Workbench) -> None:
    """Let the server lose everything."""
    _ended(_FAILS, 1)(bench)
    assert bench.store is not None
    bench.store.wait_until_quiet()
    bench.store.server.put_back()


def _is_restored(judged: Judged) -> Iterator[Violation]:
    """Judge what git gave back: all that had landed is there, nothing was dropped, and the run went on to its end."""
    if judged.end.line[: len(judged.before.line)] != judged.before.line:
        yield Violation(7, f"{judged.before.line} had landed, and the run branch has {judged.end.line}")
    kept = reachable(judged.repository)
    for ref, commit in judged.before.refs.items():
        # Git cannot tell whether `b` failed or was cut short: its work is kept, and it starts clean.
        if ref.startswith(f"refs/holdfast/{RUN}/task/") and commit not in kept:
            yield Violation(6, f"{commit} of {ref} is reachable from no ref")
    yield from _completes(_ANEW)(judged)


# ---- take and give: the task that failed for good goes on by hand ----

TAKE = ("take", RUN, "b", "--no-shell", "--json")
GIVE = ("give", RUN, "b", "--json")
GIVE_BACK = ("give", RUN, "b", "--back", "--json")
_TAKEN = f".holdfast/work/{RUN}/taken-b"
_BY_HAND = SamplePlan(
    stages=(_FAILS.stages[0], (SampleTask("b", _FAILS.stages[1][0].entry, after=("a",), check=("b", "b")),)),
    lines=_FAILS.lines,
    limits=_FAILS.limits,
)


def _is_taken(judged: Judged) -> Iterator[Violation]:
    """Judge `take`: once it is done, the person's workspace holds the work so far. Given back, an agent completes it."""
    assert judged.end.stored is not None
    if judged.end.stored.row.status is RunStatus.COMPLETED:
        yield from _completes(_BY_HAND)(judged)
        return
    taken = next(task for task in judged.end.stored.tasks if task.id == "b").taken
    if taken is None or not taken.ready:
        yield Violation(7, f"`take` is done, and the task is {taken}")
        return
    half = judged.repository / _TAKEN / "half"
    if not half.exists() or half.read_text() != "half\n":
        yield Harmful(6, "the person did not get what the agent had done", Harm.LOST)
    if git(half.parent, "status", "--porcelain").strip():
        yield Violation(12, "the person's workspace is not the commit that it began with")


def _taken_and_written(bench: Workbench) -> None:
    """Let a person take the task and do it."""
    _ended(_BY_HAND, 1)(bench)
    ended = bench.run(*TAKE)
    assert ended.code == 0, ended.output
    (bench.repository / _TAKEN / "b").write_text("b\n")


def _given(bench: Workbench) -> None:
    """Let the person give it, too: the next `resume` takes it in."""
    _taken_and_written(bench)
    ended = bench.run(*GIVE)
    assert ended.code == 0, ended.output


# ---- adopt ----

STATE = "docs/tasks/thing/execute-state.json"
ADOPT = ("adopt", STATE, "--agent", "claude", "--json")


def make_adoptable(path: Path) -> None:
    """Make a repository in which Execute finished one task and was at work on the next, on a branch of its own."""
    make_template(path, _SINGLE.text())
    first = git(path, "rev-parse", "HEAD").strip()
    tree = git(path, "rev-parse", "HEAD^{tree}").strip()
    work = git(path, "commit-tree", "-p", "HEAD", "-m", "half of two", tree).strip()
    git(path, "update-ref", "refs/heads/task/two", work)
    tasks = {
        "L1-001": {"status": "completed", "title": "One", "commit": first},
        "L1-002": {"status": "in_progress", "title": "Two", "branch": "task/two", "attempts": 1},
    }
    (path / STATE).parent.mkdir(parents=True)
    (path / STATE).write_text(json.dumps({"version": "2.0", "status": "in_progress", "tasks": tasks}))


def _is_adopted_once(judged: Judged) -> Iterator[Violation]:
    """Judge `adopt`: there is one run; what git proves is done in it, and the other task's work is saved."""
    runs = json.loads(judged.holdfast("list", "--json").output)
    if len(runs) != 1:
        harm = Harm.DOUBLED if runs else Harm.LOST
        yield Harmful(13, f"there are {len(runs)} runs of one adoption", harm)
        return
    shown = json.loads(judged.holdfast("status", "--json").output)
    found = {task["id"]: task["status"] for task in shown["tasks"]}
    if found != {"L1-001": "completed", "L1-002": "pending"}:
        yield Violation(7, f"the adopted tasks are {found}")
    saved = [
        ref.rpartition("/")[2] for ref in judged.end.refs if f"refs/holdfast/{runs[0]['id']}/wip/" in ref
    ]
    if saved != ["L1-002"]:
        yield Violation(6, f"the unfinished work of {saved} is saved")


def _command(
    name: str,
    situation: str,
    prepare: Callable[[Workbench], None],
    words: tuple[str, ...],
    violations: Callable[[Judged], Iterator[Violation]],
    also: str = "",
    *,
    changes_checkout: bool = False,
) -> Operation:
    """Return an operation that a user completes by typing the same words again."""
    again = NextCommand(words)
    return Operation(
        name,
        situation,
        prepare,
        words,
        lambda _: (again,),
        violations,
        again,
        also,
        is_done_at_once=True,
        changes_checkout=changes_checkout,
    )


OPERATIONS: tuple[Operation, ...] = (
    CONFLICTING_RUN,
    run_of(COMMANDS.text(), COMMANDS, "commands"),
    run_of(AGENTS.text(), AGENTS, "agents"),
    run_of(OUTAGE.text(), OUTAGE, "outage"),
    _resume("landing", _SINGLE, _first_landing),
    _resume("working", _TOGGLED, _first_exit),
    Operation(
        "stop",
        "live",
        _prepare_stop,
        _stopped(CARRY_ON),
        lambda _: (NextCommand(STOP), NextCommand(CARRY_ON)),
        _completes(_STOPPED),
        NextCommand(CARRY_ON),
        exit_status=INTERRUPTED,
        has_agents=True,
    ),
    Operation(
        "amend",
        "rest",
        _prepare_amend,
        AMEND,
        lambda _: (NextCommand(AMEND), NextCommand(CARRY_ON)),
        _completes(_CORRECTED),
        NextCommand(CARRY_ON),
        r"agreements/.*",
    ),
    Operation(
        "resume",
        "amended",
        _prepare_amended,
        CARRY_ON,
        _continue,
        _completes(_CORRECTED),
        NextCommand(CARRY_ON),
        has_agents=True,
    ),
    _command("land", "fast-forward", _ended(_SINGLE, 0), LAND, _is_landed, changes_checkout=True),
    _command("land", "merge", _prepare_merge, LAND, _is_landed, changes_checkout=True),
    _command(
        "land", "squash", _prepare_merge, (*LAND, "--squash"), _is_landed_linearly, changes_checkout=True
    ),
    _command(
        "land", "rebase", _prepare_merge, (*LAND, "--rebase"), _is_landed_linearly, changes_checkout=True
    ),
    Operation(
        "land",
        "resolve",
        _prepare_conflict,
        _RESOLVE,
        lambda _: (NextCommand(_RESOLVE),),
        _is_resolved,
        NextCommand(LAND),
        r"runs/02-.*",
        has_agents=True,
        changes_checkout=True,
    ),
    _command("discard", "failed", _ended(_FAILS, 1), DISCARD, _archived_once),
    _command(
        "adopt",
        "execute",
        lambda bench: make_adoptable(bench.repository),
        ADOPT,
        _is_adopted_once,
        r"runs/.*",
    ),
    Operation(
        "rebuild",
        "failed",
        _prepare_rebuild,
        REBUILD,
        lambda _: (NextCommand(REBUILD, (0, 3)), NextCommand(CARRY_ON)),
        _is_rebuilt,
        NextCommand(CARRY_ON),
        r"journal\.db\.damaged-.*",
        repairs_journal=True,
    ),
    Operation(
        "take",
        "failed",
        _ended(_BY_HAND, 1),
        TAKE,
        lambda _: (NextCommand(TAKE), NextCommand(GIVE_BACK), NextCommand(CARRY_ON)),
        _is_taken,
        NextCommand(CARRY_ON),
        has_agents=True,
        is_done_at_once=True,
    ),
    Operation(
        "give",
        "recorded",
        _taken_and_written,
        GIVE,
        lambda _: (NextCommand(GIVE, (0, 2)), NextCommand(CARRY_ON)),
        _completes(_BY_HAND),
        NextCommand(CARRY_ON),
        has_agents=True,
    ),
    Operation(
        "give",
        "taken-in",
        _given,
        CARRY_ON,
        _continue,
        _completes(_BY_HAND),
        NextCommand(CARRY_ON),
        has_agents=True,
    ),
    _command("clean", "completed", _ended(_SINGLE, 0), CLEAN, _is_cleaned, rf"outputs/{RUN}/.*"),
    _command("reset", "run", _ended(_FAILS, 1), RESET, _is_reset, r"backups/.*"),
    Operation(
        "reset",
        "task",
        _ended(_FAILS, 1),
        RESET_TASK,
        lambda _: (NextCommand(RESET_TASK), NextCommand(CARRY_ON)),
        _completes(_ANEW),
        NextCommand(CARRY_ON),
        r"backups/.*",
    ),
)

STORED_OPERATIONS: tuple[Operation, ...] = (
    *(operation for operation in OPERATIONS if not operation.repairs_journal),
    Operation(
        "rebuild",
        "emptied",
        _prepare_emptied,
        REBUILD,
        lambda _: (NextCommand(REBUILD, (0, 3)), NextCommand(CARRY_ON)),
        _is_restored,
        NextCommand(CARRY_ON),
        repairs_journal=True,
    ),
)
"""Those of a repository whose journal is in a server, which can be emptied, but not damaged."""
