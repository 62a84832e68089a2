/* shared_constants.h: numbers and formulas that core, the adapters and the Lua scripts of
 * adapter/redis share.
 *
 * CMakeLists.txt puts each `#define PP_NAME value` of this file and of
 * adapter/redis/script_constants.h in front of the Lua scripts that name it, as `local NAME =
 * value`, and each `#define PP_NAME(a, b) formula` as a local function. So a value or formula
 * stands on one line and uses only what C and Lua read alike: numbers, a string, +, -, *,
 * parentheses and names of this file. */
#ifndef PHOTOPOOL_SHARED_CONSTANTS_H
#define PHOTOPOOL_SHARED_CONSTANTS_H

/* The quotient, rounded down; neither operand may be negative. In Lua: math.floor(a / b). */
#define PP_FLOOR_DIV(a, b) ((a) / (b))

/* --- the sliding log of a client's requests (core/ratelimit.h) --- */

#define PP_RATE_WINDOW_MS 60000 /* a client's rate limit counts requests in any 60 s */
#define PP_RATE_MARGIN_MS 200   /* a request counts for the window plus this time */
/* when a log is too long, requests within this many ms are joined to one mark */
#define PP_RATE_BUCKET_MS 59
/* the rate limit counts a request for this time, in ms, after it was sent */
#define PP_RATE_KEPT_MS (PP_RATE_WINDOW_MS + PP_RATE_MARGIN_MS)
/* Coordinators keep marks and reservations longer than core counts them (60200): the difference
 * covers joined marks, clocks read in whole ms, and travel times. */
#define PP_MARKS_KEPT_MS 61000
_Static_assert(PP_MARKS_KEPT_MS >= PP_RATE_KEPT_MS + 2 * PP_RATE_BUCKET_MS,
               "a coordinator drops no mark that core/ratelimit.h still counts");

/* Part k (from 0) of n of a client's rate or concurrency (core/share.h). In C, `total` has 64
 * bits. */
#define PP_SHARE_PART(total, n, k) (PP_FLOOR_DIV((total) * ((k) + 1), n) - PP_FLOOR_DIV((total) * (k), n))

/* --- the backlog (photopool/task_rules.h) --- */

/* The number of the last queue of a client's waiting tasks. Queue n is for tier n; the last queue
 * is for tasks that may have crashed a worker, each of which runs alone. */
#define PP_QUEUE_SUSPECT 8
#define PP_QUEUES        9

/* --- processes of a fleet (port/coordinator.h) --- */

#define PP_RETRY_AFTER_MAX_MS 3600000 /* the longest wait that a photo host can ask for */
/* Clocks that differ by at most this agree: data is deleted by our date, unless it is ahead of the
 * server's clock by more. */
#define PP_AHEAD_IGNORED_MS 10000
#define PP_WORKER_ALIVE_MS  60000 /* a worker is listed for this time after its last heartbeat */
/* a worker leaves the hash ring after this many ms without a heartbeat */
#define PP_WORKER_GONE_MS 5000
/* A client's tasks are announced to this many workers of each kind, or to twice as many as the
 * client has shares. No client has more than PP_SHARES_MAX shares. */
#define PP_NEAR       4
#define PP_SHARES_MAX 32
#define PP_NEAR_MAX   64
_Static_assert(PP_NEAR_MAX == 2 * PP_SHARES_MAX, "a worker does not know all who are near its clients");
/* the coordinator keeps this many slow hosts, and then drops the oldest */
#define PP_SLOW_HOSTS_MAX 100000
/* If more workers want a host's places than there are, a worker holds its place for this time, in
 * ms. */
#define PP_PLACES_TERM_MS 4000
/* A worker waits for places if its latest request is at most this old, in ms. */
#define PP_PLACES_ASKS_MS 5000
/* A new cut of a client divides requests of at most RECUT_MARKS / shares different times, but of
 * RECUT_TIMES_MIN to RECUT_TIMES_MAX, so that it makes few marks. */
#define PP_RECUT_MARKS     16384
#define PP_RECUT_TIMES_MIN 16
#define PP_RECUT_TIMES_MAX 1100

/* --- the ingest queue --- */

/* An entry counts towards the high water as at least one photo for each of these bytes. */
#define PP_INGEST_WEIGHT_BYTES 256

/* --- the filter of known photos (base/bloom.h) --- */

#define PP_FILTER_KEY_BYTES   16
#define PP_FILTER_BLOCK_BYTES 512
#define PP_FILTER_BLOCK_BITS  4096
/* A key has this many numbers of 12 bits, which are positions of bits in its block. */
#define PP_FILTER_NUMBERS 8
/* A key sets this many bits: position i >= 8 is the sum of the positions i - 8 and i - 4. */
#define PP_FILTER_PROBES 12
/* The block of a key whose first 32 bits are `word`. In C, `word` has 64 bits. */
#define PP_FILTER_BLOCK(word, blocks) PP_FLOOR_DIV((word) * (blocks), 4294967296)

#endif
