-- include: counter_common
-- Increments counters, all of them or none.
--   ARGV: hour, day, generation before the store was read, 1 to increment missing ones, too; id and
--     digest of a token, or two empty texts; rows
-- Answers a word, the sums (-1 for a missing one), and the generation.
local hour, day, known, force = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1'
local record = ARGV[5] ~= '' and BASE .. 't:' .. ARGV[5]
if record then
  local was = call('GET', record)
  if was and string.sub(was, 1, #ARGV[6]) ~= ARGV[6] then
    return {'mismatch', '', 0}
  elseif was then
    return {'replayed', string.sub(was, #ARGV[6] + 1), 0}
  end
end
if call('HLEN', PENDING) >= COUNTER_PENDING_MAX then
  return {'full', '', 0}
end
local rows, keys = rows_of(ARGV[7])
local now, sums, kept, missing, blind, out = generation(), {}, {}, false, false, {}
for _, r in ipairs(rows) do
  if sums[r.key] == nil then
    local sum, _, keep = sum_of(r, known, now, hour)
    sums[r.key], kept[r.key] = sum or -1, keep
    missing, blind = missing or not sum, blind or not keep
  end
end
if missing and not force then
  for i, r in ipairs(rows) do
    out[i] = struct.pack('<i8', sums[r.key])
  end
  return {'missing', table.concat(out), now}
end

local days, by = {}, {}
for i, packed in ipairs(call('HMGET', PENDING, unpack(keys))) do
  days[keys[i]] = packed or ''
end
for i, r in ipairs(rows) do
  by[r.key] = (by[r.key] or 0) + r.by
  if sums[r.key] >= 0 then
    sums[r.key] = sums[r.key] + r.by
  end
  r.now = sums[r.key]
  out[i] = struct.pack('<i8', r.now)
end

-- Returns the packed days with `n` more on `day`.
local function with(packed, n)
  for at = 1, #packed, DAY_BYTES do
    local d, was = struct.unpack(LAYOUT_COUNTER_DAY, packed, at)
    if d == day then
      return string.sub(packed, 1, at - 1) .. struct.pack(LAYOUT_COUNTER_DAY, day, was + n) ..
               string.sub(packed, at + DAY_BYTES)
    end
  end
  return packed .. struct.pack(LAYOUT_COUNTER_DAY, day, n)
end

local words = {}
for i, key in ipairs(keys) do
  words[2 * i - 1], words[2 * i] = key, with(days[key], by[key])
end
call('HSET', PENDING, unpack(words))
local done = {}
for i = #rows, 1, -1 do
  local r = rows[i]
  if not done[r.key] and kept[r.key] then
    cache(r, sums[r.key], hour)
  end
  done[r.key] = true
end
if blind then
  call('HSET', META, 'blind', 1)
end
local text = table.concat(out)
if record then
  call('SET', record, ARGV[6] .. text, 'PX', COUNTER_TOKENS_MS)
end
return {'done', text, now}
