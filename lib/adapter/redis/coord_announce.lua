-- include: coord_common coord_ring coord_rows coord_tell
-- Announces rows: lowers due times in the index, and tells workers. KEYS[2] is the backlog index.
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
    local from = at
    local q, ms, position, client
    q, ms, position, client, at = struct.unpack(ANNOUNCED, rows, at)
    local c = clients[client] or {due = due_read(client, position), position = position, rows = {}}
    clients[client] = c
    c.rows[#c.rows + 1] = string.sub(rows, from, at - 1)
    q = q % COORD_KNOWN
    c.due[q] = math.min(c.due[q] or COORD_NEVER, now + ms)
  end
  for client, c in pairs(clients) do
    due_write(client, c.position, c.due, seq)
    tell(client, c.position, table.concat(c.rows))
  end
  tell_now(sender)
end
return {set.id}
