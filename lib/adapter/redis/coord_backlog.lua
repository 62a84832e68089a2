-- include: coord_common
-- Reads a page of the index, or marks the index as complete. KEYS[2] is the backlog index.
--   ARGV[3..6] part of the index, cursor in it, last part to read, page size; or 'complete', the id
--     of the data set whose index is complete
-- Answers: id of the data set, 1 if the index is complete, number of the latest announcement, now,
-- next part (-1 after the last page), next cursor, {client, row, ...}.
if ARGV[3] == 'complete' then
  if ARGV[4] == set.id then
    redis.call('HSET', KEYS[1], 'complete', '1')
    set.complete = true
  end
  return {set.id, set.complete and 1 or 0}
end
local part, cursor, last, size = tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local rows = {}
while part >= 0 and #rows < 2 * size do
  local page = redis.call('HSCAN', KEYS[2] .. ':' .. part, cursor, 'COUNT', size)
  cursor = page[1]
  for _, e in ipairs(page[2]) do
    rows[#rows + 1] = e
  end
  if cursor == '0' then
    part = part ~= last and (part + 1) % INDEX_PARTS or -1
  end
end
return {set.id, set.complete and 1 or 0, set.seq, now, part, cursor, rows}
