-- include: coord_common
-- Lists workers. KEYS[2] has their descriptions.
--   ARGV[3] only workers whose last heartbeat is at least this many ms old; 0: all
-- Answers: id of the data set, now, {time, place and description, ...}.
local silent = tonumber(ARGV[3])
if silent == 0 then
  return {set.id, now, redis.call('HVALS', KEYS[2])}
end
local ids = {}
for _, key in ipairs({COORD_KEY_HEARD, COORD_KEY_GONE}) do
  for _, id in ipairs(redis.call('ZRANGE', PREFIX .. key, '-inf', string.format('%.0f', now - silent), 'BYSCORE', 'LIMIT', 0, SILENT_MAX)) do
    ids[#ids + 1] = id
  end
end
return {set.id, now, #ids > 0 and redis.call('HMGET', KEYS[2], unpack(ids)) or {}}
