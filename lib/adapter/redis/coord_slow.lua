-- include: coord_common
-- Slows hosts. KEYS[2] has hosts by the time until which no worker sends requests to them.
--   ARGV[3..4] sender, hosts: ms from now, name
-- Answers: id of the data set.
local hosts, at = ARGV[4], 1
while at < #hosts do
  local ms, host
  ms, host, at = struct.unpack(LAYOUT_TIME .. LAYOUT_NAME, hosts, at)
  redis.call('ZADD', KEYS[2], 'GT', now + ms, host)
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
-- If there are too many hosts, drops those whose wait ends first.
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -SLOW_HOSTS_MAX - 1)
redis.call('PEXPIRE', KEYS[2], DAY_MS)
publish('S', ARGV[3], hosts)
return {set.id}
