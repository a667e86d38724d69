"""The workspace of a launch on a host: made from what the runner sent, saved at the git server while an agent works in it.

The worker pushes, never the agent. A host keeps one repository for each clone that sends it work, so a base is fetched once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.core.ids import task_ref
from holdfast.fleet.protocol import LaunchSpec, ResourceBounds
from holdfast.fleet.temporal.address import start_ref, state_ref
from holdfast.fleet.temporal.host_launches import HostLaunches
from holdfast.fleet.temporal.messages import HostOrder
from holdfast.paths import StateDir
from holdfast.repo.exchange import (
    WorkspaceState,
    cached_repository,
    carried_ref,
    change_files,
    fetch_state,
    push_state,
    read_state,
    save_piece,
    save_state,
    worked_state,
)
from holdfast.repo.repository import Repository
from holdfast.repo.workspaces import Workspaces
from holdfast.report_channel import FILE_BYTES_MAX, REPORT_VARIABLE
from holdfast.runner.environment import attempt_environment

_PIECE_BYTES = 1024 * 1024
_CEILING = "GIT_CEILING_DIRECTORIES"


class HostRepository:
    """What a host keeps for one clone of a repository: its commits, its workspaces, and its launches."""

    def __init__(self, home: Path, clone: str) -> None:
        self.repo = cached_repository(home / "repos" / clone)
        self.launches = HostLaunches(self.repo.state_dir)

    @property
    def state(self) -> StateDir:
        """Where the launches of this repository are on this host."""
        return self.repo.state_dir


@dataclass(slots=True)
class _Saved:
    """What was saved last, so that nothing is pushed twice: pieces of the output that are whole, and how far all of it was."""

    commit: str = ""
    seen: tuple[object, ...] = ()
    pieces: dict[int, str] = field(default_factory=dict)


class HostWorkspace:
    """The workspace of one launch. Its methods may block, so they run in threads, one at a time."""

    def __init__(self, place: HostRepository, order: HostOrder) -> None:
        self._repo: Repository = place.repo
        self._launches = place.launches
        self._order = order
        run = order.key.run
        self._pool = Workspaces(place.repo, place.state.run(run).workspaces)
        self._name = Path(order.workspace).name
        self._given = place.state.root / "given" / _digest(order)
        self._saved = _Saved()

    @property
    def path(self) -> Path:
        """The folder that the launch works in."""
        return self._pool.path(self._name)

    @property
    def report_file(self) -> Path | None:
        """The file that the agent reports to; None if it is not to report."""
        named = self._order.env.get(REPORT_VARIABLE)
        return Path(self._here(named)) if named else None

    def prepare(self) -> None:
        """Bring the workspace to the state that the runner sent. If the files are here already, only what changed is changed."""
        order, repo = self._order, self._repo
        if not order.start:
            self._pool.get(self._name).require_present()
            return
        ref = start_ref(order.clone, order.start)
        fetch_state(repo, order.git, ref, order.start, carried_ref(order.key.run, self._name))
        state = read_state(repo, order.start)
        before = order.before
        if not before:
            self._pool.prepare(self._name, state.head, or_raw=True)
            before = repo.tree_of(state.head)
        if before != state.work:
            change_files(repo, self._pool.get(self._name), before, state.work)

    def spec(self, until: float) -> LaunchSpec:
        """Return the launch as it is on this host: its own paths and environment in the place of the runner's."""
        order = self._order
        self._write_given()
        own = attempt_environment(order.key, self.path, None, order.inherited)
        env = {name: value for name, value in own.items() if name in order.inherited}
        env |= {name: self._here(value) for name, value in order.env.items()}
        if _CEILING in env:
            env[_CEILING] = str(self.path.parent)
        return LaunchSpec(
            order.key,
            tuple(map(self._here, order.argv)),
            self.path,
            env,
            secret=order.secret,
            stdin=Path(self._here(order.stdin)) if order.stdin else None,
            timeout_s=order.timeout_s,
            stall_s=order.stall_s,
            grace_s=order.grace_s,
            log_bytes_max=order.log_bytes_max,
            stop_signal=order.stop_signal,
            bounds=ResourceBounds(*order.bounds),
            until=until,
        )

    def save(self) -> tuple[str, tuple[str, ...]]:
        """Push what the workspace holds now, the output and the reports; return the commit, and what could not be taken.

        Raises ExchangeError if the git server cannot be reached. Nothing is pushed if nothing changed.
        """
        key, workspace = self._order.key, self._pool.get(self._name)
        state = worked_state(self._repo, workspace, task_ref(key.run, key.owner, key.attempt))
        reports = self.read_report(0)
        output = dict(self._output_pieces())
        seen = (state.head, state.work, len(reports), *output.items())
        if seen != self._saved.seen:
            pieces = {"output": output, "reports": {0: save_piece(self._repo, reports)} if reports else {}}
            commit = save_state(self._repo, WorkspaceState(state.head, state.work, pieces=pieces))
            self._repo.keep(carried_ref(key.run, self._name), commit)
            push_state(self._repo, self._order.git, state_ref(self._order.clone, key), commit)
            self._saved.commit, self._saved.seen = commit, seen
        return self._saved.commit, state.problems

    @property
    def saved(self) -> str:
        """The state that was pushed last; empty if there is none."""
        return self._saved.commit

    def read_report(self, start: int) -> bytes:
        """Return what the agent reported from `start` on."""
        file = self.report_file
        try:
            if file is None or file.is_symlink():
                return b""
            with file.open("rb") as opened:
                opened.seek(start)
                return opened.read(FILE_BYTES_MAX)
        except OSError:
            return b""

    def _output_pieces(self) -> Iterator[tuple[int, str]]:
        """Yield the pieces of all output that is kept. A piece that is whole never changes: it is stored once."""
        pieces = self._saved.pieces
        yield from pieces.items()
        offset = max(pieces) + _PIECE_BYTES if pieces else 0
        while (piece := self._launches.output(self._order.key, offset, _PIECE_BYTES)).data:
            blob = save_piece(self._repo, piece.data)
            offset = piece.start + len(piece.data)
            if len(piece.data) == _PIECE_BYTES:
                pieces[piece.start] = blob
            yield piece.start, blob

    def _here(self, text: str) -> str:
        """Return a text with the paths of this host in the place of the runner's."""
        places = {
            path: str(self._given / str(number)) for number, path in enumerate(sorted(self._order.given))
        }
        for there in sorted((*places, self._order.workspace), key=len, reverse=True):
            text = text.replace(there, places.get(there, str(self.path)))
        return text

    def _write_given(self) -> None:
        self._given.mkdir(parents=True, exist_ok=True, mode=0o700)
        for number, path in enumerate(sorted(self._order.given)):
            (self._given / str(number)).write_bytes(self._order.given[path])


def _digest(order: HostOrder) -> str:
    return hashlib.sha256(state_ref(order.clone, order.key).encode()).hexdigest()[:16]
