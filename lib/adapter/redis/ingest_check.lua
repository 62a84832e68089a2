-- What became of entries.   KEYS from 11, for each: SLOTS keys where its id may be remembered
--   ARGV 1 SLOTS; for each: batch, digest   a letter for each: w waiting, p planned or set aside, u unknown
local slots, out = tonumber(ARGV[1]), {}
for i = 2, #ARGV, 2 do
  local meta, state = call('HGET', META, ARGV[i]), 'u'
  if meta then
    state = parse(meta).aside and 'p' or 'w'
  else
    for k = 1, slots do
      if call('HEXISTS', KEYS[10 + (i / 2 - 1) * slots + k], ARGV[i + 1]) == 1 then
        state = 'p'
      end
    end
  end
  out[#out + 1] = state
end
return table.concat(out)
