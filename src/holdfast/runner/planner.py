"""From a goal to a plan: a supervised planner agent in a workspace of its own, asked again until its plan is valid.

A plan is kept per goal, so nobody plans twice. Whatever is killed here, doing it again carries on: a planner that
still works is waited for, one that finished is collected, and the kept plan is whole or not there.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from holdfast.agents.invocation import Placeholders, invoke_agent
from holdfast.agents.presets import Preset
from holdfast.agents.streams.reader import observe_output, readable_output
from holdfast.core.brief import clip
from holdfast.core.facts import Exit, ExitReason, Presence, Sighting
from holdfast.core.outcome import OutcomeKind, WorkSign, judge_outcome
from holdfast.core.plan import Limits, Plan
from holdfast.core.planning_brief import PLAN_FILE, fenced_yaml, goal_key, planning_brief, same_goal
from holdfast.errors import ExitCode, HoldfastError, PlanError
from holdfast.fleet import open_fleet
from holdfast.fleet.protocol import Fleet, LaunchKey
from holdfast.journal.lease import Lease
from holdfast.paths import RunDir, StateDir
from holdfast.repo.commit_contents import list_files
from holdfast.repo.debris import clear_debris
from holdfast.repo.files import write_atomically
from holdfast.repo.repository import Repository
from holdfast.repo.workspaces import Workspaces
from holdfast.runner.launch import workspace_launch

TRIES = 3
_LOSSES = 9
_FILES_BYTES = 32_000
_PLAN_BYTES = 16 * 1024 * 1024
_TAIL_CHARS = 4_000
_PLANNER = "planner"
_LIMITS = Limits()

ReadPlan = Callable[[bytes], Plan]


class PlanningError(HoldfastError):
    """The planner did not come up with a valid plan."""

    exit_code = ExitCode.TASKS_FAILED


@dataclass(frozen=True, slots=True)
class PlanningOrder:
    """What is to be planned, by whom, and how an answer is judged. `read` raises PlanError for a bad plan.

    `specification` is a text that says more than the goal; another text is another planning.
    """

    goal: str
    agent: str
    spec: Preset
    schema: str
    read: ReadPlan
    specification: str = ""


@dataclass(frozen=True, slots=True)
class Planned:
    """A valid plan for a goal and the file that holds it; `tries` is 0 if it was there before."""

    path: Path
    plan: Plan
    tries: int = 0


@dataclass(frozen=True, slots=True)
class _PlanningSession:
    """Everything one planning needs."""

    repo: Repository
    work: PlanningOrder
    name: str
    directory: RunDir
    workspaces: Workspaces
    fleet: Fleet

    def key(self, attempt: int) -> LaunchKey:
        return LaunchKey(self.name, _PLANNER, attempt, "agent")

    def folder(self, attempt: int) -> Path:
        return self.directory.attempts / _PLANNER / str(attempt)

    def verdict(self, attempt: int) -> Path:
        """The file that says what was wrong with an answer; it is there once the answer was judged."""
        return self.folder(attempt) / "feedback.txt"


def plan_record(state: StateDir, goal: str, specification: str = "") -> Path:
    """Return the file in which the plan for a goal, and for what a specification says of it, is kept."""
    return state.plans / f"{goal_key(goal, specification)}.yaml"


def known_plan(path: Path, goal: str, read: ReadPlan) -> Planned | None:
    """Return the plan in a file if it is valid and for this goal, else None."""
    try:
        plan = read(path.read_bytes())
    except (PlanError, OSError):
        return None
    return Planned(path, plan) if same_goal(plan.goal, goal) else None


def make_plan(repo: Repository, work: PlanningOrder, tell: Callable[[str], None]) -> Planned:
    """Return the kept plan for a goal, or let a planner write it. Raises LeaseHeldError if somebody else does just now."""
    record = plan_record(repo.state, work.goal, work.specification)
    repo.require_own_state_dir()
    repo.hide_state_dir()
    name = f"plan-{record.stem}"
    directory = repo.state.run(name)
    with Lease.acquire(directory.lease):
        workspaces = Workspaces(repo, directory.workspaces)
        known = known_plan(record, work.goal, work.read)
        if known is None:
            known = asyncio.run(_plan(repo, work, name, workspaces, record, tell))
        workspaces.remove_all()
        shutil.rmtree(directory.attempts, ignore_errors=True)
        return known


async def _plan(
    repo: Repository,
    work: PlanningOrder,
    name: str,
    workspaces: Workspaces,
    record: Path,
    tell: Callable[[str], None],
) -> Planned:
    fleet = open_fleet(repo.state.fleet)
    session = _PlanningSession(repo, work, name, repo.state.run(name), workspaces, fleet)
    try:
        await _recover(session)
        return await _ask_until_valid(session, record, tell)
    finally:
        fleet.close()


async def _recover(session: _PlanningSession) -> None:
    """End what a killed planning left, except a planner at work, and forget one that failed for good."""
    alive = frozenset(session.fleet.live_launches(session.name))
    await session.fleet.sweep(session.name, alive)
    in_use = (_PLANNER,) if alive else ()
    await asyncio.to_thread(clear_debris, session.repo, session.workspaces, in_use)
    judged = list(session.directory.attempts.glob(f"{_PLANNER}/*/feedback.txt"))
    if len(judged) >= TRIES:
        shutil.rmtree(session.directory.attempts)


async def _ask_until_valid(session: _PlanningSession, record: Path, tell: Callable[[str], None]) -> Planned:
    feedback: list[str] = []
    losses = 0
    for attempt in count(1):
        if not session.verdict(attempt).exists():
            sighting = await _run_planner(session, attempt, feedback, tell)
            if sighting.exit is None or sighting.exit.reason is ExitReason.CANCELLED:
                losses += 1
                if losses > _LOSSES:
                    raise PlanningError(
                        "the planner was killed again and again", "look at the machine's memory"
                    )
                await session.fleet.sweep(session.name, frozenset())
                continue
            _require_able(session, attempt, sighting.exit)
            planned = await asyncio.to_thread(_judge, session, attempt, sighting.exit, record)
            if planned is not None:
                return Planned(record, planned, len(feedback) + 1)
        feedback.append(session.verdict(attempt).read_text(encoding="utf-8"))
        tell(f"The planner's answer {len(feedback)} was not accepted: {feedback[-1].splitlines()[0]}")
        if len(feedback) >= TRIES:
            break
    hint = f"its output is in {session.directory.attempts}; say the goal in other words, or write the plan yourself"
    raise PlanningError(f"no valid plan after {TRIES} tries; the last one:\n{feedback[-1]}", hint)


async def _run_planner(
    session: _PlanningSession, attempt: int, feedback: list[str], tell: Callable[[str], None]
) -> Sighting:
    """See one attempt through: launched if it never was, waited for if it lives. An interrupted wait ends the agent."""
    key = session.key(attempt)
    presence = session.fleet.inspect(key).presence
    if presence is Presence.UNKNOWN:
        tell(f"{session.work.agent} is planning …")
        await _launch(session, attempt, feedback)
    elif presence is Presence.ALIVE:
        tell(f"{session.work.agent} is still planning …")
    try:
        return await session.fleet.wait(key)
    except asyncio.CancelledError:
        await session.fleet.cancel(key)
        raise


async def _launch(session: _PlanningSession, attempt: int, feedback: list[str]) -> None:
    head = session.repo.resolve("HEAD")
    workspace = await asyncio.to_thread(session.workspaces.prepare, _PLANNER, head)
    (workspace / PLAN_FILE).unlink(missing_ok=True)  # a plan that the project has already is no answer
    brief = await asyncio.to_thread(_write_brief, session, attempt, head, feedback)
    values = Placeholders(
        brief_path=str(brief),
        brief_text=brief.read_text(encoding="utf-8"),
        workspace=str(workspace),
        task=_PLANNER,
        attempt=attempt,
        run=session.name,
    )
    how = invoke_agent(session.work.spec, values)
    timeout_s, stall_s = _LIMITS.timeout_s, _LIMITS.stall_s
    launch = workspace_launch(
        session.key(attempt), how, workspace, brief, timeout_s=timeout_s, stall_s=stall_s
    )
    await session.fleet.launch(launch)


def _write_brief(session: _PlanningSession, attempt: int, head: str, feedback: list[str]) -> Path:
    folder = session.folder(attempt)
    folder.mkdir(parents=True, exist_ok=True)
    schema = folder / "plan.schema.json"
    schema.write_text(session.work.schema, encoding="utf-8")
    path = folder / "brief.md"
    files = list_files(session.repo, head, _FILES_BYTES)
    work = session.work
    brief = planning_brief(work.goal, work.agent, files, str(schema), feedback, work.specification)
    path.write_text(brief, encoding="utf-8", errors="replace")
    return path


def _require_able(session: _PlanningSession, attempt: int, ended: Exit) -> None:
    """Raise PlanningError if the planner could not work, for a limit or for want of a person: that is no answer to judge.

    The attempt is forgotten, so that the next request asks anew.
    """
    spec = session.work.spec
    heard = observe_output(spec, session.fleet.output(session.key(attempt)).data)
    by_code = spec.error_patterns().of_exit(ended.code) if ended.code > 0 else None
    outcome = judge_outcome(ended, heard, WorkSign.NOT_NEEDED, by_code=by_code)
    if outcome.end in (OutcomeKind.LIMITED, OutcomeKind.BLOCKED):
        shutil.rmtree(session.folder(attempt))
        raise PlanningError(
            f"{session.work.agent} could not plan: {outcome.error}",
            "ask again when that is over, or name another one with --agent",
        )


def _judge(session: _PlanningSession, attempt: int, ended: Exit, record: Path) -> Plan | None:
    """Keep a valid answer and return its plan, or write down what is wrong with it. Judging again says the same."""
    printed = session.fleet.output(session.key(attempt)).data
    output = readable_output(session.work.spec, printed, observe_output(session.work.spec, printed))
    answer = _written(session.workspaces.path(_PLANNER) / PLAN_FILE) or fenced_yaml(output).encode()
    wrong = _how_it_failed(ended, output)
    if not wrong and not answer.strip():
        wrong = (
            f"{PLAN_FILE} was not written, and no fenced yaml block was printed\n{clip(output, _TAIL_CHARS)}"
        )
    if not wrong:
        try:
            plan = session.work.read(answer)
        except PlanError as error:
            wrong = error.message
        else:
            if same_goal(plan.goal, session.work.goal):
                record.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(record, answer)
                return plan
            wrong = f"goal: it must be exactly: {session.work.goal}"
    write_atomically(session.verdict(attempt), wrong.encode())
    return None


def _how_it_failed(ended: Exit, output: str) -> str:
    """Return what the agent's end says against its answer; one that did not end well may have written half a plan."""
    if ended.reason is ExitReason.EXITED and ended.code == 0:
        return ""
    how = f"status {ended.code}" if ended.reason is ExitReason.EXITED else ended.error or str(ended.reason)
    return f"the planner did not end well: {how}\n{clip(output, _TAIL_CHARS)}"


def _written(path: Path) -> bytes:
    """Return what the planner wrote; nothing if that is no plain file, or too large to be a plan."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    with os.fdopen(handle, "rb") as file:
        try:
            data = file.read(_PLAN_BYTES + 1)
        except OSError:
            return b""
    return data if len(data) <= _PLAN_BYTES else b""
