-- What a process needs to know that comes or comes back. After coord_common.lua. KEYS[2] workers, KEYS[3] slow hosts.
--   ARGV[3] the id of the data set that is the installation's first, or ''; ARGV[4] how many slow hosts it has
--   already (not 0: nobody asks for workers); ARGV[5] at most so many more; ARGV[6] channel
-- Answers: id of the data set, now, workers and what they say, hosts and until when.
if ARGV[3] == set.id and not set.first then
  redis.call('HSET', KEYS[1], 'first', '1')
  publish(ARGV[6], 'F', NOBODY, '')
end
local from = tonumber(ARGV[4])
return {set.id, now, from == 0 and redis.call('HGETALL', KEYS[2]) or {},
        redis.call('ZRANGE', KEYS[3], string.format('(%.0f', now), '+inf', 'BYSCORE', 'LIMIT', from, ARGV[5], 'WITHSCORES')}
