-- include: filter_common
-- One step of a build.
--   ARGV[1] its id
--   ARGV[2] 'begin': ARGV[3] number of blocks
--           'add': ARGV[3] offset of a piece, ARGV[4] the piece
--           'finish': ARGV[3] number of keys that the builder has added
-- Answers 'ok', or 'lost' if this build is not in progress.
local id, step = ARGV[1], ARGV[2]
if step == 'begin' then
  local at, blocks = current and current.at == 'a' and 'b' or 'a', tonumber(ARGV[3])
  if not current then
    wipe() -- fields without bits, or bits without fields
  end
  call('UNLINK', BITS[at], PIECES)
  call('SETRANGE', BITS[at], blocks * FILTER_BLOCK_BYTES - 1, '\0')
  call('HSET', META, 'life', life, 'build', id, 'next_blocks', ARGV[3], 'next_keys', 0)
  call('PEXPIRE', BITS[at], FILTER_KEPT_MS)
  call('PEXPIRE', META, FILTER_KEPT_MS)
  return 'ok'
end
if not next_ or next_.build ~= id then
  return 'lost'
end
if step == 'add' then
  call('SETRANGE', PIECES, ARGV[3], ARGV[4])
  call('PEXPIRE', PIECES, FILTER_KEPT_MS)
  return 'ok'
end
if call('STRLEN', PIECES) ~= next_.blocks * FILTER_BLOCK_BYTES then
  return 'lost'
end
call('BITOP', 'OR', BITS[next_.at], BITS[next_.at], PIECES)
call('UNLINK', PIECES)
if current then
  call('UNLINK', BITS[current.at])
end
local keys = ARGV[3] + call('HGET', META, 'next_keys')
call('HSET', META, 'at', next_.at, 'blocks', next_.blocks, 'built', now, 'keys', string.format('%.0f', keys))
call('HDEL', META, 'build', 'next_blocks', 'next_keys')
call('PEXPIRE', BITS[next_.at], FILTER_KEPT_MS) -- BITOP ends the time of what it writes
return 'ok'
