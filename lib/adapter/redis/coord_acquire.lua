-- Grants slots. After coord_common.lua, coord_rows.lua. KEYS[2] the backlog index.
--   ARGV[3..8] worker, lease, number of the call, the caller's time, reserve ahead, longest request; then for each
--   client of KEYS its cut: rpm, concurrency, shares
-- Answers: id of the data set, now, the latest announcement, then for each client
--   granted:  1, share, shares, spent, taken, taken till, skew of the marks; the marks
--   else:     0, shares in force, ask again at, nothing due
local worker, lease, call, wall = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local ahead, longest = tonumber(ARGV[7]), tonumber(ARGV[8])
local is_young = young(lease)
-- In this time a share without a row is one that somebody unknown may have held.
local is_blind = not set.first and now < set.began + lease + math.max(KEPT, longest)

-- What the latest holder of a share left: what counts as sent now; what may be under way, and until when; marks.
local function left(key, k, r)
  local spent, marks, taken, till = 0, '', 0, 0
  if r.till + KEPT > now then
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

-- The same of a share without a row.
local function left_unseen(cut, k)
  if not is_blind then
    return 0, '', 0, 0
  end
  local till, concurrency = set.began + lease + longest, part(cut.concurrency, cut.n, k)
  return 0, unseen_marks(part(cut.rpm, cut.n, k), concurrency, lease, ahead), till > now and concurrency or 0, till
end

-- Adds marks to `sums`, n by time.
local function gather(sums, marks, skew)
  local at = 1
  while at < #marks do
    local ms, n
    ms, n, at = struct.unpack('<i8I4', marks, at)
    ms = ms + skew
    if ms > now - KEPT then
      sums[ms] = (sums[ms] or 0) + n
    end
  end
end

-- Times, newest first; where there are very many, of intervals of 59 ms, the end of which counts for all in it.
local function newest_first(sums)
  local times = {}
  for ms in pairs(sums) do
    times[#times + 1] = ms
  end
  if #times > 1100 then
    local joined = {}
    for _, ms in ipairs(times) do
      local at = math.max(ms, math.min(math.ceil(ms / 59) * 59, now)) -- what lies ahead stays there
      joined[at] = (joined[at] or 0) + sums[ms]
    end
    return newest_first(joined)
  end
  table.sort(times, function(a, b) return a > b end)
  return times, sums
end

-- Shares in the order in which they are dealt to: those with the larger part of `total` first. So of the first j
-- dealt, each share gets at most its part as long as j is at most the total: at any time, what all shares may still
-- send is what the whole may.
local function order(total, n)
  local large, small = {}, {}
  local most = part(total, n, n - 1) -- the last part is never a smaller one
  for k = 0, n - 1 do
    local list = part(total, n, k) == most and large or small
    list[#list + 1] = k
  end
  for _, k in ipairs(small) do
    large[#large + 1] = k
  end
  return large
end

-- Deals marks, newest first, one by one to the shares in turn. Returns each share's marks (Redis' times) and number.
local function deal_marks(sums, cut)
  local turn, out, j = order(cut.rpm, cut.n), {}, 0
  local times
  times, sums = newest_first(sums)
  for _, ms in ipairs(times) do
    local n = sums[ms]
    local each, rest = math.floor(n / cut.n), n % cut.n
    for i = 1, each > 0 and cut.n or rest do
      local k = turn[(j + i - 1) % cut.n + 1]
      local list = out[k] or {}
      out[k] = list
      list[#list + 1] = struct.pack('<i8I4', ms, math.min(each + (i <= rest and 1 or 0), 4294967295))
    end
    j = (j + rest) % cut.n
  end
  return out
end

-- A new cut, while nobody holds a share of the old: what earlier holders left is divided among the new shares.
local function recut(key, old, rows, cut)
  local sums, taken, till = {}, 0, 0
  for k = 0, old.n - 1 do
    local r = rows[k]
    local spent, marks, t, t_till
    if r then
      spent, marks, t, t_till = left(key, k, r)
    else
      spent, marks, t, t_till = left_unseen(old, k)
    end
    if spent > 0 then
      sums[now] = (sums[now] or 0) + spent
    end
    gather(sums, marks, r and r.skew or 0)
    taken, till = taken + t, math.max(till, t_till)
  end
  if is_blind then -- there may have been a higher limit, or none, and this one is new
    gather(sums, unseen_marks(cut.rpm, cut.concurrency, lease, ahead), 0)
    if set.began + lease + longest > now then
      taken, till = taken + cut.concurrency, math.max(till, set.began + lease + longest)
    end
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

local function refuse(cut, retry, rows, key)
  local empty = 0
  for k = 0, cut.n - 1 do
    local r = rows[k]
    if r and r.held and r.told then
      empty = 1
    end
  end
  if empty == 1 and redis.call('HEXISTS', KEYS[2], client_of(key)) == 1 then
    empty = 0
  end
  return struct.pack('<BI4i8B', 0, cut.n, retry, empty)
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
  taken = math.min(taken, part(cut.concurrency, cut.n, k))
  local row = {hold = call, renewed = call, marked = call, till = now + lease, reserved = 0, flying = 0, busy = 0,
               taken = taken, taken_till = till, skew = skew, held = true, worker = worker}
  local stored = marks
  if spent > 0 then -- whoever comes after this one, before it has written marks, must know of these as well
    stored = marks .. struct.pack('<i8I4', now - skew, spent)
  end
  redis.call('HSET', key, 'c', cut_pack(cut), string.format('%d', k), row_pack(row), 'm' .. k, stored)
  keep(key, row, cut.n)
  return struct.pack('<BI4I4I4I4i8i8', 1, k, cut.n, spent, taken, till, skew) .. marks
end

local function acquire(key, want)
  local cut, rows = load(key)
  if not cut then
    if is_young then
      return refuse(want, set.began + lease, rows, key)
    end
    return grant(key, want, 0, nil)
  end
  local same, first_end, last_end, free, own = same_cut(cut, want), NEVER, 0
  for k = 0, cut.n - 1 do
    local r = rows[k]
    if r and r.held and r.worker == worker then
      r.held = false -- it does not know: the answer was lost. What it left is as after a crash
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
    return refuse(cut, set.began + lease, rows, key)
  elseif not same and last_end > 0 then
    return refuse(cut, last_end, rows, key)
  elseif not same then
    rows = recut(key, cut, rows, want)
    return grant(key, want, 0, rows[0])
  end
  local k = own or free
  if not k then
    return refuse(cut, first_end, rows, key)
  end
  return grant(key, cut, k, rows[k])
end

local answer = {set.id, now, set.seq}
for i = 3, #KEYS do
  answer[i + 1] = acquire(KEYS[i], cut_unpack(ARGV[i + 6]))
end
return answer
