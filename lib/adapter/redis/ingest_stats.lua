-- include: ingest_common
--   ARGV 1 '1': write, too, so that the call fails if Redis accepts no writes
-- Answers: {entries, photos, poisoned, line of META of the oldest entry or false}; numbers are text
if ARGV[1] == '1' then
  call('HINCRBY', STATE, 'probe', 1)
end
local v = call('HMGET', STATE, 'entries', 'photos')
local oldest = call('XRANGE', STREAM, '-', '+', 'COUNT', 1)[1]
return {v[1] or '0', v[2] or '0', tostring(call('ZCARD', POISON)), oldest and call('HGET', META, oldest[2][2]) or false}
