-- Slows hosts. After coord_common.lua. KEYS[2] host by until when.
--   ARGV[3..5] channel, sender, hosts: ms from now, name; at most ARGV[6] are kept, those that are slowed for longest
-- Answers: id of the data set.
local hosts, at = ARGV[5], 1
while at < #hosts do
  local ms, host
  ms, host, at = struct.unpack('<i8Bc0', hosts, at)
  redis.call('ZADD', KEYS[2], 'GT', now + ms, host)
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -tonumber(ARGV[6]) - 1)
redis.call('PEXPIRE', KEYS[2], 86400000)
publish(ARGV[3], 'S', ARGV[4], hosts)
return {set.id}
