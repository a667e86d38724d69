"""Real servers for the tests: each test process starts its own, on a port and in a folder of its own, and ends it.

A row of `SERVERS` names how one is started. A program that is not installed skips the tests that need it, visibly.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Protocol, TypeVar

from holdfast.journal.address import JournalAddress

SERVERS: dict[str, str] = {
    "redis": "tests.support.redis_server:RedisServerProcess",
    "valkey": "tests.support.redis_server:ValkeyServerProcess",
    "postgresql": "tests.support.postgres_server:PostgresServer",
}
"""Each kind of journal that is in a server, and the class that starts one."""
PROTOCOLS = ("redis", "postgresql")
"""One server for each protocol, for tests of what does not depend on who made the server."""


class ServerProcess(Protocol):
    """A server that runs."""

    @property
    def url(self) -> str:
        """Its address."""

    def kill(self) -> None:
        """End it as a crash does. Its folder stays."""

    def launch(self) -> None:
        """Start it again on its folder as it is, and wait until it answers."""

    def forget(self) -> None:
        """Make it an empty one, while it is down."""

    def pause(self) -> None:
        """Stop it, as a stalled machine does: it keeps its connections."""

    def go_on(self) -> None:
        """Let it go on."""

    def stop(self) -> None:
        """End it and remove its files."""


_Server = TypeVar("_Server", bound=ServerProcess)


class NotInstalledError(Exception):
    """The program of a server is not on this machine."""


def start_server(kind: str) -> ServerProcess:
    """Start a server that the caller stops. Raises NotInstalledError if its program is not here."""
    module, name = SERVERS[kind].split(":")
    started: ServerProcess = getattr(import_module(module), name).start()
    return started


@contextmanager
def running(start: Callable[[], _Server]) -> Iterator[_Server]:
    """Start a server of a test's own, and end it with the test. Skips the test where its program is not installed."""
    try:
        server = start()
    except NotInstalledError as error:
        import pytest  # not by the many writers that use a server which is there

        pytest.skip(str(error))
    try:
        yield server
    finally:
        server.stop()


def url_of(kind: str) -> str:
    """Return the address of this process's server of a kind; start it if there is none. Child processes share it."""
    variable = f"TESTS_{kind.upper()}_URL"
    if variable not in os.environ:
        try:
            server = start_server(kind)
        except NotInstalledError as error:
            import pytest  # not by the many writers that use a server which is there

            pytest.skip(str(error))
        atexit.register(server.stop)
        os.environ[variable] = server.url
    return os.environ[variable]


def address_in(folder: Path, kind: str) -> JournalAddress:
    """Return the address of a journal of its own for a test's folder, in this process's server."""
    return JournalAddress(url_of(kind), repository=sha256(os.fsencode(folder)).hexdigest()[:40])
