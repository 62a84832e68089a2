-- A planner leaves in order: what it has in hand is for anybody, at once, and as if it had not been taken: a
-- delivery is counted for those only that ended without a word, as what an entry kills does.
--   ARGV 1 planner  2 the silence that lets others take it, ms; then sids
for i = 3, #ARGV do
  local p = redis.pcall('XPENDING', STREAM, GROUP, ARGV[i], ARGV[i], 1, ARGV[1])
  if not p.err and p[1] then
    call('XCLAIM', STREAM, GROUP, ARGV[1], 0, ARGV[i], 'IDLE', ARGV[2], 'RETRYCOUNT', math.max(p[1][4] - 1, 0), 'JUSTID')
    wake()
  end
end
return 1
