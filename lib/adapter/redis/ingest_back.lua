-- include: ingest_common
-- Gives back the entries of a planner that closes: any planner may take them at once. Lowers their
-- number of deliveries again, because that number counts planners that an entry may have killed.
--   ARGV 1 planner  2 ms of silence after which others take its entries; then stream ids
for i = 3, #ARGV do
  local p = redis.pcall('XPENDING', STREAM, GROUP, ARGV[i], ARGV[i], 1, ARGV[1])
  if not p.err and p[1] then
    call('XCLAIM', STREAM, GROUP, ARGV[1], 0, ARGV[i], 'IDLE', ARGV[2], 'RETRYCOUNT', math.max(p[1][4] - 1, 0), 'JUSTID')
    wake()
  end
end
return 1
