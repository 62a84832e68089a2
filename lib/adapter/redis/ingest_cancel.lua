-- include: ingest_common
-- Marks an entry as cancelled.
--   ARGV 1 batch
-- Answers: 1, or 0 if there is no such entry
local meta = call('HGET', META, ARGV[1])
if not meta then
  return 0
end
call('HSET', META, ARGV[1], mark(meta, CANCELLED, true))
return 1
