-- Asks to drain: kept for those who are asked until their next sign of life, which the message makes them give at
-- once. After coord_common.lua. KEYS[2] who is to drain.
--   ARGV[3..5] channel, 'one' or 'all', then the workers
-- Answers: id of the data set.
for i = 5, #ARGV do
  redis.call('HSET', KEYS[2], ARGV[i], ARGV[4])
end
redis.call('PEXPIRE', KEYS[2], 120000)
publish(ARGV[3], 'D', NOBODY, '')
return {set.id}
