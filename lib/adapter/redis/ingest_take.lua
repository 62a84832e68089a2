-- include: ingest_common
-- Takes entries for a planner. First it takes entries that are taken already: by this planner, if
-- an answer was lost, or by a silent planner. Then it takes new ones: the oldest first or, if there
-- are clients to skip, the oldest of each other client in turn. It never takes an entry of a client
-- of which another planner has an older one.
--   ARGV 1 planner  2 most entries  3 most bytes of payloads  4 ms after which a planner is silent
--     5 the client of the last turn  6 number of clients to skip, then those clients; then the
--     stream ids of the entries that the planner holds
-- Answers: {{batch, line of META, deliveries, payload or false} ..., ms until another planner is
-- silent, or -1}
local me, limit, max, silence, turn = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local n_skip = tonumber(ARGV[6])
local skip, mine, out, bytes, full = {}, {}, {}, 0, false
for i = 7, 6 + n_skip do
  skip[ARGV[i]] = true
end
for i = 7 + n_skip, #ARGV do
  mine[ARGV[i]] = true
end

-- Returns {stream id, planner, ms since its last sign of life, deliveries} of pending entries.
-- Creates the group if it is missing.
local function pending(...)
  local p = redis.pcall('XPENDING', STREAM, GROUP, ...)
  if p.err then
    call('XGROUP', 'CREATE', STREAM, GROUP, '0', 'MKSTREAM')
    return {}
  end
  return p
end

-- Returns true if entries of this client may go to this planner. `again` says that the entry is
-- taken already.
local free_cache = {}
local function free(client, again)
  if n_skip > 0 and skip[client] then
    return false
  end
  if not again and free_cache[client] ~= nil then
    return free_cache[client]
  end
  local ok = true
  for _, line in ipairs(call('ZRANGEBYLEX', TAKEN, '[' .. client .. ':', '(' .. client .. ';')) do
    local meta = call('HGET', META, batch_of(line))
    local e = meta and parse(meta)
    local p = e and pending(e.sid, e.sid, 1)[1]
    if not p then
      call('ZREM', TAKEN, line)
      if e and call('XLEN', STREAM) > 0 and #call('XRANGE', STREAM, e.sid, e.sid) > 0 then
        call('ZADD', LINES, 0, line) -- the group was created anew, so the entry waits again
        rehead(client)
      end
    elseif p[2] ~= me and (not again or p[3] < silence) then
      ok = false
    end
  end
  if not again then
    free_cache[client] = ok
  end
  return ok
end

local function fits(e)
  full = full or #out >= limit or (#out > 0 and (bytes >= max or e.raw > max - bytes))
  return not full
end

local function give(e, batch, fields, deliveries)
  local payload = false
  for i = 1, #fields, 2 do
    if fields[i] == 'payload' then
      payload = fields[i + 1]
    end
  end
  bytes = bytes + e.raw
  if n_skip > 0 then
    skip[e.client] = true
  end
  out[#out + 1] = {batch, e.meta, deliveries, payload}
end

-- Takes an entry of the pending list. p is {sid, planner, idle, deliveries}.
local function take_again(p)
  local message = call('XRANGE', STREAM, p[1], p[1])[1]
  local batch = message and message[2][2]
  local meta = batch and call('HGET', META, batch)
  if not meta then
    call('XACK', STREAM, GROUP, p[1])
    call('XDEL', STREAM, p[1])
    return
  end
  local e = parse(meta)
  if free(e.client, true) and fits(e) then
    -- XAUTOCLAIM, unlike XCLAIM, claims nothing that another planner has claimed meanwhile.
    local min = p[2] == me and 0 or silence
    local got = call('XAUTOCLAIM', STREAM, GROUP, me, min, p[1], 'COUNT', 1)[2][1]
    if got and got[1] == p[1] then
      give(e, batch, got[2], p[4] + 1)
    end
  end
end

-- Takes a new entry. XREADGROUP would take the next message of the stream, of any client; XCLAIM
-- with FORCE puts the chosen message into the pending list.
local function take_new(line)
  local batch = batch_of(line)
  local meta = call('HGET', META, batch)
  local e = meta and parse(meta)
  if e and not fits(e) then
    return
  end
  call('ZREM', LINES, line)
  rehead(client_of(line))
  if not e then
    return
  end
  local got = call('XCLAIM', STREAM, GROUP, me, 0, e.sid, 'FORCE', 'RETRYCOUNT', 1)[1]
  call('ZADD', TAKEN, 0, line)
  give(e, batch, got and got[2] or {}, 1)
end

local function take_oldest()
  while not full and #out < limit do
    local from, client = 0, nil
    repeat
      local page = call('ZRANGE', HEADS, from, from + 31)
      for _, c in ipairs(page) do
        if not client and free(c) then
          client = c
        end
      end
      from = from + #page
    until client or #page < 32
    local line = client and first_of(LINES, client)
    if not line then
      if client then
        call('ZREM', HEADS, client)
      else
        return
      end
    else
      take_new(line)
    end
  end
end

-- Takes one entry of each client. Begins with the client after that of the last turn.
local function take_in_turn()
  local from, last = turn, '+'
  while not full and #out < limit do
    local line = call('ZRANGEBYLEX', LINES, from == '' and '-' or '(' .. from .. ';', last, 'LIMIT', 0, 1)[1]
    if line then
      from = client_of(line)
      if free(from) then
        take_new(line)
      end
    elseif last == '+' and turn ~= '' then
      from, last = '', '(' .. turn .. ';'
    else
      return
    end
  end
end

local in_hand = 0
for _ in pairs(mine) do
  in_hand = in_hand + 1
end
if call('EXISTS', STREAM) == 0 then
  call('DEL', WAKE)
  return {out, -1}
end
for _, p in ipairs(pending('-', '+', in_hand + limit, me)) do
  if not mine[p[1]] and not full then
    take_again(p)
  end
end
for _, p in ipairs(pending('IDLE', silence, '-', '+', in_hand + limit)) do
  if p[2] ~= me and not full then
    take_again(p)
  end
end
if n_skip > 0 then
  take_in_turn()
else
  take_oldest()
end

local soonest = -1
if #out == 0 then
  for _, p in ipairs(pending('-', '+', 256)) do
    local left = silence - p[3]
    if p[2] ~= me and (soonest < 0 or left < soonest) then
      soonest = math.max(left, 1)
    end
  end
  if call('ZCARD', HEADS) == 0 then
    call('DEL', WAKE)
  end
end
return {out, soonest}
