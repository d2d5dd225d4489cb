"""The scripts that run inside a Redis or Valkey server, each as one instant.

All keys of a fleet share one hash tag, made of its prefix, and so lie in one slot of a cluster.
Every number is written with ``%.0f``, since Lua would write a large one with an exponent. A script
that fails half-way is not undone by the server: what can fail comes first.

A server that is out of memory refuses the first write of a script, where that could need some, and
none after it. So that a full server holds up no kill, the first write of each script is one that
needs none, and does nothing.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

#: How many changes a server keeps for those who follow, how many ids of changes it remembers, and
#: how many lines it keeps of the audit and of what was applied when.
STREAM, SEEN, AUDIT, APPLIED = 1000, 10_000, 10_000, 10_000

#: For so long an instance that is gone is listed, in milliseconds.
LISTED_MS = 24 * 60 * 60 * 1000


class Keys(NamedTuple):
    """The names of one fleet's keys."""

    meta: str
    state: str
    stream: str
    audit: str
    seen: str
    seenlog: str
    instances: str
    alive: str
    applied: str


def keys(prefix: str) -> Keys:
    """Return the names of a fleet's keys; a prefix that has a hash tag of its own keeps it."""
    tagged = prefix if "{" in prefix else f"{{{prefix}}}"
    return Keys(*(f"{tagged}:{name}" for name in Keys._fields))


class Script(NamedTuple):
    """A script, and the hash by which a server knows it."""

    text: str

    @property
    def sha(self) -> str:
        """The hash."""
        return hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


_CLOCK = """
local function number(value) return string.format('%.0f', value) end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
"""

#: Writes one entry. KEYS: meta state stream audit seen seenlog. ARGV: an epoch for a server that
#: has none, the change's id, the key of the entry, its body, the expected epoch and revision, the
#: TTL or an empty text, the time that the change comes after, and the lengths of stream, seen and
#: audit. Returns a word, then epoch, revision, head and time, then the change's own revision and
#: what is in its way.
CHANGE = Script(
    _CLOCK
    + """
local meta, state, stream, audit, seen, seenlog = unpack(KEYS)
local fresh, id, key, body, epoch_expected, revision_expected, ttl, after = unpack(ARGV, 1, 8)
for key, kind in pairs({[stream] = 'stream', [audit] = 'stream', [seenlog] = 'list'}) do
  local there = redis.call('TYPE', key).ok
  if there ~= 'none' and there ~= kind then
    return redis.error_reply('WRONGTYPE ' .. key .. ' holds something else')
  end
end
redis.call('HDEL', seen, '')
local found = redis.call('HMGET', meta, 'epoch', 'revision', 'head', 'at')
local epoch, head = found[1], found[3] or ''
local revision, at = tonumber(found[2] or '0'), tonumber(found[4] or '0')
if not epoch then
  -- What is left of an earlier history without its meta: entries stay, and count on from there.
  epoch, revision, head, at = fresh, 0, '', 0
  for _, line in ipairs(redis.call('HVALS', state)) do
    revision = math.max(revision, tonumber(string.match(line, '^{"revision":(%d+),') or '0'))
  end
  redis.call('DEL', stream, seen, seenlog)
  redis.call('HSET', meta, 'epoch', epoch, 'revision', number(revision), 'head', '', 'at', '0')
end
local there = redis.call('HGET', state, key)
local earlier = redis.call('HGET', seen, id)
local r, e, c
if there then
  r, e, c = string.match(there, '^{"revision":(%d+),"epoch":"([^"]*)","change":"([^"]*)"')
  -- What is no entry of a fleet is in nobody's way.
  if not r then there = false end
  if c == id then earlier = r end
end
if earlier then
  return {'seen', epoch, number(revision), head, number(now), earlier, ''}
end
if there and (e ~= epoch_expected or r ~= revision_expected) then
  return {'conflict', epoch, number(revision), head, number(now), '0', there}
end
revision = revision + 1
at = math.max(now, at + 1, tonumber(after) + 1)
local ends = 'null'
if ttl ~= '' then ends = number(now + tonumber(ttl)) end
local line = '{"revision":' .. number(revision) .. ',"epoch":"' .. epoch .. '","change":"' .. id
  .. '","at_ms":' .. number(at) .. ',"expires_ms":' .. ends .. ',"entry":' .. body .. '}'
local previous = head
head = redis.sha1hex(previous .. '\\n' .. line)
local function append()
  return redis.pcall('XADD', stream, 'MAXLEN', '~', ARGV[9], number(revision) .. '-0',
    'epoch', epoch, 'line', line, 'prev', previous, 'head', head)
end
local added = append()
if type(added) == 'table' and added.err and string.find(added.err, 'equal or smaller') then
  -- The stream of another history stands in the way; whoever followed it takes a snapshot.
  redis.call('DEL', stream)
  added = append()
end
if type(added) == 'table' and added.err then return redis.error_reply(added.err) end
redis.call('HSET', state, key, line)
redis.call('HSET', meta, 'revision', number(revision), 'head', head, 'at', number(at))
redis.call('XADD', audit, 'MAXLEN', '~', ARGV[11], '*',
  'line', line, 'prev', previous, 'head', head)
redis.call('HSET', seen, id, number(revision))
redis.call('RPUSH', seenlog, id)
while redis.call('LLEN', seenlog) > tonumber(ARGV[10]) do
  redis.call('HDEL', seen, redis.call('LPOP', seenlog))
end
return {'written', epoch, number(revision), head, number(now), number(revision), ''}
"""
)

#: Returns everything. KEYS: meta state stream. ARGV: the revision that the asker knows. Returns
#: epoch, revision, head and time, the first change from that revision on, and all entries.
SNAPSHOT = Script(
    _CLOCK
    + """
local found = redis.call('HMGET', KEYS[1], 'epoch', 'revision', 'head')
local first = redis.call('XRANGE', KEYS[3], ARGV[1] .. '-0', '+', 'COUNT', '1')
return {found[1] or '', found[2] or '0', found[3] or '', number(now),
  first[1] or {}, redis.call('HVALS', KEYS[2])}
"""
)

#: Notes what an instance says. KEYS: meta instances alive applied. ARGV: its id, its record or an
#: empty text for the one that is there, what it has applied since the last time or an empty text,
#: the length of that list, and for how long the silent are listed. Returns epoch, revision, head
#: and time, and whether the record is there.
HEARTBEAT = Script(
    _CLOCK
    + """
local meta, instances, alive, applied = unpack(KEYS)
redis.call('HDEL', instances, '')
local found = redis.call('HMGET', meta, 'epoch', 'revision', 'head', 'at')
local known = 1
if ARGV[2] ~= '' then
  redis.call('HSET', instances, ARGV[1], ARGV[2])
else
  known = redis.call('HEXISTS', instances, ARGV[1])
end
redis.call('ZADD', alive, number(now), ARGV[1])
if ARGV[3] ~= '' then
  redis.call('XADD', applied, 'MAXLEN', '~', ARGV[4], '*', 'line', ARGV[3],
    'at_ms', number(now), 'revision', found[2] or '0', 'written_ms', found[4] or '0')
end
local silent = redis.call('ZRANGEBYSCORE', alive, '-inf', number(now - tonumber(ARGV[5])),
  'LIMIT', '0', '50')
for _, id in ipairs(silent) do
  redis.call('ZREM', alive, id)
  redis.call('HDEL', instances, id)
end
return {found[1] or '', found[2] or '0', found[3] or '', number(now), known}
"""
)

#: Returns the time, the instances' records, and when each was heard of. KEYS: instances alive.
#: ARGV: zero for everybody, or for how long whoever is meant was not heard of, in milliseconds.
INSTANCES = Script(
    _CLOCK
    + """
if ARGV[1] == '0' then
  return {number(now), redis.call('HGETALL', KEYS[1]),
    redis.call('ZRANGE', KEYS[2], '0', '-1', 'WITHSCORES')}
end
local alive = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', number(now - tonumber(ARGV[1])),
  'WITHSCORES', 'LIMIT', '0', '1000')
local records = {}
for at = 1, #alive, 2 do
  local record = redis.call('HGET', KEYS[1], alive[at])
  if record then
    table.insert(records, alive[at])
    table.insert(records, record)
  end
end
return {number(now), records, alive}
"""
)
