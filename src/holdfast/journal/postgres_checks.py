"""What a Postgres server must be before a journal is kept there, and what acknowledged events survive in it.

All of it is asked with each new connection: after a failover another server may answer at the same address.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.errors import JournalError, StoreUnavailableError
from holdfast.journal.postgres_connection import PostgresConnection
from holdfast.journal.postgres_schema import RELATIONS, VERSION, Relations, refuse_foreign, refuse_newer
from holdfast.journal.protocol import StoreDurability

_OLDEST = 12
_FACTS = f"""SELECT current_setting('server_version_num')::bigint, pg_is_in_recovery(),
    current_setting('default_transaction_read_only') = 'on', current_setting('fsync') = 'on',
    current_setting('full_page_writes') = 'on', current_setting('synchronous_commit'),
    current_setting('synchronous_standby_names'), relations.* FROM ({RELATIONS}) AS relations"""


class ServerFacts(NamedTuple):
    """What the server says about itself."""

    version: int
    is_replica: bool
    is_read_only: bool
    syncs: bool
    writes_full_pages: bool
    synchronous_commit: str
    standbys: str


class StoreState(NamedTuple):
    """What was found with a new connection: the version of our tables, 0 if there are none, and what events survive there."""

    version: int
    durability: StoreDurability


def look(connection: PostgresConnection) -> tuple[StoreState, ServerFacts]:
    """Look at the server and at the schema. Raises JournalError if it is too old, or the schema is not one that we know."""
    name, schema = connection.target.name, connection.target.schema
    found = connection.ask(_FACTS, schema)[0]
    facts = ServerFacts(*found[: len(ServerFacts._fields)])
    relations = Relations(*found[len(ServerFacts._fields) :])
    refuse_old(name, facts.version)
    refuse_foreign(name, schema, relations)
    version: int = connection.ask(VERSION)[0][0] if relations.is_ours else 0
    refuse_newer(name, version)
    return StoreState(version, durability_of(facts, is_unlogged=relations.is_unlogged)), facts


def refuse_old(name: str, version: int) -> None:
    """Raise JournalError if the server lacks what our functions need."""
    if version < _OLDEST * 10_000:
        raise JournalError(
            f"{name} is Postgres {version // 10_000}; Holdfast needs {_OLDEST} or newer",
            "upgrade the server, or use another store",
        )


def refuse_read_only(name: str, facts: ServerFacts, *, is_first: bool) -> None:
    """Raise if nothing can be written: JournalError with the first connection, later StoreUnavailableError, as in a failover."""
    if not (facts.is_replica or facts.is_read_only):
        return
    why = (
        "is a read-only replica"
        if facts.is_replica
        else "is set to read-only (default_transaction_read_only)"
    )
    if not is_first:
        raise StoreUnavailableError(f"{name} {why} now", "wait until a primary answers there")
    raise JournalError(
        f"{name} {why}: no journal can be kept there",
        "name the primary; with several hosts in the address, the one that can be written is chosen",
    )


def refuse_volatile(name: str, durability: StoreDurability, *, is_accepted: bool) -> None:
    """Raise JournalError if the server may forget what it acknowledged, unless the user accepts that."""
    if durability.is_volatile and not is_accepted:
        raise JournalError(
            f"{name} may lose what it acknowledged. {durability.sentence}",
            "change that on the server, or accept it with --accept-volatile",
        )


def durability_of(facts: ServerFacts, *, is_unlogged: bool) -> StoreDurability:
    """Return what acknowledged events survive. `synchronous_commit = off` is no danger: our writes switch it on.

    A file system that writes whole pages, such as ZFS, needs no `full_page_writes`: without them the server is not refused.
    """
    is_replicated = bool(facts.standbys.strip()) and facts.synchronous_commit != "local"
    faults = {
        "its tables are unlogged, so they are empty after a crash (ALTER TABLE … SET LOGGED)": is_unlogged,
        "a power cut can damage all of it (fsync is off)": not facts.syncs,
        "a power cut can damage it, unless its file system writes whole pages (full_page_writes is off)": (
            not facts.writes_full_pages
        ),
    }
    found = "; ".join(fault for fault, is_so in faults.items() if is_so)
    return StoreDurability(
        server_killed=not is_unlogged,
        power_cut=not found,
        failover=is_replicated and not is_unlogged,
        is_volatile=is_unlogged or not facts.syncs,
        sentence=f"{found[0].upper()}{found[1:]}." if found else _sentence(is_replicated=is_replicated),
    )


def _sentence(*, is_replicated: bool) -> str:
    if is_replicated:
        return "An acknowledged event survives a kill of the server, a power cut, and a failover to a synchronous replica."
    return (
        "An acknowledged event survives a kill of the server and a power cut. A failover may lose the last ones "
        "(synchronous_standby_names is empty, or synchronous_commit is local)."
    )
