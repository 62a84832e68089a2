-- Every script of the counters begins with this file; README.md has the keys.
--   KEYS[1] the hash of fields; all other keys begin as it does
-- A cached sum is a field of a bucket, COUNTER_SUM: the sum, and the hour of its last use.
-- What is pending or processing is a field of a hash, COUNTER_DAY for each day.
-- Numbers stay below 2^53, so they fit into a double.
local META = KEYS[1]
local BASE = string.sub(META, 1, -5) -- without 'meta'
local PENDING, PROCESSING = BASE .. 'pending', BASE .. 'processing'
local REMOVED, REMOVING = BASE .. 'removed', BASE .. 'removing'
local call = redis.call
local DAY_BYTES = struct.size(LAYOUT_COUNTER_DAY)

-- Returns the sum of packed days; `days` may be false.
local function total(days)
  local sum = 0
  for at = 1, days and #days or 0, DAY_BYTES do
    local _, n = struct.unpack(LAYOUT_COUNTER_DAY, days, at)
    sum = sum + n
  end
  return sum
end

-- Returns the generation. A Redis that has lost its data begins with a higher one than before.
local function generation()
  local g = call('HGET', META, 'generation')
  if not g then
    local t = call('TIME')
    g = string.format('%.0f', t[1] * 1000000 + t[2])
    call('HSET', META, 'generation', g)
  end
  return tonumber(g)
end

local function next_generation()
  generation()
  call('HINCRBY', META, 'generation', 1)
end

local function bucket(number)
  return BASE .. 'b:' .. number
end

-- Returns a list of rows, and the distinct keys of them. A row has the bucket `b`, the number `by`,
-- the stored sum `sum` and flush `flush`, and `key`.
local function rows_of(text)
  local rows, keys, seen, at = {}, {}, {}, 1
  while at <= #text do
    local r = {}
    r.b, r.by, r.sum, r.flush, at = struct.unpack(LAYOUT_COUNTER_ROW, text, at)
    r.key, at = struct.unpack(LAYOUT_NAME, text, at)
    rows[#rows + 1] = r
    if not seen[r.key] then
      seen[r.key] = true
      keys[#keys + 1] = r.key
    end
  end
  return rows, keys
end

-- Returns the sum of a row's counter: the cached one; or the stored one with what the store lacks,
-- if `known`, the generation before the store was read, is the present one; else nil. The second
-- result is true if the sum is cached with this hour. The third result is false if the sum must not
-- be cached: before the first take. If Redis has lost its data, a flush may then still be on its
-- way to the store, and what was read there may lack it.
local function sum_of(r, known, now, hour)
  local cached = call('HGET', bucket(r.b), r.key)
  if cached then
    local sum, used = struct.unpack(LAYOUT_COUNTER_SUM, cached)
    return sum, used == hour, true
  end
  if r.sum < 0 or known ~= now then
    return nil, false, false
  end
  local sum = r.sum + total(call('HGET', PENDING, r.key))
  local flush = tonumber(call('HGET', META, 'processing') or 0)
  if r.flush < flush then
    sum = sum + total(call('HGET', PROCESSING, r.key))
  end
  return sum, false, call('HEXISTS', META, 'last') == 1
end

local function cache(r, sum, hour)
  call('HSET', bucket(r.b), r.key, struct.pack(LAYOUT_COUNTER_SUM, sum, hour))
end
