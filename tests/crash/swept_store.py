"""A server that has the journal of a repository which is broken over and over: it is put back as often as the repository is.

A sweep has a server of its own, so all that is in it is put back, and all who are connected to it belong to the trial.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from holdfast.journal import open_journal
from holdfast.journal.address import JournalAddress
from holdfast.journal.lease import locker
from holdfast.repo.repository import Repository
from tests.support.command import eventually
from tests.support.postgres_server import USER, PostgresServer
from tests.support.redis_server import RedisServerProcess
from tests.support.servers import start_server

_SCHEMA, _KEPT = "holdfast", "kept"


class SweptServer(Protocol):
    """One kind of server."""

    def keep(self) -> None:
        """Remember what is in it."""

    def put_back(self) -> None:
        """Make it hold what was kept, and nothing else; nothing, if nothing was."""

    def has_clients(self) -> bool:
        """Tell whether anybody is connected to it: what it was asked may still be done."""


@dataclass(slots=True)
class SweptRedis:
    """Redis or Valkey."""

    process: RedisServerProcess
    _kept: dict[bytes, bytes] = field(default_factory=dict)

    def keep(self) -> None:
        """Remember every key."""
        with self.process.client() as client:
            self._kept = {key: client.dump(key) for key in client.scan_iter()}

    def put_back(self) -> None:
        """Remove all keys, and write those that were kept."""
        with self.process.client() as client:
            client.flushall()
            for key, body in self._kept.items():
                client.restore(key, 0, body)

    def has_clients(self) -> bool:
        """Tell whether anybody but ourselves is connected."""
        with self.process.client() as client:
            return len(client.client_list()) > 1


@dataclass(slots=True)
class SweptPostgres:
    """Postgres. The tables that are kept are copied into another schema."""

    process: PostgresServer
    _kept: list[str] = field(default_factory=list)

    def keep(self) -> None:
        """Copy every table."""
        listing = f"SELECT tablename FROM pg_tables WHERE schemaname = '{_SCHEMA}'"
        self._kept = self.process.sql(listing).split()
        copies = [f"CREATE TABLE {_KEPT}.{name} AS TABLE {_SCHEMA}.{name}" for name in self._kept]
        self.process.sql(";".join([f"CREATE SCHEMA {_KEPT}", *copies]))

    def put_back(self) -> None:
        """Copy every table back; without one, the schema goes, too."""
        if not self._kept:
            self.process.sql(f"DROP SCHEMA IF EXISTS {_SCHEMA} CASCADE")
            return
        emptied = f"TRUNCATE {', '.join(f'{_SCHEMA}.{name}' for name in self._kept)}"
        filled = [
            f"INSERT INTO {_SCHEMA}.{name} OVERRIDING SYSTEM VALUE TABLE {_KEPT}.{name}"
            for name in self._kept
        ]
        self.process.sql(";".join(["BEGIN", emptied, *filled, "COMMIT"]))

    def has_clients(self) -> bool:
        """Tell whether anybody is connected who is not the superuser, as we are."""
        return self.process.sql(f"SELECT count(*) FROM pg_stat_activity WHERE usename = '{USER}'") != "0"


@dataclass(frozen=True, slots=True)
class SweptStore:
    """The server, and how the repository that is broken is known in it."""

    kind: str
    process: RedisServerProcess | PostgresServer
    server: SweptServer

    @classmethod
    def start(cls, kind: str) -> SweptStore:
        """Start a server that the caller stops. Raises NotInstalledError if its program is not here."""
        process = start_server(kind)
        if isinstance(process, PostgresServer):
            return cls(kind, process, SweptPostgres(process))
        assert isinstance(process, RedisServerProcess)
        return cls(kind, process, SweptRedis(process))

    @property
    def url(self) -> str:
        """Its address."""
        return self.process.url

    def address(self, repository: Path) -> JournalAddress:
        """Return where the journal of a repository is."""
        return JournalAddress(self.url, Repository.open(repository).id())

    def wait_until_quiet(self) -> None:
        """Wait until all that was asked of the server is done: nobody who is dead is connected any more."""
        eventually(lambda: not self.server.has_clients(), "the server noticed that its client is gone")

    def end_lease(self, repository: Path, run: str) -> None:
        """End the lease of a runner that was killed, as its time does. Copies of the repository have locks of their own."""
        with closing(open_journal(self.address(repository))) as journal:
            by = locker(repository / ".holdfast" / "runs" / run / "lease")
            journal.release(run, journal.take_epoch(run, by))
