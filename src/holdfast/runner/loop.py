"""The loop of a live run: decide, append, act, append. Results, requests and timers drive it; it never polls.

All events of one turn, results and new intents alike, are one append and one sync.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.boot import boot_id
from holdfast.core import events as ev
from holdfast.core.commands import (
    CheckBase,
    CheckTask,
    CloseStage,
    Command,
    HandOver,
    LandTasks,
    OpenStage,
    StartAttempt,
    ValidateTask,
    intents,
)
from holdfast.core.decide import decide, leads_on, next_wake
from holdfast.core.event_codec import storable
from holdfast.core.status import RunStatus, TaskStatus
from holdfast.core.task_transitions import IllegalEventError
from holdfast.errors import HoldfastError, JournalError, LeaseLostError
from holdfast.journal.lease import Holder, holder
from holdfast.runner.amendments import amendment_for, end_restarted, keep_amended_plan
from holdfast.runner.attempts.attempt import run_attempt
from holdfast.runner.attempts.person import hand_over
from holdfast.runner.checkout_monitor import CheckoutMonitor
from holdfast.runner.context import Observer, RunContext
from holdfast.runner.effect_errors import OvertakenError, error_text, guarded
from holdfast.runner.landing.merge_queue import land_tasks
from holdfast.runner.recovery.recover import recover
from holdfast.runner.requests import (
    Request,
    RequestListener,
    author_of,
    event_for,
    pending_requests,
    refuse_request,
    remove_requests,
    remove_void_requests,
)
from holdfast.runner.verification.base_check import check_base
from holdfast.runner.verification.gates import check_gate
from holdfast.runner.verification.task_checks import check_task
from holdfast.runner.verification.validators import validate_task
from holdfast.system_errors import doing

Effect = Coroutine[Any, Any, list[ev.Event]]
_SLEEP_MAX_S = 60.0
"""The longest sleep at once: the timer stands still while the machine sleeps, the run's clock does not."""


class RunLoop:
    """One runner's turn at a run. It needs the run's lease for as long as it lives."""

    def __init__(self, context: RunContext, monitor: CheckoutMonitor, observers: Sequence[Observer]) -> None:
        self._context = context
        self._inbox = context.inbox
        self._monitor = monitor
        self._observers = observers
        self._effects: set[asyncio.Task[None] | None] = set()
        self._answered: list[Path] = []
        self._saving: set[Path] = set()
        self._amendments: dict[Path, Request] = {}
        self._failure: BaseException | None = None
        self._decided_at = 0.0

    async def run(self) -> RunStatus:
        """Run until the run rests. Raises the error that stopped us if the run could not be left at rest."""
        rebooted = self._context.state.row.is_of_earlier_boot(boot_id())
        self._run_beside(self._context.held.keep())
        attached = self._attach()
        with doing("recover what an earlier runner left"):
            recovered = await recover(self._context, rebooted=rebooted)
        await self._commit([attached, *recovered])
        await self._monitor.begin()
        self._watch_running()
        remove_void_requests(self._context.directory, self._context.journal.events(self._context.run))
        with RequestListener(self._context.directory, self._read_requests, self._read_reports, self._stop):
            self._read_requests()
            while self._context.state.row.status is RunStatus.RUNNING:
                await self._turn()
                await self._wait()
            # Somebody may have skipped a task while a workspace of it was made for a person: that ends under our lease, too.
            async with self._context.workspaces.hand_over_lock:
                return self._context.state.row.status

    async def record_at_rest(self, events: Sequence[ev.Event]) -> None:
        """Record what is known only after the run rests. The rest is durable: a journal error is harmless."""
        applied, _ = self._context.state.apply_possible(events)
        if applied:
            self._context.held.leaving.set()
            with suppress(JournalError, LeaseLostError):
                await self._context.append(applied)
            self._tell(applied)

    def _attach(self) -> ev.Event:
        us = holder(self._context.lease.path) or Holder()
        event = ev.RunnerAttached(
            epoch=self._context.epoch,
            pid=us.pid,
            host=us.host,
            boot_id=us.boot_id,
            sandbox=self._context.setting.level,
            sandbox_by=self._context.setting.by,
            network=self._context.setting.network,
        )
        self._context.state.apply(event)
        return event

    def _watch_running(self) -> None:
        """Watch the attempts that an earlier runner started."""
        for task in list(self._context.state.active.values()):
            if task.status is TaskStatus.RUNNING:
                self._act(
                    StartAttempt(
                        task.id,
                        task.attempt,
                        task.latest.workspace_number,
                        task.latest.start,
                        task.latest.kind,
                    )
                )

    # -- one turn -------------------------------------------------------------------------------------------

    async def _turn(self) -> None:
        """Take in what arrived, decide until nothing is left to decide, make it all durable, then act."""
        events: list[ev.Event] = []
        answers = [(durable, self._accept(arrived, events)) for arrived, durable in self._inbox.take()]
        amended = self._amend(events)
        commands = self._decide(events)
        await self._commit(events)
        for durable, refused in answers:
            _answer(durable, refused)
        if self._context.state.row.stopping:
            self._context.stopping.set()
        for event in events:
            if isinstance(event, ev.TaskTaken):
                self._context.taken_by_person(self._context.state.tasks[event.task])
        for command in commands:
            self._act(command)
        if amended:
            self._follow_amendment()

    def _accept(self, arrived: Sequence[ev.Event], events: list[ev.Event]) -> IllegalEventError | None:
        """Apply results. Leave out what may no longer happen, such as an old attempt's result."""
        applied, refused = self._context.state.apply_possible(map(storable, arrived))
        events.extend(applied)
        return refused

    def _decide(self, events: list[ev.Event]) -> list[Command]:
        state, decided = self._context.state, list[Command]()
        self._decided_at = self._context.clock()
        while commands := decide(state, self._decided_at):
            for command in commands:
                token = self._context.new_token() if isinstance(command, StartAttempt) else ""
                for event in intents(command, token, time.time()):
                    state.apply(event)
                    events.append(event)
                decided.append(command)
            if not leads_on(commands):
                break
        return decided

    async def _commit(self, events: Sequence[ev.Event]) -> None:
        """Make a turn durable. If this fails, nothing has been acted on and the runner ends; agents live on.

        Somebody may have moved the repository: then what we saw of workspaces is not true, and is not recorded.
        """
        await self._context.require_lease()
        if events:
            await self._context.append(events)
        if self._answered:
            remove_requests(self._answered)
            self._answered.clear()
        if events:
            self._tell(events)

    def _tell(self, events: Sequence[ev.Event]) -> None:
        self._context.reports.note_recorded(events)
        for observer in self._observers:
            observer(events, self._context.state)

    def _act(self, command: Command) -> None:
        context = self._context
        match command:
            case StartAttempt(task=task):
                self._start(command, run_attempt(context, task))
            case CheckTask(task=task):
                self._start(command, check_task(context, task))
            case ValidateTask(task=task):
                self._start(command, validate_task(context, task))
            case LandTasks():
                self._start(command, land_tasks(context, command))
            case HandOver(task, start):
                self._start(command, hand_over(context, task, start))
            case CheckBase():
                self._start(command, check_base(context))
            case OpenStage(stage):
                self._start(command, check_gate(context, stage, "entry"))
            case CloseStage(stage):
                self._start(command, check_gate(context, stage, "exit"))

    # -- effects --------------------------------------------------------------------------------------------

    def _start(self, command: Command, effect: Effect) -> None:
        self._run_beside(self._deliver(command, effect))

    async def _deliver(self, command: Command, effect: Effect) -> None:
        """Run the effect of a command and deliver its events."""
        events = await guarded(command, effect)
        if isinstance(command, StartAttempt):
            events += await self._monitor.look_round(command.task)
        self._inbox.deliver(events)

    def _run_beside(self, effect: Coroutine[Any, Any, None]) -> None:
        """Run an effect while the loop goes on. An unexpected error ends the runner, not the agents."""
        self._effects.add(asyncio.create_task(self._run_effect(effect)))

    async def _run_effect(self, effect: Coroutine[Any, Any, None]) -> None:
        try:
            await effect
        except Exception as error:  # noqa: BLE001 - handed to the loop, which raises it
            self._failure = error
            self._inbox.woken.set()
        finally:
            self._effects.discard(asyncio.current_task())

    async def _wait(self) -> None:
        """Sleep until something arrives or the next retry is due."""
        wake_at = next_wake(self._context.state, self._decided_at)
        timeout = None
        if wake_at is not None:
            timeout = min(max(0.0, wake_at - self._context.clock()), _SLEEP_MAX_S)
        if self._context.state.row.status is RunStatus.RUNNING:
            try:
                async with asyncio.timeout(timeout):
                    await self._inbox.woken.wait()
            except TimeoutError:
                return
        self._inbox.woken.clear()
        if self._failure is not None:
            await self._context.require_lease()  # if the repository was moved, that is the cause to name
            raise self._failure

    # -- requests -------------------------------------------------------------------------------------------

    def _stop(self) -> None:
        self._context.held.leaving.set()
        self._inbox.deliver([ev.StopRequested()])

    def _read_reports(self) -> None:
        self._inbox.deliver(self._context.reports.fresh())

    def _read_requests(self) -> None:
        """Take in each request once. Its file goes when its event is durable, or when all work is saved.

        Who wakes us may stand where the repository was moved to: then no request is found here, and the next turn ends us.
        """
        self._inbox.woken.set()
        for path, request in pending_requests(self._context.directory):
            if path in self._answered or path in self._saving or path in self._amendments:
                continue
            author = author_of(path)
            if request is not None and request.action == "save":
                self._saving.add(path)
                self._effects.add(asyncio.create_task(self._save(path)))
            elif request is None or author is None:
                remove_requests([path])
            elif (agent := self._context.fleet.launch_of(author)) is not None:
                refuse_request(
                    path, f"it came from the {agent.step} of task {agent.owner}: agents decide nothing"
                )
            elif request.action == "amend":
                self._amendments[path] = request
            else:
                self._answered.append(path)
                self._inbox.deliver([event_for(request, path.stem)])

    def _amend(self, events: list[ev.Event]) -> bool:
        """Take the plans that people want now, each judged by the state as it is now; tell whether there was one."""
        amended = False
        for path, request in self._amendments.items():
            try:
                event = amendment_for(self._context, request, path.stem)
                self._context.state.apply(event)
            except (HoldfastError, IllegalEventError) as error:
                refuse_request(path, error_text(error))
                continue
            self._context.take_amended_plan()
            events.append(event)
            self._answered.append(path)
            amended = True
        self._amendments.clear()
        return amended

    def _follow_amendment(self) -> None:
        """Do what a durable amendment asks for: git keeps the plan, and agents end whose task begins again.

        If we are killed before, the next runner does both.
        """
        context = self._context
        self._run_beside(keep_amended_plan(context))
        for task in context.state.active.values():
            if task.latest.restart:
                self._run_beside(end_restarted(context, task))

    async def _save(self, path: Path) -> None:
        """Have all work under way saved, then remove the request or refuse it: that is the answer. Writes no event."""
        if failures := await self._context.save_requests.take():
            refuse_request(path, "; ".join(f"could not save {task}: {why}" for task, why in failures.items()))
        else:
            remove_requests([path])
        self._saving.discard(path)
        self._effects.discard(asyncio.current_task())


def _answer(durable: asyncio.Future[None] | None, refused: IllegalEventError | None) -> None:
    """Tell an effect that its events are durable, or that it must not continue."""
    if durable is None or durable.done():
        return
    if refused is None:
        durable.set_result(None)
    else:
        durable.set_exception(OvertakenError(str(refused)))
