-- include: event_common
-- Returns the events above a number. Reads the stream in slices, so that it copies few events that
-- do not fit into the answer.
--   ARGV 1 the number  2 most events to return  3 most bytes of their data
-- Answers: {last, cleaned, number, event, number, event ...}
local SLICE = 64
local left, room = tonumber(ARGV[2]), tonumber(ARGV[3])
local m = call('HMGET', META, 'last', 'cleaned')
local last, cleaned = m[1] or '0', m[2] or '0'
if call('EXISTS', STREAM) == 0 then
  return {last, last} -- there are no events yet, or somebody has removed the stream
end
local out, from = {last, cleaned}, ARGV[1] .. '-0'
while left > 0 and room >= 0 do
  local count = math.min(left, SLICE)
  local some = call('XRANGE', STREAM, '(' .. from, '+', 'COUNT', count)
  for i = 1, #some do
    local event = some[i][2][2]
    room = room - (#event - string.match(event, '^%S+ %S+ %S+ ()') + 1)
    if room < 0 and #out > 2 then
      break
    end
    from = some[i][1]
    out[#out + 1] = string.match(from, '^%d+')
    out[#out + 1] = event
    left = left - 1
  end
  if #some < count then
    break
  end
end
return out
