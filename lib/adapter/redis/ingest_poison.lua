-- include: ingest_common
-- Sets an entry aside and keeps its payload for INGEST_ASIDE_MS. Keeps the latest INGEST_ASIDE
-- entries.
--   KEYS 1 parts  2 the hash that remembers the entry's id
--   ARGV 1 batch  2 digest  3 reason  4 now in ms, by Redis' clock  5 now in ms, by the caller's
--     date
-- Answers: 1, or 0 if there is no such entry
local batch, meta = ARGV[1], call('HGET', META, ARGV[1])
if not meta then
  return 0
end
local e = parse(meta)
if e.aside then
  return 1
end
local message = call('XRANGE', STREAM, e.sid, e.sid)[1]
if message and message[2][3] == 'payload' then
  call('HSET', KEYS[OWN + 1], 0, message[2][4])
end
call('PEXPIRE', KEYS[OWN + 1], INGEST_ASIDE_MS)
local pending = redis.pcall('XPENDING', STREAM, GROUP, e.sid, e.sid, 1)
local deliveries = not pending.err and pending[1] and pending[1][4] or 0
leave(e, batch)
done(KEYS[OWN + 2], ARGV[2])
call('HSET', META, batch, string.sub(meta, 1, 1) .. '1' .. string.sub(meta, 3))
call('HSET', STATE, WHY .. batch, ARGV[5] .. ' ' .. deliveries .. ' ' .. ARGV[3])
call('ZADD', POISON, ARGV[4], batch)
while call('ZCARD', POISON) > INGEST_ASIDE do
  local oldest = call('ZPOPMIN', POISON)[1]
  local old = call('HGET', META, oldest)
  if old then
    call('HDEL', META, oldest)
    call('HDEL', STATE, WHY .. oldest)
    call('ZREM', IDS, oldest)
    call('ZREM', CLIENTS, parse(old).client .. ':' .. oldest)
  end
end
return 1
