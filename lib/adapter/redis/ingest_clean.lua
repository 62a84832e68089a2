-- include: ingest_common
-- Idempotency records from before ARGV[1] (16 digits) don't count any more. Planners without
-- entries that are silent for INGEST_IDLE_CONSUMER_MS leave the group.
if ARGV[1] > (call('HGET', STATE, 'forget') or '') then
  call('HSET', STATE, 'forget', ARGV[1])
end
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
