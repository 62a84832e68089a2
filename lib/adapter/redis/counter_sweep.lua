-- include: counter_common
-- Drops the sums of some buckets that nobody has used since.
--   ARGV: number of the first bucket, how many, sums of earlier hours are dropped
-- Answers how many sums it has dropped.
local from, n, before, dropped = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), 0
for b = from, from + n - 1 do
  local all = call('HGETALL', bucket(b))
  for i = 1, #all, 2 do
    local key = all[i]
    local _, used = struct.unpack(LAYOUT_COUNTER_SUM, all[i + 1])
    if used < before and call('HEXISTS', PENDING, key) == 0 and call('HEXISTS', PROCESSING, key) == 0 and
      call('SISMEMBER', REMOVED, key) == 0 and call('SISMEMBER', REMOVING, key) == 0 then
      call('HDEL', bucket(b), key)
      dropped = dropped + 1
    end
  end
end
if dropped > 0 then
  next_generation()
end
return dropped
