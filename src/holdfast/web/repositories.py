"""The repositories that are served, by their short names, and what of them a request may name.

Names of requests are looked up among those that are known; none becomes part of a path before that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.core.ids import is_valid_id, slug
from holdfast.core.state import RunState
from holdfast.errors import HoldfastError, JournalError, JournalUnavailableError, quoted
from holdfast.journal.protocol import StoredRun
from holdfast.views.read_only_repo import ReadOnlyRepo, open_read_only
from holdfast.web.answers import RefusedRequestError

_FRESH_S = 10.0
"""How long an opened repository is used: `holdfast move` may take its runs to another store."""
_IDLE_MAX = 8


@dataclass(frozen=True, slots=True)
class ServedRepository:
    """One repository, to read. A reader of its journal is for one thread at a time."""

    id: str
    checkout: Path
    _idle: list[tuple[float, ReadOnlyRepo]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def name(self) -> str:
        """What people call it."""
        return self.checkout.name or str(self.checkout)

    @contextmanager
    def opened(self) -> Iterator[ReadOnlyRepo]:
        """Lend the repository to this thread. Raises HoldfastError if it cannot be read."""
        since, repo = self._take()
        try:
            yield repo
        except BaseException:
            _close(repo)
            raise
        self._return(since, repo)

    def _take(self) -> tuple[float, ReadOnlyRepo]:
        now = time.monotonic()
        with self._lock:
            while self._idle:
                since, repo = self._idle.pop()
                if now - since < _FRESH_S:
                    return since, repo
                _close(repo)
        return now, open_read_only(self.checkout)

    def _return(self, since: float, repo: ReadOnlyRepo) -> None:
        with self._lock:
            # Where nothing was ever run there is no journal yet, but there may be one the next time.
            if repo.journal is not None and len(self._idle) < _IDLE_MAX:
                self._idle.append((since, repo))
                return
        _close(repo)

    def close(self) -> None:
        """Close all readers that nobody uses."""
        with self._lock:
            while self._idle:
                _close(self._idle.pop()[1])


def _close(repo: ReadOnlyRepo) -> None:
    if repo.journal is not None:
        repo.journal.close()


class ServedRepositories:
    """All repositories of a server, in the order of its command line."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """Find the repositories around these folders. Raises HoldfastError where there is none."""
        checkouts = dict.fromkeys(open_checkout(folder) for folder in folders)
        self.all: dict[str, ServedRepository] = {}
        for checkout in checkouts:
            name = _free_name(slug(checkout.name), self.all)
            self.all[name] = ServedRepository(name, checkout)

    def find(self, name: str) -> ServedRepository:
        """Return a repository by its short name. Raises RefusedRequestError if there is none."""
        if name not in self.all:
            raise RefusedRequestError(
                404, f"there is no repository {quoted(name)}", "/api/v1/overview lists them"
            )
        return self.all[name]

    def close(self) -> None:
        """Close all readers."""
        for repository in self.all.values():
            repository.close()


def open_checkout(folder: Path) -> Path:
    """Return the main checkout of the repository around a folder. Raises HoldfastError if there is none to read."""
    if not folder.is_dir():
        raise HoldfastError(f"there is no folder {quoted(str(folder))}", "name the folder of a repository")
    opened = open_read_only(folder.resolve())
    _close(opened)
    return opened.checkout


def _free_name(wanted: str, taken: dict[str, ServedRepository]) -> str:
    names = (wanted if number == 1 else f"{wanted}-{number}" for number in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)


def load_run(opened: ReadOnlyRepo, run: str) -> StoredRun:
    """Return a run that a request names by its whole id. Raises RefusedRequestError if there is none."""
    missing = RefusedRequestError(404, f"there is no run {quoted(run)}", "/api/v1/overview lists the runs")
    if not is_valid_id(run) or opened.journal is None:
        raise missing
    try:
        return opened.journal.load(run)
    except JournalUnavailableError:
        raise
    except JournalError:
        if is_known(opened, run):
            raise
        raise missing from None


def is_known(opened: ReadOnlyRepo, run: str) -> bool:
    """Tell whether the journal has a run."""
    return any(listing.row.run == run for listing in opened.runs())


def require_task(state: RunState, task: str) -> str:
    """Return a task that a request names by its whole id. Raises RefusedRequestError if the run has none."""
    if task not in state.tasks:
        raise RefusedRequestError(
            404, f"run {state.row.run} has no task {quoted(task)}", "its status lists them"
        )
    return task
