-- Every script of the coordinator begins with this file; README.md has the keys.
--   KEYS[1] the data set, {prefix:coord}:set      KEYS[2] depends on the script
--   ARGV[1] the time ('': Redis' clock; tests pass theirs)      ARGV[2] the id for a data set that
--     begins now
-- Times are in ms by Redis' clock; they fit into a double. A script that finds no data set begins
-- one: a wiped Redis is a new data set.
local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end

-- What all keys begin with. Keys that a script does not name have the same hash tag.
local PREFIX = string.sub(KEYS[1], 1, -#COORD_KEY_SET - 1)

local set = {}
do
  local v = redis.call('HMGET', KEYS[1], 'id', 'began', 'first', 'seq', 'complete')
  if not v[1] then
    v = {ARGV[2], now, false, false, false}
    redis.call('HSET', KEYS[1], 'id', v[1], 'began', now)
  end
  set.id, set.began, set.first, set.complete = v[1], tonumber(v[2]), v[3] and true, v[5] and true
  set.seq = tonumber(v[4] or 0) -- number of the latest announcement
end

-- Returns true during the first lease of a data set, in which workers may hold slots that the data
-- set does not know.
local function young(lease)
  return not set.first and now < set.began + lease
end

-- --- the backlog index: client -> number of its latest announcement, (queue, due) ... It has
-- INDEX_PARTS hashes, KEYS[2]:<part>, each for a part of the hash ring. ---

local function due_key(position)
  return KEYS[2] .. ':' .. INDEX_PART(position)
end

local function due_read(client, position)
  local s, d, seq, at, q = redis.call('HGET', due_key(position), client), {}
  if not s then
    return d
  end
  seq, at = struct.unpack(LAYOUT_INDEX, s)
  while at < #s do
    local due
    q, due, at = struct.unpack(LAYOUT_ROW, s, at)
    d[q] = due
  end
  return d, seq
end

local function due_write(client, position, d, seq)
  local t = {struct.pack(LAYOUT_INDEX, seq)}
  for q = 0, QUEUES - 1 do
    if d[q] then
      t[#t + 1] = struct.pack(LAYOUT_ROW, q, d[q])
    end
  end
  if #t > 1 then
    redis.call('HSET', due_key(position), client, table.concat(t))
  else
    redis.call('HDEL', due_key(position), client)
  end
end

local function next_seq()
  set.seq = redis.call('HINCRBY', KEYS[1], 'seq', 1)
  return set.seq
end

-- The layout of a row of an announcement: queue, ms from now, position on the ring, client.
local ANNOUNCED = LAYOUT_ANNOUNCED .. LAYOUT_NAME

-- Sends a message: its kind, its sender (8 bytes; zeros: every process handles the message), the
-- time, the number of the latest announcement, a text. Only the process of `worker` gets it, or
-- all processes if there is none.
local CHANNEL = PREFIX .. COORD_KEY_CHANNEL
local function publish(kind, sender, text, worker)
  redis.call('PUBLISH', worker and CHANNEL .. ':' .. worker or CHANNEL,
             kind .. sender .. struct.pack(LAYOUT_STAMP, now, set.seq) .. text)
end
local NOBODY = string.rep('\0', 8)
