-- Marks an entry.   ARGV 1 batch   0: there is none
local meta = call('HGET', META, ARGV[1])
if not meta then
  return 0
end
call('HSET', META, ARGV[1], '1' .. string.sub(meta, 2))
return 1
