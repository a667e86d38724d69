"""The journal in a Postgres server: many repositories, many readers, one writer per run, wherever they are.

Every call is one function in the database (`postgres_functions.py`), one round trip and one transaction, whose commit is synced
before it is acknowledged. `postgres_schema.py` explains the tables. AnswerRow bodies, events and plans are bytes that nobody looks into.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Self

import msgspec

from holdfast.journal.address import JournalAddress
from holdfast.journal.journal_errors import (
    decoding,
    events_lost,
    lease_lost,
    no_plan,
    no_such_run,
    run_exists,
    run_held,
)
from holdfast.journal.lease import Holder
from holdfast.journal.postgres_checks import StoreState, look, refuse_read_only, refuse_volatile
from holdfast.journal.postgres_connection import (
    AnswerRow,
    LostConnectionError,
    PostgresConnection,
    PostgresTarget,
    QueryRefusedError,
    QueryValue,
    SilentServerError,
)
from holdfast.journal.postgres_errors import MISSING_TABLES, changed_tables, lost, refused
from holdfast.journal.postgres_schema import CHANGED_MEANWHILE, MIGRATIONS, migration
from holdfast.journal.protocol import (
    JournalReader,
    StoredBytes,
    StoredEvents,
    StoredListing,
    StoredOverview,
    StoreDurability,
    Watch,
    first_plan_of,
    plan_hash_of,
)
from holdfast.journal.server_journal import LONGEST_LEASE_S, RunOwnership, ServerJournal, lock_name, new_fence

_PAGE = 200
_DRAFT = "draft"

_OF_JOURNAL = (
    "FROM {s}.runs r JOIN {s}.journals j ON j.key = r.journal WHERE j.repository = $1 AND j.name = $2"
)
_RUN_IDS = f"SELECT r.run {_OF_JOURNAL}"
_LISTINGS = f"SELECT r.row, r.started_at, r.updated_at, r.last_seq, r.run {_OF_JOURNAL} ORDER BY r.key"
_RUN_KEY = f"SELECT r.key {_OF_JOURNAL} AND r.run = $3"
_LONGEST = f"clock_timestamp() + interval '{LONGEST_LEASE_S} seconds'"
_HOLDER = f"""SELECT r.holder {_OF_JOURNAL} AND r.run = $3
  AND r.held_until > clock_timestamp() AND r.held_until <= {_LONGEST}"""
_SHORTEN_LEASE = f"""UPDATE {{s}}.runs r SET held_until = {_LONGEST} FROM {{s}}.journals j
  WHERE j.key = r.journal AND j.repository = $1 AND j.name = $2 AND r.run = $3 AND r.held_until > {_LONGEST}"""
_LISTING, _PLAN, _FIRST_PLAN, _TASK = range(4)
# One statement sees one moment. What a row is, its first column says.
_STORED = f"""WITH found AS (SELECT r.* {_OF_JOURNAL} AND r.run = $3)
  SELECT {_LISTING}::bigint, last_seq, row, started_at, updated_at FROM found
  UNION ALL SELECT CASE p.hash WHEN found.plan_hash THEN {_PLAN}::bigint ELSE {_FIRST_PLAN} END, 0, p.body, 0, 0
    FROM found JOIN {{s}}.plans p ON p.journal = found.journal AND p.hash IN (found.plan_hash, found.first_plan)
  UNION ALL SELECT {_TASK}::bigint, t.place, t.row, 0, 0 FROM found JOIN {{s}}.tasks t ON t.run = found.key"""
_OVERVIEW = """WITH journal AS (SELECT key FROM {s}.journals WHERE repository = $1 AND name = $2)
  SELECT NULL::text, p.hash, p.body FROM {s}.plans p JOIN journal ON p.journal = journal.key
  UNION ALL SELECT r.run, NULL::text, t.row FROM {s}.runs r JOIN journal ON r.journal = journal.key
    JOIN {s}.tasks t ON t.run = r.key"""
_EVENTS = """SELECT first, at, body FROM {s}.events WHERE run = $1 AND first <= $3 AND first >=
    coalesce((SELECT max(first) FROM {s}.events WHERE run = $1 AND first <= $2), 0) ORDER BY first LIMIT $4"""
_PLAN_BODY = """SELECT p.body FROM {s}.plans p JOIN {s}.journals j ON j.key = p.journal
  WHERE j.repository = $1 AND j.name = $2 AND p.hash = $3"""
_CONFIRMED = """SELECT 1 FROM {s}.confirmed_plans c JOIN {s}.journals j ON j.key = c.journal
  WHERE j.repository = $1 AND j.name = $2 AND c.hash = $3"""
_LAST = 2**62


def _call_of(function: str, values: int) -> str:
    places = ", ".join(f"${number}" for number in range(1, values + 1))
    return f"SELECT * FROM {{s}}.{function}({places})"


_CREATE_RUN = _call_of("create_run", 11)
_TAKE_EPOCH = _call_of("take_epoch", 7)
_RENEW = _call_of("renew_lease", 6)
_RELEASE = _call_of("release_lease", 5)
_APPEND = _call_of("append_events", 17)
_REMOVE = _call_of("remove_run", 6)
_CONFIRM = _call_of("confirm_plan", 4)
_BEGIN_DRAFT = _call_of("begin_draft", 2)
_PUT_IN_PLACE = _call_of("put_draft_in_place", 3)


class PostgresReader(JournalReader):
    """The reading half. It changes nothing, not even where there are no tables yet: then there are no runs."""

    def __init__(self, address: JournalAddress, journal: str = "") -> None:
        self._address = address
        self._target = PostgresTarget(address)
        self.name = self._target.name
        self._journal = (address.repository, journal)
        schema = f"{self._target.schema}/{address.repository}"
        self._channel = f"holdfast_{sha256(schema.encode()).hexdigest()[:40]}"
        self._connection = PostgresConnection(self._target, self._check)
        self._state: StoreState | None = None

    def connect(self) -> None:
        """Make a connection if there is none, and look at what is there."""
        self._connection.require()

    @property
    def durability(self) -> StoreDurability:
        """What acknowledged events survive in this server, as of the last connection."""
        if self._state is None:
            self.connect()
        assert self._state is not None
        return self._state.durability

    def is_confirmed(self, plan_hash: str) -> bool:
        """Tell whether the user agreed to this plan before."""
        return bool(self._ask(_CONFIRMED, *self._journal, plan_hash))

    def holder(self, run: str) -> Holder | None:
        """Return who holds the run's lease, by the server's clock."""
        found = self._ask(_HOLDER, *self._journal, run)
        return _decoded_holder(self.name, found[0][0]) if found else None

    def close(self) -> None:
        """End the connection. Idempotent."""
        self._connection.close()

    def _check(self, connection: PostgresConnection) -> None:
        """Look at the server that a new connection leads to."""
        self._state, _ = look(connection)

    def _ask(self, query: str, *values: QueryValue, is_read: bool = True) -> list[AnswerRow]:
        """Return the answer; without tables there is none. What only reads is asked once more after a lost connection."""
        try:
            return self._connection.attempt(query, *values)
        except QueryRefusedError as error:
            if error.state in MISSING_TABLES and self._is_empty():
                return []
            raise refused(self.name, error.state, error.said) from None
        except LostConnectionError as error:
            if isinstance(error, SilentServerError) or not is_read:
                raise lost(self.name, str(error)) from None
        return self._ask(query, *values, is_read=False)

    def _is_empty(self) -> bool:
        """Tell whether there are no tables at all. Those that there were may be gone since we looked."""
        if self._state is not None and self._state.version:
            self._connection.close()
            self._connection.require()
        return self._state is None or self._state.version == 0

    def _watch(self) -> Watch:
        return PostgresWatch(self._target, self._channel)

    def _run_ids(self) -> Iterable[str]:
        return [run for (run,) in self._ask(_RUN_IDS, *self._journal)]

    def _listings(self) -> list[StoredListing]:
        return [StoredListing(*found) for found in self._ask(_LISTINGS, *self._journal)]

    def _overview(self) -> StoredOverview:
        found = self._ask(_OVERVIEW, *self._journal)
        plans = {plan: body for run, plan, body in found if run is None}
        return StoredOverview(plans, [(run, body) for run, _, body in found if run is not None])

    def _stored(self, run: str) -> StoredBytes:
        found = self._ask(_STORED, *self._journal, run)
        single = {row[0]: row for row in found if row[0] != _TASK}
        if _LISTING not in single:
            raise no_such_run(run)
        _, last_seq, row, started_at, updated_at = single[_LISTING]
        if _PLAN not in single:
            raise no_plan(plan_hash_of(row))
        if (first := first_plan_of(row)) not in ("", plan_hash_of(row)) and _FIRST_PLAN not in single:
            raise no_plan(first)
        tasks = sorted((place, body) for kind, place, body, _, _ in found if kind == _TASK)
        began_with = single[_FIRST_PLAN][2] if _FIRST_PLAN in single else b""
        listing = StoredListing(row, started_at, updated_at, last_seq, run)
        return StoredBytes(listing, single[_PLAN][2], [body for _, body in tasks], began_with)

    def _stored_events(self, run: str, after: int, upto: int | None) -> Iterator[StoredEvents]:
        """Yield a page at a time: nothing is held open on the server between two of them."""
        found = self._ask(_RUN_KEY, *self._journal, run)
        if not found:
            raise no_such_run(run)
        key, last, position = found[0][0], _LAST if upto is None else upto, after + 1
        while page := [StoredEvents(*row) for row in self._ask(_EVENTS, key, position, last, _PAGE)]:
            yield from page if position == after + 1 else page[1:]
            if len(page) < _PAGE:
                return
            position = page[-1].first


class PostgresJournal(PostgresReader, ServerJournal):
    """The journal opened for writing. One connection; each process and each thread that writes has its own."""

    def __init__(self, address: JournalAddress, journal: str = "") -> None:
        ServerJournal.__init__(self)
        PostgresReader.__init__(self, address, journal)

    @classmethod
    def open(cls, address: JournalAddress) -> Self:
        """Connect. The first write makes the tables, or brings older ones up to date.

        Raises JournalError, with nothing written, if the server or the schema is not one that can keep a journal.
        """
        journal = cls(address)
        journal.connect()
        return journal

    @staticmethod
    def open_read_only(address: JournalAddress) -> PostgresReader:
        """Connect for reading, also to a replica."""
        reader = PostgresReader(address)
        reader.connect()
        return reader

    @classmethod
    def open_draft(cls, address: JournalAddress) -> Self:
        """Open an empty journal that will replace the present one. A draft from an earlier try is dropped."""
        draft = cls(address, _DRAFT)
        draft._change(_BEGIN_DRAFT, address.repository, _DRAFT)
        return draft

    @classmethod
    def put_in_place(cls, address: JournalAddress) -> str | None:
        """Make the draft the journal; return the name under which the old one is kept, if there was one.

        One transaction: readers see the old one or the new one. Safe to repeat.
        """
        journal = cls(address)
        try:
            found = journal._change(_PUT_IN_PLACE, address.repository, _DRAFT, journal._channel)
        finally:
            journal.close()
        kept: str | None = found[0][0]
        return kept

    def reader(self) -> PostgresReader:
        """Return a reader of this journal for another thread, with a connection of its own."""
        return PostgresReader(self._address, self._journal[1])

    def take_epoch(self, run: str, by: Holder | None = None, *, hold: bool = False) -> int:
        """Raise the run's epoch and return it. Raises LeaseHeldError if the lease of another is alive."""
        fence = new_fence()
        holder = msgspec.json.encode(by or Holder()) if hold else None
        values = (*self._journal, run, fence, holder, lock_name(by), float(self.lease_s))
        self._call(_SHORTEN_LEASE, *self._journal, run)
        standing, epoch, last, held_by, left_s = self._call(_TAKE_EPOCH, *values)[0]
        if standing == "missing":
            raise no_such_run(run)
        if standing == "held":
            raise run_held(run, _decoded_holder(self.name, held_by), left_s)
        return self._own(run, epoch, fence, last)

    def renew(self, run: str, epoch: int) -> None:
        """Hold the run for another `lease_s`, also after its end if nobody took it. Raises LeaseLostError if one did."""
        writer = self._ownership(run, epoch)
        values = (*self._journal, run, epoch, writer.fence, float(self.lease_s))
        self._require_ours(run, writer, self._call(_RENEW, *values)[0][0])

    def release(self, run: str, epoch: int) -> None:
        """End our lease. Does nothing if it is not ours any more."""
        self._call(_RELEASE, *self._journal, run, epoch, self._ownership(run, epoch).fence)

    def remove_run(self, run: str, epoch: int) -> None:
        """Forget a run: its events, its rows, and its plan unless another run has the same."""
        writer = self._ownership(run, epoch)
        standing = self._call(_REMOVE, *self._journal, self._channel, run, epoch, writer.fence)[0][0]
        # An earlier call may have removed it, and its answer was lost: nobody else could, the fence is ours.
        if not (standing == "missing" and writer.fence):
            self._require_ours(run, writer, standing)
        self._owned.pop(run, None)

    def confirm_plan(self, plan_hash: str, at: float) -> None:
        """Remember that the user agreed to run this plan's commands. Idempotent."""
        self._change(_CONFIRM, *self._journal, plan_hash, at)

    def _add_run(
        self, run: str, epoch: int, plan: tuple[str, bytes], row: bytes, events: bytes, at: float
    ) -> None:
        plan_hash, body = plan
        values = (run, epoch, plan_hash, first_plan_of(row), body, row, events, float(at))
        if self._change(_CREATE_RUN, *self._journal, self._channel, *values) != [("created",)]:
            raise run_exists(run)

    def _add(
        self,
        run: str,
        epoch: int,
        events: bytes,
        count: int,
        row: bytes,
        tasks: Sequence[tuple[int, bytes]],
        at: float,
        plan: tuple[str, bytes] | None,
    ) -> int:
        writer = self._ownership(run, epoch)
        digest = bytes.fromhex(writer.digest(events))
        written = (events, count, row, *_columns(tasks), float(at))
        amended = (None, None, None) if plan is None else (plan[0], first_plan_of(row), plan[1])
        values = (run, epoch, writer.fence, writer.last, digest, *written, *amended)
        standing, last = self._call(_APPEND, *self._journal, self._channel, *values)[0]
        self._require_ours(run, writer, standing)
        writer.last = last
        return writer.last

    def _plan(self, plan_hash: str) -> bytes:
        found = self._ask(_PLAN_BODY, *self._journal, plan_hash)
        if not found:
            raise no_plan(plan_hash)
        body: bytes = found[0][0]
        return body

    def _check(self, connection: PostgresConnection) -> None:
        is_first = self._state is None
        state, facts = look(connection)
        refuse_read_only(self.name, facts, is_first=is_first)
        refuse_volatile(self.name, state.durability, is_accepted=self._address.accept_volatile)
        self._state = state

    def _require_ours(self, run: str, writer: RunOwnership, standing: str) -> None:
        """Raise unless the run is there, as we left it, and ours."""
        if standing == "ours":
            return
        if standing == "missing" and not writer.fence:
            raise no_such_run(run)
        raise lease_lost(run) if standing == "lost" or not writer.fence else events_lost(self.name, run)

    def _call(self, query: str, *values: QueryValue) -> list[AnswerRow]:
        """Call a function about a run that exists. Without tables it does not."""
        self._bring_up_to_date(creates=False)
        found = self._ask(query, *values, is_read=False)
        return found or [("missing", None, None, None, None)[: 5 if query == _TAKE_EPOCH else 2]]

    def _change(self, query: str, *values: QueryValue) -> list[AnswerRow]:
        """Call a function that makes something. The tables are made if there are none."""
        self._bring_up_to_date(creates=True)
        if found := self._ask(query, *values, is_read=False):
            return found
        # The server was emptied since we looked.
        self._connection.close()
        self._bring_up_to_date(creates=True)
        return self._connection.ask(query, *values)

    def _bring_up_to_date(self, *, creates: bool) -> None:
        """Apply the migrations that the tables have not seen. Several processes may do it at once."""
        self._connection.require()
        while self._state is not None and (version := self._state.version) < len(MIGRATIONS):
            if version == 0 and not creates:
                return
            try:
                self._connection.script(migration(self._target.schema, version))
            except QueryRefusedError as error:
                if error.state != CHANGED_MEANWHILE:
                    raise refused(self.name, error.state, error.said) from None
            except LostConnectionError as error:
                raise lost(self.name, str(error)) from None
            # A new connection looks at the schema again.
            self._connection.close()
            self._connection.require()
            if self._state.version <= version:
                raise changed_tables(self.name, "there are tables, and no version")


class PostgresWatch:
    """Waits for an append anywhere, by LISTEN on a connection of its own. Behind a pooler, or at a replica, it only waits."""

    def __init__(self, target: PostgresTarget, channel: str) -> None:
        self._channel = channel
        self._is_told = False
        self._connection = PostgresConnection(target, self._listen)
        self._connection.require()

    def wait(self, timeout_s: float) -> None:
        """Return as soon as something may have changed, or after a time. At once after the connection was lost."""
        if not self._connection.is_open:
            self._connection.require()
        elif not self._is_told:
            time.sleep(timeout_s)
        else:
            try:
                self._connection.wait_for_notice(timeout_s)
            except LostConnectionError:
                self._connection.require()

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def _listen(self, connection: PostgresConnection) -> None:
        """Ask to be told. A pooler gives the session to others between two queries: what it is told is lost."""
        self._is_told = False
        if connection.is_pooled or connection.ask("SELECT pg_is_in_recovery()") == [(True,)]:
            return
        connection.ask(f"LISTEN {self._channel}")
        self._is_told = True


def _columns(tasks: Sequence[tuple[int, bytes]]) -> tuple[list[int] | None, list[bytes] | None]:
    """Return the places and the rows. The last row of a place counts."""
    if not tasks:
        return None, None
    placed = dict(tasks)
    return list(placed), list(placed.values())


def _decoded_holder(name: str, body: bytes | None) -> Holder:
    with decoding(name):
        return msgspec.json.decode(body or b"{}", type=Holder)
