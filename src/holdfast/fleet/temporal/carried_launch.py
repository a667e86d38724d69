"""One launch on a host, as the runner follows it: its output and reports are copied as they come, its workspace is brought back.

The folder of the launch is as that of a launch on this machine, so whoever reads output finds it where it always is.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

import msgspec
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import CancelledError
from temporalio.service import RPCError, RPCStatusCode

from holdfast.boot import boot_id
from holdfast.core.facts import Exit, ExitReason, Presence, Sighting
from holdfast.errors import HoldfastError
from holdfast.fleet.protocol import LaunchKey, token_of
from holdfast.fleet.temporal.address import start_ref, state_ref
from holdfast.fleet.temporal.carrier import WorkspaceCarrier
from holdfast.fleet.temporal.connection import RPC_S, is_final
from holdfast.fleet.temporal.messages import LaunchEnd, LaunchProgress
from holdfast.process.launch_order import (
    exit_file,
    log_file,
    lost_file,
    make_folder,
    record_file,
    write_whole,
)
from holdfast.process.output_log import append_output
from holdfast.report_channel import wake

_LOOK_S = 1.0
_FIRST_LOOK_S = 0.05
_AGAIN_S = 1.0
_NOT_CARRIED = "the host could not hand over all that is in the workspace"


class CarriedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is written down before a launch is given to Temporal, in the place of a supervisor's record."""

    token: str
    cwd: str
    boot: str
    began: float
    pid: int = 0
    carried: bool = True
    clone: str = ""
    start: str = ""
    report: str = ""
    wake_pipe: str = ""


class _Proven(msgspec.Struct, frozen=True):
    """The secret of a launch, which its exit record reveals."""

    proof: str = ""


def carried_record(folder: str, clone: str) -> CarriedRecord | None:
    """Return what was written down about a launch of this clone; None if there is none, or if a copy brought it along."""
    try:
        record = msgspec.json.decode(Path(record_file(folder)).read_bytes(), type=CarriedRecord)
    except (OSError, msgspec.MsgspecError):
        return None
    return record if record.clone == clone else None


def closed_sighting(folder: str, record: CarriedRecord) -> Sighting | None:
    """Return how a launch ended if that was written down in this boot; None if it has to be asked.

    After a power cut the workspace may be torn, although the record of the end is whole: then all is brought once more.
    """
    if Path(lost_file(folder)).exists():
        return Sighting(Presence.LOST)
    try:
        ended = msgspec.json.decode(Path(exit_file(folder)).read_bytes(), type=Exit)
    except (OSError, msgspec.MsgspecError):
        return None
    return Sighting(Presence.ENDED, ended) if record.boot == boot_id() else None


def is_closed(folder: str) -> bool:
    """Tell whether somebody wrote down that a launch is over: its workspace may be another's by now."""
    return Path(exit_file(folder)).exists() or Path(lost_file(folder)).exists()


class CarriedLaunch:
    """One launch that is followed until it is over. It lives on the thread of the connection."""

    def __init__(
        self,
        key: LaunchKey,
        folder: str,
        record: CarriedRecord,
        carrier: WorkspaceCarrier,
        tell: Callable[[str], None],
        holds: tuple[int, ...],
    ) -> None:
        self.key = key
        self.folder = folder
        self.record = record
        self.sighting = Sighting(Presence.ALIVE)
        self.known = threading.Event()
        """Set once Temporal has said what became of it."""
        self.over: Future[Sighting] = Future()
        self.following: Future[None] | None = None
        """The work of following it: an event loop drops what nobody holds."""
        self._carrier = carrier
        self._tell = tell
        self._why_lost = "its host was out of touch for too long"
        self._holds = [os.dup(fd) for fd in holds]
        self._taken = ""

    async def follow(self, handle: WorkflowHandle[object, bytes]) -> None:
        """Follow the launch until it is over, and tell whoever waits for that."""
        try:
            sighting = await self._until_over(handle)
            if sighting.presence is Presence.LOST:
                self._tell(f"{self.key.owner}: attempt {self.key.attempt} is lost: {self._why_lost}")
                _write(lost_file(self.folder), b"lost\n")
        except asyncio.CancelledError:
            self._release()
            raise
        except BaseException as error:  # noqa: BLE001 - whoever waits must get it
            self._release()
            self.over.set_exception(error)
        else:
            self._release()
            self.sighting = sighting
            self.over.set_result(sighting)
        finally:
            self.known.set()

    def _release(self) -> None:
        """Close what was held for as long as the launch lived."""
        while self._holds:
            os.close(self._holds.pop())

    async def _until_over(self, handle: WorkflowHandle[object, bytes]) -> Sighting:
        result: asyncio.Task[bytes] | None = None
        try:
            while True:
                result = result or asyncio.ensure_future(handle.result())
                done, _ = await asyncio.wait(
                    [result], timeout=_LOOK_S if self.known.is_set() else _FIRST_LOOK_S
                )
                try:
                    if done:
                        return await self._closed(msgspec.json.decode(result.result(), type=LaunchEnd))
                    await self._look(handle)
                except WorkflowFailureError as failure:
                    return await self._failed(failure)
                except (RPCError, HoldfastError) as error:
                    if isinstance(error, RPCError) and error.status is RPCStatusCode.NOT_FOUND:
                        return Sighting(Presence.UNKNOWN)
                    if isinstance(error, RPCError) and is_final(error):
                        raise
                    result = None if result.done() and result.exception() else result
                    await asyncio.sleep(_AGAIN_S)
        finally:
            if result is not None:
                result.cancel()

    async def _look(self, handle: WorkflowHandle[object, bytes]) -> None:
        """Take what the host said last. A launch that is over by now is none that is known: its end comes first."""
        described = await handle.describe(rpc_timeout=RPC_S)
        if described.status is not WorkflowExecutionStatus.RUNNING:
            return
        for activity in described.raw_description.pending_activities:
            for said in activity.heartbeat_details.payloads:
                await self._take_progress(msgspec.json.decode(said.data, type=LaunchProgress))
        self.known.set()

    async def _take_progress(self, progress: LaunchProgress) -> None:
        append_output(log_file(self.folder), progress.output.start, progress.output.data)
        self._take_report(progress.report.start, progress.report.data)
        if progress.state and progress.state != self._taken:
            await asyncio.to_thread(self._take_state, progress.state, progress.host)

    def _take_state(self, commit: str, host: str, *, is_last: bool = False) -> None:
        """Bring the workspace to what the host saved, and with it the output and the reports up to then."""
        ref = state_ref(self.record.clone, self.key)
        taken = self._carrier.take(Path(self.record.cwd), ref, commit, host)
        for start, data in taken.output:
            append_output(log_file(self.folder), start, data, over_gap=is_last)
        for start, data in taken.reports:
            self._take_report(start, data)
        self._taken = commit

    def _take_report(self, start: int, data: bytes) -> None:
        """Copy what the agent reported, and wake the runner for it."""
        if not (data and self.record.report):
            return
        path = self.record.report
        before = Path(path).stat().st_size if Path(path).exists() else 0
        make_folder(str(Path(path).parent))
        if append_output(path, start, data) > before:
            wake(self.record.wake_pipe)

    async def _closed(self, end: LaunchEnd) -> Sighting:
        """Take the last state of a launch that the host closed, and write down how it ended."""
        if end.state:
            await asyncio.to_thread(self._take_state, end.state, end.host, is_last=True)
        proof, ended = self._proven(end)
        if ended is None:
            self._why_lost = f"{end.lost or 'the record of its end is not its own'} (on {end.host})"
            return Sighting(Presence.LOST)
        self._write_exit(ended, proof)
        clone, start = self.record.clone, self.record.start
        refs = [state_ref(clone, self.key), *([start_ref(clone, start)] if start else [])]
        await asyncio.to_thread(self._carrier.drop, *refs)
        return Sighting(Presence.ENDED, ended)

    def _proven(self, end: LaunchEnd) -> tuple[str, Exit | None]:
        """Return how the launch ended, if its own supervisor says so, and what proves that; None if it is lost."""
        with suppress(msgspec.MsgspecError):
            ended = msgspec.json.decode(end.record, type=Exit)
            proof = msgspec.json.decode(end.record, type=_Proven).proof
            if token_of(proof) == self.record.token:
                return proof, _with_problems(ended, end.problems)
        return "", None

    async def _failed(self, failure: WorkflowFailureError) -> Sighting:
        """Return what became of a launch that no host closed: it was cancelled before one began, or it is lost."""
        if not isinstance(failure.cause, CancelledError) and not isinstance(
            getattr(failure.cause, "cause", None), CancelledError
        ):
            return Sighting(Presence.LOST, seen_s=max(0.0, time.time() - self.record.began))
        ended = Exit(token=self.record.token, reason=ExitReason.CANCELLED, code=-15)
        self._write_exit(ended)
        return Sighting(Presence.ENDED, ended)

    def _write_exit(self, ended: Exit, proof: str = "") -> None:
        """Write down how the launch ended, durably: from now on nobody brings its workspace again."""
        content = msgspec.json.encode({**msgspec.structs.asdict(ended), "proof": proof})
        _write(exit_file(self.folder), content)


def _write(path: str, content: bytes) -> None:
    """Write a file durably, whole or not at all. A runner that was overtaken may write the same at this moment."""
    draft = f"{path}.{os.urandom(4).hex()}"
    write_whole(draft, content, durably=True)
    os.replace(draft, path)  # noqa: PTH105 - the folder's files are named by strings


def _with_problems(ended: Exit, problems: tuple[str, ...]) -> Exit:
    """Return the end of a launch; one whose files could not all be taken has failed, whatever it says itself."""
    if not problems:
        return ended
    words = f"{_NOT_CARRIED}: {'; '.join(problems)}"
    return msgspec.structs.replace(ended, code=ended.code or 1, error=words)
