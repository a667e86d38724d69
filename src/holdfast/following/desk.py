"""The one place that the leading agent's questions come to: it opens runs, and knows which one is open."""

from __future__ import annotations

from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.following.answers import Opening
from holdfast.following.opening import Wish, begin, require_outside_workspace
from holdfast.following.run import FollowedRun
from holdfast.journal.sqlite import SqliteJournal
from holdfast.repo.repository import Repository

_SETTLING_S = 5.0


class Desk:
    """At most one open run, of the repository around `here`. `agreed`: the user agrees to whatever a plan runs."""

    def __init__(self, here: Path, *, agreed: bool) -> None:
        self._here = here
        self._agreed = agreed
        self._run: FollowedRun | None = None
        self._journal: SqliteJournal | None = None

    async def open(self, wish: Wish) -> Opening:
        """Open a run and wait a moment until it is known what is ready. Raises LeaseHeldError if another leads it."""
        if self._run is not None and not self._run.is_over:
            raise HoldfastError(
                f"run {self._run.name} is open", "go on with it, or pause it before you open another one"
            )
        repo = Repository.open(self._here)
        require_outside_workspace(repo, self._here)
        repo.require_own_state_dir()
        repo.hide_state_dir()
        begun = begin(repo, self._open_journal(repo), wish, agreed=self._agreed)
        self._run = run = FollowedRun(begun.turn)
        await run.ready(_SETTLING_S)
        return Opening(run=run.name, resumed=begun.resumed, notice=begun.notice, standing=run.standing())

    def _open_journal(self, repo: Repository) -> SqliteJournal:
        """Open the journal anew: since the last run it may have been replaced."""
        if self._journal is not None:
            self._journal.close()
        self._journal = SqliteJournal.open(repo.state.journal)
        return self._journal

    @property
    def run(self) -> FollowedRun:
        """The open run. One that has come to rest can still be looked at."""
        if self._run is None:
            raise HoldfastError("no run is open", "open one first")
        return self._run

    async def let_go(self) -> None:
        """The agent is gone: keep all work. Nothing stays claimed."""
        if self._run is not None:
            await self._run.let_go()
