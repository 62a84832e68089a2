-- include: event_common
-- Appends events with the next numbers, all or none.
--   ARGV 1 channel  2 bytes of data of all events  3.. the events
-- Answers: {'ok', first number}, or {'stale', the name that begin() must pass} if the log needs a
-- new block of numbers.
local n = #ARGV - 2
local m = call('HMGET', META, 'set', 'life', 'next', 'end', 'last', 'cleaned', 'bytes')
local life = life_now()
local next_ = tonumber(m[3] or '0')
if m[2] ~= life or next_ + n > tonumber(m[4] or '0') then
  local set = m[1]
  if not set then -- a new data set gets its name from its beginning
    local t = call('TIME')
    set = t[1] .. '.' .. t[2]
    call('HSET', META, 'set', set)
  end
  return {'stale', need(life, set)}
end
if n == 0 then
  return {'ok', text(next_)}
end
local bytes, lost = tonumber(m[7]), call('EXISTS', STREAM) == 0 and tonumber(m[5]) > tonumber(m[6])
for i = 1, n do
  call('XADD', STREAM, text(next_ + i - 1) .. '-0', 'e', ARGV[i + 2])
end
if lost then -- somebody has removed the stream
  call('HSET', META, 'cleaned', m[5])
  bytes = 0
end
local last = text(next_ + n - 1)
call('HSET', META, 'next', text(next_ + n), 'last', last, 'bytes', text(bytes + tonumber(ARGV[2])))
call('PUBLISH', ARGV[1], last)
return {'ok', text(next_)}
