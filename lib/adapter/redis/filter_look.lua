-- include: filter_common
-- Describes the filter, and keeps it for FILTER_KEPT_MS more.
-- Answers: 1 if it is complete, number of keys, bytes, age in ms, id of the build in progress or
--   ''.
for _, key in ipairs(KEYS) do
  call('PEXPIRE', key, FILTER_KEPT_MS)
end
local build = next_ and next_.build or ''
if not current then
  return {0, 0, 0, 0, build}
end
local keys = tonumber(call('HGET', META, 'keys') or 0)
return {1, keys, current.blocks * FILTER_BLOCK_BYTES, math.max(now - current.built, 0), build}
