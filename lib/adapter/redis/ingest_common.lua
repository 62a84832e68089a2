-- Every script of the ingest queue begins with this file; README.md has the keys and the costs.
--
-- An entry consists of a line of META, a message of the stream (with the payload, unless the
-- payload is in parts, in a hash for this entry), and its id in IDS and CLIENTS. While the entry
-- waits, its place is in LINES, and the oldest place of each client that waits is in HEADS. While
-- the entry is taken, its place is in TAKEN and its message in the group's pending list. A place is
-- client:time-of-appending:batch, so that a range of LINES or TAKEN is one client's, oldest first.
-- An entry that is set aside is in POISON, META, IDS and CLIENTS, with a field of STATE that says
-- why: 'ms since, deliveries, reason'.
local STREAM, META, LINES, HEADS = KEYS[INGEST_STREAM], KEYS[INGEST_META], KEYS[INGEST_LINES], KEYS[INGEST_HEADS]
local TAKEN, IDS, CLIENTS = KEYS[INGEST_TAKEN], KEYS[INGEST_IDS], KEYS[INGEST_CLIENTS]
local STATE, POISON, WAKE = KEYS[INGEST_STATE], KEYS[INGEST_POISON], KEYS[INGEST_WAKE]
local OWN = INGEST_KEYS -- KEYS[OWN + 1] is the first key of the script's own
local GROUP = 'planners'
local TOKENS = 64 -- most wake-ups that are kept for planners
local WHY = 'why:' -- with a batch: the field of STATE that says why the entry is set aside
local CANCELLED, GIVEN_UP = 1, 2
local call = redis.call

-- Parses a line of META. Its flags are two digits: the sum of CANCELLED and GIVEN_UP; 1 if the
-- entry is set aside. A line that photopool did
-- not write becomes an entry of client '?', which the planner that takes it reports.
local function parse(meta)
  local flags, sid, client, items, photos, raw =
    string.match(meta, '^(%d%d) (%S+) (%S+) %d+ %d+ %-?%d+ (%d+) (%d+) (%d+) %d+')
  raw = tonumber(raw or 0)
  local weight = math.max(tonumber(photos or 0), tonumber(items or 0), math.floor(raw / INGEST_WEIGHT_BYTES))
  return {
    meta = meta, sid = sid or '0-1', client = client or '?', photos = photos or '0', raw = raw, weight = weight,
    aside = flags ~= nil and string.sub(flags, 2, 2) == '1'
  }
end

-- Returns a line of META with CANCELLED or GIVEN_UP set, or cleared.
local function mark(meta, flag, set)
  local digit = tonumber(string.sub(meta, 1, 1)) or 0
  local other = flag == CANCELLED and digit - digit % 2 or digit % 2
  return (other + (set and flag or 0)) .. string.sub(meta, 2)
end

local function place(e, batch)
  local ms, n = string.match(e.sid, '^(%d+)-(%d+)$')
  return string.format('%s:%015.0f-%010.0f:%s', e.client, tonumber(ms), tonumber(n), batch)
end

-- Returns the score of a place in HEADS: a whole number below 2^53. Messages of one millisecond
-- beyond 999 have equal scores.
local function score(line)
  local ms, n = string.match(line, '^[^:]*:(%d+)-(%d+):')
  return string.format('%.0f', tonumber(ms) * 1000 + math.min(tonumber(n), 999))
end

local function batch_of(line)
  return string.match(line, '([^:]*)$')
end

local function client_of(line)
  return string.match(line, '^([^:]*)')
end

-- Returns the oldest place of a client in LINES or TAKEN, or nil. (In ASCII ';' follows ':'.)
local function first_of(key, client)
  return call('ZRANGEBYLEX', key, '[' .. client .. ':', '(' .. client .. ';', 'LIMIT', 0, 1)[1]
end

-- Updates HEADS after LINES has changed for this client.
local function rehead(client)
  local line = first_of(LINES, client)
  if line then
    call('ZADD', HEADS, score(line), client)
  else
    call('ZREM', HEADS, client)
  end
end

-- Wakes one waiting planner.
local function wake()
  if call('LLEN', WAKE) < TOKENS then
    call('RPUSH', WAKE, 1)
  end
end

-- Adds an entry to the sums in STATE, or takes it out of them: sign is 1 or -1. An older version
-- has counted neither weight nor bytes; both sums are right again when the queue was empty.
local function count(e, sign)
  local left = call('HINCRBY', STATE, 'entries', sign)
  -- Redis does not accept '-0' as a number.
  call('HINCRBY', STATE, 'photos', string.format('%.0f', 0 + sign * tonumber(e.photos)))
  if left <= 0 then
    call('HSET', STATE, 'weight', '0', 'bytes', '0')
    return
  end
  call('HINCRBY', STATE, 'weight', string.format('%.0f', 0 + sign * e.weight))
  call('HINCRBY', STATE, 'bytes', string.format('%.0f', 0 + sign * e.raw))
end

-- Removes an entry that waits or is taken.
local function leave(e, batch)
  local line = place(e, batch)
  call('XACK', STREAM, GROUP, e.sid)
  call('XDEL', STREAM, e.sid)
  count(e, -1)
  call('ZREM', TAKEN, line)
  if call('ZREM', LINES, line) == 1 then
    rehead(e.client)
  end
  if not first_of(TAKEN, e.client) and first_of(LINES, e.client) then
    wake() -- any planner may take the client's next entry
  end
end

-- Remembers that a batch is planned or set aside.
local function done(key, digest)
  call('HSET', key, digest, '')
  call('PEXPIRE', key, INGEST_DONE_MS)
end
