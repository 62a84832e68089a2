-- include: ingest_common
-- Puts an entry that is set aside back into the queue, as the last of its client.
--   KEYS 1 parts of the payload
--   ARGV 1 batch  2 '1': the entry is given up
-- Answers: 1, or 0 if the entry is not set aside
local batch, meta = ARGV[1], call('HGET', META, ARGV[1])
if not meta or not parse(meta).aside then
  return 0
end
local rest, parts = string.match(meta, '^%S+ %S+( %S+ %d+ %d+ %-?%d+ %d+ %d+ %d+ (%d+).*)$')
local payload = parts == '0' and call('HGET', KEYS[OWN + 1], 0)
local sid
if payload then
  sid = call('XADD', STREAM, '*', 'batch', batch, 'payload', payload)
  call('UNLINK', KEYS[OWN + 1])
else
  sid = call('XADD', STREAM, '*', 'batch', batch)
  call('PERSIST', KEYS[OWN + 1])
end
meta = mark(meta, GIVEN_UP, ARGV[2] == '1')
meta = string.sub(meta, 1, 1) .. '0 ' .. sid .. rest
local e = parse(meta)
call('HSET', META, batch, meta)
call('ZREM', POISON, batch)
call('HDEL', STATE, WHY .. batch)
call('ZADD', LINES, 0, place(e, batch))
rehead(e.client)
count(e, 1)
wake()
return 1
