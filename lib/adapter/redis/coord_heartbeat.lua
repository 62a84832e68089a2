-- include: coord_common coord_ring
-- Stores a worker's heartbeat, and keeps the hash ring. KEYS[2] has for each worker the time of its
-- heartbeat, its place on the ring, and its description; KEYS[3] the workers that must drain.
--   ARGV[3..6] worker; its place, or '' if it leaves the ring; its capacity; its description
--   ARGV[7..8] what the caller knows of the ring: the data set, and the number of the latest change
-- Answers: id of the data set; 'one' or 'all' (who was asked) if the worker must drain, else ''; 1
-- if the worker was not on the ring before; 1 if the neighbours follow; the number of the latest
-- change of the ring; the workers on it; the neighbours as in KEYS[2].
local worker, place, capacity = ARGV[3], ARGV[4], tonumber(ARGV[5])
-- Sorted sets by the last heartbeat: workers that send heartbeats; workers that have stopped, and
-- are still listed.
local HEARD, GONE = PREFIX .. COORD_KEY_HEARD, PREFIX .. COORD_KEY_GONE
local AT_ONCE = 16 -- a call removes at most this many silent workers
local POSITION = 8 -- the digits of a position
local changes, joined = 0, 0

-- Returns the capacity and the place that KEYS[2] has of a worker.
local function known(id)
  local text = redis.call('HGET', KEYS[2], id)
  if not text then
    return 0, ''
  end
  local _, c, at = struct.unpack(LAYOUT_TIME .. LAYOUT_PLACE, text)
  return c, at
end

local function leave(at)
  if at ~= '' then
    changes = changes + redis.call('ZREM', RING, at)
  end
end

local function silent(key, ms)
  return redis.call('ZRANGE', key, '-inf', string.format('%.0f', now - ms), 'BYSCORE', 'LIMIT', 0, AT_ONCE, 'WITHSCORES')
end

local function remove_silent()
  local list = silent(HEARD, WORKER_GONE_MS)
  for i = 1, #list, 2 do
    local _, at = known(list[i])
    leave(at)
    redis.call('ZREM', HEARD, list[i])
    redis.call('ZADD', GONE, list[i + 1], list[i])
  end
  list = silent(GONE, WORKER_ALIVE_MS)
  for i = 1, #list, 2 do
    redis.call('ZREM', GONE, list[i])
    redis.call('HDEL', KEYS[2], list[i])
  end
end

local function store()
  local old_capacity, old = known(worker)
  if old ~= place then
    leave(old)
  elseif old_capacity ~= capacity then
    changes = changes + 1
  end
  if place ~= '' then
    joined = redis.call('ZADD', RING, 0, place)
    changes = changes + joined
  end
  redis.call('HSET', KEYS[2], worker,
             struct.pack(LAYOUT_TIME, now) .. struct.pack(LAYOUT_PLACE, capacity, #place, place) .. ARGV[6])
  redis.call('ZADD', HEARD, now, worker)
  redis.call('ZREM', GONE, worker)
end

-- Returns the places of a kind beside `point`: the NEAR_MAX before and after it, in the ring's
-- order.
local function places_beside(kind, point)
  local from, to = kind .. '|', '(' .. kind .. '}'
  if redis.call('ZLEXCOUNT', RING, '[' .. from, to) <= 2 * NEAR_MAX + 1 then
    return redis.call('ZRANGE', RING, '[' .. from, to, 'BYLEX')
  end
  local before = redis.call('ZRANGE', RING, '(' .. from .. point, '[' .. from, 'BYLEX', 'REV', 'LIMIT', 0, NEAR_MAX)
  if #before < NEAR_MAX then
    append(before, redis.call('ZRANGE', RING, to, '(' .. from .. point, 'BYLEX', 'REV', 'LIMIT', 0, NEAR_MAX - #before))
  end
  local places = {}
  for i = #before, 1, -1 do
    places[#places + 1] = before[i]
  end
  return append(places, places_after(kind, point, NEAR_MAX))
end

local function neighbours()
  local point, ids = string.match(place, '^[^|]*|(.*)$'), {}
  for _, kind in ipairs(ring_kinds()) do
    for _, at in ipairs(places_beside(kind, point)) do
      if at ~= place then
        ids[#ids + 1] = string.sub(at, #kind + 2 + POSITION)
      end
    end
  end
  return #ids > 0 and redis.call('HMGET', KEYS[2], unpack(ids)) or {}
end

store()
remove_silent()
local change = changes > 0 and redis.call('HINCRBY', KEYS[1], 'ring', changes) or
               tonumber(redis.call('HGET', KEYS[1], 'ring') or 0)
for _, key in ipairs({KEYS[2], RING, HEARD, GONE}) do
  redis.call('PEXPIRE', key, 2 * WORKER_ALIVE_MS)
end
local ask = redis.call('HGET', KEYS[3], worker)
if ask then
  redis.call('HDEL', KEYS[3], worker)
end
-- After a loss of data the workers come back to the ring one by one; a worker that knows the ring
-- from before keeps that.
local is_known = ARGV[7] == set.id
local is_news = is_known and tonumber(ARGV[8]) ~= change or
                not is_known and (ARGV[7] == '' or now >= set.began + WORKER_GONE_MS)
publish('T', NOBODY, '', worker)
return {set.id, ask or '', joined, is_news and 1 or 0, change, redis.call('ZCARD', RING),
        is_news and place ~= '' and neighbours() or {}}
