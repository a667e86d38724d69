"""The records of other systems in a Redis server: read as they are, or written where no one else's are.

They are a copy for others, under the others' own keys. The journal is elsewhere, even if in the same server. No record expires.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from holdfast.errors import HoldfastError, quoted
from holdfast.journal.address import JournalAddress, with_password, without_password
from holdfast.journal.redis_connection import CommandRefusedError, RedisConnection

_SCHEMES = ("redis", "rediss", "redis+unix", "redis+sentinel", "valkey", "valkeys")
_BATCH = 200

_PUT = """
local owner, writes = ARGV[1], ARGV[2] == 'write'
local over = {completed = true, complete = true, done = true, abandoned = true}
local function parsed(text)
    local ok, value = pcall(cjson.decode, text)
    return ok and type(value) == 'table' and value or {}
end
local function is_over(epic)
    local there = type(epic) == 'string' and redis.pcall('GET', 'epic:' .. epic .. ':state')
    return type(there) == 'string' and over[parsed(there).status] == true
end
local function is_free(key, there, how)
    if not there then return true end
    if type(there) ~= 'string' then return false end
    local record = parsed(there)
    local mark = type(record.holdfast) == 'table' and record.holdfast.owner
    if mark == owner or (how == 'continued' and not mark) then return true end
    if how == 'gone' then return false end
    -- The files of a sprint name no epic: they are of whom the sprint is.
    local sprint = not record.epicId and string.match(key, '^(sprint:.+:)files$')
    local state = sprint and redis.pcall('GET', sprint .. 'state')
    if type(state) == 'string' then return is_free(sprint .. 'state', state, how) end
    return is_over(record.epicId)
end
local free = {}
for place, key in ipairs(KEYS) do
    local how = ARGV[2 * place + 1]
    free[place] = is_free(key, redis.pcall('GET', key), how)
    if not free[place] and how ~= 'gone' then return key end
end
if writes then
    for place, key in ipairs(KEYS) do
        if ARGV[2 * place + 1] ~= 'gone' then redis.call('SET', key, ARGV[2 * place + 2])
        elseif free[place] then redis.call('DEL', key) end
    end
end
return ''
"""
"""Write records, or only look whether that would do. Answers with the first key that holds a record of somebody else."""


class ForeignRecordError(HoldfastError):
    """A key holds a record that is not ours to overwrite."""


class RecordWrite(NamedTuple):
    """What becomes of a key: `new` or `continued`, which may write over a record without a mark, or `gone`."""

    key: str
    how: str
    content: bytes


def place_of(url: str) -> str:
    """Return an address as it is written down: without any password."""
    return without_password(with_password(url, "")).replace("://@", "://", 1)


def holds_records(url: str) -> bool:
    """Tell whether an address is that of a server that can hold records."""
    return url.partition("://")[0] in _SCHEMES


class RecordsServer:
    """One server with records. It is connected when it is needed."""

    def __init__(self, url: str) -> None:
        if not holds_records(url):
            raise HoldfastError(
                f"{quoted(url.partition('://')[0])} is no server with records",
                "such as redis://localhost:6379/0",
            )
        self.place = place_of(url)
        self._connection = RedisConnection(JournalAddress(url, repository=""))

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._connection.close()

    def check(self, records: Sequence[RecordWrite], owner: str) -> None:
        """Raise ForeignRecordError if a record of somebody else is in the way. Writes nothing."""
        self._send(records, owner, "check")

    def put(self, records: Sequence[RecordWrite], owner: str) -> None:
        """Write the records, and remove those that are gone. Each batch is written whole or not at all. Idempotent."""
        if len(records) > _BATCH:
            self.check(records, owner)
        self._send(records, owner, "write")

    def read(self, pattern: str) -> Iterator[tuple[str, str | None]]:
        """Yield each key that matches, with its text; None if it has another kind of value. Changes nothing."""
        cursor = b"0"
        seen: set[bytes] = set()
        with self._explained():
            while True:
                said = self._connection.call("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)
                with self._connection.understanding():
                    cursor, found = said
                    new = [key for key in dict.fromkeys(found) if key not in seen]
                seen.update(new)
                for key, value in zip(new, self._connection.call("MGET", *new) if new else (), strict=True):
                    yield key.decode("utf-8", "replace"), value and value.decode("utf-8", "replace")
                if cursor == b"0":
                    return

    def _send(self, records: Sequence[RecordWrite], owner: str, what: str) -> None:
        for start in range(0, len(records), _BATCH):
            batch = records[start : start + _BATCH]
            values = [word for record in batch for word in (record.how, record.content)]
            with self._explained():
                keys = [record.key for record in batch]
                taken = self._connection.run_script(_PUT, keys, [owner, what, *values]).decode()
            if taken:
                raise ForeignRecordError(
                    f"{taken} in {self.place} is a record of somebody else's work that is not over",
                    "adopt that first with `holdfast adopt`, or name another database: --to redis://host:6379/1",
                )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say which rights the records need: they are others than those of a journal."""
        try:
            yield
        except CommandRefusedError as error:
            rights = "~epic:* ~sprint:* ~agent:* ~interface:* +@read +@write +@scripting +@connection"
            raise HoldfastError(error.message, f"give the user these rights: {rights}") from None
