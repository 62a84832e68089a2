-- include: coord_common
-- Stores and publishes a worker's heartbeat. KEYS[2] has for each worker its time and description,
-- KEYS[3] the workers that must drain.
--   ARGV[3..6] worker, its description, sender, 1: remove workers that are silent
-- Answers: id of the data set; if the worker must drain, 'one' or 'all' (who was asked), else ''.
local worker = ARGV[3]
redis.call('HSET', KEYS[2], worker, struct.pack(LAYOUT_TIME, now) .. ARGV[4])
if ARGV[6] == '1' then
  local all = redis.call('HGETALL', KEYS[2])
  for i = 1, #all, 2 do
    if struct.unpack(LAYOUT_TIME, all[i + 1]) < now - WORKER_ALIVE_MS then
      redis.call('HDEL', KEYS[2], all[i])
    end
  end
end
redis.call('PEXPIRE', KEYS[2], 2 * WORKER_ALIVE_MS)
publish('W', ARGV[5], ARGV[4])
local ask = redis.call('HGET', KEYS[3], worker)
if ask then
  redis.call('HDEL', KEYS[3], worker)
end
return {set.id, ask or ''}
