"""One run that an agent leads: the runner's loop, a fleet that offers tasks, the agent's queries and actions.

Everything happens in one event loop. Questions are answered from the loop's own state. What the agent does
becomes the end of a launch, so checks, merge and landing work as in any other run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Container, Sequence

from holdfast.core import events as ev
from holdfast.core.facts import ExitReason
from holdfast.core.state import RunState
from holdfast.core.status import TASK_IS_SETTLED, RunStatus, StageStatus, TaskStatus
from holdfast.errors import HoldfastError
from holdfast.fleet.lead import ClaimError, LeadFleet, Offer
from holdfast.mcp_server.tool_results import (
    CheckpointResult,
    ReadyResult,
    StatusResult,
    TakeResult,
    TaskResult,
    TextResult,
    attempt_result,
    held_task,
    ready_task,
    take_result,
    task_result,
)
from holdfast.paths import RunDir, StateDir
from holdfast.repo.refs import refs_by_commit
from holdfast.report_channel import LINE_BYTES_MAX, REPORT_VARIABLE, WAKE_VARIABLE, ReportData, send_report
from holdfast.reporting.displayed_status import displayed_task_statuses
from holdfast.reporting.resume_note import resume_note
from holdfast.runner.requests import NotSavedError, Request, send_request
from holdfast.runner.session import RunSession
from holdfast.views.status import status_view
from holdfast.views.text import timestamp

_UNSETTLED_MAX = 50
_STAGE_IS_OPEN = (StageStatus.OPENING, StageStatus.RUNNING, StageStatus.CLOSING, StageStatus.BLOCKED)
_TASK_IS_UNDER_WAY = (
    TaskStatus.RUNNING,
    TaskStatus.VERIFYING,
    TaskStatus.VERIFIED,
    TaskStatus.MERGING,
)
_MAY_BE_OFFERED = (TaskStatus.PENDING, TaskStatus.FAILED, TaskStatus.RUNNING)
_END_S = 2.0
CLAIM_S = 30.0
"""How long a claim waits for a task that becomes ready by itself."""
WAIT_MAX_S = 600.0


class LedRun:
    """A run with a live loop while an agent works on its tasks.

    It ends by itself when the run comes to rest.
    """

    def __init__(self, session: RunSession) -> None:
        self._session = session
        self._directory: RunDir = session.repo.state_dir.run(session.state.row.run)
        self._changed = asyncio.Event()
        self._fleet = self._make_fleet(session.repo.state_dir)
        self._task = asyncio.create_task(self._execute())

    @property
    def name(self) -> str:
        """The run's id."""
        return self.state.row.run

    @property
    def state(self) -> RunState:
        """The run's state as the loop has it."""
        return self._session.state

    @property
    def is_over(self) -> bool:
        """Whether the run has come to rest, and its lease is free."""
        return self._task.done() and self._task.exception() is None

    # -- what the agent can ask --------------------------------------------------------------------------------

    async def ready(self, wait_s: float) -> ReadyResult:
        """Return what can be claimed. While nothing can, wait for it, or for the run to come to rest."""
        await self._until(lambda: bool(self._fleet.offers()), wait_s)
        return ReadyResult(
            run=self.name,
            status=self.state.row.status,
            ready=tuple(ready_task(self.state, offer) for offer in self._fleet.offers()),
            claimed=tuple(offer.spec.key.owner for offer in self._fleet.taken()),
        )

    def status(self) -> StatusResult:
        """Return where the run stands, with the first of the unsettled tasks."""
        view = status_view(self._session.journal.load(self.name), "this agent", time.time())
        statuses = self._statuses()
        unsettled = [task for task in self.state.tasks.values() if statuses[task.id] not in TASK_IS_SETTLED]
        return StatusResult(
            run=self.name,
            goal=view.run.goal,
            status=view.run.status,
            detail=view.run.detail,
            branch=view.run.branch,
            ready=tuple(ready_task(self.state, offer) for offer in self._fleet.offers()),
            claimed=tuple(map(held_task, self._fleet.taken())),
            stages=tuple(stage for stage in view.stages if stage.status in _STAGE_IS_OPEN)[:_UNSETTLED_MAX],
            unsettled=tuple(task_result(task, statuses[task.id]) for task in unsettled[:_UNSETTLED_MAX]),
            left_off=max(0, len(unsettled) - _UNSETTLED_MAX),
            metrics=view.metrics,
        )

    def resume_brief(self) -> TextResult:
        """Return what an agent must know after it lost its context: the goal, what landed, what it holds, what is ready."""
        refs = refs_by_commit(self._session.repo, self.name)
        claims = map(held_task, self._fleet.taken())
        held = [f"- {held.task}: token {held.token}, workspace {held.workspace}" for held in claims]
        ready = [f"- {offer.spec.key.owner}" for offer in self._fleet.offers()]
        next_steps = "\n".join(
            ["You hold:", *(held or ["- nothing"]), "", "Ready:", *(ready or ["- nothing yet"])]
        )
        return TextResult(
            run=self.name, text=resume_note(self.state, refs, timestamp(time.time()), next_steps)
        )

    def brief_of(self, task: str) -> TextResult:
        """Return the brief of a task's current attempt."""
        row = self.state.tasks.get(task)
        if row is None or not row.attempt:
            raise ClaimError(f"no attempt at a task {task} has begun", "list what is ready")
        return TextResult(run=self.name, text=self._brief(task, row.attempt))

    # -- what the agent can do --------------------------------------------------------------------------------

    async def take(self, task: str, wait_s: float) -> TakeResult:
        """Take a task that is ready, or becomes so without the agent within this time. Raises ClaimError if it does not."""
        self._require_alive()
        if task not in self.state.tasks:
            raise ClaimError(f"there is no task {task} in run {self.name}", "list what is ready")
        await self._until(lambda: not self._is_on_its_way(task), wait_s)
        self._require_alive()
        offer = self._fleet.take(task)
        return take_result(offer, self._brief(task, offer.spec.key.attempt))

    def heartbeat(self, task: str, token: str) -> CheckpointResult:
        """Note a sign of life of the claim's holder."""
        return self._checkpoint_result(self._held(task, token))

    async def checkpoint(self, task: str, token: str, report: ReportData) -> CheckpointResult:
        """Save the current unfinished work, with a report on it. Without a change, nothing new is saved.

        Raises NotSavedError if it could not be saved.
        """
        offer = self._held(task, token)
        if report:
            await self._report(offer, report)
        saved = asyncio.ensure_future(self._session.save_requests.take())
        await asyncio.wait([saved, self._task], return_when=asyncio.FIRST_COMPLETED)
        if saved.done() and (why := saved.result().get(task)):
            raise NotSavedError.of(f"could not save {task}: {why}")
        saved.cancel()  # a run that failed saves nothing any more
        return self._checkpoint_result(offer)

    async def complete(self, task: str, token: str, summary: str, wait_s: float) -> TaskResult:
        """End a claim as done. Wait that long for its checks and its landing, and return the result."""
        if summary:
            await self._report(self._held(task, token), {"summary": summary})
        return await self._end(self._held(task, token), wait_s, words=summary)

    async def fail(self, task: str, token: str, reason: str) -> TaskResult:
        """End a claim as failed. The next attempt gets the reason; the work is kept."""
        return await self._end(self._held(task, token), _END_S, code=1, words=reason[:LINE_BYTES_MAX])

    async def ask(self, task: str, token: str, question: ReportData) -> TaskResult:
        """Ask a person about a claimed task and end the claim at that. The work is kept, no attempt is charged."""
        offer = self._held(task, token)
        await self._report(offer, question)
        return await self._end(offer, _END_S)

    async def release(self, task: str, token: str) -> TaskResult:
        """Give a claim back unfinished. The work is kept, no attempt is charged."""
        return await self._end(self._held(task, token), _END_S, ExitReason.CANCELLED)

    async def pause(self, *, now: bool, wait_s: float) -> RunStatus:
        """Offer nothing more and come to rest when all claims are over. `now` ends them, their work kept."""
        with send_request(self._directory, Request(action="pause", now=now)) as request:
            await self._until(lambda: request.is_answered, _END_S)
            await self._until(lambda: False, wait_s)
        return self.state.row.status

    async def release_all(self) -> None:
        """Give every claim back, its work kept. The run stays as it is, without a runner.

        The lease is kept too: it ends with this process, when nothing of it can act any more.
        """
        if self._task.done():
            return
        for offer in self._fleet.taken():
            await self._fleet.finish(offer, ExitReason.CANCELLED)
            await self._until_past(offer, {TaskStatus.RUNNING}, _END_S)

    # -- inside ---------------------------------------------------------------------------------------------

    def _make_fleet(self, state: StateDir) -> LeadFleet:
        def is_led(task: str) -> bool:
            return task in self.state.specs and not self.state.specs[task].run

        return LeadFleet(state, is_led, self._wake)

    async def _execute(self) -> None:
        try:
            await self._session.execute(self._observe, self._fleet)
            self._session.close()
        finally:
            self._wake()

    def _observe(self, _events: Sequence[ev.Event], state: RunState) -> None:
        if state.row.pausing:
            self._fleet.withdraw()
        self._wake()

    def _wake(self) -> None:
        """Wake all waiters for a change; later ones wait for the next change."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _until(self, holds: Callable[[], bool], seconds: float) -> None:
        """Wait until `holds` is true or the run has come to rest, with a time limit."""
        # A client may send NaN, and a timer with that value would block all others.
        bounded = min(seconds, WAIT_MAX_S) if seconds > 0 else 0.0
        try:
            async with asyncio.timeout(bounded):
                while not (holds() or self._task.done()):
                    await self._changed.wait()
        except TimeoutError:
            return

    def _require_alive(self) -> None:
        if not self._task.done():
            return
        if (error := self._task.exception()) is not None:
            raise HoldfastError(
                f"the run failed: {error}", "start this server again and open the run: it continues"
            ) from error
        raise ClaimError(f"run {self.name} is {self.state.row.status}", "open a run first")

    def _held(self, task: str, token: str) -> Offer:
        self._require_alive()
        return self._fleet.held(task, token)

    async def _end(
        self,
        offer: Offer,
        wait_s: float,
        reason: ExitReason = ExitReason.EXITED,
        *,
        code: int = 0,
        words: str = "",
    ) -> TaskResult:
        """End a claim and wait until the attempt has its outcome: it landed, or there will be another one."""
        await self._fleet.finish(offer, reason, code, words)
        await self._until_past(offer, _TASK_IS_UNDER_WAY, wait_s)
        return attempt_result(self.state, offer.spec.key, self._statuses()[offer.spec.key.owner])

    def _is_on_its_way(self, task: str) -> bool:
        """Tell whether a task is about to be offered: all that is left before that happens by itself.

        A task that another one's completion made ready is offered a moment later: its workspace is prepared first, and the
        gates of its stage may have to be checked.
        """
        row, state = self.state.tasks[task], self.state
        in_hand = {offer.spec.key.owner for offer in (*self._fleet.offers(), *self._fleet.taken())}
        if task in in_hand or row.status not in _MAY_BE_OFFERED or state.row.pausing or state.row.stopping:
            return False
        if row.status is TaskStatus.RUNNING:
            return True
        before = self._tasks_before(task)
        return len(in_hand) < state.jobs and all(
            state.tasks[name].status in (*TASK_IS_SETTLED, *_TASK_IS_UNDER_WAY) and name not in in_hand
            for name in before
        )

    def _tasks_before(self, task: str) -> set[str]:
        """Return the tasks that a task needs, by itself or because of its stage."""
        spec, stage = self.state.specs[task], self.state.stages[self.state.stage_of[task]]
        before = {*spec.needs, *spec.needs_interface}
        waiting = list(stage.needs)
        while waiting:
            needed = self.state.stages[waiting.pop()]
            before |= {one.id for one in needed.tasks}
            waiting += needed.needs
        return before

    def _statuses(self) -> dict[str, TaskStatus]:
        """Return the displayed statuses.

        To the runner an offered task is running; to the agent it has not begun.
        """
        offered = dict.fromkeys((offer.spec.key.owner for offer in self._fleet.offers()), TaskStatus.PENDING)
        return displayed_task_statuses(self.state) | offered

    async def _until_past(self, offer: Offer, statuses: Container[TaskStatus], seconds: float) -> None:
        """Wait until the task has another attempt or left these statuses, with a time limit."""

        def is_past() -> bool:
            row = self.state.tasks[offer.spec.key.owner]
            return row.attempt > offer.spec.key.attempt or row.status not in statuses

        await self._until(is_past, seconds)

    async def _report(self, offer: Offer, report: ReportData) -> None:
        env = offer.spec.env
        await asyncio.to_thread(send_report, env[REPORT_VARIABLE], env[WAKE_VARIABLE], report)

    def _checkpoint_result(self, offer: Offer) -> CheckpointResult:
        task = self.state.tasks[offer.spec.key.owner]
        return CheckpointResult(task=task.id, commit=task.latest.snapshot or None)

    def _brief(self, task: str, attempt: int) -> str:
        return self._directory.brief(task, attempt).read_text(encoding="utf-8")
