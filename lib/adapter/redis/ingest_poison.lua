-- Sets an entry aside, with its payload for a while; of so many the latest are kept.
--   KEYS 11 parts  12 where its id is remembered
--   ARGV 1 batch  2 digest  3 reason  4 now, ms  5 how many  6 for how long parts, 7 the id, ms
-- 0: there is none
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
  call('HSET', KEYS[11], 0, message[2][4])
end
call('PEXPIRE', KEYS[11], ARGV[6])
leave(e, batch)
done(KEYS[12], ARGV[2], ARGV[7])
call('HSET', META, batch, string.sub(meta, 1, 1) .. '1' .. string.sub(meta, 3) .. ' ' .. ARGV[3])
call('ZADD', POISON, ARGV[4], batch)
while call('ZCARD', POISON) > tonumber(ARGV[5]) do
  local oldest = call('ZPOPMIN', POISON)[1]
  local old = call('HGET', META, oldest)
  if old then
    call('HDEL', META, oldest)
    call('ZREM', IDS, oldest)
    call('ZREM', CLIENTS, parse(old).client .. ':' .. oldest)
  end
end
return 1
