-- include: event_common
-- Gives the log a block of numbers. The log leaves the block unused if it needs none any more, or
-- if the block was not reserved for its present data set and life.
--   ARGV 1 channel  2 the name that an append answered  3 first, 4 end of the block  5 wall time in
--     ms
-- Answers: {'ok'}, {'unused'}
local first, end_ = tonumber(ARGV[3]), tonumber(ARGV[4])
local m = call('HMGET', META, 'set', 'life', 'next', 'end', 'last', 'bytes')
local life = life_now()
if not m[1] or need(life, m[1]) ~= ARGV[2] then
  return {'unused'} -- reserved for an earlier data set or life: higher numbers may be in use
end
local next_ = tonumber(m[3] or '0')
if m[2] == life then
  if tonumber(m[4]) - next_ >= EVENT_APPEND_MAX or first < next_ then
    return {'unused'}
  end
  call('HSET', META, 'next', ARGV[3], 'end', ARGV[4])
  return {'ok'}
end

local last, bytes = tonumber(m[5] or '0'), tonumber(m[6] or '0')
if first <= last then
  return {'unused'}
end
local top -- the highest number that the stream ever had
if call('EXISTS', STREAM) == 1 then
  local info = call('XINFO', 'STREAM', STREAM)
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then
      top = tonumber(string.match(info[i + 1], '^%d+'))
    end
  end
end
if m[2] and top and top <= last then
  -- A new life of this data set: the events stay, but later events may be lost.
  if first - 1 > last then
    local gap = '{"from":' .. text(last + 1) .. ',"to":' .. text(first - 1) .. '}'
    call('XADD', STREAM, text(first - 1) .. '-0', 'e', ARGV[5] .. ' . . ' .. gap)
    bytes = bytes + #gap
  end
else
  call('DEL', STREAM)
  bytes = 0
  call('HSET', META, 'cleaned', text(first - 1))
end
call('HSET', META, 'life', life, 'next', ARGV[3], 'end', ARGV[4], 'last', text(first - 1), 'bytes', text(bytes))
call('PUBLISH', ARGV[1], text(first - 1))
return {'ok'}
