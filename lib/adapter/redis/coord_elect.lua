-- include: coord_common
-- Elects a leader. KEYS[2] has for each name the end of the lease and the leader.
--   ARGV[3..6] name, worker, lease (0: the worker resigns), 1: the worker was the leader until now
-- Answers: id of the data set, 1 if the worker leads.
local name, worker, lease = ARGV[3], ARGV[4], tonumber(ARGV[5])
local s = redis.call('HGET', KEYS[2], name)
local till, leader = 0, nil
if s then
  local at
  till, at = struct.unpack(LAYOUT_TIME, s)
  leader = string.sub(s, at)
end
if lease == 0 then
  if leader == worker then
    redis.call('HDEL', KEYS[2], name)
  end
  return {set.id, 0}
end
if leader ~= worker and (till > now or (young(lease) and ARGV[6] ~= '1')) then
  return {set.id, 0}
end
redis.call('HSET', KEYS[2], name, struct.pack(LAYOUT_TIME, now + lease) .. worker)
return {set.id, 1}
