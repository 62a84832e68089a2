-- Slots of a client: one hash for each client (KEYS[3] and following), {prefix:coord}:s:<client>
--   c     the cut in force: rpm, concurrency, shares
--   <k>   share k: its row, as ROW says, and its latest holder
--   m<k>  its marks: (ms, n) ..., their times plus the row's skew are Redis' times
-- A row stays as it was left when its lease ends (till); what follows from that is worked out by whoever takes
-- the slot next. Numbers of calls (hold, renewed, marked) keep what comes late, over a connection that is gone, from
-- undoing what came after it.
local ROW = '<I6I6I6i8I4I4i8I4i8i8B'

local function row_unpack(s)
  if not s then
    return nil
  end
  local r, flags, at = {}
  r.hold, r.renewed, r.marked, r.till, r.reserved, r.flying, r.busy, r.taken, r.taken_till, r.skew, flags, at =
    struct.unpack(ROW, s)
  r.worker = string.sub(s, at)
  r.told = flags >= 2 -- its holder has said what is due
  r.held = flags % 2 == 1 and r.till > now
  return r
end

local function row_pack(r)
  return struct.pack(ROW, r.hold, r.renewed, r.marked, r.till, r.reserved, r.flying, r.busy, r.taken, r.taken_till,
                     r.skew, (r.held and 1 or 0) + (r.told and 2 or 0)) .. r.worker
end

-- Part k of n of a total, as core/share.c has it.
local function part(total, n, k)
  return math.floor(total * (k + 1) / n) - math.floor(total * k / n)
end

local function cut_unpack(s)
  local c = {}
  c.rpm, c.concurrency, c.n = struct.unpack('<I4I4I4', s)
  return c
end

local function cut_pack(c)
  return struct.pack('<I4I4I4', c.rpm, c.concurrency, c.n)
end

local function same_cut(a, b)
  return a.rpm == b.rpm and a.concurrency == b.concurrency and a.n == b.n
end

-- The cut in force and the rows by share; nil: nothing is known of the client.
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

-- A client's rows outlive all that could follow from them. n: of how many shares.
local function keep(key, r, n)
  local ms = math.max(r.till, r.busy, r.taken_till) + KEPT - now + 60000
  if n > 1 then
    ms = math.max(ms, redis.call('PTTL', key)) -- another share may need it for longer
  end
  redis.call('PEXPIRE', key, ms)
end

-- The name of the client whose rows are in `key`: KEYS[1] ends with 'set', key with 's:' and the name.
local function client_of(key)
  return string.sub(key, #KEYS[1])
end

-- What somebody may have sent whom this data set has never seen, as marks of Redis' times: the whole rate before the
-- data set began, and what can be reserved (ahead ms, and the concurrency twice) until the last lease that was given
-- before it has ended.
local function unseen_marks(rate, concurrency, lease, ahead)
  if rate == 0 then
    return ''
  end
  local block = math.floor(rate * ahead / 60000) + 2 * concurrency + 1
  return struct.pack('<i8I4i8I4', set.began, rate, set.began + lease, math.min(rate, block))
end
