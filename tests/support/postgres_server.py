"""A real Postgres server of a test's own: on its own port and socket, in its own folder, as an ordinary user.

Postgres refuses to run as root, so tests that do start it as another user. It is killed with the process that started it.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.servers import NotInstalledError, running

USER = "tester"
PASSWORD = "pl4nted-s3cret"
DATABASE = "journal"
_START_S = 60.0


@dataclass(slots=True)
class PostgresServer:
    """One server. Its folder outlives its process, until `stop`."""

    folder: Path
    port: int
    settings: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @classmethod
    def start(cls, *settings: str, at: Path | None = None) -> PostgresServer:
        """Start a new, empty server with settings such as `fsync=off`. It listens when this returns."""
        template = _template()
        folder = at or Path(tempfile.mkdtemp(prefix="postgres-"))
        shutil.copytree(template, folder / "data", symlinks=True)
        _own(folder)
        server = cls(folder, free_port(), settings)
        server.launch()
        return server

    @property
    def url(self) -> str:
        """The address, with the password."""
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{DATABASE}"

    @property
    def socket_url(self) -> str:
        """The address of its Unix socket."""
        return f"postgresql://{USER}@/{DATABASE}?host={quote(str(self.folder), safe='')}&port={self.port}"

    @property
    def data(self) -> Path:
        """Its data folder."""
        return self.folder / "data"

    def launch(self) -> None:
        """Start the process on the folder as it is, and wait until it answers."""
        settings = [part for setting in self.settings for part in ("-c", setting)]
        where = ["-D", str(self.data), "-p", str(self.port), "-k", str(self.folder), "-h", "127.0.0.1"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*_as_user(), str(_program("postgres")), *where, *settings],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._wait_until_ready()

    def pids(self) -> list[int]:
        """Return the server's process and those that it started."""
        assert self.process is not None
        return [self.process.pid, *_children(self.process.pid)]

    def pause(self) -> None:
        """Stop every process of it, as a stalled machine does. It keeps its connections."""
        for pid in self.pids():
            _signal(pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on."""
        for pid in self.pids():
            _signal(pid, signal.SIGCONT)

    def kill(self) -> None:
        """End every process of it at once, as a crash does, and wait until they are gone."""
        for pid in self.pids():
            _signal(pid, signal.SIGKILL)
        assert self.process is not None
        self.process.wait()

    def shut_down(self) -> None:
        """End it in order, cutting off its clients."""
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=_START_S)

    def forget(self) -> None:
        """Make the server, which is down, an empty one."""
        shutil.rmtree(self.data)
        shutil.copytree(_template(), self.data, symlinks=True)
        _own(self.folder)

    def stop(self) -> None:
        """End it and remove its files. Killed, it would leave a piece of shared memory."""
        if self.process is not None and self.process.poll() is None:
            self.go_on()
            self.process.send_signal(signal.SIGQUIT)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=_START_S)
        if self.process is not None and self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def sql(self, statements: str, database: str = DATABASE) -> str:
        """Run statements as the superuser and return what they print."""
        argv = [str(_program("psql")), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", database]
        argv += ["-h", str(self.folder), "-p", str(self.port), "-U", "postgres"]
        done = subprocess.run(argv, input=statements, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    @contextmanager
    def replica(self) -> Iterator[PostgresServer]:
        """Start a read-only copy of it that follows it, and end that afterwards."""
        folder = Path(tempfile.mkdtemp(prefix="postgres-"))
        _own(folder)
        argv = [
            *_as_user(),
            str(_program("pg_basebackup")),
            "-D",
            str(folder / "data"),
            "-R",
            "-c",
            "fast",
            "-X",
            "stream",
        ]
        subprocess.run([*argv, "-h", str(self.folder), "-p", str(self.port), "-U", "postgres"], check=True)
        replica = PostgresServer(folder, free_port())
        try:
            replica.launch()
            yield replica
        finally:
            replica.stop()

    def catch_up(self, primary: PostgresServer) -> None:
        """Wait until this replica has all that its primary has now."""
        position = primary.sql("SELECT pg_current_wal_lsn()")
        deadline = time.monotonic() + _START_S
        while self.sql(f"SELECT pg_last_wal_replay_lsn() >= '{position}'") != "t":
            assert time.monotonic() < deadline, "the replica does not follow"
            time.sleep(0.05)

    def make_tablespace(self, name: str, disk: Path) -> None:
        """Make a tablespace on another disk, in a folder that the server's user can reach."""
        space = disk / name
        space.mkdir()
        owner = self.data.stat()
        os.chown(space, owner.st_uid, owner.st_gid)
        self.sql(f"CREATE TABLESPACE {name} LOCATION '{space}'")

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_S
        argv = [
            str(_program("pg_isready")),
            "-q",
            "-h",
            str(self.folder),
            "-p",
            str(self.port),
            "-d",
            DATABASE,
        ]
        assert self.process is not None
        while subprocess.run(argv, check=False).returncode != 0:
            log = (self.folder / "log").read_text(errors="replace")
            assert self.process.poll() is None, log
            assert time.monotonic() < deadline, log
            time.sleep(0.05)


@contextmanager
def postgres(*settings: str) -> Iterator[PostgresServer]:
    """Start a server of a test's own, and end it with the test. Skips the test where none is installed."""
    with running(partial(PostgresServer.start, *settings)) as server:
        yield server


@contextmanager
def pooler(server: PostgresServer) -> Iterator[str]:
    """Start a pooler in transaction mode in front of a server, with one connection to it; return its address.

    Skips the test where none is installed.
    """
    if (program := shutil.which("pgbouncer")) is None:
        pytest.skip("pgbouncer is not installed (Debian: apt-get install pgbouncer)")
    folder, port = server.folder, free_port()
    (folder / "pooler.ini").write_text(
        f"[databases]\n{DATABASE} = host=127.0.0.1 port={server.port} user={USER} password={PASSWORD}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\npool_mode = transaction\n"
        "default_pool_size = 1\nunix_socket_dir =\n"
    )
    with (folder / "pooler.log").open("wb") as log:
        process = subprocess.Popen([*_as_user(), program, str(folder / "pooler.ini")], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + _START_S
        while not _listens(port):
            assert process.poll() is None, (folder / "pooler.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield f"postgresql://{USER}@127.0.0.1:{port}/{DATABASE}"
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    """Return a port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@cache
def _template() -> Path:
    """Return a data folder with our user and database, made once per test process: `initdb` takes seconds."""
    if shared := os.environ.get("TESTS_POSTGRES_TEMPLATE"):
        return Path(shared)
    folder = Path(tempfile.mkdtemp(prefix="postgres-template-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _own(folder)
    data = folder / "data"
    argv = [
        *_as_user(),
        str(_program("initdb")),
        "-D",
        str(data),
        "-U",
        "postgres",
        "-E",
        "UTF8",
        "--no-sync",
    ]
    subprocess.run([*argv, "--locale=C", "-A", "trust", "--no-instructions"], check=True, capture_output=True)
    (data / "pg_hba.conf").write_text(
        "local all all trust\nlocal replication all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
    )
    statements = (
        f"CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}';\nCREATE DATABASE {DATABASE} OWNER {USER};\n"
    )
    single = [*_as_user(), str(_program("postgres")), "--single", "-D", str(data), "postgres"]
    subprocess.run(single, input=statements.encode(), check=True, capture_output=True)
    os.environ["TESTS_POSTGRES_TEMPLATE"] = str(data)
    return data


def _program(name: str) -> Path:
    """Return a program of the newest Postgres here."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1]
    if on_path := shutil.which(name):
        return Path(on_path)
    raise NotInstalledError(f"{name} is not installed (Debian: apt-get install postgresql)")


def _as_user() -> list[str]:
    """Return what runs a program as an ordinary user, and kills it with us."""
    argv = ["setpriv", "--pdeathsig", "KILL"]
    if os.geteuid() == 0:
        user = _user()
        argv += [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return argv


def _user() -> pwd.struct_passwd:
    with suppress(KeyError):
        return pwd.getpwnam("postgres")
    return pwd.getpwnam("nobody")


def _own(folder: Path) -> None:
    """Give a folder and all in it to the user that the server runs as."""
    if os.geteuid() != 0:
        return
    user = _user()
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)


def _children(pid: int) -> list[int]:
    listed = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout
    return [int(child) for child in listed.split()]


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
