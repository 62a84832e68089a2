-- include: coord_common
-- Returns the data that a process needs when it connects. KEYS[2] workers, KEYS[3] slow hosts.
--   ARGV[3] the id of the installation's first data set, or ''
--   ARGV[4] number of slow hosts that the process has read already; if not 0, it needs no workers
--   ARGV[5] most slow hosts to answer now
-- Answers: id of the data set, now, {worker, time and description, ...}, {host, slow until, ...}.
if ARGV[3] == set.id and not set.first then
  redis.call('HSET', KEYS[1], 'first', '1')
  publish('F', NOBODY, '')
end
local from = tonumber(ARGV[4])
return {set.id, now, from == 0 and redis.call('HGETALL', KEYS[2]) or {},
        redis.call('ZRANGE', KEYS[3], string.format('(%.0f', now), '+inf', 'BYSCORE', 'LIMIT', from, ARGV[5], 'WITHSCORES')}
