-- include: coord_common
-- Reads a page of the index, or marks the index as complete. KEYS[2] is the backlog index.
--   ARGV[3..4] cursor, page size; or 'complete', the id of the data set whose index is complete
-- Answers: id of the data set, 1 if the index is complete, number of the latest announcement, now,
-- next cursor, {client, row, ...}.
if ARGV[3] == 'complete' then
  if ARGV[4] == set.id then
    redis.call('HSET', KEYS[1], 'complete', '1')
    set.complete = true
  end
  return {set.id, set.complete and 1 or 0}
end
local page = redis.call('HSCAN', KEYS[2], ARGV[3], 'COUNT', ARGV[4])
return {set.id, set.complete and 1 or 0, set.seq, now, page[1], page[2]}
