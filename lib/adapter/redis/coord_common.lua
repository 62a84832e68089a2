-- What every script of the coordinator begins with; see README.md for the keys.
--   KEYS[1] the data set, {prefix:coord}:set      KEYS[2] as the script says
--   ARGV[1] the time ('': Redis' own; a test passes its own)      ARGV[2] the id of a data set that begins now
-- Times are ms by Redis' clock; they fit into a double. Whatever is missing is made: a wiped Redis is a new
-- data set.
local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end

local KEPT = 61000 -- what is older counts in no window of 60 s, its margin included
local NEVER = 9007199254740991 -- 2^53 - 1: due never
local QUEUES = 9

local set = {}
do
  local v = redis.call('HMGET', KEYS[1], 'id', 'began', 'first', 'seq', 'complete')
  if not v[1] then
    v = {ARGV[2], now, false, false, false}
    redis.call('HSET', KEYS[1], 'id', v[1], 'began', now)
  end
  set.id, set.began, set.first, set.complete = v[1], tonumber(v[2]), v[3] and true, v[5] and true
  set.seq = tonumber(v[4] or 0) -- of the latest announcement
end

-- In the first lease of a data set nobody knows what others hold.
local function young(lease)
  return not set.first and now < set.began + lease
end

-- --- the backlog index: KEYS[2], client -> the seq of its latest announcement, (queue, due) ... ---

local function due_read(client)
  local s, d, seq, at, q = redis.call('HGET', KEYS[2], client), {}
  if not s then
    return d
  end
  seq, at = struct.unpack('<I8', s)
  while at < #s do
    local due
    q, due, at = struct.unpack('<Bi8', s, at)
    d[q] = due
  end
  return d, seq
end

local function due_write(client, d, seq)
  local t = {struct.pack('<I8', seq)}
  for q = 0, QUEUES - 1 do
    if d[q] then
      t[#t + 1] = struct.pack('<Bi8', q, d[q])
    end
  end
  if #t > 1 then
    redis.call('HSET', KEYS[2], client, table.concat(t))
  else
    redis.call('HDEL', KEYS[2], client)
  end
end

local function next_seq()
  set.seq = redis.call('HINCRBY', KEYS[1], 'seq', 1)
  return set.seq
end

-- What processes tell each other: its kind, who sent it (8 bytes; zeros: nobody, it is for all), when, its number.
local function publish(channel, kind, sender, text)
  redis.call('PUBLISH', channel, struct.pack('<c1c8i8I8', kind, sender, now, set.seq) .. text)
end
local NOBODY = string.rep('\0', 8)
