-- include: coord_common
-- Gives a worker places of hosts. KEYS[2..] are the places of hosts, as ROW by worker.
--   ARGV[3..6] worker, lease, number of the call, places of each host; then for each host
--     LAYOUT_PLACES: how many the worker wants, and keeps until the answer
-- Answers: id of the data set; then for each host how many places the worker may use.
--
-- A row: places, places wanted; since when the worker holds some, or waits; its latest call: time,
-- end of the lease, number.
local ROW = '<I4I4i8i8i8I7'
local worker, lease, call, limit = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local ARG0 = 6
local is_young = young(lease)

local function row_unpack(s)
  local r = {}
  r.n, r.want, r.since, r.asked, r.till, r.call = struct.unpack(ROW, s)
  return r
end

-- Returns the host's rows by worker, and deletes lapsed rows.
local function load(key)
  local rows, v = {}, redis.call('HGETALL', key)
  for i = 1, #v, 2 do
    local r = row_unpack(v[i + 1])
    if r.till > now then
      rows[v[i]] = r
    else
      redis.call('HDEL', key, v[i])
    end
  end
  return rows
end

local function asks(r)
  return r.want > 0 and now - r.asked <= PLACES_ASKS_MS
end

-- Looks at the other workers. Returns four numbers of places: what they hold; the equal part of
-- each worker that wants some (0: there are too few); what the others lack of their part, or of one
-- place; and the share of that lack that belongs to workers who hold nothing and came earlier.
local function look(rows, own)
  local sharers, held, short, ahead = 1, 0, 0, 0
  for id, r in pairs(rows) do
    if id ~= worker and asks(r) then
      sharers = sharers + 1
    end
  end
  local fair = math.floor(limit / sharers)
  for id, r in pairs(rows) do
    if id ~= worker then
      local lack = asks(r) and math.max(math.min(r.want, math.max(fair, 1)) - r.n, 0) or 0
      held, short = held + r.n, short + lack
      if r.n == 0 and r.since < own.since then
        ahead = ahead + lack
      end
    end
  end
  return held, fair, short, ahead
end

-- Returns how many places the worker may use, if it wants that many.
local function most_of(rows, own)
  local held, part, short, ahead = look(rows, own)
  local free = limit - held
  local left = free - short
  if own.n == 0 and part == 0 then
    part = 1
  elseif part == 0 then
    part = now - own.since < PLACES_TERM_MS and 1 or 0
  end
  if own.n == 0 then
    free = free - ahead
  end
  return math.max(left, math.min(part, free), 0)
end

local function grant(key, want, keep)
  local rows = load(key)
  local own = rows[worker] or {n = 0, since = now, call = 0}
  if call <= own.call then
    return 0 -- the call is late, so nobody reads the answer
  end
  local got = math.min(want, is_young and keep or most_of(rows, own))
  local n = math.max(got, keep)
  if (n > 0) ~= (own.n > 0) then
    own.since = now
  end
  if n == 0 and want == 0 then
    redis.call('HDEL', key, worker)
  else
    redis.call('HSET', key, worker, struct.pack(ROW, n, want, own.since, now, now + lease, call))
    redis.call('PEXPIRE', key, 2 * lease)
  end
  return got
end

local answer = {set.id}
for i = 2, #KEYS do
  local want, keep = struct.unpack(LAYOUT_PLACES, ARGV[ARG0 + i - 1])
  answer[i] = grant(KEYS[i], want, keep)
end
return answer
