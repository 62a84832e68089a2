-- include: ingest_common
-- Lists entries that are set aside by id, newest first.
--   ARGV 1 list ids before this one ('': from the newest)  2 limit
-- Answers: {batch, line of META, ms since, deliveries, reason, ...}
local after, ids, out = ARGV[1], {}, {}
for _, batch in ipairs(call('ZRANGE', POISON, 0, -1)) do
  if after == '' or batch < after then
    ids[#ids + 1] = batch
  end
end
table.sort(ids, function(a, b)
  return a > b
end)
for i = 1, math.min(#ids, tonumber(ARGV[2])) do
  local batch = ids[i]
  local why = call('HGET', STATE, WHY .. batch) or ''
  local since, deliveries, reason = string.match(why, '^(%d+) (%d+) (.*)$')
  out[#out + 1] = batch
  out[#out + 1] = call('HGET', META, batch)
  out[#out + 1] = since or call('ZSCORE', POISON, batch)
  out[#out + 1] = deliveries or '0'
  out[#out + 1] = reason or ''
end
return out
