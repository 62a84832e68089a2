-- include: coord_common
-- Announces rows: lowers due times in the index and tells all processes. KEYS[2] is the backlog
-- index.
--   ARGV[3] sender
--   ARGV[4] 1: the sender has dropped other announcements, so the index is not complete
--   ARGV[5] rows as ANNOUNCED (COORD_KNOWN in the queue: read back from the store, not new)
-- Answers: id of the data set.
local sender, rows = ARGV[3], ARGV[5]
if ARGV[4] == '1' then
  redis.call('HDEL', KEYS[1], 'complete')
end
if rows ~= '' then
  local seq, at, clients = next_seq(), 1, {}
  while at < #rows do
    local q, ms, client
    q, ms, client, at = struct.unpack(ANNOUNCED, rows, at)
    local d = clients[client] or due_read(client)
    clients[client] = d
    q = q % COORD_KNOWN
    d[q] = math.min(d[q] or COORD_NEVER, now + ms)
  end
  for client, d in pairs(clients) do
    due_write(client, d, seq)
  end
  publish('A', sender, rows)
end
return {set.id}
