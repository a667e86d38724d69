"""One connection to a Postgres server: made when it is needed, made again after it was lost, and never waited for without end.

Queries go through libpq as psycopg offers it (`psycopg.pq`), because every answer has a time limit here. Each query is one statement,
one round trip and one transaction, with nothing prepared and nothing set for the session: any pooler may be between.
What is asked is in `postgres.py`, what errors mean in `postgres_errors.py`.
"""

from __future__ import annotations

import os
import random
import select
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import Any
from urllib.parse import unquote

from holdfast.errors import JournalError
from holdfast.journal.address import JournalAddress, is_secret, joined_url, split_url
from holdfast.journal.postgres_errors import (
    LOST_CONNECTION,
    OTHER_TYPE,
    RETRIED,
    Hiding,
    lost,
    no_connection,
    refused,
)
from holdfast.journal.postgres_schema import SCHEMA, quoted_name, refuse_long

try:
    import psycopg
    from psycopg import pq
    from psycopg.conninfo import conninfo_to_dict
except ImportError as missing:
    raise JournalError(
        f"a journal in Postgres needs a library that is not here ({missing})",
        "pip install 'holdfast[postgres]'",
    ) from missing

CONNECT_S = 5
ANSWER_S = 5.0
"""How long the server may be silent, while a connection is made and while an answer is awaited."""
_STEP_S = 0.25
_TRIES = 50
_APART_S = 0.002
_APART_MAX_S = 0.05
"""How long to wait at the most before a statement is repeated: longer each time, and the first time not at all."""
_DEFAULTS: Mapping[str, str | int] = {
    "connect_timeout": CONNECT_S,
    "fallback_application_name": "holdfast",
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""What the address may say otherwise."""

QueryValue = Any
"""Text, bytes, numbers, truth, lists of bytes or numbers, or None."""
AnswerRow = tuple[Any, ...]

_TEXT, _BYTES, _INTEGER, _FLOAT, _BOOLEAN, _BYTES_LIST, _INTEGER_LIST = 25, 17, 20, 701, 16, 1001, 1016
_DECODERS: dict[int, Callable[[bytes], Any]] = {
    _TEXT: bytes.decode,
    19: bytes.decode,
    _BYTES: bytes,
    _INTEGER: lambda value: int.from_bytes(value, signed=True),
    23: lambda value: int.from_bytes(value, signed=True),
    _FLOAT: lambda value: struct.unpack("!d", value)[0],
    _BOOLEAN: lambda value: value == b"\1",
    2278: bytes,
}
"""How a column is read, by the number of its type."""


class QueryRefusedError(Exception):
    """The server refused a query, with a code."""

    def __init__(self, state: str, said: str) -> None:
        super().__init__(state)
        self.state = state
        self.said = said


class LostConnectionError(Exception):
    """The connection is gone."""


class SilentServerError(LostConnectionError):
    """The server does not answer in time. Asking again would wait as long."""

    def __init__(self) -> None:
        super().__init__(f"the server is silent for {ANSWER_S:.0f} s")


class _QuietConnection(psycopg.Connection[Any]):
    """A connection that is closed in silence when nobody needs it any more, such as that of a reader."""

    def __del__(self, *_: object) -> None:
        """The library closes it, unless it belongs to the process that we were forked from."""


class PostgresTarget:
    """Where the server is: an address in the form that libpq understands, and the schema."""

    def __init__(self, address: JournalAddress) -> None:
        self.name = f"store {address}"
        parts = split_url(address.url)
        options = [option for option in parts.query.split("&") if option]
        schemas = [option.partition("=")[2] for option in options if option.startswith("schema=")]
        self.schema = (unquote(schemas[-1]) if schemas else "") or SCHEMA
        refuse_long(self.name, self.schema)
        rest = "&".join(option for option in options if not option.startswith("schema="))
        self._parameters = self._understood(joined_url(parts._replace(query=rest)))
        given = (str(value) for key, value in self._parameters.items() if is_secret(key))
        self.hidden = Hiding([*given, os.environ.get("PGPASSWORD", "")])

    def connect(self, *, is_first: bool) -> psycopg.Connection[Any]:
        """Make a connection. Raises JournalError or StoreUnavailableError, in which no password is shown."""
        try:
            return _QuietConnection.connect(**self._parameters, autocommit=True, prepare_threshold=None)
        except (psycopg.Error, OSError, UnicodeError) as error:
            said = self.hidden(str(error))
        raise no_connection(self.name, said, is_first=is_first)

    def _understood(self, url: str) -> dict[str, Any]:
        """Return the parameters in an address. What libpq says about a wrong one may hold a part of the password."""
        try:
            given = conninfo_to_dict(url)
        except psycopg.Error:
            given = None
        if given is None or not all(
            port.isdecimal() for port in str(given.get("port") or 0).split(",") if port
        ):
            raise JournalError(
                f"{self.name}: the address is not one that Postgres understands",
                "such as postgresql://USER:PASSWORD@HOST:5432/DATABASE; write special characters of a password as %40",
            )
        several = "," in str(given.get("host", "")) or "," in str(given.get("hostaddr", ""))
        primary = {"target_session_attrs": "read-write"} if several else {}
        return {**_DEFAULTS, **primary, **given, "client_encoding": "utf8"}


class PostgresConnection:
    """The connection of one journal object. Threads that use it at once wait for each other."""

    def __init__(self, target: PostgresTarget, check: Callable[[PostgresConnection], None]) -> None:
        self.target = target
        self._check = check
        self._current: psycopg.Connection[Any] | None = None
        self._process = 0
        self._inherited: list[object] = []
        self._lock = RLock()
        self._schema = quoted_name(target.schema)

    @property
    def is_open(self) -> bool:
        """Whether there is a connection of this process, as far as is known."""
        return self._current is not None and self._process == os.getpid()

    def require(self) -> None:
        """Make a connection if there is none."""
        _ = self.pgconn

    @property
    def pgconn(self) -> pq.abc.PGconn:
        """The connection as libpq has it. It is made if there is none."""
        with self._lock:
            if self._process != os.getpid() and self._current is not None:
                # It belongs to the process that we were forked from: closing it would end that one's session.
                self._inherited.append(self._current)
                self._current = None
            if self._current is None:
                self._current = self.target.connect(is_first=self._process == 0)
                self._process = os.getpid()
                try:
                    self._check(self)
                except BaseException:
                    self.close()
                    raise
            return self._current.pgconn

    @property
    def is_pooled(self) -> bool:
        """Whether a pooler is between: what it calls our process is not what the server calls it."""
        said = self.pgconn.backend_pid
        return [(said,)] != self.ask("SELECT pg_backend_pid()")

    def close(self) -> None:
        """End the connection. The next call makes another one. Idempotent."""
        if self._current is not None and self._process == os.getpid():
            self._current.close()
            self._current = None

    def ask(self, query: str, *values: QueryValue) -> list[AnswerRow]:
        """Run one statement and return its rows. Raises what `postgres_errors.py` makes of an error."""
        name = self.target.name
        try:
            return self.attempt(query, *values)
        except QueryRefusedError as error:
            raise refused(name, error.state, error.said) from None
        except LostConnectionError as error:
            raise lost(name, str(error)) from None

    def attempt(self, query: str, *values: QueryValue) -> list[AnswerRow]:
        """Like `ask`, but raises QueryRefusedError and LostConnectionError as they come.

        It is repeated where the server refused it because of another transaction, so that nothing of it was done. It is not
        repeated after a lost connection: it may have been done, and its answer would be taken for that of the second one.
        """
        tried = 0
        while True:
            try:
                with self._lock:
                    self._drop_if_ended()
                    return self._run(query, values)
            except QueryRefusedError as error:
                if error.state in LOST_CONNECTION:
                    self.close()
                if error.state not in RETRIED or tried == _TRIES:
                    raise
            # Several that meet must not go on meeting.
            time.sleep(random.uniform(0, min(tried * _APART_S, _APART_MAX_S)))
            tried += 1

    def _drop_if_ended(self) -> None:
        """Close a connection that the server ended since the last query, so that this one is sent on another."""
        if self._current is None or self._process != os.getpid():
            return
        pgconn = self._current.pgconn
        try:
            while _is_ready(pgconn.socket, select.POLLIN, 0):
                pgconn.consume_input()
        except (psycopg.Error, OSError):
            self.close()

    def script(self, statements: str) -> None:
        """Run several statements without values. After an error the connection is closed, and with it their transaction."""
        pgconn = self.pgconn
        try:
            with self._lock:
                pgconn.send_query(statements.encode())
                self._results(pgconn)
        except psycopg.Error as error:
            self.close()
            raise LostConnectionError(self._said(error)) from None
        except BaseException:
            self.close()
            raise

    def wait_for_notice(self, timeout_s: float) -> None:
        """Return when a notification came, or after a time. Raises LostConnectionError if the connection is gone."""
        pgconn, deadline = self.pgconn, time.monotonic() + timeout_s
        try:
            while not _taken_notices(pgconn):
                left = deadline - time.monotonic()
                if left <= 0 or not _is_ready(pgconn.socket, select.POLLIN, left):
                    return
                pgconn.consume_input()
        except (psycopg.Error, OSError) as error:
            self.close()
            raise LostConnectionError(self._said(error)) from None

    def _run(self, query: str, values: Sequence[QueryValue]) -> list[AnswerRow]:
        pgconn = self.pgconn
        try:
            encoded = [_encoded(value) for value in values]
            pgconn.send_query_params(
                query.replace("{s}", self._schema).encode(),
                [value for _, value in encoded],
                [kind for kind, _ in encoded],
                [pq.Format.TEXT if kind == _TEXT else pq.Format.BINARY for kind, _ in encoded],
                pq.Format.BINARY,
            )
            return _rows(self._results(pgconn)[-1])
        except QueryRefusedError:
            raise
        except psycopg.Error as error:
            self.close()
            raise LostConnectionError(self._said(error)) from None
        except BaseException:
            # An answer may still come: nobody must take it for that of the next query.
            self.close()
            raise

    def _results(self, pgconn: pq.abc.PGconn) -> list[pq.abc.PGresult]:
        """Send what is to be sent, and return all results. The server may be silent for `ANSWER_S` at most."""
        _await(pgconn, select.POLLIN | select.POLLOUT, lambda: not pgconn.flush())
        results = []
        while True:
            _await(pgconn, select.POLLIN, lambda: not pgconn.is_busy())
            result = pgconn.get_result()
            if result is None:
                break
            results.append(result)
        for result in results:
            if result.status == pq.ExecStatus.FATAL_ERROR:
                self._raise_refused(result)
        return results

    def _raise_refused(self, result: pq.abc.PGresult) -> None:
        field = result.error_field(pq.DiagnosticField.SQLSTATE)
        primary = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or result.error_message
        said = self.target.hidden(primary.decode(errors="replace"))
        if field is None:
            raise LostConnectionError(said or "the connection was lost")
        raise QueryRefusedError(field.decode(), said)

    def _said(self, error: BaseException) -> str:
        return self.target.hidden(str(error)) or "the connection was lost"


def _await(pgconn: pq.abc.PGconn, events: int, is_done: Callable[[], bool]) -> None:
    """Wait until something is done. Raises SilentServerError if nothing comes from the server for `ANSWER_S`.

    It also reads when nothing seems to be there: TLS may have taken it from the socket already.
    """
    deadline = time.monotonic() + ANSWER_S
    while not is_done():
        if _is_ready(pgconn.socket, events, _STEP_S):
            deadline = time.monotonic() + ANSWER_S
        elif time.monotonic() > deadline:
            raise SilentServerError
        pgconn.consume_input()


def _is_ready(fd: int, events: int, timeout_s: float) -> bool:
    poll = select.poll()
    poll.register(fd, events)
    return bool(poll.poll(timeout_s * 1000))


def _taken_notices(pgconn: pq.abc.PGconn) -> int:
    taken = 0
    while pgconn.notifies() is not None:
        taken += 1
    return taken


def _rows(result: pq.abc.PGresult) -> list[AnswerRow]:
    kinds = [result.ftype(column) for column in range(result.nfields)]
    if not _DECODERS.keys() >= set(kinds):
        raise QueryRefusedError(OTHER_TYPE, "a column has another type")
    decoders = [_DECODERS[kind] for kind in kinds]
    columns = list(enumerate(decoders))
    value = result.get_value
    return [
        tuple(None if (body := value(row, column)) is None else decode(body) for column, decode in columns)
        for row in range(result.ntuples)
    ]


def _encoded(value: QueryValue) -> tuple[int, bytes | None]:
    """Return a value with the number of its type, as the server reads it."""
    match value:
        case None:
            return 0, None
        case str():
            return _TEXT, value.encode()
        case bool():
            return _BOOLEAN, b"\1" if value else b"\0"
        case int():
            return _INTEGER, struct.pack("!q", value)
        case float():
            return _FLOAT, struct.pack("!d", value)
        case bytes():
            return _BYTES, value
        case list() if value and isinstance(value[0], int):
            return _INTEGER_LIST, _list(_INTEGER, [struct.pack("!q", item) for item in value])
        case _:
            return _BYTES_LIST, _list(_BYTES, value)


def _list(kind: int, items: Sequence[bytes]) -> bytes:
    """Return a list of one dimension, which counts from 1 and has no gaps."""
    head = struct.pack("!iiiii", 1, 0, kind, len(items), 1)
    return head + b"".join(struct.pack("!i", len(item)) + item for item in items)
