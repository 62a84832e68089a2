-- include: coord_common
-- Returns the data that a process needs when it connects. KEYS[2] has the slow hosts.
--   ARGV[3] the id of the installation's first data set, or ''
--   ARGV[4] number of slow hosts that the process has read already
--   ARGV[5] most slow hosts to answer now
-- Answers: id of the data set, now, {host, slow until, ...}.
if ARGV[3] == set.id and not set.first then
  redis.call('HSET', KEYS[1], 'first', '1')
  publish('F', NOBODY, '')
end
return {set.id, now, redis.call('ZRANGE', KEYS[2], string.format('(%.0f', now), '+inf', 'BYSCORE', 'LIMIT', ARGV[4], ARGV[5],
                                'WITHSCORES')}
