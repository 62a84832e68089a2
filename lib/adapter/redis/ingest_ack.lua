-- include: ingest_common
-- Deletes planned entries, and remembers their ids.
--   KEYS for each entry: its parts; the hash that remembers its id
--   ARGV for each entry: batch, digest
for i = 1, #ARGV, 2 do
  local batch, meta = ARGV[i], call('HGET', META, ARGV[i])
  done(KEYS[OWN + i + 1], ARGV[i + 1])
  if meta then
    local e = parse(meta)
    if e.aside then
      call('ZREM', POISON, batch)
      call('HDEL', STATE, WHY .. batch)
    else
      leave(e, batch)
    end
    call('HDEL', META, batch)
    call('ZREM', IDS, batch)
    call('ZREM', CLIENTS, e.client .. ':' .. batch)
    call('UNLINK', KEYS[OWN + i])
  end
end
return 1
