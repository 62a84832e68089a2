-- The slots of a client are a hash (KEYS[3] and following), {prefix:coord}:s:<client>, with these
-- fields:
--   c     the cut in force: rpm, concurrency, shares
--   <k>   the row of share k, as ROW, and its latest holder
--   m<k>  the marks of share k: (time, requests) ...; time plus the row's skew is Redis' time
-- A row stays as it is when its lease ends (till); the next acquire of the slot interprets it. A
-- row has the numbers of the calls that granted, renewed and marked it (hold, renewed, marked). So
-- a call that arrives late, over a lost connection, does not undo a later one.
local ROW = '<I7I7I7i8I4I4i8I4i8i8B'

local function row_unpack(s)
  if not s then
    return nil
  end
  local r, flags, at = {}
  r.hold, r.renewed, r.marked, r.till, r.reserved, r.flying, r.busy, r.taken, r.taken_till, r.skew, flags, at =
    struct.unpack(ROW, s)
  r.worker = string.sub(s, at)
  r.told = flags >= 2 -- its holder has said which queues are due
  r.held = flags % 2 == 1 and r.till > now
  return r
end

local function row_pack(r)
  return struct.pack(ROW, r.hold, r.renewed, r.marked, r.till, r.reserved, r.flying, r.busy, r.taken, r.taken_till,
                     r.skew, (r.held and 1 or 0) + (r.told and 2 or 0)) .. r.worker
end

local function cut_unpack(s)
  local c = {}
  c.rpm, c.concurrency, c.n = struct.unpack(LAYOUT_CUT, s)
  return c
end

local function cut_pack(c)
  return struct.pack(LAYOUT_CUT, c.rpm, c.concurrency, c.n)
end

local function same_cut(a, b)
  return a.rpm == b.rpm and a.concurrency == b.concurrency and a.n == b.n
end

-- Returns the cut in force and the rows by share, or nil if Redis has no slots of the client.
local function load(key)
  local v = redis.call('HMGET', key, 'c', '0')
  if not v[1] then
    return nil, {}
  end
  local cut, rows = cut_unpack(v[1]), {[0] = row_unpack(v[2])}
  if cut.n > 1 then
    local fields = {}
    for k = 1, cut.n - 1 do
      fields[k] = string.format('%d', k)
    end
    local more = redis.call('HMGET', key, unpack(fields))
    for k = 1, cut.n - 1 do
      rows[k] = row_unpack(more[k])
    end
  end
  return cut, rows
end

local function save(key, k, r)
  redis.call('HSET', key, string.format('%d', k), row_pack(r))
end

-- Makes the slots of a client with n shares expire after their last lease, request and mark.
local function keep(key, r, n)
  local ms = math.max(r.till, r.busy, r.taken_till) + MARKS_KEPT_MS - now + MINUTE_MS
  if n > 1 then
    ms = math.max(ms, redis.call('PTTL', key)) -- another share may need the hash for longer
  end
  redis.call('PEXPIRE', key, ms)
end

-- Returns the client whose slots are in `key`. KEYS[1] and `key` begin with the same prefix.
local function client_of(key)
  return string.sub(key, #KEYS[1] - #COORD_KEY_SET + #COORD_KEY_SLOTS + 1)
end

-- Returns marks, by Redis' time, for the requests that a holder may have sent whom this data set
-- has never seen. The marks assume the worst: the whole rate was sent when the data set began; and
-- when the last lease of the lost data set ended, everything that the holder can have reserved
-- (COORD_AHEAD_MS of the rate and twice the concurrency).
local function unseen_marks(rate, concurrency, lease)
  if rate == 0 then
    return ''
  end
  local block = math.floor(rate * COORD_AHEAD_MS / RATE_WINDOW_MS) + 2 * concurrency + 1
  return struct.pack(LAYOUT_MARK, set.began, rate) ..
         struct.pack(LAYOUT_MARK, set.began + lease, math.min(rate, block))
end
