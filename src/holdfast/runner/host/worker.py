"""The worker of a host: offers its slots, takes launches, and sees those through that an earlier worker of this host began.

What it accepted is on disk, synced, before anything starts. So a worker that was killed and started again knows all of it.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
from temporalio import activity
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from holdfast import __version__
from holdfast.errors import HoldfastError, LeaseHeldError
from holdfast.fleet.protocol import token_of
from holdfast.fleet.temporal.address import FleetAddress, host_queue
from holdfast.fleet.temporal.connection import connect
from holdfast.fleet.temporal.messages import HostOffer, HostOrder
from holdfast.fleet.temporal.workflows import (
    HOST_ACTIVITY,
    HOST_WORKFLOW,
    LAUNCH_ACTIVITY,
    OFFER_EVERY_S,
    HostWorkflow,
)
from holdfast.locks import open_lockable, try_lock
from holdfast.repo.files import read_regular, write_durably
from holdfast.runner.host.host_launch import HostLaunch, LaunchRefusedError
from holdfast.runner.host.host_workspace import HostRepository

_AGAIN_S = 1.0


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """What a host writes down of a launch before it begins: how to speak to the server about it, and what to look for here.

    The order has the public token in the place of the secret, and nothing that could be one.
    """

    task_token: bytes
    order: HostOrder


class HostWorker:
    """One worker in its home, which holds all that the host keeps: repositories, launches, what was accepted."""

    def __init__(
        self,
        address: FleetAddress,
        home: Path,
        labels: tuple[str, ...],
        room: int,
        say: Callable[[str], None],
    ) -> None:
        self._address = address
        self._home = home
        self._say = say
        self.host = _host_id(home)
        self._offer = HostOffer(
            host=self.host, name=socket.gethostname(), version=__version__, labels=labels, room=room
        )
        self._room = asyncio.Semaphore(room)
        self._places: dict[str, HostRepository] = {}
        self._launches: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Work until somebody ends the worker. Agents live on; without a worker, until their lease lapses."""
        stopping = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopping.set)
        client = await connect(self._address)
        self._reattach(client)
        worker = Worker(
            client,
            task_queue=host_queue(self.host),
            workflows=[HostWorkflow],
            activities=[self._activity_of_launches(client), self._tell_offer],
            workflow_runner=UnsandboxedWorkflowRunner(),
            max_cached_workflows=0,
            max_concurrent_workflow_task_polls=1,
            max_heartbeat_throttle_interval=timedelta(seconds=OFFER_EVERY_S / 2),
            default_heartbeat_throttle_interval=timedelta(seconds=OFFER_EVERY_S / 2),
        )
        async with worker:
            announcing = asyncio.ensure_future(self._announce(client))
            self._say(f"worker {self.host} offers {self._offer.room} slots")
            await stopping.wait()
            announcing.cancel()
            with suppress(RPCError):
                await client.get_workflow_handle(_offer_id(self.host)).terminate("the worker leaves")

    # -- what the host offers -----------------------------------------------------------------------------------

    async def _announce(self, client: Client) -> None:
        """Keep the host's offer known. It lapses if the server hears nothing for a while; then it is made again."""
        while True:
            with suppress(RPCError, WorkflowFailureError):
                handle = await client.start_workflow(
                    HOST_WORKFLOW,
                    host_queue(self.host),
                    id=_offer_id(self.host),
                    task_queue=host_queue(self.host),
                    id_conflict_policy=WorkflowIDConflictPolicy.TERMINATE_EXISTING,
                )
                await handle.result()
            await asyncio.sleep(_AGAIN_S)

    @activity.defn(name=HOST_ACTIVITY)
    async def _tell_offer(self) -> None:
        """Tell what the host offers and how much of it is taken, again and again."""
        while True:
            offer = msgspec.structs.replace(self._offer, busy=len(self._launches))
            activity.heartbeat(msgspec.json.encode(offer))
            await asyncio.sleep(OFFER_EVERY_S)

    # -- what it accepts ----------------------------------------------------------------------------------------

    def _activity_of_launches(self, client: Client) -> Callable[..., object]:
        @activity.defn(name=LAUNCH_ACTIVITY)
        async def launch(order: bytes) -> bytes:
            """Accept a launch. Its end is told later, perhaps by another worker of this host."""
            self._accept(client, activity.info().task_token, msgspec.json.decode(order, type=HostOrder))
            activity.raise_complete_async()

        return launch

    def _accept(self, client: Client, task_token: bytes, order: HostOrder) -> None:
        file = self._accepted / f"{hashlib.sha256(task_token).hexdigest()[:24]}.json"
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        kept = msgspec.structs.replace(order, secret=token_of(order.secret), given={}, argv=())
        write_durably(file, msgspec.json.encode(Accepted(task_token=task_token, order=kept)))
        launch = self._launch(client, task_token, order)
        self._begin(launch.run(self._room), launch, file)

    def _reattach(self, client: Client) -> None:
        """See through what an earlier worker accepted."""
        for file in sorted(self._accepted.glob("*.json")):
            try:
                found = msgspec.json.decode(read_regular(file), type=Accepted)
            except msgspec.MsgspecError:
                file.unlink()  # a power cut tore it: nothing had begun
                continue
            launch = self._launch(client, found.task_token, found.order)
            self._begin(launch.reattach(self._room), launch, file)

    def _launch(self, client: Client, task_token: bytes, order: HostOrder) -> HostLaunch:
        if (place := self._places.get(order.clone)) is None:
            place = self._places[order.clone] = HostRepository(self._home, order.clone)
        handle = client.get_async_activity_handle(task_token=task_token)
        return HostLaunch(order, place, handle, self.host, self._say)

    def _begin(self, work: Coroutine[Any, Any, None], launch: HostLaunch, file: Path) -> None:
        task = asyncio.ensure_future(self._see_through(work, launch, file))
        self._launches.add(task)
        task.add_done_callback(self._launches.discard)

    async def _see_through(self, work: Coroutine[Any, Any, None], launch: HostLaunch, file: Path) -> None:
        key = launch.order.key
        try:
            await work
        except LaunchRefusedError:
            self._say(f"{key.owner} attempt {key.attempt}: refused, somebody else has it")
        except HoldfastError as error:
            self._say(f"{key.owner} attempt {key.attempt}: {error.message}")
        file.unlink(missing_ok=True)

    @property
    def _accepted(self) -> Path:
        return self._home / "accepted"


def hold_home(home: Path) -> int:
    """Make a worker's home and lock it for as long as this process lives. Raises LeaseHeldError if a worker is there."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    fd = open_lockable(home / "lock")
    if not try_lock(fd):
        os.close(fd)
        raise LeaseHeldError(
            f"a worker is at work in {home}", "end it, or give this one a home of its own: --home DIR"
        )
    return fd


def _host_id(home: Path) -> str:
    """Return the permanent name of a host, made when its home is new: names of machines are not unique."""
    file = home / "host"
    if not file.exists():
        write_durably(file, f"{socket.gethostname()}-{os.urandom(4).hex()}".encode())
    return read_regular(file).decode()


def _offer_id(host: str) -> str:
    return f"holdfast-host/{host}"
