-- include: counter_common
-- Returns the flush that is processing, or begins one.
--   ARGV[1] the number of a new flush is higher than this. After Redis has lost its data, this also
--     tells readers of days that the store may have flushes up to here.
-- Answers: its number (0: nothing is pending), 1 if more is pending; keys and days; removed keys.
local number = tonumber(call('HGET', META, 'processing') or 0)
local n = call('HLEN', PENDING)
if number == 0 then
  local last, floor = tonumber(call('HGET', META, 'last') or -1), tonumber(ARGV[1])
  if n == 0 and call('SCARD', REMOVED) == 0 then
    if floor > last then
      call('HSET', META, 'last', ARGV[1])
    end
    return {0, 0, {}, {}}
  end
  number = math.max(last, floor) + 1
  local text = string.format('%.0f', number)
  call('HSET', META, 'processing', text, 'last', text)
  if call('EXISTS', REMOVED) == 1 then
    call('RENAME', REMOVED, REMOVING)
  end
  if n > COUNTER_FLUSH_MAX then
    local words = call('HRANDFIELD', PENDING, COUNTER_FLUSH_MAX, 'WITHVALUES')
    for i = 1, #words, 2 do
      call('HSET', PROCESSING, words[i], words[i + 1])
      call('HDEL', PENDING, words[i])
    end
    n = n - COUNTER_FLUSH_MAX
  else
    if n > 0 then
      call('RENAME', PENDING, PROCESSING)
    end
    n = 0
  end
end
return {number, n > 0 and 1 or 0, call('HGETALL', PROCESSING), call('SMEMBERS', REMOVING)}
