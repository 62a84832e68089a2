-- include: counter_common
-- Ends the flush that is processing, because the store has all of it.
--   ARGV[1] its number
if call('HGET', META, 'processing') ~= ARGV[1] then
  return 0
end
call('UNLINK', PROCESSING, REMOVING)
call('HDEL', META, 'processing')
-- After an increment of a missing counter, a stored sum that somebody has read before the flush may
-- lack what the flush has brought.
if call('HEXISTS', META, 'blind') == 1 then
  next_generation()
  if call('EXISTS', PENDING) == 0 then
    call('HDEL', META, 'blind')
  end
end
return 1
