-- Every script of the event log begins with this file; README.md has the keys.
--   KEYS[1] the stream: an event is the message <seq>-0 with one field, e: "<at> <key> <type>
--     <data>"
--   KEYS[2] the hash with the fields set, life, next, end, last, cleaned, bytes
-- Numbers stay below 2^53, so they fit into a double.
local STREAM, META = KEYS[1], KEYS[2]
local call = redis.call

local function text(n)
  return string.format('%.0f', n)
end

-- Returns the life of this server. The life changes with each start and each change of roles,
-- because the server may have lost its latest data then.
local function life_now()
  local run = string.match(call('INFO', 'server'), 'run_id:(%w+)')
  local replid = string.match(call('INFO', 'replication'), 'master_replid:(%w+)')
  return assert(run, 'INFO names no run_id') .. assert(replid, 'INFO names no master_replid')
end

-- Returns a name of 60 bits for the data set and the life that need a block of numbers.
local function need(life, set)
  return string.sub(redis.sha1hex(life .. set), 1, 15)
end
