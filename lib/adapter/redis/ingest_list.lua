-- include: ingest_common
-- Lists entries by id, newest first.
--   ARGV 1 client ('': all clients)  2 list ids before this one ('': from the newest)  3 limit
-- Answers: {batch, line of META, ...}
local client, after = ARGV[1], ARGV[2]
local key, prefix, last = IDS, '', '+'
if client ~= '' then
  key, prefix, last = CLIENTS, client .. ':', '(' .. client .. ';'
end
if after ~= '' then
  last = '(' .. prefix .. after
end
local out = {}
for _, member in ipairs(call('ZREVRANGEBYLEX', key, last, prefix == '' and '-' or '[' .. prefix, 'LIMIT', 0, ARGV[3])) do
  local batch = string.sub(member, #prefix + 1)
  out[#out + 1] = batch
  out[#out + 1] = call('HGET', META, batch)
end
return out
