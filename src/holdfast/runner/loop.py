"""The loop of a live run: decide, append, act, append. Driven by results, requests and timers, never by polling.

All events of one turn, results and new intents alike, are one append and one sync.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from holdfast.core import events as ev
from holdfast.core.commands import (
    CheckTask,
    CloseStage,
    Command,
    LandTasks,
    OpenStage,
    StartAttempt,
    ValidateTask,
    intents,
    undo_intents,
)
from holdfast.core.decide import decide, next_wake
from holdfast.core.event_codec import storable
from holdfast.core.state import RunState
from holdfast.core.status import RunStatus, TaskStatus
from holdfast.core.transitions import IllegalEventError
from holdfast.journal.lease import Holder, holder
from holdfast.runner.attempts.attempt import run_attempt
from holdfast.runner.checkout_monitor import CheckoutMonitor
from holdfast.runner.context import RunContext
from holdfast.runner.effect_errors import OvertakenError, guarded
from holdfast.runner.landing.merge_queue import land_tasks
from holdfast.runner.recovery.recover import recover
from holdfast.runner.requests import open_bell, pending_requests
from holdfast.runner.verification.checks import check_task
from holdfast.runner.verification.gates import check_gate
from holdfast.runner.verification.validators import validate_task

Observer = Callable[[Sequence[ev.Event], RunState], None]
Effect = Coroutine[Any, Any, list[ev.Event]]
_Delivery = tuple[Sequence[ev.Event], "asyncio.Future[None] | None"]
_REPORTS_S = 2.0
_NAP_S = 60.0
"""The longest sleep at once: the timer stands still while the machine sleeps, the run's clock does not."""


class RunLoop:
    """One runner's turn at a run. It owns the run's lease for as long as it lives."""

    def __init__(self, context: RunContext, observer: Observer) -> None:
        self._context = context
        self._observer = observer
        self._watchman = CheckoutMonitor(context)
        self._inbox: list[_Delivery] = []
        self._woken = asyncio.Event()
        self._effects: set[asyncio.Task[None] | None] = set()
        self._spool: list[Path] = []
        self._saving: set[Path] = set()
        self._failure: BaseException | None = None
        self._decided_at = 0.0
        context.record = self._record

    async def run(self) -> RunStatus:
        """Carry the run on until it rests. Raises what stopped us when the run could not be left at rest."""
        attached = self._attach()
        self._commit([attached, *await recover(self._context)])
        await self._watchman.begin()
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
        with _Doorbell(self._context, self._answer_bell, self._ask_to_stop, self._hear):
            self._read_requests()
            while self._context.state.row.status is RunStatus.RUNNING:
                self._turn()
                await self._wait()
        return self._context.state.row.status

    def _attach(self) -> ev.Event:
        us = holder(self._context.lease.path) or Holder()
        event = ev.RunnerAttached(epoch=self._context.epoch, pid=us.pid, host=us.host, boot_id=us.boot_id)
        self._context.state.apply(event)
        return event

    # -- one turn -------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        """Take in what arrived, decide until nothing is left to decide, write it all down, then act."""
        deliveries, self._inbox = self._inbox, []
        events: list[ev.Event] = []
        answers = [(waiter, self._accept(arrived, events)) for arrived, waiter in deliveries]
        commands = self._decide(events)
        self._commit(events)
        for waiter, refused in answers:
            _answer(waiter, refused)
        if self._context.state.row.stopping:
            self._context.stopping.set()
        for command in commands:
            self._act(command)

    def _accept(self, arrived: Sequence[ev.Event], events: list[ev.Event]) -> IllegalEventError | None:
        """Apply results, leaving out what may no longer happen: an old attempt's word changes nothing."""
        refused = None
        for event in map(storable, arrived):
            try:
                self._context.state.apply(event)
            except IllegalEventError as error:
                refused = error
            else:
                events.append(event)
        return refused

    def _decide(self, events: list[ev.Event]) -> list[Command]:
        state, effects = self._context.state, []
        self._decided_at = self._context.clock()
        while commands := decide(state, self._decided_at):
            for command in commands:
                token = secrets.token_hex(16) if isinstance(command, StartAttempt) else ""
                for event in intents(command, token):
                    state.apply(event)
                    events.append(event)
                effects.append(command)
        return effects

    def _commit(self, events: Sequence[ev.Event]) -> None:
        """Make a turn durable. If this fails nothing has been acted on, and the runner ends; agents live on."""
        if not events:
            return
        state = self._context.state
        self._context.journal.append(
            state.row.run, self._context.epoch, events, state.row, state.take_changed(), time.time()
        )
        for path in self._spool:
            path.unlink(missing_ok=True)
        self._spool.clear()
        self._observer(events, state)

    def _act(self, command: Command) -> None:
        context = self._context
        match command:
            case StartAttempt(task=task):
                self._start(command, run_attempt(context, task))
            case CheckTask():
                self._start(command, check_task(context, command))
            case ValidateTask():
                self._start(command, validate_task(context, command))
            case LandTasks():
                self._start(command, land_tasks(context, command))
            case OpenStage(stage):
                self._start(command, check_gate(context, stage, "entry"))
            case CloseStage(stage):
                self._start(command, check_gate(context, stage, "exit"))

    # -- effects --------------------------------------------------------------------------------------------

    def _start(self, command: Command, effect: Effect) -> None:
        self._effects.add(asyncio.create_task(self._see_through(command, effect)))

    async def _see_through(self, command: Command, effect: Effect) -> None:
        """Run an effect and deliver what came of it. An error nobody foresaw ends the runner, not the agents."""
        try:
            events = await guarded(effect, undo_intents(command))
            if isinstance(command, StartAttempt):
                events += await self._watchman.look_round(command.task)
            self._deliver(events)
        except Exception as error:  # noqa: BLE001 - handed to the loop, which raises it
            self._failure = error
            self._woken.set()
        finally:
            self._effects.discard(asyncio.current_task())

    def _deliver(self, events: Sequence[ev.Event], waiter: asyncio.Future[None] | None = None) -> None:
        if not events and waiter is None:
            return
        self._inbox.append((events, waiter))
        self._woken.set()

    async def _record(self, events: Sequence[ev.Event]) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._deliver(events, waiter)
        await waiter

    async def _wait(self) -> None:
        """Sleep until something arrives or the next retry is due."""
        wake_at = next_wake(self._context.state)
        # What was due when we last decided waits for a place, not for the clock.
        timeout = None
        if wake_at is not None and wake_at > self._decided_at:
            timeout = min(max(0.0, wake_at - self._context.clock()), _NAP_S)
        if self._context.state.row.status is RunStatus.RUNNING:
            try:
                await asyncio.wait_for(self._woken.wait(), timeout)
            except TimeoutError:
                return
        self._woken.clear()
        if self._failure is not None:
            raise self._failure

    # -- requests -------------------------------------------------------------------------------------------

    def _ask_to_stop(self) -> None:
        self._deliver([ev.StopRequested()])

    def _answer_bell(self) -> None:
        self._read_requests()
        self._hear()

    def _hear(self) -> None:
        """Take in what agents reported."""
        self._deliver(self._context.reports.fresh())

    def _read_requests(self) -> None:
        for path, request in pending_requests(self._context.directory):
            if path in self._spool or path in self._saving:
                continue
            if request is not None and request.action == "save":
                self._saving.add(path)
                self._effects.add(asyncio.create_task(self._save(path)))
                continue
            self._spool.append(path)
            match request:
                case None:
                    continue
                case _ if request.action == "stop":
                    self._deliver([ev.StopRequested()])
                case _ if request.action == "pause":
                    self._deliver([ev.PauseRequested(now=request.now)])
                case _ if request.action == "retry":
                    self._deliver([ev.TaskReset(task=request.task)])
                case _ if request.action == "accept":
                    self._deliver([ev.StageGateWaived(stage=request.stage, gate=request.gate)])
                case _ if request.action == "mirror":
                    self._deliver([ev.MirrorKept(system=request.system, folder=request.folder)])
                case _ if request.action == "unmirror":
                    self._deliver([ev.MirrorEnded(system=request.system)])
                case _:
                    self._deliver([ev.TaskSkipped(task=request.task)])

    async def _save(self, path: Path) -> None:
        """Have all work under way saved, then remove the request: that is its answer. Nothing is written for it."""
        await self._context.checkpoints.take()
        path.unlink(missing_ok=True)
        self._saving.discard(path)
        self._effects.discard(asyncio.current_task())


def _answer(waiter: asyncio.Future[None] | None, refused: IllegalEventError | None) -> None:
    """Tell an effect that what it recorded is durable, or that it may not go on."""
    if waiter is None or waiter.done():
        return
    if refused is None:
        waiter.set_result(None)
    else:
        waiter.set_exception(OvertakenError(str(refused)))


class _Doorbell:
    """Listens for requests and signals while the loop runs, and stops listening after.

    An agent's sandbox may keep it from ringing, so every now and then its reports are looked for without a ring.
    """

    def __init__(
        self,
        context: RunContext,
        on_ring: Callable[[], None],
        on_stop: Callable[[], None],
        on_tick: Callable[[], None],
    ) -> None:
        self._directory = context.directory
        self._on_ring = on_ring
        self._on_stop = on_stop
        self._on_tick = on_tick
        self._bell = -1

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        self._bell = open_bell(self._directory)
        loop.add_reader(self._bell, self._ring)
        self._timer = loop.call_later(_REPORTS_S, self._tick)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_stop)

    def __exit__(self, *exc: object) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        self._timer.cancel()
        loop.remove_reader(self._bell)
        os.close(self._bell)

    def _ring(self) -> None:
        os.read(self._bell, 4096)
        self._on_ring()

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_REPORTS_S, self._tick)
        self._on_tick()
