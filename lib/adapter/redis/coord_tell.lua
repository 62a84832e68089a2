-- Announcements: tells the workers near a client, and the holders of its slots, which of its queues
-- are due. tell() collects the rows; tell_now() sends each worker its rows in one message.
-- If few workers are on the ring, all processes get one message.
local is_small = redis.call('ZCARD', RING) <= NEAR
local kinds
local told, told_all = {}, {}

local function row(client, position, q, due)
  return struct.pack(ANNOUNCED, q, due - now, position, #client, client)
end

-- Returns the workers that must hear of a client.
local function hearers(client, position)
  local cut, rows = load(PREFIX .. COORD_KEY_SLOTS .. client)
  local n, to = math.min(math.max(NEAR, cut and 2 * cut.n or 0), NEAR_MAX), {}
  local point = string.format('%08x', position)
  kinds = kinds or ring_kinds()
  for _, kind in ipairs(kinds) do
    for _, place in ipairs(places_after(kind, point, n)) do
      to[string.sub(place, #kind + 10)] = true
    end
  end
  for _, r in pairs(rows) do
    if r.held then
      to[r.worker] = true
    end
  end
  return to
end

local function tell_worker(worker, text)
  local rows = told[worker] or {}
  told[worker] = rows
  rows[#rows + 1] = text
end

local function tell(client, position, text)
  if is_small then
    told_all[#told_all + 1] = text
    return
  end
  for worker in pairs(hearers(client, position)) do
    tell_worker(worker, text)
  end
end

-- Tells all due queues of a client (due_read()); if there is `only`, only this worker.
local function tell_due(client, position, d, only)
  local rows = {}
  for q, due in pairs(d) do
    rows[#rows + 1] = row(client, position, q, due)
  end
  if only then
    tell_worker(only, table.concat(rows))
  else
    tell(client, position, table.concat(rows))
  end
end

local function tell_now(sender)
  if #told_all > 0 then
    publish('A', sender, table.concat(told_all))
  end
  for worker, rows in pairs(told) do
    publish('A', sender, table.concat(rows), worker)
  end
end
