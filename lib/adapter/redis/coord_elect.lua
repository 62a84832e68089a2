-- Leads. After coord_common.lua. KEYS[2] name -> till, worker.
--   ARGV[3..6] name, worker, lease (0: lets go), 1: it led when last asked
-- Answers: id of the data set, 1: leads.
local name, worker, lease = ARGV[3], ARGV[4], tonumber(ARGV[5])
local s = redis.call('HGET', KEYS[2], name)
local till, who = 0, nil
if s then
  local at
  till, at = struct.unpack('<i8', s)
  who = string.sub(s, at)
end
if lease == 0 then
  if who == worker then
    redis.call('HDEL', KEYS[2], name)
  end
  return {set.id, 0}
end
if who ~= worker and (till > now or (young(lease) and ARGV[6] ~= '1')) then
  return {set.id, 0}
end
redis.call('HSET', KEYS[2], name, struct.pack('<i8', now + lease) .. worker)
return {set.id, 1}
