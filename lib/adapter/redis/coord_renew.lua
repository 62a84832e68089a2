-- include: coord_common coord_ring coord_rows coord_tell
-- Renews or releases slots. KEYS[2] is the backlog index, KEYS[3..] are the slots of clients.
--   ARGV[3..7] worker, lease, number of the call, longest request, the caller's time
--   ARGV[8] 1: release the slots
--   ARGV[9..10] number of the latest announcement that the caller knows (0: it may have missed
--     some), and the data set of that announcement
--   then two for each client: LAYOUT_RENEWAL by the caller's time, followed by the due time of each
--     queue if the caller sends them; 'n' and the marks, or '' if the marks are unchanged
-- Answers: id of the data set, now, a string with '1' for each slot that is lost, else '0'.
local worker, lease, call = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local longest, wall = tonumber(ARGV[6]), tonumber(ARGV[7])
local releases = ARGV[8] == '1'
local seen = ARGV[10] == set.id and tonumber(ARGV[9]) or 0
local ARG0 = 10
local skew = now - wall
local is_young = young(lease)
local seq -- the number of the announcement that the script makes at its end

local function unpack_renewal(s)
  local a, at = {}
  a.share, a.reserved, a.flying, a.busy, a.rpm, a.concurrency, a.n, a.position, a.near, at =
    struct.unpack(LAYOUT_RENEWAL, s)
  if at < #s then
    a.due = {}
    for q = 0, QUEUES - 1 do
      local due
      due, at = struct.unpack(LAYOUT_TIME, s, at)
      if due < COORD_NEVER then
        a.due[q] = due + skew
      end
    end
  end
  return a
end

-- Creates the row of a slot that the data set does not know. It does so only during its first
-- lease, in which it believes a worker that says that it holds the slot. Requests of an earlier
-- holder may be in flight; this one knows how many, the data set does not, so the next one takes it
-- for all.
local function recreate(key, a, cut, rows)
  local new = {rpm = a.rpm, concurrency = a.concurrency, n = math.max(a.n, 1)}
  if not is_young or rows[a.share] or a.share >= new.n or (cut and not same_cut(cut, new)) then
    return nil
  end
  local rate, concurrency = SHARE_PART(new.rpm, new.n, a.share), SHARE_PART(new.concurrency, new.n, a.share)
  redis.call('HSET', key, 'c', cut_pack(new), 'm' .. a.share, unseen_marks(rate, concurrency, lease))
  return {hold = call, renewed = 0, marked = 0, till = now, reserved = 0, flying = 0, busy = 0,
          taken = concurrency, taken_till = set.began + lease + longest, skew = 0, held = true, worker = worker}, new
end

local function write(key, a, marks, r)
  if marks ~= '' and call > r.marked then
    r.marked, r.skew = call, skew
    redis.call('HSET', key, 'm' .. a.share, string.sub(marks, 2))
  end
  if call > r.renewed then
    r.renewed, r.reserved, r.flying, r.busy = call, a.reserved, a.flying, a.busy + skew
    r.till = releases and now or now + lease
    r.held = not releases
    r.told = r.told or a.due ~= nil
  end
  save(key, a.share, r)
end

-- Returns true if no other worker holds a slot of the client, so that the caller knows all due
-- times.
local function alone(key, rows, share)
  for k, r in pairs(rows) do
    if k ~= share and r.held then
      return false
    end
  end
  return true
end

local function announce(client, position, d)
  seq = seq or next_seq()
  tell_due(client, position, d)
  due_write(client, position, d, seq)
end

-- Writes the holder's due times into the index. Announcements that the holder has not seen stay,
-- and all of clients to which it is not near: when it reads the index again, it gets none of them.
local function index(key, a, is_alone)
  local client = client_of(key)
  local d, known = due_read(client, a.position)
  local may_raise = is_alone and a.near == 1 and seen >= (known or 0)
  local changed, lowered = false, false
  for q = 0, QUEUES - 1 do
    local was, due = d[q] or COORD_NEVER, a.due[q] or COORD_NEVER
    if (due < was or may_raise) and due ~= was and not (due <= now and was <= now) then
      d[q] = due < COORD_NEVER and due or nil
      changed, lowered = true, lowered or due < was
    end
  end
  if lowered and not is_alone then
    announce(client, a.position, d)
  elseif changed then
    due_write(client, a.position, d, known or 0)
  end
end

local function renew(key, a, marks)
  local cut, rows = load(key)
  local r = rows[a.share]
  if not r then
    r, cut = recreate(key, a, cut, rows)
  end
  local mine = r and r.held and r.worker == worker and call >= r.hold
  if mine then
    write(key, a, marks, r)
    keep(key, r, cut.n)
  end
  if a.due then
    index(key, a, mine and alone(key, rows, a.share))
  end
  if releases then
    local d = due_read(client_of(key), a.position)
    if next(d) then
      announce(client_of(key), a.position, d)
    end
  end
  return mine and '0' or '1'
end

local lost = {}
for i = 3, #KEYS do
  local j = ARG0 + 2 * (i - 3) + 1
  lost[i - 2] = renew(KEYS[i], unpack_renewal(ARGV[j]), ARGV[j + 1])
end
tell_now(NOBODY)
return {set.id, now, table.concat(lost)}
