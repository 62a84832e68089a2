-- Every script of the filter of known photos begins with this file; README.md has the keys.
--   KEYS[1] the hash of fields      KEYS[2], KEYS[3] the bits of two filters      KEYS[4] the bits
--     of the pieces of a build
-- The scripts set the same bits as base/bloom.c. Numbers stay below 2^53, so they fit into a
-- double.
local META, BITS, PIECES = KEYS[1], {a = KEYS[2], b = KEYS[3]}, KEYS[4]
local call = redis.call

-- Returns the life of this server. The life changes with each start and each change of roles,
-- because the server may have lost its latest data then.
local function life_now()
  local run = string.match(call('INFO', 'server'), 'run_id:(%w+)')
  local replid = string.match(call('INFO', 'replication'), 'master_replid:(%w+)')
  return assert(run, 'INFO names no run_id') .. assert(replid, 'INFO names no master_replid')
end

local function wipe()
  call('UNLINK', META, BITS.a, BITS.b, PIECES)
end

-- The filter that answers (nil: there is none), and the one that is being built. Each has `at`, the
-- name of its bits, and `blocks`; `next` also has the id of its build.
local life, now, current, next_ = life_now()
do
  local t = call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
  local m = call('HMGET', META, 'life', 'at', 'blocks', 'built', 'build', 'next_blocks')
  if m[1] and m[1] ~= life then
    wipe()
    m = {}
  end
  local function filter(at, blocks)
    if call('STRLEN', BITS[at]) == tonumber(blocks) * FILTER_BLOCK_BYTES then
      return {at = at, blocks = tonumber(blocks)}
    end -- else somebody has removed the bits
  end
  if m[2] then
    current = filter(m[2], m[3])
  end
  if current then
    current.built = tonumber(m[4])
  end
  if m[5] then
    next_ = filter(m[2] == 'a' and 'b' or 'a', m[6])
  end
  if next_ then
    next_.build = m[5]
  end
end

-- Returns the number of the key's block, and the positions of its bits in the block. `keys` has the
-- key at byte i.
local function probe(filter, keys, i)
  local p = {}
  local word = struct.unpack('>I4', keys, i)
  for k = 1, FILTER_NUMBERS, 2 do -- three bytes have two numbers
    local x, y, z = string.byte(keys, i + 4 + (k - 1) / 2 * 3, i + 6 + (k - 1) / 2 * 3)
    p[k] = x * 16 + math.floor(y / 16)
    p[k + 1] = y % 16 * 256 + z
  end
  for k = FILTER_NUMBERS + 1, FILTER_PROBES do
    p[k] = (p[k - 8] + p[k - 4]) % FILTER_BLOCK_BITS
  end
  return FILTER_BLOCK(word, filter.blocks), p
end

local function has(filter, keys, i)
  local block, p = probe(filter, keys, i)
  local from = block * FILTER_BLOCK_BYTES
  local bits = call('GETRANGE', BITS[filter.at], from, from + FILTER_BLOCK_BYTES - 1)
  for k = 1, FILTER_PROBES do
    local byte = string.byte(bits, math.floor(p[k] / 8) + 1)
    if bit.band(byte, bit.rshift(128, p[k] % 8)) == 0 then
      return false
    end
  end
  return true
end

-- Adds a key. Returns 1 if the filter did not have it, else 0.
local function add(filter, keys, i)
  local block, p = probe(filter, keys, i)
  local words = {}
  for k = 1, FILTER_PROBES do
    local w = #words
    words[w + 1], words[w + 2], words[w + 3], words[w + 4] = 'SET', 'u1', block * FILTER_BLOCK_BITS + p[k], 1
  end
  for _, was in ipairs(call('BITFIELD', BITS[filter.at], unpack(words))) do
    if was == 0 then
      return 1
    end
  end
  return 0
end
