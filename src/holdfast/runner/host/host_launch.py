"""One launch on a host: renew its lease, prepare its workspace, run it, save its work, tell how it ended.

The lease is the whole safety: a launch that is not renewed is ended by its supervisor, also if this worker is dead, and only
later does anybody else begin. A renewal counts from before it was sent, and only once the server acknowledged it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec
from temporalio.client import AsyncActivityCancelledError, AsyncActivityHandle
from temporalio.service import RPCError, RPCStatusCode

from holdfast.core.facts import ExitReason, Presence, Sighting
from holdfast.errors import HoldfastError
from holdfast.fleet.temporal.address import LaunchLease
from holdfast.fleet.temporal.connection import persistently
from holdfast.fleet.temporal.host_launches import boot_clock
from holdfast.fleet.temporal.messages import WINDOW_BYTES_MAX, HostOrder, LaunchEnd, LaunchProgress, Window
from holdfast.repo.exchange import ExchangeError
from holdfast.runner.host.host_workspace import HostRepository, HostWorkspace
from holdfast.system_errors import as_holdfast_error

_RENEWALS_SHOWN = 5
"""How many renewals each byte of output is part of: whoever misses some of them misses nothing."""
_AGAIN_S = 1.0
_LAST_TRIES = 3
_RPC_MIN_S = 1.0


class LaunchRefusedError(Exception):
    """The server does not know this launch any more: whatever it does from now on counts for nothing."""


class HostLaunch:
    """One launch, from its order to its end."""

    def __init__(
        self,
        order: HostOrder,
        place: HostRepository,
        handle: AsyncActivityHandle,
        host: str,
        say: Callable[[str], None],
    ) -> None:
        self.order = order
        self._host = host
        self._handle = handle
        self._say = say
        self._launches = place.launches
        self._workspace = HostWorkspace(place, order)
        self._lease = LaunchLease(order.ttl_s)
        self._until = 0.0
        self._is_launched = False
        self._renewed = asyncio.Event()
        self._cancelled = asyncio.Event()
        self._refused = asyncio.Event()
        self._output_ends: deque[int] = deque([0], maxlen=_RENEWALS_SHOWN)
        self._report_ends: deque[int] = deque([0], maxlen=_RENEWALS_SHOWN)

    async def run(self, room: asyncio.Semaphore) -> None:
        """Begin the launch once a slot is free, and see it through."""
        async with self._renewing(), self._place_in(room):
            if (obstacle := await self._begin()) is not None:
                await self._close(obstacle)
            else:
                await self._see_through()

    async def reattach(self, room: asyncio.Semaphore) -> None:
        """See a launch through that an earlier worker of this host began, or had not begun yet."""
        key = self.order.key
        self._launches.recognise(key, self._token())
        self._is_launched = self._launches.inspect(key).presence is not Presence.UNKNOWN
        async with self._renewing(), room:
            if self._is_launched:
                await self._see_through()
            else:
                await self._close(
                    LaunchEnd(host=self._host, lost="the worker ended before it began the launch")
                )

    def _token(self) -> str:
        return self.order.secret  # what is written down of an order has the token in the place of the secret

    # -- the lease ----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _renewing(self) -> AsyncIterator[None]:
        """Renew the lease for as long as this is entered, also while the launch waits for a slot."""
        renewing = asyncio.ensure_future(self._renew_always())
        try:
            yield
        finally:
            renewing.cancel()

    async def _renew_always(self) -> None:
        while not self._refused.is_set():
            began = boot_clock()
            try:
                if await self._renew():
                    self._until = began + self._lease.fenced_s
                    if self._is_launched:
                        self._launches.extend(self.order.key, self._until)
                    self._renewed.set()
            except LaunchRefusedError:
                self._refused.set()
            except OSError as error:  # such as a full disk: the lease stays as it is, and is tried again
                self._say(f"{self.order.key.owner}: not renewed now: {error.strerror}")
            await asyncio.sleep(self._lease.renew_s)

    async def _renew(self) -> bool:
        """Tell how far the launch is; return whether that was acknowledged."""
        rpc = timedelta(seconds=max(_RPC_MIN_S, self._lease.renew_s))
        try:
            await self._handle.heartbeat(msgspec.json.encode(self._progress()), rpc_timeout=rpc)
        except AsyncActivityCancelledError:
            self._cancelled.set()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise LaunchRefusedError from error
            return False
        return True

    def _progress(self) -> LaunchProgress:
        if not self._is_launched:
            return LaunchProgress()
        key = self.order.key
        end = self._launches.output(key, 0, 0).end
        start = max(self._output_ends[0], end - WINDOW_BYTES_MAX)
        piece = self._launches.output(key, start, WINDOW_BYTES_MAX)
        self._output_ends.append(piece.start + len(piece.data))
        said = self._workspace.read_report(self._report_ends[0])[:WINDOW_BYTES_MAX]
        report = Window(self._report_ends[0], said)
        self._report_ends.append(report.start + len(said))
        return LaunchProgress(
            host=self._host,
            state=self._workspace.saved,
            output=Window(piece.start, piece.data),
            report=report,
        )

    @asynccontextmanager
    async def _place_in(self, room: asyncio.Semaphore) -> AsyncIterator[None]:
        """Take a slot once one is free; none if the launch is cancelled, or refused, before that."""
        taking = asyncio.ensure_future(room.acquire())
        await self._first([self._cancelled, self._refused], taking)
        if not taking.done():
            taking.cancel()
        try:
            yield
        finally:
            if not taking.cancelled() and taking.done():
                room.release()

    # -- the launch ---------------------------------------------------------------------------------------------

    async def _begin(self) -> LaunchEnd | None:
        """Prepare and start the launch; return how it ended if it could not begin."""
        await self._first([self._renewed, self._refused])
        self._require_accepted()
        if self._cancelled.is_set():
            return self._never_began(ExitReason.CANCELLED, "cancelled before it began", code=-15)
        try:
            await self._prepare()
            spec = await asyncio.to_thread(self._workspace.spec, self._until)
            self._require_accepted()
            if boot_clock() >= self._until:
                return LaunchEnd(host=self._host, lost="its lease lapsed while its workspace was prepared")
            await self._launches.launch(spec)
        except (HoldfastError, OSError) as error:
            words = as_holdfast_error(error)
            await self._launches.cancel(
                self.order.key
            )  # its supervisor may have died after it had started the agent
            return self._never_began(ExitReason.NOT_STARTED, f"on {self._host}: {words.message}", code=127)
        self._is_launched = True
        return None

    async def _prepare(self) -> None:
        """Prepare the workspace. A git server that is away for a while costs no attempt."""
        deadline = boot_clock() + self.order.ttl_s
        while True:
            try:
                await asyncio.to_thread(self._workspace.prepare)
            except ExchangeError:
                if boot_clock() > deadline or self._cancelled.is_set():
                    raise
            else:
                return
            await self._first([self._cancelled, self._refused], seconds=_AGAIN_S)
            self._require_accepted()

    def _never_began(self, reason: ExitReason, words: str, *, code: int) -> LaunchEnd:
        """Return the end of a launch that has no supervisor. Nothing was changed in its workspace."""
        secret = self.order.secret
        record = {"token": "", "reason": str(reason), "code": code, "error": words, "proof": secret}
        return LaunchEnd(host=self._host, record=msgspec.json.encode(record))

    async def _see_through(self) -> None:
        """Wait for the end of a launch that began; save its work now and then; close it."""
        sighting = await self._until_over()
        end = LaunchEnd(host=self._host, lost="its supervisor was killed")
        if sighting.presence is Presence.LOST:
            await self._launches.cancel(self.order.key)  # ends what it left running
        if sighting.exit is not None:
            lapsed = sighting.exit.reason is ExitReason.CANCELLED and not self._cancelled.is_set()
            record = b"" if lapsed else self._launches.exit_record(self.order.key)
            end = LaunchEnd(host=self._host, record=record, lost=sighting.exit.error if lapsed else "")
        state, problems = await self._save_last()
        await self._close(msgspec.structs.replace(end, state=state, problems=problems))

    async def _until_over(self) -> Sighting:
        key = self.order.key
        over = asyncio.ensure_future(self._launches.wait(key))
        try:
            while not over.done():
                await self._first([self._cancelled, self._refused], over, self._lease.save_s)
                if self._refused.is_set() or self._cancelled.is_set():
                    await self._launches.cancel(key)
                    self._require_accepted()
                elif not over.done():
                    await self._save()
            return over.result()
        finally:
            over.cancel()

    async def _save(self) -> None:
        """Save the work of a live agent. It may be changing what is read, or the server may be away: the next time comes soon."""
        try:
            await asyncio.to_thread(self._workspace.save)
        except (HoldfastError, OSError) as error:
            self._say(f"{self.order.key.owner}: not saved now: {as_holdfast_error(error).message}")

    async def _save_last(self) -> tuple[str, tuple[str, ...]]:
        """Save what a launch left; return that, and what could not be taken.

        Without the git server its end cannot be told, so this waits for it. A workspace that was deleted, or cannot be read,
        stays so: what was saved before counts.
        """
        said, tries = "", _LAST_TRIES
        while True:
            self._require_accepted()
            try:
                return await asyncio.to_thread(self._workspace.save)
            except (HoldfastError, OSError) as error:
                words = as_holdfast_error(error).message
                tries -= not isinstance(error, ExchangeError)
            if not tries:
                return self._workspace.saved, (words,)
            if words != said:
                self._say(f"{self.order.key.owner}: cannot save its work: {words}")
                said = words
            await self._first([self._refused], seconds=_AGAIN_S)

    async def _close(self, end: LaunchEnd) -> None:
        """Tell how the launch ended. Refused if somebody else may have begun by now: then nothing of it counts."""
        said = msgspec.json.encode(end)
        try:
            await persistently(lambda: self._handle.complete(said))
        except RPCError as error:
            raise LaunchRefusedError from error

    def _require_accepted(self) -> None:
        if self._refused.is_set():
            raise LaunchRefusedError

    @staticmethod
    async def _first(
        events: list[asyncio.Event], over: asyncio.Future[Any] | None = None, seconds: float | None = None
    ) -> None:
        """Return once one of these is set, or the launch is over, or so many seconds have passed."""
        waits = [asyncio.ensure_future(event.wait()) for event in events]
        try:
            await asyncio.wait(
                [*waits, *([over] if over else [])], timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for wait in waits:
                wait.cancel()
