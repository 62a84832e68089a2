-- Announces: lowers due times in the index and tells everybody. After coord_common.lua. KEYS[2] the backlog index.
--   ARGV[3..6] channel, sender, 1: something else was forgotten, the index is not complete; rows: queue (and 128:
--   nothing new), ms from now, client
-- Answers: id of the data set.
local channel, sender, rows = ARGV[3], ARGV[4], ARGV[6]
if ARGV[5] == '1' then
  redis.call('HDEL', KEYS[1], 'complete')
end
if rows ~= '' then
  local seq, at, clients = next_seq(), 1, {}
  while at < #rows do
    local q, ms, client
    q, ms, client, at = struct.unpack('<Bi8Bc0', rows, at)
    local d = clients[client] or due_read(client)
    clients[client] = d
    q = q % 128
    d[q] = math.min(d[q] or NEVER, now + ms)
  end
  for client, d in pairs(clients) do
    due_write(client, d, seq)
  end
  publish(channel, 'A', sender, rows)
end
return {set.id}
