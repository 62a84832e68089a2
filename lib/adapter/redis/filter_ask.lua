-- include: filter_common
-- Asks which keys are absent, and adds them; adds all keys to the filter that is being built.
--   ARGV[1] keys, FILTER_KEY_BYTES each
-- Answers a text: '' if the filter is incomplete, else a digit for each key: 1 if it is absent.
local keys, absent, n = ARGV[1], {}, #ARGV[1] / FILTER_KEY_BYTES
for k = 1, current and n or 0 do
  absent[k] = has(current, keys, (k - 1) * FILTER_KEY_BYTES + 1) and 0 or 1
end
local added, added_next = 0, 0
for k = 1, n do
  local i = (k - 1) * FILTER_KEY_BYTES + 1
  if absent[k] == 1 then
    added = added + add(current, keys, i)
  end
  if next_ then -- also a key that `current` seems to have: that may be false
    added_next = added_next + add(next_, keys, i)
  end
end
if added > 0 then
  call('HINCRBY', META, 'keys', added)
end
if added_next > 0 then
  call('HINCRBY', META, 'next_keys', added_next)
end
return table.concat(absent)
