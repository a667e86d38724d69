"""The fleet of one machine: each launch is a folder, a supervisor that holds its lock, and an agent below it.

Every answer is read from the folder and the process table, so a new runner knows as much about a launch as the one
that made it. Remembered is only what cannot be believed from a folder that agents can write to: how to tell an exit
record of the launch's own supervisor from a forged one.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Collection, Coroutine, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from holdfast import locks
from holdfast.boot import boot_id
from holdfast.core.facts import Exit, Presence, Sighting
from holdfast.core.status import SandboxMechanism
from holdfast.errors import LaunchError
from holdfast.fleet.copied_launches import at_work_for_original, is_copied
from holdfast.fleet.protocol import AGENT_STEP, LaunchKey, LaunchOutput, LaunchSpec, token_of
from holdfast.fleet.termination import LOOK_S, end_all, outlast, signal_process
from holdfast.paths import StateDir
from holdfast.process import cgroups, procfs
from holdfast.process.fork_server import ForkServer
from holdfast.process.landlock_rules import environment_inside, file_rules, home_links
from holdfast.process.launch_order import (
    STARTED,
    SUPERVISOR_NAME,
    TAKEN,
    LaunchOrder,
    draft_file,
    exit_file,
    is_signed,
    log_file,
    lost_file,
    record_file,
    scratch_folder,
)
from holdfast.process.output_log import read_output
from holdfast.process.sandbox import BUBBLEWRAP, LANDLOCK, probe_sandbox, sandbox_argv, sandbox_obstacle
from holdfast.process.scratch_folder import remove_scratch
from holdfast.redaction import secret_values
from holdfast.system_errors import way_out_of

_ANSWER_S = 60.0
_SUPERVISOR_LATE_S = 60.0
_ANSWER_BYTES = 4096
_RECORD_BYTES = 65536
_T = TypeVar("_T")


class _Record(msgspec.Struct, frozen=True):
    """The supervisor's record before it starts its agent: its token, the folder it works in, the boot, which `file` this is,
    and the wall time. Supervisors of earlier versions wrote no time: it is unknown. `carried`: it works on another machine."""

    token: str
    cwd: str = ""
    boot: str = ""
    file: str = ""
    began: float = 0.0
    carried: bool = False


class _Proof(msgspec.Struct, frozen=True):
    """What an exit record must prove: that it is signed with our key, or, if another runner had it, knows the secret."""

    token: str
    signing_key: bytes = b""

    def is_met_by(self, record: bytes) -> bool:
        """Tell whether an exit record is the supervisor's own. Raises DecodeError if it is torn."""
        if self.signing_key:
            return is_signed(record, self.signing_key)
        return token_of(msgspec.json.decode(record, type=_Revealed).proof) == self.token


class _Revealed(msgspec.Struct, frozen=True):
    """The secret of a launch, which its exit record reveals."""

    proof: str = ""


class _Limit(msgspec.Struct, frozen=True):
    """By when a supervisor must have ended its launch, and how long it may take once it was told to. It can be stopped, too."""

    deadline: float
    grace_s: float


_NO_LIMIT = _Limit(float("inf"), 120.0)
"""For launches of an earlier runner, whose limits only their supervisors know."""


class LocalFleet:
    """Launches on this machine. Needs a running event loop only for what is `async`."""

    def __init__(self, state: StateDir) -> None:
        self._state = state
        self._fork_server = ForkServer()
        self._proofs: dict[LaunchKey, _Proof] = {}
        self._limits: dict[LaunchKey, _Limit] = {}

    def give_up(self, key: LaunchKey) -> None:
        """Do nothing: a launch on this machine waits for nobody."""

    def recognise(self, key: LaunchKey, token: str) -> None:
        """Let the end of a launch of an earlier runner count if it proves this token. What we launched needs none."""
        self._proofs.setdefault(key, _Proof(token))

    async def launch(self, spec: LaunchSpec) -> None:
        """Start the process under a new supervisor. If the key was launched before, nothing is started."""
        if self.inspect(spec.key).presence is not Presence.UNKNOWN:
            self._require_own(spec.key)
            return
        folder = self.folder(spec.key)
        lease = os.path.relpath(self._state.run(spec.key.run).lease, folder)
        proof = self._proofs[spec.key] = _Proof(spec.token, os.urandom(32))
        grace_s = spec.grace_s + _SUPERVISOR_LATE_S
        self._limits[spec.key] = _Limit(time.monotonic() + spec.timeout_s + grace_s, grace_s)
        order = _order(spec, folder, lease, proof.signing_key).encode()
        # No answer means that the fork server or the supervisor was killed. Asking again is safe: a supervisor that
        # started something has left its record, and the next one then does nothing.
        answer = await self._ask(order, spec.holds) or await self._ask(order, spec.holds)
        if answer not in (STARTED, TAKEN):
            why = answer.decode(errors="replace") or "killed before it answered"
            raise LaunchError(
                f"could not start a supervisor for {'/'.join(map(str, msgspec.structs.astuple(spec.key)))}: {why}",
                f"{way_out_of(why) or 'Free memory, disk or processes'}, then `holdfast resume`.",
            )

    def inspect(self, key: LaunchKey) -> Sighting:
        """Return what became of a launch, from its folder and the lock of its supervisor."""
        folder = self.folder(key)
        if (ended := self._exit(key)) is not None:
            return _ended_sighting(folder, ended)
        if _has_supervisor(folder):
            return Sighting(Presence.ALIVE)
        if not _filled(record_file(folder)):
            return Sighting(Presence.UNKNOWN)
        if _is_carried_on(folder):
            return Sighting(Presence.ALIVE)
        # The supervisor may have written its exit record between the two reads.
        ended = self._exit(key)
        return _lost_sighting(folder) if ended is None else _ended_sighting(folder, ended)

    async def wait(self, key: LaunchKey) -> Sighting:
        """Return once the launch is no longer alive. Works for launches of an earlier runner too."""
        supervisor = _open_supervisor(self.folder(key))
        deadline = self._limits.get(key, _NO_LIMIT).deadline
        if supervisor is not None and not await outlast(self.folder(key), supervisor, deadline):
            await end_all(self._own_tokens([key]))
        return self.inspect(key)

    async def cancel(self, key: LaunchKey) -> Sighting:
        """Stop the launch's whole tree. If it ended before, nothing happens; if it is lost, its orphans are ended, and
        the unfinished file of its supervisor is removed."""
        if (before := self.inspect(key)).presence in (Presence.ENDED, Presence.UNKNOWN):
            return before
        supervisor = _open_supervisor(self.folder(key))
        if supervisor is not None:
            signal_process(supervisor, signal.SIGTERM)
            signal_process(supervisor, signal.SIGCONT)  # a stopped supervisor must get the signal too
            grace_s = self._limits.get(key, _NO_LIMIT).grace_s
            await outlast(self.folder(key), supervisor, time.monotonic() + grace_s)
        await end_all(self._own_tokens([key]))
        _remove_leftovers(self.folder(key))
        return self.inspect(key)

    def launch_of(self, pid: int) -> LaunchKey | None:
        """Return the launch that a process belongs to; None if there is none.

        Orphans of an agent become children of its supervisor, so no process gets away from below it. If an agent killed its
        supervisor, the token in the environment tells.
        """
        line = [pid, *procfs.ancestors(pid)]
        supervisors = {one for one in line if procfs.name(one) == SUPERVISOR_NAME}
        tokens = frozenset(map(procfs.token, line)) - {""}
        if not (supervisors or tokens):
            return None
        launches = (key for run in self._state.runs() for key in self._launches(run))
        return next((key for key in launches if self._is_of(key, supervisors, tokens)), None)

    def live_launches(self, run: str) -> list[LaunchKey]:
        """Return the launches of the run whose supervisor lives."""
        return [key for key in self._launches(run) if self.inspect(key).presence is Presence.ALIVE]

    async def sweep(
        self, run: str, keep: frozenset[LaunchKey], tokens: frozenset[str] = frozenset()
    ) -> list[int]:
        """End every process that carries a token of this run and belongs to no launch in `keep`; return their pids.

        `tokens` count too, because somebody may have deleted the folders of their launches. The unfinished files of
        killed supervisors are removed as well. Idempotent.
        """
        doomed = [key for key in self._launches(run) if key not in keep]
        tokens = (tokens | self._tokens(doomed)) - self._tokens_of_originals(doomed)
        found = procfs.open_carriers(tokens)
        for fd in found.values():
            os.close(fd)
        await asyncio.gather(
            *(self.cancel(key) for key in doomed if self.inspect(key).presence is Presence.ALIVE)
        )
        ended = await end_all(tokens)
        for key in doomed:
            _remove_leftovers(self.folder(key))
        return sorted({*found, *ended})

    def sandbox_obstacle(self, *, closed_network: bool = False) -> str:
        """Return why this machine has no such sandbox, and what to do about it; an empty string if it has one."""
        return sandbox_obstacle(closed_network=closed_network)

    def sandbox_mechanism(self) -> SandboxMechanism:
        """Return what sandboxes are made by on this machine, which must have one."""
        return SandboxMechanism(probe_sandbox().by)

    def remove_drafts(self, run: str) -> None:
        """Remove the unfinished files of supervisors of a run that is over: a power cut can bring them back. Idempotent."""
        for key in self._launches(run):
            _remove_leftovers(self.folder(key))

    def occupants(self, run: str, step: str) -> dict[str, LaunchKey]:
        """Return the names of the folders in which launches of this step worked, each with the last one that did."""
        launches = [key for key in self._launches(run) if key.step == step]
        launches.sort(key=lambda key: _written_ns(record_file(self.folder(key))))
        records = ((key, _decode(record_file(self.folder(key)), _Record)) for key in launches)
        return {Path(record.cwd).name: key for key, record in records if record is not None and record.cwd}

    def may_be_torn(self, key: LaunchKey) -> bool:
        """Tell whether the machine was restarted since the launch, and what it wrote was not synced. If unknown, it was."""
        return _may_be_torn(self.folder(key), _decode(exit_file(self.folder(key)), Exit))

    def is_occupied(self, folder: Path) -> bool:
        """Tell whether the current directory of any process is this folder or below it."""
        return procfs.works_in(str(folder.absolute()))

    def output(self, key: LaunchKey, offset: int = 0, most: int | None = None) -> LaunchOutput:
        """Return the output from `offset` on, at most `most` bytes; what is no longer kept is left out."""
        return LaunchOutput(*read_output(log_file(self.folder(key)), offset, most))

    def last_sign(self, key: LaunchKey) -> float:
        """Return when the launch last started, printed or ended, by the clock of the disk; 0 if never."""
        folder = self.folder(key)
        return max(map(_written_ns, (record_file(folder), log_file(folder), exit_file(folder)))) / 1e9

    def close(self) -> None:
        """End the fork server; supervisors and agents live on. Idempotent."""
        self._fork_server.close()

    def folder(self, key: LaunchKey) -> str:
        """Return where everything of a launch is, whether it was made or not."""
        for part in (key.run, key.owner, key.step):
            if "/" in part or part in ("", ".", ".."):
                raise LaunchError(
                    f"{part!r} cannot name a launch", "use letters, digits, dot, dash and underscore"
                )
        return f"{_attempts(self._state, key.run)}/{key.owner}/{key.attempt}/{key.step}"

    def _exit(self, key: LaunchKey) -> Exit | None:
        """Return how a launch ended, if its own supervisor says so: an agent can write an exit record, too."""
        proof, content = self._proofs.get(key), _content(exit_file(self.folder(key)))
        try:
            if proof is None or not proof.is_met_by(content):
                return None
            return msgspec.json.decode(content, type=Exit)
        except msgspec.DecodeError:
            return None  # torn by a power cut

    def _require_own(self, key: LaunchKey) -> None:
        """Raise LaunchError if the folder of a check was filled by somebody else: its key was never used before."""
        if key.step != AGENT_STEP and key not in self._proofs:
            raise LaunchError(
                f"{self.folder(key)} was there before its launch: a program of this user writes into Holdfast's folders",
                "find out which agent did, then `holdfast resume`",
            )

    def _launches(self, run: str) -> list[LaunchKey]:
        """Return every launch of the run that has a folder: the inverse of `folder`."""
        folders = self._state.run(run).attempts.glob("*/*/*/")
        parts = (folder.parts[-3:] for folder in folders)
        return sorted(
            LaunchKey(run, owner, int(attempt), step) for owner, attempt, step in parts if attempt.isdecimal()
        )

    def _is_of(self, key: LaunchKey, supervisors: set[int], tokens: frozenset[str]) -> bool:
        is_below = locks.record_lock_holder(record_file(self.folder(key))) in supervisors
        return is_below or bool(tokens and not tokens.isdisjoint(self._tokens([key])))

    def _own_tokens(self, keys: Collection[LaunchKey]) -> frozenset[str]:
        return self._tokens(keys) - self._tokens_of_originals(keys)

    def _tokens_of_originals(self, keys: Iterable[LaunchKey]) -> frozenset[str]:
        """Return the tokens of launches that work for another repository, of which this one is a copy."""
        files = (record_file(self.folder(key)) for key in keys)
        records = [(file, record) for file in files if (record := _decode(file, _Record)) is not None]
        copied = {record.token: record.cwd for file, record in records if is_copied(file, record.file)}
        return at_work_for_original(copied, self._state.root)

    def _tokens(self, keys: Iterable[LaunchKey]) -> frozenset[str]:
        records = (_decode(record_file(self.folder(key)), _Record) for key in keys)
        return frozenset(record.token for record in records if record is not None)

    async def _ask(self, order: bytes, holds: tuple[int, ...]) -> bytes:
        """Send an order to a new supervisor and return its answer; empty when it was killed."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self._fork_server.hand_over(theirs, holds)
            theirs.close()
            ours.setblocking(False)
            loop = asyncio.get_running_loop()
            try:
                with suppress(ConnectionError):  # who does not read the order may have said why
                    await loop.sock_sendall(ours, order)
                    ours.shutdown(socket.SHUT_WR)
                return await self._answer(loop.sock_recv(ours, _ANSWER_BYTES))
            except ConnectionError:
                return b""

    async def _answer(self, receiving: Coroutine[Any, Any, bytes]) -> bytes:
        """Wait for the answer of a new supervisor; empty if none comes. Continues a fork server that somebody stopped."""
        answer = asyncio.ensure_future(receiving)
        deadline = time.monotonic() + _ANSWER_S
        try:
            while not (await asyncio.wait([answer], timeout=LOOK_S))[0]:
                self._fork_server.continue_if_stopped()
                if time.monotonic() > deadline:
                    self._fork_server.close()  # the next order starts another one
                    return b""
            return answer.result()
        finally:
            answer.cancel()


@lru_cache(maxsize=64)
def _attempts(state: StateDir, run: str) -> str:
    return str(state.run(run).attempts.absolute())


def _order(spec: LaunchSpec, folder: str, lease: str, signing_key: bytes) -> LaunchOrder:
    return LaunchOrder(
        folder=folder,
        token=spec.token,
        secret=spec.secret,
        signing_key=signing_key,
        argv=list(spec.argv),
        cwd=str(spec.cwd.absolute()),
        stdin=str(spec.stdin.absolute()) if spec.stdin else "",
        timeout_s=spec.timeout_s,
        stall_s=spec.stall_s,
        grace_s=spec.grace_s,
        log_bytes_max=spec.log_bytes_max,
        stop_signal=signal.Signals[f"SIG{spec.stop_signal}"].value,
        secrets=_secrets(spec),
        lease=lease,
        groups=cgroups.orders_for(spec.token, *spec.bounds) if any(spec.bounds) else [],
        until=spec.until,
        **_sandbox(spec, scratch_folder(folder)),
    )


def _secrets(spec: LaunchSpec) -> list[bytes]:
    """Return what the log must not have, the longest first: one may be a part of another."""
    named = (secret.encode("utf-8", "surrogateescape") for secret in spec.secrets)
    return sorted([*secret_values(dict(spec.env)), *named], key=len, reverse=True)


def _sandbox(spec: LaunchSpec, scratch: str) -> dict[str, object]:
    """Return what an order says about the sandbox, and the environment, which depends on it."""
    order: dict[str, object] = {
        "env": dict(spec.env),
        "sandbox": [],
        "hosts": None,
        "file_rules": [],
        "links": [],
    }
    policy = spec.sandbox
    if policy is None:
        return order
    found = probe_sandbox()
    if found.by == BUBBLEWRAP:
        argv = sandbox_argv(policy, found.program, spec.cwd.absolute())
        return order | {"sandbox": argv, "hosts": None if policy.proxied is None else list(policy.proxied)}
    if policy.hosts is not None:
        found = probe_sandbox(closed_network=True)
    if found.by != LANDLOCK:
        raise LaunchError(f"there is no sandbox: {found.obstacle}", found.hint)
    return order | {
        "env": environment_inside(policy, spec.env, scratch),
        "file_rules": file_rules(replace(policy, writable=(*policy.writable, Path(scratch)))),
        "links": home_links(policy, spec.env, scratch),
    }


def _ended_sighting(folder: str, ended: Exit) -> Sighting:
    """Return a launch that left an exit record. After a reboot it counts only if the files it speaks of were synced."""
    if _may_be_torn(folder, ended):
        return Sighting(Presence.LOST, seen_s=ended.duration_s)
    return Sighting(Presence.ENDED, ended)


def _is_carried_on(folder: str) -> bool:
    """Tell whether a launch works on another machine, as far as is known here: only the fleet that carried it may act on it."""
    record = _decode(record_file(folder), _Record)
    is_over = _filled(lost_file(folder)) or _filled(exit_file(folder))
    return record is not None and record.carried and not is_over


def _lost_sighting(folder: str) -> Sighting:
    """Return a launch that left no exit record. It worked at least until it last printed; of a silent one nothing is known.

    The record of a task that an agent leads has the time of its last sign instead.
    """
    record = _decode(record_file(folder), _Record)
    if record is None or not record.began:
        return Sighting(Presence.LOST)
    signs = [record_file(folder), *([log_file(folder)] if _filled(log_file(folder)) else [])]
    seen_s = max(map(_written_ns, signs)) / 1e9 - record.began
    return Sighting(Presence.LOST, seen_s=max(0.0, round(seen_s, 1)))


def _may_be_torn(folder: str, ended: Exit | None) -> bool:
    if ended is not None and ended.synced:
        return False
    record = _decode(record_file(folder), _Record)
    return record is None or record.boot != boot_id()


def _decode(path: str, kind: type[_T]) -> _T | None:
    """Read one of the supervisor's files. A torn one (the machine lost power) counts as absent."""
    try:
        return msgspec.json.decode(_content(path), type=kind)
    except msgspec.DecodeError:
        return None


def _content(path: str) -> bytes:
    """Return what is in a file, at most a supervisor's record; nothing if there is none or it is no plain file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, _RECORD_BYTES)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _filled(path: str) -> bool:
    found = _stat(path)
    return found is not None and found.st_size > 0


def _written_ns(path: str) -> int:
    """Return when a file was last written; 0 if it is not there."""
    found = _stat(path)
    return 0 if found is None else found.st_mtime_ns


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116 - asked several times per launch
    except FileNotFoundError:
        return None


def _has_supervisor(folder: str) -> bool:
    """Tell whether a supervisor holds the record of a launch, or somebody whom we cannot see, such as one in a container.

    Another program may hold it, because the record is a link to a file of its own. It must not be signalled.
    """
    pid = locks.record_lock_holder(record_file(folder))
    return pid is not None and (pid <= 0 or procfs.name(pid) == SUPERVISOR_NAME)


def _open_supervisor(folder: str) -> int | None:
    """Return a pidfd of the supervisor of a launch, or None if none lives."""
    return locks.open_record_lock_holder(record_file(folder)) if _has_supervisor(folder) else None


def _remove_leftovers(folder: str) -> None:
    """Remove what a killed supervisor could not: the exit record that it began, its scratch folder. Usually there is none."""
    with suppress(FileNotFoundError):
        os.unlink(draft_file(exit_file(folder)))  # noqa: PTH108 - asked once per launch
    remove_scratch(scratch_folder(folder))
