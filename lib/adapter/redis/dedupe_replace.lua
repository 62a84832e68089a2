-- include: dedupe_common
-- Replaces the owners of keys, if they are still the ones that the caller knows.
--   KEYS 2 the current table  3 the previous table, or KEYS[2] again if there is none
--   ARGV 2 slots of the current table  3 slots of the previous table, or 0
--     4.. for each key: its first slot in either table, its mark, the owner that the caller knows,
--     the new owner
-- Answers: for each key 0, or its other owner.
local function slot(at, slots, probe)
  return 64 * ((at + probe) % slots)
end

-- Returns the owner of the key with this mark, and the bit where it stands; without such a key nil,
-- and the bit of a free slot or nil.
local function find(owners, slots, at, mark)
  for probe = 0, DEDUPE_PROBES - 1 do
    local bit = slot(at, slots, probe)
    local v = call('BITFIELD', owners, 'GET', 'u31', bit, 'GET', 'u32', bit + 31)
    if v[1] == mark then
      return v[2], bit
    elseif v[1] == 0 then
      return nil, bit
    end
  end
end

local answer = {}
for i = 4, #ARGV, 5 do
  local at, at_before, mark = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local known, new = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
  local slots, before = tonumber(ARGV[2]), tonumber(ARGV[3])
  local owner, bit = find(KEYS[2], slots, at, mark)
  if not owner and before > 0 then
    owner = find(KEYS[3], before, at_before, mark)
  end
  if owner and owner ~= 0 and owner ~= known and owner ~= new then
    answer[#answer + 1] = owner
  else
    if bit then
      call('BITFIELD', KEYS[2], 'SET', 'u31', bit, mark, 'SET', 'u32', bit + 31, new)
    end
    answer[#answer + 1] = 0
  end
end
return answer
