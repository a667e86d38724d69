"""A client of Temporal on a thread of its own: the runner asks from its event loop, and from code that has none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from datetime import timedelta
from functools import cache
from typing import Any, TypeVar

from temporalio.client import Client
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from holdfast.errors import LaunchError
from holdfast.fleet.temporal.address import FleetAddress

_CONNECT_S = 20.0
_AGAIN_S = 0.5
_T = TypeVar("_T")
RPC_S = timedelta(seconds=5)
"""How long one question to Temporal may take."""
_FINAL = (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.PERMISSION_DENIED)


@cache
def _runtime() -> Runtime:
    """Return the part of the client that runs outside Python, without its own log: what counts reaches us as errors."""
    return Runtime(telemetry=TelemetryConfig(logging=None))


async def connect(address: FleetAddress) -> Client:
    """Return a client. Raises LaunchError if nobody answers there for a while."""
    deadline = asyncio.get_running_loop().time() + _CONNECT_S
    while True:
        try:
            return await Client.connect(address.target, namespace=address.namespace, runtime=_runtime())
        except (RuntimeError, RPCError) as error:
            if asyncio.get_running_loop().time() > deadline:
                raise LaunchError(
                    f"Temporal does not answer at {address.target}: {str(error).splitlines()[0][:200]}",
                    "start it, or correct the address; agents on workers go on until their lease lapses",
                ) from error
        await asyncio.sleep(_AGAIN_S)


def is_final(error: RPCError) -> bool:
    """Tell whether the same question would get the same answer again: it is no trouble of the network or the server."""
    return error.status in _FINAL


async def persistently(ask: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Return the answer to a question, however long the server is away. Raises RPCError if the answer is a refusal."""
    while True:
        try:
            return await ask()
        except RPCError as error:
            if is_final(error):
                raise
        await asyncio.sleep(_AGAIN_S)


class Connection:
    """The thread, its event loop, the client in it, and a worker that decides about this runner's workflows."""

    def __init__(self, address: FleetAddress, queue: str, workflows: list[type]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="temporal", daemon=True)
        self._thread.start()
        try:
            self.client = self.ask(connect(address))
            self._worker = asyncio.run_coroutine_threadsafe(self._decide(queue, workflows), self._loop)
        except BaseException:
            self._loop.call_soon_threadsafe(self._loop.stop)
            raise

    def submit(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Start work on the thread and return what it will give."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def ask(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Do work on the thread and wait for it, from code without an event loop."""
        return self.submit(work).result()

    def close(self) -> None:
        """End all work on the thread. What it began at the server goes on. Idempotent."""
        if not self._thread.is_alive():
            return
        self.ask(self._end_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _decide(self, queue: str, workflows: list[type]) -> None:
        """Decide about workflows until cancelled. Nothing is cached: a queue of ours that died must delay nobody."""
        while True:
            worker = Worker(
                self.client,
                task_queue=queue,
                workflows=workflows,
                workflow_runner=UnsandboxedWorkflowRunner(),
                max_cached_workflows=0,
                max_concurrent_workflow_task_polls=1,
            )
            with suppress(RuntimeError, RPCError):  # it gives up if the server refuses it for a while
                await worker.run()
            await asyncio.sleep(_AGAIN_S)

    async def _end_all(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CONNECT_S):
                await asyncio.gather(*others, return_exceptions=True)
