-- include: event_common
-- Deletes the oldest events: those before a time, and as many as the data exceed a number of bytes.
--   ARGV 1 wall time in ms: older events are deleted  2 bytes of data that may stay  3 most events
--     to delete
-- Answers: {number of deleted events, bytes of data that stay}
local before, most = tonumber(ARGV[1]), tonumber(ARGV[2])
local bytes, n, cut = tonumber(call('HGET', META, 'bytes') or '0'), 0, nil
local some = call('XRANGE', STREAM, '-', '+', 'COUNT', ARGV[3])
for i = 1, #some do
  local event = some[i][2][2]
  local at, data = string.match(event, '^(%-?%d+) %S+ %S+ ()')
  if tonumber(at) >= before and bytes <= most then
    break
  end
  bytes = bytes - (#event - data + 1)
  cut = tonumber(string.match(some[i][1], '^%d+'))
  n = n + 1
end
if n > 0 then -- trims first: Redis allows that without free memory, and the rest then fits
  call('XTRIM', STREAM, 'MINID', '=', text(cut + 1) .. '-0')
  call('HSET', META, 'cleaned', text(cut), 'bytes', text(bytes))
end
return {text(n), text(bytes)}
