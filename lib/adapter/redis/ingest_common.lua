-- What every script of the ingest queue begins with; README.md has the keys and what each script costs.
--
-- An entry is: a line of META, a message of the stream (its payload inside, or in parts in a hash of its own), its
-- id in IDS and CLIENTS. While it waits its place is in LINES, and the oldest place of each client with something
-- waiting in HEADS; while it is taken its place is in TAKEN and its message in the group's pending list. A place
-- is client:time-of-appending:batch, so that a range of LINES or TAKEN is one client's, oldest first. Set aside,
-- it is in POISON and META only.
local STREAM, META, LINES, HEADS, TAKEN, IDS, CLIENTS, STATE, POISON, WAKE = unpack(KEYS, 1, 10)
local GROUP = 'planners'
local TOKENS = 64 -- planners woken by what came while nobody looked, at most
local call = redis.call

-- flags are two digits, cancelled and set aside. A line that none of us wrote is an entry of nobody, which ends up
-- with a planner that says so.
local function parse(meta)
  local flags, sid, client, photos, raw =
    string.match(meta, '^(%d%d) (%S+) (%S+) %d+ %d+ %-?%d+ %d+ (%d+) (%d+) %d+')
  return {
    meta = meta, sid = sid or '0-1', client = client or '?', photos = photos or '0', raw = tonumber(raw or 0),
    aside = flags ~= nil and string.sub(flags, 2, 2) == '1'
  }
end

local function place(e, batch)
  local ms, n = string.match(e.sid, '^(%d+)-(%d+)$')
  return string.format('%s:%015.0f-%010.0f:%s', e.client, tonumber(ms), tonumber(n), batch)
end

-- By which HEADS is in order: whole numbers below 2^53. Messages of one millisecond beyond 999 are alike.
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

-- The oldest line of a client in LINES or TAKEN, or nil. (';' follows ':'.)
local function first_of(key, client)
  return call('ZRANGEBYLEX', key, '[' .. client .. ':', '(' .. client .. ';', 'LIMIT', 0, 1)[1]
end

-- LINES has changed for this client.
local function rehead(client)
  local line = first_of(LINES, client)
  if line then
    call('ZADD', HEADS, score(line), client)
  else
    call('ZREM', HEADS, client)
  end
end

-- Wakes one planner that waits.
local function wake()
  if call('LLEN', WAKE) < TOKENS then
    call('RPUSH', WAKE, 1)
  end
end

-- The entry is not waiting and not taken any more.
local function leave(e, batch)
  local line = place(e, batch)
  call('XACK', STREAM, GROUP, e.sid)
  call('XDEL', STREAM, e.sid)
  call('HINCRBY', STATE, 'entries', -1)
  call('HINCRBY', STATE, 'photos', string.format('%.0f', 0 - tonumber(e.photos))) -- '-0' is no number to Redis
  call('ZREM', TAKEN, line)
  if call('ZREM', LINES, line) == 1 then
    rehead(e.client)
  end
  if not first_of(TAKEN, e.client) and first_of(LINES, e.client) then
    wake() -- its next one is for whoever is free
  end
end

-- Remembers that nothing is left to do for a batch.
local function done(key, digest, ttl)
  call('HSET', key, digest, '')
  call('PEXPIRE', key, ttl)
end
