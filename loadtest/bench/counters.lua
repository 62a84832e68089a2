-- counters.lua: the requests of bench_counters.py, for wrk. Each reads KEYS counters, or increments
-- KEYS counters by 1.
--
--   wrk ... -s counters.lua URL -- get|post COUNTERS KEYS SKEW RATE
--
-- There are COUNTERS counters. A fraction p of them is asked for by p ^ (1 / SKEW) of the requests.
-- RATE is the number of requests a second, with all connections; 0: as many as the server answers.
-- wrk must run one thread. At the end this prints one line of JSON.
local ffi = require("ffi")
ffi.cdef("typedef struct { long s, ns; } pp_time; int clock_gettime(int clock, pp_time *t);")

local LATE_US, MONOTONIC, REQUESTS = 5000, 1, 5000
local time = ffi.new("pp_time")
local method, counters, keys, skew, due, every_ms
local requests = {}

local function now_ms()
  ffi.C.clock_gettime(MONOTONIC, time)
  return tonumber(time.s) * 1000 + tonumber(time.ns) / 1e6
end

-- wrk calls this before each request: milliseconds to wait. A late request is not left out.
local function pause()
  local now = now_ms()
  due = (due or now) + every_ms
  return math.max(0, math.floor(due - now))
end

local function key()
  return string.format("view:42:ad-%d", math.floor(counters * math.random() ^ skew))
end

local function make()
  local parts = {}
  if method == "get" then
    for i = 1, keys do
      parts[i] = "key=" .. key()
    end
    return "GET /v1/counters?" .. table.concat(parts, "&") .. " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
  end
  for i = 1, keys do
    parts[i] = '{"key":"' .. key() .. '"}'
  end
  local body = '{"increments":[' .. table.concat(parts, ",") .. "]}"
  return "POST /v1/counters HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: " .. #body ..
           "\r\n\r\n" .. body
end

-- The requests are made before the load begins, so that wrk takes little time for each.
function init(args)
  method, counters, keys, skew = args[1], tonumber(args[2]), tonumber(args[3]), tonumber(args[4])
  local rate = tonumber(args[5])
  math.randomseed(method == "get" and 1 or 2)
  if rate > 0 then
    every_ms = 1000 / rate
    delay = pause
  end
  for i = 1, REQUESTS do
    requests[i] = make()
  end
end

function request()
  return requests[math.random(REQUESTS)]
end

function done(summary, latency)
  local in_time, all, e = 0, 0, summary.errors
  for i = 1, #latency do
    local us, n = latency(i)
    all = all + n
    in_time = in_time + (us < LATE_US and n or 0)
  end
  print(string.format('{"requests": %d, "seconds": %.6f, "errors": %d, "in_time": %d, "timed": %d, "p50_ms": %.3f, "p99_ms": %.3f}',
    summary.requests, summary.duration / 1e6, e.connect + e.read + e.write + e.status + e.timeout, in_time, all,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
