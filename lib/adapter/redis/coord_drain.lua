-- include: coord_common
-- Asks workers to drain. Redis keeps the request until a worker's next heartbeat; the message makes
-- workers send one at once. KEYS[2] has the workers that must drain.
--   ARGV[3] 'one' or 'all', then the workers
-- Answers: id of the data set.
for i = 4, #ARGV do
  redis.call('HSET', KEYS[2], ARGV[i], ARGV[3])
end
redis.call('PEXPIRE', KEYS[2], 2 * WORKER_ALIVE_MS)
publish('D', NOBODY, '')
return {set.id}
