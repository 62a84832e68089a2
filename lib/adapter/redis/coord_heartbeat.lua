-- A sign of life. After coord_common.lua. KEYS[2] worker -> when, what it says of itself; KEYS[3] who is to drain.
--   ARGV[3..7] worker, what it says of itself, channel, sender, 1: clears away those who have been silent for long
-- Answers: id of the data set, '' or what it is asked: 'one', 'all' to drain.
local worker = ARGV[3]
redis.call('HSET', KEYS[2], worker, struct.pack('<i8', now) .. ARGV[4])
if ARGV[7] == '1' then
  local all = redis.call('HGETALL', KEYS[2])
  for i = 1, #all, 2 do
    if struct.unpack('<i8', all[i + 1]) < now - 60000 then
      redis.call('HDEL', KEYS[2], all[i])
    end
  end
end
redis.call('PEXPIRE', KEYS[2], 120000)
publish(ARGV[5], 'W', ARGV[6], ARGV[4])
local ask = redis.call('HGET', KEYS[3], worker)
if ask then
  redis.call('HDEL', KEYS[3], worker)
end
return {set.id, ask or ''}
