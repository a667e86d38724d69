"""From a goal to a plan, or to a change of a run's plan: asks a supervised planner agent, in its own workspace, until it is valid.

A plan is kept per goal, so no goal is planned twice. After a kill, the same command continues: a planner that still
works is waited for, one that finished is collected, and the kept plan is whole or missing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import reduce
from itertools import count
from pathlib import Path

from holdfast.agents.invocation import invoke_agent, require_root_accepted
from holdfast.agents.presets import Preset
from holdfast.agents.streams.reader import observe_output, readable_output
from holdfast.core.brief import clip
from holdfast.core.facts import Exit, ExitReason, Presence
from holdfast.core.observations import StreamSummary
from holdfast.core.outcome import Outcome, OutcomeKind, WorkSign, judge_outcome
from holdfast.core.plan import Limits, Plan, plan_hash
from holdfast.core.planning_brief import (
    PLAN_FILE,
    amending_brief,
    fenced_yaml,
    goal_key,
    planning_brief,
    same_goal,
)
from holdfast.core.projection import Spent
from holdfast.core.status import SandboxLevel
from holdfast.errors import ExitCode, HoldfastError, PlanError
from holdfast.fleet import open_fleet
from holdfast.fleet.protocol import AGENT_STEP, Fleet, LaunchKey
from holdfast.journal.lease import Lease
from holdfast.paths import RunDir, StateDir
from holdfast.repo.commit_contents import list_files
from holdfast.repo.debris import clear_debris
from holdfast.repo.files import read_regular, remove, remove_if_allowed, write_durably
from holdfast.repo.repository import Repository
from holdfast.repo.workspaces import Workspaces
from holdfast.runner.launch import placeholders, workspace_launch
from holdfast.runner.sandbox import Sandbox, require_good_variables
from holdfast.runner.sandbox_setting import SandboxRequest, SandboxSetting, setting_in_force
from holdfast.system_errors import doing

TRIES = 3
_LOSSES = 9
_FILES_BYTES = 32_000
_PLAN_BYTES = 16 * 1024 * 1024
_TAIL_CHARS = 4_000
_PLANNER = "planner"

ReadPlan = Callable[[bytes], Plan]


class PlanningError(HoldfastError):
    """The planner did not produce a valid plan."""

    exit_code = ExitCode.TASKS_FAILED


@dataclass(frozen=True, slots=True)
class PlanToChange:
    """The plan of a run and what is asked of it besides: the text that the planner edits, and where the tasks stand.

    `commit` is where the run branch is; `record` keeps the answer.
    """

    request: str
    text: str
    standings: str
    commit: str
    record: Path


@dataclass(frozen=True, slots=True)
class PlanningOrder:
    """What to plan, with which agent, and how to read an answer. `read` raises PlanError for a bad plan.

    `goal` is that of the plan. `specification` is a text that says more than the goal. Another text is another plan.
    With `change`, the planner changes the plan of a run: in the sandbox that its plan asks for, and that it had before.
    """

    goal: str
    agent: str
    spec: Preset
    schema: str
    read: ReadPlan
    specification: str = ""
    sandbox: SandboxRequest = field(default_factory=SandboxRequest)
    change: PlanToChange | None = None
    sandbox_of_plan: SandboxSetting = field(default_factory=SandboxSetting)
    sandbox_before: SandboxSetting = field(default_factory=SandboxSetting)

    def record(self, state: StateDir) -> Path:
        """Return the file that keeps the answer."""
        return self.change.record if self.change else plan_record(state, self.goal, self.specification)

    def start(self, repo: Repository) -> str:
        """Return the commit that the planner looks at."""
        return self.change.commit if self.change else repo.resolve("HEAD")

    def brief(self, files: str, schema_path: str, feedback: list[str]) -> str:
        """Return what the planner is told."""
        change = self.change
        if change is None:
            return planning_brief(self.goal, self.agent, files, schema_path, feedback, self.specification)
        return amending_brief(
            change.request, self.agent, change.text, change.standings, files, schema_path, feedback
        )


@dataclass(frozen=True, slots=True)
class Planned:
    """A valid plan for a goal and the file that holds it; `tries` is 0 if it was there before. `spent` is for all of them."""

    path: Path
    plan: Plan
    tries: int = 0
    spent: Spent = field(default_factory=Spent)


def plan_record(state: StateDir, goal: str, specification: str = "") -> Path:
    """Return the file that keeps the plan for a goal and its specification."""
    return state.plans / f"{goal_key(goal, specification)}.yaml"


def change_records(state: StateDir, run: str, request: str) -> Iterator[Path]:
    """Yield the kept answers to a request to change the plan of a run, whatever plan it had then."""
    yield from state.plans.glob(f"{goal_key(request, run)}-*.yaml")


def change_record(state: StateDir, run: str, request: str, plan: Plan) -> Path:
    """Return the file that keeps the answer to a request to change this plan of a run."""
    return state.plans / f"{goal_key(request, run)}-{plan_hash(plan)[:12]}.yaml"


def known_plan(path: Path, goal: str, read: ReadPlan) -> Planned | None:
    """Return the plan in a file if it is valid and for this goal, else None."""
    try:
        plan = read(read_regular(path))
    except PlanError:
        return None
    return Planned(path, plan) if same_goal(plan.goal, goal) else None


def make_plan(repo: Repository, order: PlanningOrder, tell: Callable[[str], None]) -> Planned:
    """Return the kept plan for a goal, or let a planner write it. Raises LeaseHeldError if another process does that."""
    record = order.record(repo.state_dir)
    repo.prepare_state_dir()
    directory = repo.state_dir.run(f"plan-{record.stem}")
    with Lease.acquire(directory.lease):
        planned = known_plan(record, order.goal, order.read)
        workspaces = Workspaces(repo, directory.workspaces)
        if planned is None:
            with closing(open_fleet(repo.state_dir.fleet)) as fleet:
                require_good_variables()
                setting = setting_in_force(
                    order.sandbox, fleet.sandbox_obstacle, order.sandbox_before, order.sandbox_of_plan
                )
                is_off = setting.level is SandboxLevel.OFF
                if is_off and os.geteuid() == 0:
                    require_root_accepted(order.spec, os.environ)
                sandbox = None if is_off else Sandbox(repo, directory, setting, order.start(repo))
                workspaces = Workspaces(repo, directory.workspaces, clones=sandbox is not None)
                planning = _Planning(repo, order, record, directory, workspaces, fleet, sandbox, tell)
                planned = asyncio.run(planning.run())
        workspaces.remove_all()
        for folder in (directory.attempts, directory.homes):
            remove_if_allowed(folder)
        return planned


@dataclass(frozen=True, slots=True)
class _Planning:
    """A planner at work. Its name as a run is that of its folder; each of its answers is an attempt."""

    repo: Repository
    order: PlanningOrder
    record: Path
    directory: RunDir
    workspaces: Workspaces
    fleet: Fleet
    sandbox: Sandbox | None
    tell: Callable[[str], None]

    @property
    def name(self) -> str:
        return self.directory.root.name

    def key(self, attempt: int) -> LaunchKey:
        return LaunchKey(self.name, _PLANNER, attempt, AGENT_STEP)

    def folder(self, attempt: int) -> Path:
        return self.directory.attempts / _PLANNER / str(attempt)

    def feedback_file(self, attempt: int) -> Path:
        """The file that says what is wrong with an answer; it exists once the answer was judged."""
        return self.folder(attempt) / "feedback.txt"

    def token_file(self, attempt: int) -> Path:
        """The file that holds the token of a planner, so that its end counts also if we are started again."""
        return self.folder(attempt) / "token"

    async def run(self) -> Planned:
        """Ask the planner until its plan is valid. Raises PlanningError if it never is."""
        await self._recover()
        feedback: list[str] = []
        losses = 0
        for attempt in count(1):
            if not self.feedback_file(attempt).exists():
                ended = await self._answer(attempt, feedback)
                if ended is None or ended.reason is ExitReason.CANCELLED:
                    losses += 1
                    if losses > _LOSSES:
                        hint = "look at the machine's memory"
                        raise PlanningError("the planner was killed again and again", hint)
                    await self.fleet.sweep(self.name, frozenset())
                    continue
                plan = await asyncio.to_thread(self._judge, attempt, ended)
                if plan is not None:
                    return Planned(self.record, plan, len(feedback) + 1, self._spent(attempt))
            feedback.append(self.feedback_file(attempt).read_text(encoding="utf-8"))
            self.tell(
                f"The planner's answer {len(feedback)} was not accepted: {feedback[-1].splitlines()[0]}"
            )
            if len(feedback) >= TRIES:
                break
        attempts = self.directory.attempts
        hint = f"its output is in {attempts}; say the goal in other words, or write the plan yourself"
        raise PlanningError(f"no valid plan after {TRIES} tries; the last one:\n{feedback[-1]}", hint)

    def _spent(self, attempts: int) -> Spent:
        """Return what the planner used, as far as its streams say."""
        outputs = (self.fleet.output(self.key(number)).data for number in range(1, attempts + 1))
        each = (observe_output(self.order.spec, printed).spent for printed in outputs)
        return reduce(Spent.plus, each, Spent())

    async def _recover(self) -> None:
        """End what a killed planning left, except a planner at work, and forget one that failed for good."""
        alive = frozenset(self.fleet.live_launches(self.name))
        await self.fleet.sweep(self.name, alive)
        in_use = (_PLANNER,) if alive else ()
        await asyncio.to_thread(clear_debris, self.repo, self.workspaces, in_use)
        if len(list(self.directory.attempts.glob(f"{_PLANNER}/*/feedback.txt"))) >= TRIES:
            remove(self.directory.attempts)

    async def _answer(self, attempt: int, feedback: list[str]) -> Exit | None:
        """Launch the agent if that never happened, and wait for it. An interrupted wait ends the agent."""
        key = self.key(attempt)
        with suppress(FileNotFoundError):
            self.fleet.recognise(key, self.token_file(attempt).read_text())
        presence = self.fleet.inspect(key).presence
        if presence is Presence.UNKNOWN:
            self.tell(f"{self.order.agent} is planning …")
            await self._launch(attempt, feedback)
        elif presence is Presence.ALIVE:
            self.tell(f"{self.order.agent} is still planning …")
        try:
            return (await self.fleet.wait(key)).exit
        except asyncio.CancelledError:
            await self.fleet.cancel(key)
            raise

    async def _launch(self, attempt: int, feedback: list[str]) -> None:
        start = self.order.start(self.repo)
        workspace = await asyncio.to_thread(self.workspaces.prepare, _PLANNER, start)
        remove(workspace / PLAN_FILE)  # a plan that was in the project before is no answer
        if self.order.change is not None:
            (workspace / PLAN_FILE).write_text(self.order.change.text, encoding="utf-8")
        brief = self.folder(attempt) / "brief.md"
        await asyncio.to_thread(self._write_brief, brief, start, feedback)
        key, limits = self.key(attempt), Limits()
        how = invoke_agent(self.order.spec, placeholders(key, workspace, brief))
        timeout_s, stall_s = limits.timeout_s, limits.stall_s
        launch = workspace_launch(
            key,
            how,
            workspace,
            brief,
            timeout_s=timeout_s,
            stall_s=stall_s,
            sandbox=self.sandbox,
            limits=Limits(),
            shown=(_schema_file(brief),),
        )
        self.token_file(attempt).write_text(launch.token)
        await self.fleet.launch(launch)

    def _write_brief(self, path: Path, start: str, feedback: list[str]) -> None:
        order, schema = self.order, _schema_file(path)
        brief = order.brief(list_files(self.repo, start, _FILES_BYTES), str(schema), feedback)
        with doing("write the planner's brief", path):
            path.parent.mkdir(parents=True, exist_ok=True)
            schema.write_text(order.schema, encoding="utf-8")
            path.write_text(brief, encoding="utf-8", errors="replace")

    def _ending(self, attempt: int, ended: Exit, heard: StreamSummary) -> Outcome:
        """Return how the planner ended: well, or with a bad answer.

        Raises PlanningError if a limit or a missing permission kept it from working: that is no answer. The attempt is
        forgotten, so that the next request asks again.
        """
        spec = self.order.spec
        by_code = spec.error_patterns().of_exit(ended.code) if ended.code > 0 else None
        outcome = judge_outcome(ended, heard, WorkSign.NOT_NEEDED, by_code=by_code)
        if outcome.end in (OutcomeKind.LIMITED, OutcomeKind.BLOCKED):
            remove(self.folder(attempt))
            raise PlanningError(
                f"{self.order.agent} could not plan: {outcome.error}",
                "ask again when that is over, or name another one with --agent",
            )
        return outcome

    def _judge(self, attempt: int, ended: Exit) -> Plan | None:
        """Keep a valid answer and return its plan, or write down what is wrong. Idempotent.

        Raises PlanningError if the planner could not work at all.
        """
        printed = self.fleet.output(self.key(attempt)).data
        heard = observe_output(self.order.spec, printed)
        ending = self._ending(attempt, ended, heard)
        output = readable_output(self.order.spec, printed, heard)
        written = _written(self.workspaces.path(_PLANNER) / PLAN_FILE)
        if self.order.change is not None and written == self.order.change.text.encode():
            written = b""
        answer = written or fenced_yaml(output).encode()
        try:
            plan = self._accept(ending, answer, clip(output, _TAIL_CHARS))
        except PlanError as error:
            write_durably(self.feedback_file(attempt), error.message.encode())
            return None
        write_durably(self.record, answer)
        return plan

    def _accept(self, ending: Outcome, answer: bytes, tail: str) -> Plan:
        """Return the plan of an answer, or raise PlanError. An agent that did not end well may have written half of it."""
        if ending.end is not OutcomeKind.DONE:
            raise PlanError(f"the planner did not end well: {ending.error}\n{tail}")
        if not answer.strip():
            done = "changed" if self.order.change else "written"
            raise PlanError(f"{PLAN_FILE} was not {done}, and no fenced yaml block was printed\n{tail}")
        plan = self.order.read(answer)
        if not same_goal(plan.goal, self.order.goal):
            raise PlanError(f"goal: it must be exactly: {self.order.goal}")
        return plan


def _written(path: Path) -> bytes:
    """Return what the planner wrote; nothing if it is not a plain file, or too large to be a plan."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            data = file.read(_PLAN_BYTES + 1)
    except OSError:
        return b""
    return data if len(data) <= _PLAN_BYTES else b""


def _schema_file(brief: Path) -> Path:
    """Return the file that tells a planner what a plan looks like; its brief names it."""
    return brief.with_name("plan.schema.json")
