-- Forgets entries that are planned.
--   KEYS from 11, for each: parts, where its id is remembered   ARGV 1 for how long, ms; for each: batch, digest
for i = 2, #ARGV, 2 do
  local batch, meta = ARGV[i], call('HGET', META, ARGV[i])
  done(KEYS[10 + i], ARGV[i + 1], ARGV[1])
  if meta then
    local e = parse(meta)
    if e.aside then
      call('ZREM', POISON, batch)
    else
      leave(e, batch)
    end
    call('HDEL', META, batch)
    call('ZREM', IDS, batch)
    call('ZREM', CLIENTS, e.client .. ':' .. batch)
    call('UNLINK', KEYS[9 + i])
  end
end
return 1
