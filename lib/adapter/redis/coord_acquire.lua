-- include: coord_common coord_ring coord_rows coord_tell
-- Grants slots. KEYS[2] is the backlog index, KEYS[3..] are the slots of clients.
--   ARGV[3..6] worker, lease, number of the call, longest request; then for each client LAYOUT_CUT
--     and LAYOUT_POSITION
-- Answers: id of the data set, now, number of the latest announcement; then for each client a byte,
-- 1: granted, and LAYOUT_GRANT with marks, or 0: refused, and LAYOUT_REFUSAL.
local worker, lease, call, longest = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local ARG0 = 6
local is_young = young(lease)
-- True while a worker that this data set does not know may have sent requests that still count.
local is_blind = not set.first and now < set.began + lease + math.max(MARKS_KEPT_MS, longest)

-- How many marks and shares this call has divided among new shares. Redis serves nobody else
-- meanwhile, so beyond RECUT_WORK the other clients wait for a later call.
local work = 0
local MARK_BYTES, AT_ONCE = #struct.pack(LAYOUT_MARK, 0, 0), 64
local ceil = math.ceil

-- Returns what the latest holder of a share left: permits that count as sent now; its marks; the
-- number of requests that may be in flight, and until when.
local function left(key, k, r)
  local spent, marks, taken, till = 0, '', 0, 0
  if r.till + MARKS_KEPT_MS > now then
    spent = r.reserved
    marks = redis.call('HGET', key, 'm' .. k) or ''
  end
  if r.taken > 0 and r.taken_till > now then
    taken, till = r.taken, r.taken_till
  end
  if r.flying > 0 and r.busy > now then
    taken, till = taken + r.flying, math.max(till, r.busy)
  end
  return spent, marks, taken, till
end

-- Returns the same as left() for a share without a row, whose holder this data set may not know.
local function left_unseen(cut, k)
  if not is_blind then
    return 0, '', 0, 0
  end
  local till, concurrency = set.began + lease + longest, SHARE_PART(cut.concurrency, cut.n, k)
  return 0, unseen_marks(SHARE_PART(cut.rpm, cut.n, k), concurrency, lease), till > now and concurrency or 0, till
end

-- The requests of a client by their time. While there are more than `most` times, joins all of an
-- interval at the newest of them, which only delays permits, and doubles the interval. So adding a
-- request costs the same however many there are.
local function sums_new(most)
  return {most = most, width = 1, n = 0, newest = {}, count = {}}
end

local function sums_add(sums, ms, n)
  local at, newest, count = ceil(ms / sums.width), sums.newest, sums.count
  local old = count[at]
  if not old then
    sums.n = sums.n + 1
    newest[at], count[at] = ms, n
    return
  end
  if ms > newest[at] then
    newest[at] = ms
  end
  count[at] = old + n
end

local function sums_join(sums)
  local newest, count = sums.newest, sums.count
  sums.width = sums.width == 1 and RATE_BUCKET_MS or 2 * sums.width
  sums.n, sums.newest, sums.count = 0, {}, {}
  for at, ms in pairs(newest) do
    sums_add(sums, ms, count[at])
  end
end

local function sums_spend(sums, ms, n)
  sums_add(sums, ms, n)
  while sums.n > sums.most do
    sums_join(sums)
  end
end

-- Adds marks to `sums`. Unpacks several with one call.
local function gather(sums, marks, skew)
  local at, oldest = 1, now - MARKS_KEPT_MS - skew
  work = work + #marks / MARK_BYTES
  while at + MARK_BYTES <= #marks + 1 do
    local some = math.min(AT_ONCE, math.floor((#marks - at + 1) / MARK_BYTES))
    local v = {struct.unpack(string.rep(LAYOUT_MARK, some), marks, at)}
    for i = 1, 2 * some, 2 do
      if v[i] > oldest then
        sums_spend(sums, v[i] + skew, v[i + 1])
      end
    end
    at = at + some * MARK_BYTES
  end
end

-- Returns the keys of `sums`, newest time first.
local function newest_first(sums)
  local keys = {}
  for at in pairs(sums.count) do
    keys[#keys + 1] = at
  end
  table.sort(keys, function(a, b) return a > b end)
  return keys
end

-- Returns the shares in the order in which requests are dealt to them: first the shares with a
-- larger part of `total`. So no share gets more than its part while no more than `total` is dealt,
-- and all shares together may always send as many requests as the whole rate allows.
local function order(total, n)
  local large, small = {}, {}
  local most = SHARE_PART(total, n, n - 1) -- the last share has a largest part
  for k = 0, n - 1 do
    local list = SHARE_PART(total, n, k) == most and large or small
    list[#list + 1] = k
  end
  for _, k in ipairs(small) do
    large[#large + 1] = k
  end
  return large
end

-- Deals the requests of the marks, newest first, one by one to the shares in turn. Returns each
-- share's marks, by Redis' time.
local function deal_marks(sums, cut)
  local turn, out, j = order(cut.rpm, cut.n), {}, 0
  for _, at in ipairs(newest_first(sums)) do
    local ms, n = sums.newest[at], sums.count[at]
    local each, rest = math.floor(n / cut.n), n % cut.n
    for i = 1, each > 0 and cut.n or rest do
      local k = turn[(j + i - 1) % cut.n + 1]
      local list = out[k] or {}
      out[k] = list
      list[#list + 1] = struct.pack(LAYOUT_MARK, ms, math.min(each + (i <= rest and 1 or 0), 4294967295))
    end
    j = (j + rest) % cut.n
    work = work + (each > 0 and cut.n or rest)
  end
  return out
end

-- Returns true if all places of a share are taken. grant() reports no more as taken than the share
-- has, so more requests than that may be in flight.
local function all_taken(old, k, r)
  return r.taken > 0 and r.taken_till > now and r.taken >= SHARE_PART(old.concurrency, old.n, k)
end

-- Makes a new cut of a client while nobody holds a share of the old one: divides what earlier
-- holders left among the new shares.
local function recut(key, old, rows, cut)
  local most = math.max(RECUT_TIMES_MIN, math.min(math.floor(RECUT_MARKS / cut.n), RECUT_TIMES_MAX))
  local sums, taken, till, all = sums_new(most), 0, 0, false
  work = work + old.n + cut.n
  for k = 0, old.n - 1 do
    local r = rows[k]
    local spent, marks, t, t_till
    if r then
      spent, marks, t, t_till = left(key, k, r)
      all = all or all_taken(old, k, r)
    else
      spent, marks, t, t_till = left_unseen(old, k)
    end
    if spent > 0 then
      sums_spend(sums, now, spent)
    end
    gather(sums, marks, r and r.skew or 0)
    taken, till = taken + t, math.max(till, t_till)
  end
  if is_blind then -- the lost data set may have had a higher limit, or none
    gather(sums, unseen_marks(cut.rpm, cut.concurrency, lease), 0)
    if set.began + lease + longest > now then
      taken, till = taken + cut.concurrency, math.max(till, set.began + lease + longest)
    end
  end
  if all then
    taken = math.max(taken, cut.concurrency)
  end
  redis.call('DEL', key)
  redis.call('HSET', key, 'c', cut_pack(cut))
  local marks, turn, new = deal_marks(sums, cut), order(cut.concurrency, cut.n), {}
  for i, k in ipairs(turn) do
    local t = math.floor(taken / cut.n) + (i <= taken % cut.n and 1 or 0)
    new[k] = {hold = 0, renewed = 0, marked = 0, till = now, reserved = 0, flying = 0, busy = 0, taken = t,
              taken_till = till, skew = 0, worker = ''}
    save(key, k, new[k])
    if marks[k] then
      redis.call('HSET', key, 'm' .. k, table.concat(marks[k]))
    end
  end
  return new
end

local function refuse(cut, retry, rows, key, position)
  local empty = 0
  for k = 0, cut.n - 1 do
    local r = rows[k]
    if r and r.held and r.told then
      empty = 1
    end
  end
  if empty == 1 and redis.call('HEXISTS', due_key(position), client_of(key)) == 1 then
    empty = 0
  end
  return '\0' .. struct.pack(LAYOUT_REFUSAL, cut.n, retry, empty)
end

local function grant(key, cut, k, old)
  local spent, marks, taken, till
  local skew = 0
  if old then
    spent, marks, taken, till = left(key, k, old)
    skew = old.skew
  else
    spent, marks, taken, till = left_unseen(cut, k)
  end
  taken = math.min(taken, SHARE_PART(cut.concurrency, cut.n, k))
  local row = {hold = call, renewed = call, marked = call, till = now + lease, reserved = 0, flying = 0, busy = 0,
               taken = taken, taken_till = till, skew = skew, held = true, worker = worker}
  local stored = marks
  if spent > 0 then -- the next holder must count these, too, if this holder writes no marks
    stored = marks .. struct.pack(LAYOUT_MARK, now - skew, spent)
  end
  redis.call('HSET', key, 'c', cut_pack(cut), string.format('%d', k), row_pack(row), 'm' .. k, stored)
  keep(key, row, cut.n)
  return '\1' .. struct.pack(LAYOUT_GRANT, k, cut.n, spent, taken, till, skew) .. marks
end

-- Grants a slot. In a large ring the worker may have missed announcements about the client, so it
-- hears all due queues. If the cut is new and has more shares than workers have heard of it, these
-- hear, too.
local function grant_and_tell(key, cut, k, old, position, is_new)
  local granted = grant(key, cut, k, old)
  local client = client_of(key)
  local d = is_small and {} or due_read(client, position)
  if next(d) then
    due_write(client, position, d, next_seq())
    tell_due(client, position, d, not (is_new and cut.n > NEAR / 2) and worker)
  end
  return granted
end

local function acquire(key, want)
  local cut, rows = load(key)
  if not cut then
    if is_young then
      return refuse(want, set.began + lease, rows, key, want.position)
    end
    return grant_and_tell(key, want, 0, nil, want.position, true)
  end
  local same, first_end, last_end, free, own = same_cut(cut, want), COORD_NEVER, 0
  for k = 0, cut.n - 1 do
    local r = rows[k]
    if r and r.held and r.worker == worker and call <= r.hold then
      return refuse(cut, r.till, rows, key, want.position) -- the call is late: the worker uses a later grant
    elseif r and r.held and r.worker == worker then
      r.held = false -- the answer to the grant was lost, so the share is as after a crash
      r.till = now
      save(key, k, r)
      own = k
    elseif r and r.held then
      first_end, last_end = math.min(first_end, r.till), math.max(last_end, r.till)
    elseif r and r.worker == worker then
      own = own or k
    else
      free = free or k
    end
  end
  if is_young then
    return refuse(cut, set.began + lease, rows, key, want.position)
  elseif not same and last_end > 0 then
    return refuse(cut, last_end, rows, key, want.position)
  elseif not same and work > RECUT_WORK then
    return refuse(cut, now + RECUT_WAIT_MS, rows, key, want.position)
  elseif not same then
    rows = recut(key, cut, rows, want)
    return grant_and_tell(key, want, 0, rows[0], want.position, true)
  end
  local k = own or free
  if not k then
    return refuse(cut, first_end, rows, key, want.position)
  end
  return grant_and_tell(key, cut, k, rows[k], want.position)
end

local answer = {set.id, now, set.seq}
for i = 3, #KEYS do
  local want = cut_unpack(ARGV[ARG0 + i - 2])
  want.position = struct.unpack(LAYOUT_POSITION, ARGV[ARG0 + i - 2], #struct.pack(LAYOUT_CUT, 0, 0, 0) + 1)
  answer[i + 1] = acquire(KEYS[i], want)
end
tell_now(NOBODY)
return answer
