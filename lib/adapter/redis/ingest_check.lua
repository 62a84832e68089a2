-- include: ingest_common
-- Returns the states of entries.
--   KEYS for each entry: the INGEST_DONE_SLOTS hashes that may remember its id
--   ARGV for each entry: batch, digest
-- Answers: a letter for each entry: w waiting, p planned or set aside, u unknown
local slots, out = INGEST_DONE_SLOTS, {}
for i = 1, #ARGV, 2 do
  local meta, state = call('HGET', META, ARGV[i]), 'u'
  if meta then
    state = parse(meta).aside and 'p' or 'w'
  else
    for k = 1, slots do
      if call('HEXISTS', KEYS[OWN + (i - 1) / 2 * slots + k], ARGV[i + 1]) == 1 then
        state = 'p'
      end
    end
  end
  out[#out + 1] = state
end
return table.concat(out)
