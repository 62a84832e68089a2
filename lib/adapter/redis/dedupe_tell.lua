-- include: dedupe_common
-- Keeps outcomes, each with the time.
--   ARGV 2 how long Redis keeps them, in ms  3.. key and outcome, in turn
for i = 3, #ARGV, 2 do
  call('SET', PREFIX .. 'told:' .. ARGV[i], text(now) .. ' ' .. ARGV[i + 1], 'PX', ARGV[2])
end
return 'ok'
