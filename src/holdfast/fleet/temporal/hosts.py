"""Which hosts are there, and which one takes a launch. Placement is ours: Temporal only carries what hosts say of themselves."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Mapping

import msgspec
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError

from holdfast.fleet.temporal.connection import RPC_S
from holdfast.fleet.temporal.messages import HostOffer
from holdfast.fleet.temporal.workflows import HOST_WORKFLOW, OFFER_EVERY_S

_THERE = f"WorkflowType = '{HOST_WORKFLOW}' AND ExecutionStatus = 'Running'"


class HostOffers:
    """What all hosts offer, asked at most once in a while however many launches want to know."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._turn = asyncio.Lock()
        self._found: list[HostOffer] = []
        self._asked_at = -OFFER_EVERY_S

    async def newest(self) -> list[HostOffer]:
        """Return what every host offers that is there now, or was a moment ago."""
        async with self._turn:
            if time.monotonic() - self._asked_at > OFFER_EVERY_S / 2:
                found = [execution.id async for execution in self._client.list_workflows(_THERE)]
                offers = await asyncio.gather(
                    *(_offer(self._client.get_workflow_handle(name)) for name in found)
                )
                self._found = [offer for offer in offers if offer is not None]
                self._asked_at = time.monotonic()
            return self._found


async def _offer(handle: WorkflowHandle[object, object]) -> HostOffer | None:
    """Return the last word of a host; None if it has none yet, or the server gave it up."""
    try:
        described = await handle.describe(rpc_timeout=RPC_S)
    except RPCError:
        return None
    for activity in described.raw_description.pending_activities:
        for said in activity.heartbeat_details.payloads:
            return msgspec.json.decode(said.data, type=HostOffer)
    return None


def choose_host(
    offers: Collection[HostOffer],
    labels: frozenset[str],
    version: str,
    placed: Mapping[str, int],
    wanted: str,
) -> HostOffer | str:
    """Return the host with the most room for a launch, or else for what it waits.

    `placed` says how many launches of ours each host has: its own count is a little older. `wanted` is the one host that has
    the workspace, if it is not to be made anew.
    """
    if wanted:
        offers = [offer for offer in offers if offer.host == wanted]
        if not offers:
            return "the worker that has its workspace, which is not there"
    obstacles = [why for offer in offers if (why := offer.lacks(labels, version))]
    fitting = [offer for offer in offers if not offer.lacks(labels, version)]
    if not fitting:
        needed = f" with the labels {', '.join(sorted(labels))}" if labels else ""
        return f"a worker{needed}: {'; '.join(obstacles) or 'none is there'}"
    free = Counter({offer.host: offer.room - max(offer.busy, placed.get(offer.host, 0)) for offer in fitting})
    host, left = free.most_common(1)[0]
    if left <= 0:
        return "a free slot: no worker that fits has one"
    return next(offer for offer in fitting if offer.host == host)
