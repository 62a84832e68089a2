-- include: ingest_common
-- Handles a planner's heartbeat for the entries that it holds.
--   ARGV 1 planner, then the stream ids of its entries
-- Answers: the stream ids of entries that the planner has lost
local gone = {}
for i = 2, #ARGV do
  local p = redis.pcall('XPENDING', STREAM, GROUP, ARGV[i], ARGV[i], 1, ARGV[1])
  if not p.err and p[1] then
    call('XCLAIM', STREAM, GROUP, ARGV[1], 0, ARGV[i], 'JUSTID') -- JUSTID does not count this as a delivery
  else
    gone[#gone + 1] = ARGV[i]
  end
end
return gone
