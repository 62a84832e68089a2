-- include: ingest_common
-- Appends an entry with its idempotency record, or answers why it did not.
--   KEYS 1 parts of the payload   2 record of the Idempotency-Key   3 number of the client's
--     records of this hour   4.. the hashes that remember acked ids
--   ARGV 1 batch  2 client  3 photos  4 rest of the line of META (after the client)  5 high water
--     6 digest  7 '1': only ask, write nothing  8 '1': there is a key  9 now, 16 digits  10 body
--     hash  11 answer  12 ttl of the record in ms  13 number of parts, 0: the payload is in the
--     message  14 the payload, or its last part  15 flags  16 most bytes  17 most records an hour
-- Answers: {'ok'}, {'mismatch'}, {'exists' [, answer]}, {'full'}, {'keys': too many
-- records}, {'parts': earlier parts are gone}
local batch, client = ARGV[1], ARGV[2]

-- Returns the time before which records are not valid. A time in the future was set while Redis'
-- clock was ahead: it does not count.
local function forgotten()
  local before = call('HGET', STATE, 'forget')
  return before and tonumber(before) <= tonumber(ARGV[9]) + MINUTE_MS and before or ''
end

if ARGV[8] == '1' then
  local old = call('GET', KEYS[OWN + 2])
  if old and string.sub(old, 1, 16) >= forgotten() then
    if string.sub(old, 17, 48) ~= ARGV[10] then
      return {'mismatch'}
    end
    return {'exists', string.sub(old, 49)}
  end
end
if call('HEXISTS', META, batch) == 1 then
  return {'exists'}
end
for i = OWN + 4, #KEYS do
  if call('HEXISTS', KEYS[i], ARGV[6]) == 1 then
    return {'exists'}
  end
end
local high, most = tonumber(ARGV[5]), tonumber(ARGV[16])
local sums = call('HMGET', STATE, 'weight', 'bytes')
if (high > 0 and tonumber(sums[1] or '0') >= high) or (most > 0 and tonumber(sums[2] or '0') >= most) then
  return {'full'}
end
local keys = tonumber(ARGV[17])
if ARGV[8] == '1' and keys > 0 and tonumber(call('GET', KEYS[OWN + 3]) or '0') >= keys then
  return {'keys'}
end
if ARGV[7] == '1' then
  return {'ok'}
end

local parts, sid = tonumber(ARGV[13]), nil
if parts > 0 then
  if call('HLEN', KEYS[OWN + 1]) ~= parts - 1 then
    return {'parts'}
  end
  call('HSET', KEYS[OWN + 1], parts - 1, ARGV[14])
  call('PERSIST', KEYS[OWN + 1])
  sid = call('XADD', STREAM, '*', 'batch', batch)
else
  sid = call('XADD', STREAM, '*', 'batch', batch, 'payload', ARGV[14])
end
local meta = ARGV[15] .. ' ' .. sid .. ' ' .. client .. ' ' .. ARGV[4]
local e = parse(meta)
local line = place(e, batch)
call('HSET', META, batch, meta)
call('ZADD', LINES, 0, line)
call('ZADD', HEADS, 'NX', score(line), client)
call('ZADD', IDS, 0, batch)
call('ZADD', CLIENTS, 0, client .. ':' .. batch)
count(e, 1)
if ARGV[8] == '1' then
  call('SET', KEYS[OWN + 2], ARGV[9] .. ARGV[10] .. ARGV[11], 'PX', ARGV[12])
  call('INCR', KEYS[OWN + 3])
  call('PEXPIRE', KEYS[OWN + 3], INGEST_KEY_COUNT_MS)
end
wake()
return {'ok'}
