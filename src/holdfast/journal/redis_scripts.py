"""What the Redis journal does on the server: Lua scripts, each of them one atomic call. And the names of the keys.

A script is written to the append-only file as one transaction: a server that is killed in the middle of one has all of it
or nothing. A script that writes never begins when the memory is used up or the server is a replica, so none ends half-way.

The keys of a repository begin with `<prefix>:{<repository>}:`. The braces put them into one slot. None of them expires.

| Key | Type | Content |
| --- | --- | --- |
| `format` | string | the version of this format; written with the first write |
| `runs` | ordered set | the ids of the runs, in the order in which they were made |
| `run:<run>` | hash | `row`, `started_at`, `updated_at`, `last_seq`, `plan`, `first_plan`; `epoch`, `fence`, `digest`; `holder`, `lock`, `lease_end` |
| `tasks:<run>` | hash | the row of each task that has one, by its place in the plan |
| `events:<run>` | stream | each append as one entry with `at` and `body`; its id is the number of its first event |
| `plans` | hash | the plans by their hash |
| `confirmed` | hash | when the user agreed to a plan, by its hash |

`changes` is a channel, on which the id of a run is published when it changed. `draft:` and `damaged-1:` before the name of a key
are the journal that a rebuild writes, and those that it replaced.

Every script gets the same keys (`KEYS_OF_A_RUN`) and answers with a list whose first element says how it went.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha1

FORMAT = 1
"""The version of the format that this program reads and writes."""

KEYS_OF_A_RUN = (
    "format",
    "runs",
    "plans",
    "confirmed",
    "changes",
    "run:{run}",
    "tasks:{run}",
    "events:{run}",
)
"""What KEYS of every script are, after the beginning that all keys of the repository share."""

_KEYS = """
local FORMAT, RUNS, PLANS, CONFIRMED, CHANGES = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local RUN, TASKS, EVENTS = KEYS[6], KEYS[7], KEYS[8]
local BASE = string.sub(FORMAT, 1, -7)
local CHUNK = 1000
"""

_WRITING = (
    "#!lua\n"
    + _KEYS
    + f"""
local format = redis.call('GET', FORMAT)
if format and format ~= '{FORMAT}' then return {{'format', format}} end
local function write_format()
  if not format then redis.call('SET', FORMAT, '{FORMAT}') end
end
"""
    + """
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
-- A user without a right to the channel still writes: readers then look for themselves.
local function tell(run) redis.pcall('PUBLISH', CHANGES, run) end
local function is_owner(epoch, fence)
  local owner = redis.call('HMGET', RUN, 'epoch', 'fence')
  return owner[1] == epoch and owner[2] == fence
end
local function drop_unused(plans)
  local needed = {}
  for _, run in ipairs(redis.call('ZRANGE', RUNS, 0, -1)) do
    local used = redis.call('HMGET', BASE .. 'run:' .. run, 'plan', 'first_plan')
    if used[1] then needed[used[1]] = true end
    if used[2] then needed[used[2]] = true end
  end
  for _, plan in ipairs(plans) do
    if plan and not needed[plan] then redis.call('HDEL', PLANS, plan) end
  end
end
"""
)
_ONLY_READS = "#!lua flags=no-writes\n"
_READING = (
    _ONLY_READS
    + _KEYS
    + f"""
local format = redis.call('GET', FORMAT)
if format and format ~= '{FORMAT}' then return {{'format', format}} end
"""
)

CREATE_RUN = (
    _WRITING
    + """
local run, epoch, plan, body, row, events, at = unpack(ARGV)
if redis.call('EXISTS', RUN) == 1 then return {'exists'} end
write_format()
local newest = redis.call('ZRANGE', RUNS, -1, -1, 'WITHSCORES')
redis.call('ZADD', RUNS, (tonumber(newest[2]) or 0) + 1, run)
redis.call('HSETNX', PLANS, plan, body)
redis.call('HSET', RUN, 'row', row, 'started_at', at, 'updated_at', at, 'last_seq', 1, 'plan', plan,
  'first_plan', '', 'epoch', epoch, 'fence', 'none', 'digest', '', 'holder', '', 'lock', '', 'lease_end', 0)
redis.call('DEL', TASKS, EVENTS)
redis.call('XADD', EVENTS, '1-0', 'at', at, 'body', events)
tell(run)
return {'ok'}
"""
)

TAKE_EPOCH = (
    _WRITING
    + """
-- `lock` is empty unless the caller has a lock of its machine: who has that of the holder knows that the holder is gone.
local run, fence, holder, lock, lease_ms, longest_ms = unpack(ARGV)
if redis.call('EXISTS', RUN) == 0 then return {'missing'} end
local held = redis.call('HMGET', RUN, 'lease_end', 'holder', 'lock')
local now = now_ms()
local left = (tonumber(held[1]) or 0) - now
if left > tonumber(longest_ms) then
  left = tonumber(longest_ms)
  redis.call('HSET', RUN, 'lease_end', string.format('%.0f', now + left))
end
if left > 0 and not (lock ~= '' and lock == held[3]) then return {'held', held[2], left} end
local lease_end = 0
if holder ~= '' then lease_end = now + tonumber(lease_ms) end
local epoch = redis.call('HINCRBY', RUN, 'epoch', 1)
redis.call('HSET', RUN, 'fence', fence, 'holder', holder, 'lock', lock, 'lease_end', string.format('%.0f', lease_end))
tell(run)
return {'ok', epoch, tonumber(redis.call('HGET', RUN, 'last_seq'))}
"""
)

RENEW = (
    _WRITING
    + """
local epoch, fence, lease_ms = unpack(ARGV)
if redis.call('EXISTS', RUN) == 0 then return {'missing'} end
if not is_owner(epoch, fence) then return {'fenced'} end
redis.call('HSET', RUN, 'lease_end', string.format('%.0f', now_ms() + tonumber(lease_ms)))
return {'ok'}
"""
)

RELEASE = (
    _WRITING
    + """
local run, epoch, fence = unpack(ARGV)
if is_owner(epoch, fence) then
  redis.call('HSET', RUN, 'holder', '', 'lock', '', 'lease_end', 0)
  tell(run)
end
return {'ok'}
"""
)

APPEND = (
    _WRITING
    + """
-- An append whose answer was lost is sent again. It is stored already if it is the last one: the digest tells.
local run, epoch, fence, expected, digest, count, at, events, row = unpack(ARGV, 1, 9)
local plan, body, first_plan = unpack(ARGV, 10, 12)
if redis.call('EXISTS', RUN) == 0 then return {'missing'} end
if not is_owner(epoch, fence) then return {'fenced'} end
local stored = redis.call('HMGET', RUN, 'last_seq', 'digest', 'plan', 'first_plan')
if stored[1] ~= expected then
  if stored[2] == digest then return {'ok', tonumber(stored[1])} end
  return {'lost'}
end
-- Somebody may have removed the events alone, or a server that evicts keys: a new stream would begin with a gap.
if redis.call('EXISTS', EVENTS) == 0 then return {'lost'} end
local last = tonumber(expected)
if tonumber(count) > 0 then
  redis.call('XADD', EVENTS, string.format('%.0f-0', last + 1), 'at', at, 'body', events)
  last = last + tonumber(count)
end
redis.call('HSET', RUN, 'row', row, 'updated_at', at, 'last_seq', string.format('%.0f', last), 'digest', digest)
if plan ~= '' then
  redis.call('HSETNX', PLANS, plan, body)
  redis.call('HSET', RUN, 'plan', plan, 'first_plan', first_plan)
  redis.call('DEL', TASKS)
end
for from = 13, #ARGV, CHUNK do
  redis.call('HSET', TASKS, unpack(ARGV, from, math.min(from + CHUNK - 1, #ARGV)))
end
if plan ~= '' then drop_unused({stored[3], stored[4]}) end
tell(run)
return {'ok', last}
"""
)

REMOVE_RUN = (
    _WRITING
    + """
local run, epoch, fence = unpack(ARGV)
if redis.call('EXISTS', RUN) == 0 then return {'missing'} end
if not is_owner(epoch, fence) then return {'fenced'} end
local plans = redis.call('HMGET', RUN, 'plan', 'first_plan')
redis.call('ZREM', RUNS, run)
redis.call('DEL', RUN, TASKS, EVENTS)
drop_unused(plans)
tell(run)
return {'ok'}
"""
)

CONFIRM_PLAN = (
    _WRITING
    + """
write_format()
redis.call('HSETNX', CONFIRMED, ARGV[1], ARGV[2])
return {'ok'}
"""
)

IS_CONFIRMED = _READING + "return {'ok', redis.call('HEXISTS', CONFIRMED, ARGV[1])}"

FORMAT_FOUND = (
    _ONLY_READS
    + _KEYS
    + """
local found = redis.pcall('GET', FORMAT)
return {'ok', type(found) == 'string' and found or ''}
"""
)
"""Return the version of the format, whatever it is; empty if there is none that can be read."""

RUN_IDS = _READING + "return {'ok', redis.call('ZRANGE', RUNS, 0, -1)}"

LISTINGS = (
    _READING
    + """
local found = {}
for _, run in ipairs(redis.call('ZRANGE', RUNS, 0, -1)) do
  local row = redis.call('HMGET', BASE .. 'run:' .. run, 'row', 'started_at', 'updated_at', 'last_seq')
  found[#found + 1] = {run, unpack(row)}
end
return {'ok', found}
"""
)

OVERVIEW = (
    _READING
    + """
local found = {}
for _, run in ipairs(redis.call('ZRANGE', RUNS, 0, -1)) do
  found[#found + 1] = {run, redis.call('HVALS', BASE .. 'tasks:' .. run)}
end
return {'ok', redis.call('HGETALL', PLANS), found}
"""
)

STORED_RUN = (
    _READING
    + """
if redis.call('EXISTS', RUN) == 0 then return {'missing'} end
local run = redis.call('HMGET', RUN, 'row', 'started_at', 'updated_at', 'last_seq', 'plan', 'first_plan')
local first = ''
if run[6] ~= '' then first = redis.call('HGET', PLANS, run[6] or '') end
return {'ok', run, redis.call('HGET', PLANS, run[5] or ''), first, redis.call('HGETALL', TASKS)}
"""
)

EVENTS = (
    _READING
    + """
-- The append that holds the event `first` may begin before it.
local first, upto, count = unpack(ARGV)
if redis.call('EXISTS', RUN) == 0 then return {'missing'} end
local holding = redis.call('XREVRANGE', EVENTS, first .. '-0', '-', 'COUNT', 1)
local from = first .. '-0'
if holding[1] then from = holding[1][1] end
return {'ok', redis.call('XRANGE', EVENTS, from, upto, 'COUNT', count)}
"""
)

PLAN = _READING + "return {'ok', redis.call('HGET', PLANS, ARGV[1])}"

HOLDER = (
    _READING
    + """
local time = redis.call('TIME')
local held = redis.call('HMGET', RUN, 'holder', 'lease_end')
local left = (tonumber(held[2]) or 0) - (time[1] * 1000 + math.floor(time[2] / 1000))
if left > 0 and left <= tonumber(ARGV[1]) then return {'ok', held[1]} end
return {'ok', ''}
"""
)

_OF_A_JOURNAL = """
local FIXED, OF_A_RUN = {'format', 'runs', 'plans', 'confirmed'}, {'run:', 'tasks:', 'events:'}
local function keys_below(base)
  local names = {unpack(FIXED)}
  if redis.call('TYPE', base .. 'runs').ok == 'zset' then
    for _, run in ipairs(redis.call('ZRANGE', base .. 'runs', 0, -1)) do
      for _, kind in ipairs(OF_A_RUN) do names[#names + 1] = kind .. run end
    end
  end
  return names
end
"""

CLEAR = (
    "#!lua\n"
    + _KEYS
    + _OF_A_JOURNAL
    + f"""
for _, name in ipairs(keys_below(BASE)) do redis.call('DEL', BASE .. name) end
redis.call('SET', FORMAT, '{FORMAT}')
return {{'ok'}}
"""
)
"""Make a journal an empty one: the draft, of which an earlier try may have left something."""

PUT_IN_PLACE = (
    "#!lua\n"
    + _KEYS
    + _OF_A_JOURNAL
    + """
-- Where a key of the draft goes, nothing may be lost: what is there is moved aside first, also what no run of `runs` has.
local draft = BASE .. 'draft:'
if redis.call('EXISTS', draft .. 'format') == 0 then return {'ok', ''} end
local number = 1
while redis.call('EXISTS', BASE .. 'damaged-' .. number .. ':format', BASE .. 'damaged-' .. number .. ':runs') > 0 do
  number = number + 1
end
local aside = 'damaged-' .. number
local kept = ''
local function move(names, from, to)
  local moved = 0
  for _, name in ipairs(names) do
    if redis.call('EXISTS', from .. name) == 1 then
      redis.call('RENAME', from .. name, to .. name)
      moved = moved + 1
    end
  end
  return moved
end
local replaced = move(keys_below(BASE), BASE, BASE .. aside .. ':') + move(keys_below(draft), BASE, BASE .. aside .. ':')
if replaced > 0 then
  kept = aside
  redis.call('SETNX', BASE .. aside .. ':format', 'damaged')
end
move(keys_below(draft), draft, BASE)
redis.pcall('PUBLISH', CHANGES, '')
return {'ok', kept}
"""
)
"""Make the draft the journal, and keep the old one under the name that is returned; empty if there was none."""


def only_reads(script: str) -> bool:
    """Tell whether a script changes nothing, so that it may be repeated, and runs on a replica."""
    return script.startswith(_ONLY_READS)


@cache
def digest_of(script: str) -> str:
    """Return the name by which a server knows a script that it has."""
    return sha1(script.encode(), usedforsecurity=False).hexdigest()
