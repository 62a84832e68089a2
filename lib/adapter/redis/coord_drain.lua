-- include: coord_common
-- Asks workers to drain. Redis keeps the request until a worker's next heartbeat; the message makes
-- the worker send one at once. KEYS[2] has the workers that must drain, KEYS[3] all workers.
--   ARGV[3] the worker, '' for all
-- Answers: id of the data set, number of workers that were asked.
local function is_alive(text)
  return text and struct.unpack(LAYOUT_TIME, text) >= now - WORKER_ALIVE_MS
end

local asked = 0
if ARGV[3] ~= '' then
  if is_alive(redis.call('HGET', KEYS[3], ARGV[3])) then
    redis.call('HSET', KEYS[2], ARGV[3], 'one')
    publish('D', NOBODY, '', ARGV[3])
    asked = 1
  end
else
  local all = redis.call('HGETALL', KEYS[3])
  for i = 1, #all, 2 do
    if is_alive(all[i + 1]) then
      redis.call('HSET', KEYS[2], all[i], 'all')
      asked = asked + 1
    end
  end
  publish('D', NOBODY, '')
end
redis.call('PEXPIRE', KEYS[2], 2 * WORKER_ALIVE_MS)
return {set.id, asked}
