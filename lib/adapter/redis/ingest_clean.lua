-- include: ingest_common
-- Makes idempotency records from before ARGV[1] (16 digits) invalid. Removes planners without
-- entries from the group that are silent for INGEST_IDLE_CONSUMER_MS.
-- The latest call counts: after Redis' clock was ahead for a while, an earlier one was too high.
call('HSET', STATE, 'forget', ARGV[1])
local consumers = redis.pcall('XINFO', 'CONSUMERS', STREAM, GROUP)
for _, c in ipairs(consumers.err and {} or consumers) do
  local v = {}
  for i = 1, #c, 2 do
    v[c[i]] = c[i + 1]
  end
  if v.pending == 0 and v.idle > INGEST_IDLE_CONSUMER_MS then
    call('XGROUP', 'DELCONSUMER', STREAM, GROUP, v.name)
  end
end
return 1
