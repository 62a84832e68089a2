-- include: counter_common
-- Reads sums, and caches the sums that the caller has read from the store.
--   ARGV: hour, generation before the store was read, rows
-- Answers the sums (-1 for a missing one), and the generation.
local hour, known, now, out = tonumber(ARGV[1]), tonumber(ARGV[2]), generation(), {}
for i, r in ipairs((rows_of(ARGV[3]))) do
  local sum, fresh, kept = sum_of(r, known, now, hour)
  if kept and not fresh then
    cache(r, sum, hour)
  end
  out[i] = struct.pack('<i8', sum or -1)
end
return {table.concat(out), now}
