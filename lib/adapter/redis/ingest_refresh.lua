-- A planner's sign of life for what it has in hand.
--   ARGV 1 planner, then sids
-- the sids that are not its own any more
local gone = {}
for i = 2, #ARGV do
  local p = redis.pcall('XPENDING', STREAM, GROUP, ARGV[i], ARGV[i], 1, ARGV[1])
  if not p.err and p[1] then
    call('XCLAIM', STREAM, GROUP, ARGV[1], 0, ARGV[i], 'JUSTID') -- counts as no delivery
  else
    gone[#gone + 1] = ARGV[i]
  end
end
return gone
