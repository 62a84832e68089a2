-- The hash ring is a sorted set in order of text. A worker's place is KIND|POSITION ID: the tiers
-- that it serves, eight hexadecimal digits, its id.
local RING = PREFIX .. COORD_KEY_RING

-- Returns the kinds of workers that are on the ring.
local function ring_kinds()
  local kinds, from = {}, '-'
  while true do
    local place = redis.call('ZRANGE', RING, from, '+', 'BYLEX', 'LIMIT', 0, 1)[1]
    if not place then
      return kinds
    end
    kinds[#kinds + 1] = string.match(place, '^[^|]*')
    from = '(' .. kinds[#kinds] .. '}' -- '}' follows '|' and so all places of this kind
  end
end

local function append(list, more)
  for _, e in ipairs(more) do
    list[#list + 1] = e
  end
  return list
end

-- Returns the first n places of a kind after `point`, which is POSITION or POSITION ID.
local function places_after(kind, point, n)
  local at = kind .. '|' .. point
  local found = redis.call('ZRANGE', RING, '(' .. at, '(' .. kind .. '}', 'BYLEX', 'LIMIT', 0, n)
  if #found == n then
    return found
  end
  return append(found, redis.call('ZRANGE', RING, '[' .. kind .. '|', '(' .. at, 'BYLEX', 'LIMIT', 0, n - #found))
end
