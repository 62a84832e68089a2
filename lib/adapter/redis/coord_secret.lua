-- include: coord_common
-- Reads the secret that all processes share. KEYS[2] has it.
--   ARGV[3] a random text, which becomes the secret if there is none
-- Answers: id of the data set, the secret.
redis.call('SET', KEYS[2], ARGV[3], 'NX')
return {set.id, redis.call('GET', KEYS[2])}
