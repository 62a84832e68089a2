-- Every script of the dedupe port begins with this file; README.md has the keys.
--   KEYS[1] what all keys begin with
--   ARGV 1 the time ('': Redis' clock; tests pass theirs)
local PREFIX = KEYS[1]
local call = redis.call
local now = tonumber(ARGV[1])
if not now then
  local t = call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end

local function text(n)
  return string.format('%.0f', n)
end
