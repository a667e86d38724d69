"""The fleet of many machines: each launch is a workflow that carries it to a host, and a folder here that shows it.

Every answer comes from Temporal, or from what was written down when it closed the launch. What runs on a host is the same
supervisor and the same agent as on one machine; see `runner/host/` for that side.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import msgspec
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from holdfast import __version__
from holdfast.boot import boot_id
from holdfast.core.facts import Presence, Sighting
from holdfast.errors import HostGoneError, LaunchError
from holdfast.fleet.local import LocalFleet
from holdfast.fleet.protocol import LaunchKey, LaunchSpec
from holdfast.fleet.temporal.address import NO_SANDBOX, FleetAddress, host_queue, runner_queue, workflow_id
from holdfast.fleet.temporal.carried_launch import (
    CarriedLaunch,
    CarriedRecord,
    carried_record,
    closed_sighting,
    is_closed,
)
from holdfast.fleet.temporal.carrier import SentWorkspace, WorkspaceCarrier
from holdfast.fleet.temporal.connection import RPC_S, Connection, is_final, persistently
from holdfast.fleet.temporal.hosts import HostOffers, choose_host
from holdfast.fleet.temporal.messages import ORDER_BYTES_MAX, HostOrder
from holdfast.fleet.temporal.workflows import LAUNCH_WORKFLOW, LaunchWorkflow
from holdfast.paths import StateDir
from holdfast.process.launch_order import make_folder, record_file, write_whole
from holdfast.redaction import holds_a_secret, names_a_secret
from holdfast.report_channel import REPORT_VARIABLE, WAKE_VARIABLE

_STARTS_AT_ONCE = 4
"""With many more, Temporal marks some as started that no host ever gets."""
_PLACE_AGAIN_S = 1.0
_DECIDE_S = timedelta(seconds=2)
"""How long Temporal waits for a runner that asked for something to decide and died."""
_LOOK_S = 30.0
_HOSTS_OWN = frozenset({"PATH"})
_BRIEF_VARIABLE = "HOLDFAST_BRIEF"


class TemporalFleet(LocalFleet):
    """Launches on the hosts of a fleet. What it wrote down about them lies where launches of this machine have it."""

    def __init__(
        self, state: StateDir, address: FleetAddress, carrier: WorkspaceCarrier, tell: Callable[[str], None]
    ) -> None:
        super().__init__(state)
        self._address = address
        self._carrier = carrier
        self._tell = tell
        self._told: set[str] = set()
        self._launches_known: dict[LaunchKey, CarriedLaunch] = {}
        self._hosts: dict[LaunchKey, str] = {}
        self._given_up: set[LaunchKey] = set()
        self._turns: dict[LaunchKey, asyncio.Lock] = {}
        self._starting = asyncio.Semaphore(_STARTS_AT_ONCE)
        self._connection = Connection(address, runner_queue(carrier.clone), [LaunchWorkflow])
        self._offers = HostOffers(self._connection.client)

    async def launch(self, spec: LaunchSpec) -> None:
        """Give the launch to the host with the most room; wait until there is one. A key that was launched before is not again."""
        if spec.sandbox is not None:
            raise LaunchError(NO_SANDBOX, "use --no-sandbox, on workers on which agents may see and do all")
        async with self._turns.setdefault(spec.key, asyncio.Lock()):
            if self.inspect(spec.key).presence is Presence.UNKNOWN:
                await self._launch(spec)

    async def _launch(self, spec: LaunchSpec) -> None:
        sent = await asyncio.to_thread(self._carrier.send, spec.cwd)
        order = msgspec.json.encode(self._order(spec, sent))
        if len(order) > ORDER_BYTES_MAX:
            raise LaunchError(
                f"the order of {spec.key.owner} has {len(order):,} bytes; Temporal takes {ORDER_BYTES_MAX:,}",
                "shorten the prompt, or put what it quotes into a file of the repository",
            )
        if not (host := await self._place(spec.key, sent.host)):
            return
        folder = self.folder(spec.key)
        make_folder(folder)
        record = CarriedRecord(
            token=spec.token,
            cwd=str(spec.cwd),
            boot=boot_id(),
            began=time.time(),
            clone=self._carrier.clone,
            start=sent.start,
            report=spec.env.get(REPORT_VARIABLE, ""),
            wake_pipe=spec.env.get(WAKE_VARIABLE, ""),
        )
        write_whole(record_file(folder), msgspec.json.encode(record), durably=True)
        try:
            await asyncio.wrap_future(self._connection.submit(self._start(spec.key, order, host)))
        except RPCError as error:
            Path(record_file(folder)).unlink()
            raise LaunchError(f"Temporal refused a launch: {error.message}", "see its log") from error
        self._follow(spec.key, record, spec.holds).known.set()

    async def _start(self, key: LaunchKey, order: bytes, host: str) -> None:
        """Start the workflow of a launch. One that was started before, by whomever, stays the only one."""

        async def start() -> None:
            with suppress(WorkflowAlreadyStartedError):
                await self._connection.client.start_workflow(
                    LAUNCH_WORKFLOW,
                    args=[order, host_queue(host), self._address.lease.ttl_s],
                    id=workflow_id(self._carrier.clone, key),
                    task_queue=runner_queue(self._carrier.clone),
                    id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                    task_timeout=_DECIDE_S,
                    rpc_timeout=RPC_S,
                )

        async with self._starting:
            await persistently(start)

    async def _place(self, key: LaunchKey, wanted: str) -> str:
        """Return the host for a launch. While there is none, say once for what it waits. Empty if it was given up."""
        address, patience = self._address, time.monotonic() + self._address.lease.ttl_s
        while key not in self._given_up:
            try:
                offers = await asyncio.wrap_future(self._connection.submit(self._offers.newest()))
            except RPCError as error:
                if is_final(error):
                    raise LaunchError(f"Temporal refused to list its workers: {error.message}") from error
                chosen = f"Temporal at {address.target}, which does not answer"
            else:
                live = (
                    self._hosts[one]
                    for one, launch in self._launches_known.items()
                    if one in self._hosts and not launch.over.done()
                )
                found = choose_host(offers, address.labels, __version__, Counter(live), wanted)
                if not isinstance(found, str):
                    self._hosts[key] = found.host
                    return found.host
                chosen = found
            if wanted and time.monotonic() > patience:
                raise HostGoneError(
                    f"the workspace of {key.owner} is on a worker that is gone",
                    "start that worker again; or `holdfast resume` prepares the workspace anew on another one",
                )
            if chosen not in self._told:
                self._told.add(chosen)
                self._tell(f"{key.owner} waits for {chosen}")
            await asyncio.sleep(_PLACE_AGAIN_S)
        return ""

    def give_up(self, key: LaunchKey) -> None:
        """End the wait of a launch for a host, if it waits."""
        self._given_up.add(key)

    def _order(self, spec: LaunchSpec, sent: SentWorkspace) -> HostOrder:
        """Return the order for a host. What the runner has in its own environment stays here, its secrets above all."""
        _refuse_secrets(spec)
        own = {name for name, value in spec.env.items() if os.environ.get(name) == value} | _HOSTS_OWN
        given = {path for path in (spec.stdin, spec.env.get(_BRIEF_VARIABLE)) if path is not None}
        return HostOrder(
            version=__version__,
            key=spec.key,
            clone=self._carrier.clone,
            secret=spec.secret,
            git=self._address.git,
            ttl_s=self._address.lease.ttl_s,
            workspace=str(spec.cwd),
            start=sent.start,
            before=sent.before,
            argv=spec.argv,
            env={n: v for n, v in spec.env.items() if n not in own and n != WAKE_VARIABLE},
            inherited=tuple(sorted(own & spec.env.keys())),
            given={str(path): Path(path).read_bytes() for path in given},
            stdin=str(spec.stdin or ""),
            timeout_s=spec.timeout_s,
            stall_s=spec.stall_s,
            grace_s=spec.grace_s,
            log_bytes_max=spec.log_bytes_max,
            stop_signal=spec.stop_signal,
            bounds=(spec.bounds.pids, spec.bounds.memory, spec.bounds.cpus),
        )

    def _follow(self, key: LaunchKey, record: CarriedRecord, holds: tuple[int, ...] = ()) -> CarriedLaunch:
        launch = CarriedLaunch(key, self.folder(key), record, self._carrier, self._tell, holds)
        self._launches_known[key] = launch
        handle = self._connection.client.get_workflow_handle(
            workflow_id(record.clone, key), result_type=bytes
        )
        launch.following = self._connection.submit(launch.follow(handle))
        return launch

    def inspect(self, key: LaunchKey) -> Sighting:
        """Return what became of a launch. Of one that an earlier runner made, Temporal is asked first."""
        folder = self.folder(key)
        launch = self._launches_known.get(key)
        if launch is None:
            if (record := carried_record(folder, self._carrier.clone)) is None:
                return Sighting(Presence.UNKNOWN)
            if (closed := closed_sighting(folder, record)) is not None:
                return closed
            launch = self._follow(key, record)
        if not launch.known.wait(_LOOK_S):
            raise LaunchError(
                f"Temporal at {self._address.target} does not say what became of {key.owner}",
                "see whether it runs; `holdfast resume` asks again",
            )
        return launch.sighting

    async def wait(self, key: LaunchKey) -> Sighting:
        """Return once the launch is no longer alive and what it left is here."""
        if self.inspect(key).presence is not Presence.ALIVE:
            return self.inspect(key)
        return await asyncio.shield(asyncio.wrap_future(self._launches_known[key].over))

    async def cancel(self, key: LaunchKey) -> Sighting:
        """Stop the launch on its host. A host that cannot be reached ends it by itself: this waits until that is certain."""
        if (before := self.inspect(key)).presence is not Presence.ALIVE:
            return before
        handle = self._connection.client.get_workflow_handle(workflow_id(self._carrier.clone, key))
        with suppress(RPCError):  # it is over by now
            await asyncio.wrap_future(
                self._connection.submit(persistently(lambda: handle.cancel(rpc_timeout=RPC_S)))
            )
        return await self.wait(key)

    def live_launches(self, run: str) -> list[LaunchKey]:
        """Return the launches of the run that Temporal has not closed."""
        return [key for key in self._open_launches(run) if self.inspect(key).presence is Presence.ALIVE]

    async def sweep(
        self, run: str, keep: frozenset[LaunchKey], tokens: frozenset[str] = frozenset()
    ) -> list[int]:
        """End every launch of the run that is not in `keep`. None of its processes are on this machine, so none is returned."""
        doomed = [key for key in self._open_launches(run) if key not in keep]
        await asyncio.gather(*map(self.cancel, doomed))
        return []

    def _open_launches(self, run: str) -> list[LaunchKey]:
        """Return the launches of the run that may not be over. Those that are closed must not be asked about: their workspace
        may be another's by now."""
        return [key for key in self._launches(run) if self._is_open(key)]

    def _is_open(self, key: LaunchKey) -> bool:
        if (launch := self._launches_known.get(key)) is not None:
            return not launch.over.done()
        folder = self.folder(key)
        return carried_record(folder, self._carrier.clone) is not None and not is_closed(folder)

    def sandbox_obstacle(self, *, closed_network: bool = False) -> str:
        """Return that there is none on workers."""
        return NO_SANDBOX

    def close(self) -> None:
        """Close everything without ending anything. Idempotent."""
        self._connection.close()
        super().close()


def _refuse_secrets(spec: LaunchSpec) -> None:
    """Raise LaunchError if a plan or an agent's entry writes down a secret: whoever may look into Temporal could read it."""
    written = (name for name, value in spec.env.items() if os.environ.get(name) != value)
    if named := [name for name in written if names_a_secret(name) or holds_a_secret(name, spec.env[name])]:
        raise LaunchError(
            f"the value of {', '.join(named)} is written down for agents, and would go through Temporal",
            "set it in the environment of the workers, and name it in `pass_env`",
        )
