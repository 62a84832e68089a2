-- include: dedupe_common
-- Tells a process which table of owners is the current one, and begins it if nobody has. The tables
-- follow each other by Redis' clock. A new table is four times as large as the keys of the previous
-- one need: it is then a quarter full.
--   ARGV 2 the window  3 fewest slots  4 most slots
-- Answers: {now, ms until the table ends, number of the table, its slots, slots of the previous
-- table or 0}.
local window = tonumber(ARGV[2])
local n = math.floor(now / window)
local kept = 3 * window + MINUTE_MS

local function key(kind, i)
  return PREFIX .. kind .. ':' .. ARGV[2] .. ':' .. text(i)
end

-- Estimates how many slots of a table are in use from a part of it: of the 63 bits of a used slot
-- 32 are set on average, the first one and half of the others.
local function used_slots(owners, slots)
  local bytes = math.min(call('STRLEN', owners), DEDUPE_SAMPLE)
  if bytes < 8 then
    return 0
  end
  return call('BITCOUNT', owners, 0, bytes - 1) / 32 * slots * 8 / bytes
end

local slots, before = tonumber(call('GET', key('slots', n))), tonumber(call('GET', key('slots', n - 1)) or '0')
local owners_before = key('owners', n - 1) .. ':' .. text(before)
if not slots then
  slots = tonumber(ARGV[3])
  if before > 0 then
    slots = math.max(slots, math.floor(4 * used_slots(owners_before, before)))
  end
  slots = math.min(slots, tonumber(ARGV[4]))
  call('SET', key('slots', n), text(slots), 'PX', text(kept))
  call('SETRANGE', key('owners', n) .. ':' .. text(slots), text(8 * slots - 1), '\0')
end
call('PEXPIRE', key('owners', n) .. ':' .. text(slots), text(kept))
if before > 0 then -- a late request may have made the table again, without an end
  call('PEXPIRE', owners_before, text(kept))
end
return {text(now), text((n + 1) * window - now), text(n), text(slots), text(before)}
