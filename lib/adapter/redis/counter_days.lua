-- include: counter_common
-- Reads what of a counter is not in the store.
--   ARGV[1] the counter's key
-- Answers: number of the flush that is processing, else of the last one; pending days, processing
--   days; 1 if the counter was removed since, 1 if that flush removes it.
local m = call('HMGET', META, 'processing', 'last')
return {tonumber(m[1] or m[2] or 0), call('HGET', PENDING, ARGV[1]) or '', call('HGET', PROCESSING, ARGV[1]) or '',
        call('SISMEMBER', REMOVED, ARGV[1]), call('SISMEMBER', REMOVING, ARGV[1])}
