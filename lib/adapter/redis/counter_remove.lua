-- include: counter_common
-- Removes a counter: its sum is 0 from now on, and the next flush deletes it in the store.
--   ARGV: hour, number of the bucket, key
if call('SCARD', REMOVED) >= COUNTER_REMOVED_MAX then
  return 'full'
end
cache({b = ARGV[2], key = ARGV[3]}, 0, tonumber(ARGV[1]))
call('HDEL', PENDING, ARGV[3])
call('SADD', REMOVED, ARGV[3])
return 'ok'
