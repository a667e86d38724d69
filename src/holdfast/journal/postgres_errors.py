"""What errors of Postgres and of its client library mean to a person, and what to do about each.

A server that is away or overloaded may answer later: StoreUnavailableError. What stays wrong until somebody changes it is a
JournalError. Texts of the library go through `Hiding`, so that no password is ever shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from holdfast.errors import JournalError, StoreUnavailableError
from holdfast.journal.journal_errors import REBUILD

RETRIED = frozenset({"40001", "40P01"})
"""Two transactions met, and the server refused one of them: it is repeated."""
MISSING_TABLES = frozenset({"42P01", "42883", "3F000"})
"""There are no tables or functions: nothing was ever written, or the server was emptied."""
LOST_CONNECTION = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "25006"})
"""After these a new connection may work where this one does not: the server ends, or is a replica now."""

OTHER_TYPE = "42804"
"""A column is not of the type that it had."""

_LATER = "what it acknowledged is there; the same command works again once the server does"
_AWAY = f"is the server running, and are host and port right? {_LATER[0].upper()}{_LATER[1:]}"
_UNAVAILABLE = {
    "53100": ("the disk of the server is full", "free some space there; nothing recorded is lost"),
    "53200": ("the server is out of memory", _LATER),
    "53300": (
        "the server has too many clients",
        "raise max_connections there, or put a pooler between; then try again",
    ),
    "57014": ("the server took too long and stopped the query (statement_timeout)", _LATER),
    "55P03": ("another process holds the run's row for too long", _LATER),
    "57P01": ("the server is shutting down", _LATER),
    "57P02": ("the server crashed", _LATER),
    "57P03": ("the server is starting", _LATER),
    "25006": ("the server is read-only now: a replica, or it has no room left", _LATER),
    "40001": ("other transactions got in the way again and again", _LATER),
    "40P01": ("other transactions got in the way again and again", _LATER),
}
_UNAVAILABLE_CLASSES = {"08": "the connection was lost", "53": "the server has no resources left", "57": "the server ended the query", "58": "the server's system reported an error"}  # fmt: skip
_CHANGED_TABLES = (
    "its tables are not as Holdfast made them",
    "nothing was removed; add ?schema=NAME to the address: `holdfast rebuild` makes a journal there from git",
)
_REFUSED = {
    "42501": (
        "the user lacks a permission",
        "GRANT CREATE ON DATABASE … TO that user, or let it own the schema",
    ),
    "42P01": _CHANGED_TABLES,
    "42703": _CHANGED_TABLES,
    "42883": _CHANGED_TABLES,
    OTHER_TYPE: _CHANGED_TABLES,
    "XX001": ("its data is damaged", REBUILD.partition("; ")[2]),
    "XX002": ("an index is damaged", "REINDEX it on the server, then run the command again"),
}

_NOT_POSTGRES = (
    "invalid response to SSL negotiation|expected authentication request|unsupported frontend protocol"
)
_NO_PRIMARY = "session is read-only|session is not read-only|hot standby mode"
_CONNECTING: tuple[tuple[str, str, str], ...] = (
    ("password authentication failed|no password supplied|authentication failed|SASL|empty password", "the server refuses the user or the password", "put the password into HOLDFAST_STORE_PASSWORD, PGPASSWORD or the password file, and check the user in the address"),
    ("role .* does not exist|no such user", "the server does not know the user", "name an existing user in the address: postgresql://USER@host/database"),
    ("database .* does not exist|no such database", "there is no such database", "create it (createdb NAME), or name another in the address"),
    ("permission denied for database|not permitted to log in", "the user may not use the database", "GRANT CONNECT ON DATABASE … TO that user"),
    ("server does not support SSL|no SSL|SSL is not enabled|SSL off|no encryption", "the server and the address disagree about TLS", "set sslmode in the address to what the server wants: disable, prefer, require, verify-full"),
    ("certificate|root.crt|SSL error|tlsv1|TLS", "the server's TLS certificate does not suit the address", "check sslmode, sslrootcert and the host's name in the address"),
    ("pg_hba.conf", "the server does not let this user in from here", "add a line for it to pg_hba.conf of the server"),
    (_NO_PRIMARY, "none of the servers is a primary that can be written", "name the primary, too: postgresql://one,two/database"),
    (_NOT_POSTGRES, "what answers there is no Postgres server", "check host and port in the address"),
    ("bad value|definition of service|service file|invalid (?:connection option|URI|sslmode|port|value|integer|target_session)|extra key|missing \"=\"", "the address has a part that Postgres does not understand", "see the manual of libpq: connection strings"),
)  # fmt: skip
"""What the client library says when no connection comes about, and what that means. Anything else may pass by itself."""
_PASSING = re.compile(
    "starting up|shutting down|recovery mode|too many (?:clients|connections)|connection slots|not yet accepting|"
    "reset by peer|timed out|timeout expired|unexpected eof|SYSCALL|Broken pipe|Connection refused"
)
"""What passes by itself, whatever else is said: the server starts or is overloaded, or the network cut the connection."""


class Hiding:
    """Takes passwords out of texts that others wrote."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = sorted((secret for secret in secrets if secret), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """Return the text on one line, without them."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return " ".join(text.split())


def no_connection(name: str, said: str, *, is_first: bool) -> JournalError:
    """Return the error for a connection that did not come about, from what the library says, which hides passwords already.

    Where there was a primary before, there will be one again.
    """
    if not _PASSING.search(said) and (is_first or not re.search(_NO_PRIMARY, said)):
        for pattern, meaning, hint in _CONNECTING:
            if re.search(pattern, said):
                return JournalError(f"{name}: {meaning} ({_reason(said)})", hint)
    return StoreUnavailableError(f"{name} cannot be reached ({_reason(said)})", _AWAY)


def lost(name: str, why: str) -> StoreUnavailableError:
    """Return the error for a server that does not answer any more."""
    return StoreUnavailableError(f"{name}: {why}", _LATER)


def refused(name: str, state: str, said: str) -> JournalError:
    """Return the error for a query that the server refused with this code."""
    if state in _UNAVAILABLE:
        meaning, hint = _UNAVAILABLE[state]
        return StoreUnavailableError(f"{name}: {meaning}", hint)
    if state[:2] in _UNAVAILABLE_CLASSES:
        return lost(name, f"{_UNAVAILABLE_CLASSES[state[:2]]} ({state})")
    meaning, hint = _REFUSED.get(
        state, (f"the server refused a query: {state}", "`holdfast doctor` looks into it")
    )
    return JournalError(f"{name}: {meaning} ({said})", hint)


def changed_tables(name: str, said: str) -> JournalError:
    """Return the error for tables that another program changed."""
    return refused(name, OTHER_TYPE, said)


def _reason(said: str) -> str:
    """Return the last thing that the library says: it begins with where it connected to, which the name has."""
    told = re.split(r"failed: (?:FATAL: +|ERROR: +)?", said)[-1]
    return re.sub(r"\s+Is the server running on that host.*", "", told, flags=re.DOTALL).strip()
