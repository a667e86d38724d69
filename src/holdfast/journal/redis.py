"""The journal in a Redis or Valkey server: the journals of many repositories, readable from any machine.

Every write is one call, which the server does as a whole or not at all (`redis_scripts.py`, which explains the keys, too).
A writer shows the epoch and the fence that it got with it, and the number of the last event that it knows. So a
runner that lost its lease changes nothing, an append whose answer was lost is stored once, and a server that went
back to an older state is noticed. Connections and their errors are in `redis_connection.py`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, Self

import msgspec

from holdfast.errors import JournalError, StoreUnavailableError
from holdfast.journal import redis_scripts as scripts
from holdfast.journal.address import JournalAddress
from holdfast.journal.journal_errors import (
    REBUILD,
    decoding,
    events_lost,
    lease_lost,
    no_plan,
    no_such_run,
    run_exists,
    run_held,
)
from holdfast.journal.lease import Holder
from holdfast.journal.protocol import (
    JournalReader,
    StoredBytes,
    StoredEvents,
    StoredListing,
    StoredOverview,
    StoreDurability,
    first_plan_of,
)
from holdfast.journal.redis_connection import CommandRefusedError, RedisConnection
from holdfast.journal.redis_durability import RedisServer, refuse_volatile
from holdfast.journal.server_journal import LONGEST_LEASE_S, ServerJournal, lock_name, new_fence

_PAGE = 200
_LOOK_S = 0.2
_LONGEST_MS = round(LONGEST_LEASE_S * 1000)


class RedisReader(JournalReader):
    """The reading half. It also reads from a replica."""

    def __init__(self, address: JournalAddress, part: str = "") -> None:
        self._address, self._part = address, part
        self._connection = RedisConnection(address)
        self.name = self._connection.name
        self._base = f"{self._connection.endpoint.prefix}:{{{address.repository}}}:{part}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"

    def is_confirmed(self, plan_hash: str) -> bool:
        """Tell whether the user agreed to this plan before."""
        return bool(self._ask(scripts.IS_CONFIRMED, plan_hash)[0])

    def holder(self, run: str) -> Holder | None:
        """Return who holds the run's lease in the store."""
        (stored,) = self._ask(scripts.HOLDER, _LONGEST_MS, run=run)
        with decoding(self.name):
            return msgspec.json.decode(stored, type=Holder) if stored else None

    @property
    def durability(self) -> StoreDurability:
        """What an acknowledged event survives in this server, as it is set now."""
        return RedisServer.ask(self._connection).durability()

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._connection.close()

    def require_readable(self) -> None:
        """Raise JournalError if the server is none that we know, or what is there is not ours."""
        RedisServer.ask(self._connection).require_usable()
        self._run_ids()

    def refuse_newer(self) -> None:
        """Raise JournalError if a newer Holdfast wrote the journal: it is not damaged, and not ours to replace."""
        (version,) = self._connection.run_script(scripts.FORMAT_FOUND, self._keys(), ())[1:]
        if _is_newer(version):
            raise self._strange_format(version)

    def clear(self) -> None:
        """Make the journal an empty one."""
        self._ask(scripts.CLEAR)

    def replace_with_draft(self) -> str:
        """Put the draft in the place of the journal. Return where the old one is kept; empty if there was none."""
        kept: bytes = self._ask(scripts.PUT_IN_PLACE)[0]
        return kept.decode()

    def _watch(self) -> RedisWatch:
        return RedisWatch(RedisConnection(self._address), f"{self._base}changes")

    def _run_ids(self) -> Iterable[str]:
        with decoding(self.name):
            return [run.decode() for run in self._ask(scripts.RUN_IDS)[0]]

    def _listings(self) -> list[StoredListing]:
        return [self._listing(found[1:], found[0].decode()) for found in self._ask(scripts.LISTINGS)[0]]

    def _overview(self) -> StoredOverview:
        plans, tasks = self._ask(scripts.OVERVIEW)
        names = [name.decode() for name in plans[::2]]
        rows = [(run.decode(), body) for run, bodies in tasks for body in bodies]
        return StoredOverview(dict(zip(names, plans[1::2], strict=True)), rows)

    def _stored(self, run: str) -> StoredBytes:
        stored, plan, first_plan, tasks = self._ask(scripts.STORED_RUN, run=run)
        if plan is None or first_plan is None:
            raise no_plan((stored[4 if plan is None else 5] or b"").decode())
        placed = sorted(zip(map(int, tasks[::2]), tasks[1::2], strict=True))
        return StoredBytes(self._listing(stored[:4], run), plan, [body for _, body in placed], first_plan)

    def _stored_events(self, run: str, after: int, upto: int | None) -> Iterator[StoredEvents]:
        """Yield a page at a time, so that a slow reader needs little memory, here and in the server."""
        first, end = after + 1, "+" if upto is None else f"{upto}-0"
        while True:
            (page,) = self._ask(scripts.EVENTS, first, end, _PAGE, run=run)
            with decoding(self.name):
                appends = [_append_of(entry) for entry in page]
            yield from (append for append in appends if append.first >= first or first == after + 1)
            if len(page) < _PAGE:
                return
            first = appends[-1].first + 1

    def _plan(self, plan_hash: str) -> bytes:
        body: bytes | None = self._ask(scripts.PLAN, plan_hash)[0]
        if body is None:
            raise no_plan(plan_hash)
        return body

    def _listing(self, found: Sequence[bytes | None], run: str) -> StoredListing:
        row, started_at, updated_at, last = found
        if row is None or started_at is None or updated_at is None or last is None:
            raise JournalError(f"{self.name}: the record of a run is not whole", REBUILD)
        return StoredListing(row, float(started_at), float(updated_at), int(last), run)

    def _ask(self, script: str, *values: str | bytes | int, run: str = "") -> list[Any]:
        """Run a script and return its answer. Raises JournalError if there is no such run."""
        word, answer = self._run(script, run, values)
        if word == b"missing":
            raise no_such_run(run)
        return answer

    def _run(self, script: str, run: str, values: Sequence[str | bytes | int]) -> tuple[bytes, list[Any]]:
        """Run a script and return how it went, and its answer. Raises JournalError if the journal is of a newer version."""
        said = self._connection.run_script(script, self._keys(run), values)
        with self._connection.understanding():
            word, *answer = said
            if not isinstance(word, bytes):
                raise TypeError(word)
        if word == b"format":
            raise self._strange_format(answer[0])
        return word, answer

    def _keys(self, run: str = "") -> list[str]:
        return [self._base + key.format(run=run) for key in scripts.KEYS_OF_A_RUN]

    def _strange_format(self, version: bytes) -> JournalError:
        if _is_newer(version):
            return JournalError(
                f"{self.name} was written by a newer Holdfast", "use that version, or a newer one"
            )
        return JournalError(
            f"{self.name}: {self._base}format is not a record of Holdfast",
            "choose another prefix: ?prefix=NAME; nothing was written",
        )


class RedisWatch:
    """Listens to the channel of a journal. Where the user may not listen, who waits looks several times a second."""

    def __init__(self, connection: RedisConnection, channel: str) -> None:
        self._connection = connection
        self._channel = channel
        self._is_permitted = True
        self._is_subscribed = False
        self._subscribe()

    def wait(self, timeout_s: float) -> None:
        """Return as soon as something may have changed. A connection that was lost may have kept something from us."""
        if not self._is_permitted:
            time.sleep(min(timeout_s, _LOOK_S))
        elif not self._is_subscribed:
            self._subscribe()
        else:
            try:
                self._connection.wait_for_message(timeout_s)
            except StoreUnavailableError:
                self._is_subscribed = False

    def close(self) -> None:
        """Stop listening. Idempotent."""
        self._connection.close()

    def _subscribe(self) -> None:
        try:
            self._connection.call("SUBSCRIBE", self._channel)
            self._is_subscribed = True
        except CommandRefusedError:
            self._is_permitted = False


class RedisJournal(RedisReader, ServerJournal):
    """The journal opened for writing."""

    def __init__(self, address: JournalAddress, part: str = "") -> None:
        """Connect. Raises JournalError if the server is too old, a replica, or may forget what it acknowledged."""
        ServerJournal.__init__(self)
        RedisReader.__init__(self, address, part)
        with closed_on_error(self):
            server = RedisServer.ask(self._connection)
            server.require_usable()
            server.require_writable()
            if not address.accept_volatile:
                refuse_volatile(self.name, server.durability())
            self._run_ids()  # whether what is there is ours, before anything is written

    @classmethod
    def open(cls, address: JournalAddress) -> Self:
        """Open the journal for writing. Nothing is written before the first run is made."""
        return cls(address)

    @staticmethod
    def open_read_only(address: JournalAddress) -> RedisReader:
        """Open it read-only, also from a replica, and from a server that may forget."""
        reader = RedisReader(address)
        with closed_on_error(reader):
            reader.require_readable()
        return reader

    @classmethod
    def open_draft(cls, address: JournalAddress) -> Self:
        """Open an empty journal that will replace the one there. A draft from an earlier try is dropped."""
        with closing(RedisReader(address)) as present:
            present.refuse_newer()
        draft = cls(address, _DRAFT)
        with closed_on_error(draft):
            draft.clear()
        return draft

    @classmethod
    def put_in_place(cls, address: JournalAddress) -> str | None:
        """Make the draft the journal; return the name under which the old one is kept, if there was one.

        Readers see the one or the other. Safe to repeat: without a draft, nothing happens.
        """
        with closing(RedisReader(address)) as journal:
            return journal.replace_with_draft() or None

    def reader(self) -> RedisReader:
        """Return a reader of this journal for another thread, with a connection of its own."""
        return RedisReader(self._address, self._part)

    def take_epoch(self, run: str, by: Holder | None = None, *, hold: bool = False) -> int:
        """Raise the run's epoch and return it. Raises LeaseHeldError if another holds the run and may be alive."""
        fence = new_fence()
        holder = msgspec.json.encode(by) if by is not None and hold else b""
        values = (run, fence, holder, lock_name(by), self._lease_ms(), _LONGEST_MS)
        word, answer = self._run(scripts.TAKE_EPOCH, run, values)
        if word == b"missing":
            raise no_such_run(run)
        if word == b"held":
            with decoding(self.name):
                raise run_held(run, msgspec.json.decode(answer[0] or b"{}", type=Holder), answer[1] / 1000)
        epoch, last = answer
        return self._own(run, int(epoch), fence, int(last))

    def renew(self, run: str, epoch: int) -> None:
        """Hold the run for another `lease_s`. Raises LeaseLostError if another runner took it over."""
        self._write(scripts.RENEW, epoch, self._ownership(run, epoch).fence, self._lease_ms(), run=run)

    def release(self, run: str, epoch: int) -> None:
        """End our lease, so that another runner need not wait. Does nothing if it is not ours any more."""
        self._write(scripts.RELEASE, run, epoch, self._ownership(run, epoch).fence, run=run)

    def remove_run(self, run: str, epoch: int) -> None:
        """Forget a run. Raises LeaseLostError if `epoch` is not its present one, JournalError if there is no such run."""
        self._write(scripts.REMOVE_RUN, run, epoch, self._ownership(run, epoch).fence, run=run)
        self._owned.pop(run, None)

    def confirm_plan(self, plan_hash: str, at: float) -> None:
        """Remember that the user agreed to run this plan's commands. Idempotent."""
        self._write(scripts.CONFIRM_PLAN, plan_hash, repr(at))

    def _add_run(
        self, run: str, epoch: int, plan: tuple[str, bytes], row: bytes, events: bytes, at: float
    ) -> None:
        word, _ = self._run(scripts.CREATE_RUN, run, (run, epoch, *plan, row, events, repr(at)))
        if word == b"exists":
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
        owned = self._ownership(run, epoch)
        digest = owned.digest(events)
        amended = ("", b"", "") if plan is None else (*plan, first_plan_of(row))
        rows = [value for task in tasks for value in task]
        head = (run, epoch, owned.fence, owned.last, digest, count, repr(at), events, row)
        (last,) = self._write(scripts.APPEND, *head, *amended, *rows, run=run)
        owned.last = int(last)
        return owned.last

    def _write(self, script: str, *values: str | bytes | int, run: str = "") -> list[Any]:
        """Run a script that writes. Raises LeaseLostError if the run is another's, JournalError if it is not as it was."""
        word, answer = self._run(script, run, values)
        if word == b"fenced":
            raise lease_lost(run)
        if word == b"lost" or (word == b"missing" and run in self._owned):
            raise events_lost(self.name, run)
        if word == b"missing":
            raise no_such_run(run)
        return answer

    def _lease_ms(self) -> int:
        return round(self.lease_s * 1000)


@contextmanager
def closed_on_error(journal: RedisReader) -> Iterator[None]:
    """Close a journal that could not be opened."""
    try:
        yield
    except BaseException:
        journal.close()
        raise


_DRAFT = "draft:"


def _is_newer(version: bytes) -> bool:
    return re.fullmatch(rb"[0-9]{1,9}", version) is not None and int(version) > scripts.FORMAT


def _append_of(entry: tuple[bytes, Sequence[bytes]]) -> StoredEvents:
    """Return an entry of a stream as what was appended."""
    name, fields = entry
    values: Mapping[bytes, bytes] = dict(zip(fields[::2], fields[1::2], strict=True))
    return StoredEvents(int(name.partition(b"-")[0]), float(values.get(b"at", b"")), values.get(b"body", b""))
