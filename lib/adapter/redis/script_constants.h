/* script_constants.h: constants that the C files and the Lua scripts of this folder share, and no
 * other folder needs. photopool/shared_constants.h says how scripts get them and what values may
 * contain.
 *
 * A LAYOUT is a format of packed values, in the notation of Lua's struct.unpack. pp_redis_pack()
 * and pp_redis_unpack() read it, too. */
#ifndef PP_ADAPTER_REDIS_SCRIPT_CONSTANTS_H
#define PP_ADAPTER_REDIS_SCRIPT_CONSTANTS_H

#include "photopool/shared_constants.h"

#define PP_MINUTE_MS 60000
#define PP_DAY_MS    (24 * 60 * PP_MINUTE_MS)

/* --- the coordinator --- */

#define PP_COORD_KEY_SET     "set" /* how KEYS[1] of every script ends */
#define PP_COORD_KEY_SLOTS   "s:"  /* the key of a client's slots has this before the client's id */
#define PP_COORD_KEY_PLACES  "p:"  /* the key of a host's places has this before the host's name */
#define PP_COORD_KEY_WORKERS "workers"
#define PP_COORD_KEY_RING    "ring"
#define PP_COORD_KEY_HEARD   "heard"
#define PP_COORD_KEY_GONE    "gone"
/* The channel for messages to all processes. With ":" and the id of a worker behind it, it is that
 * worker's channel; with ":" and a number, the channel for notices of that kind. */
#define PP_COORD_KEY_CHANNEL "tell"

/* The backlog index has this many parts, each for an equal part of the hash ring. */
#define PP_INDEX_PARTS          256
#define PP_INDEX_PART(position) PP_FLOOR_DIV(position, 16777216)
_Static_assert(PP_INDEX_PART(UINT32_MAX) == PP_INDEX_PARTS - 1, "the parts do not cover the ring");

/* A due time that never comes: 2^53 - 1, because numbers in Lua are doubles. */
#define PP_COORD_NEVER    9007199254740991
#define PP_COORD_AHEAD_MS 3000 /* a renewal reserves the requests of this many ms */
/* An acquire that has divided this many marks makes no more new cuts, and the other clients ask
 * again after this many ms. */
#define PP_RECUT_WORK    4096
#define PP_RECUT_WAIT_MS 50
/* The answer to a question for silent workers has at most this many. */
#define PP_SILENT_MAX 1000
/* This bit in a row's queue says that the row was only read back from the store. */
#define PP_COORD_KNOWN 128

/* A client's cut: requests per minute, concurrency, number of shares. */
#define PP_LAYOUT_CUT "<I4I4I4"
/* A position on the hash ring. In acquires it follows the cut. */
#define PP_LAYOUT_POSITION "<I4"
/* A mark: the time of the last request, and the number of requests. */
#define PP_LAYOUT_MARK "<i8I4"
/* A renewal: share, reserved requests, requests in flight, end of these, the cut, the client's
 * position on the hash ring, and 1 if the worker is near the client. The due time of each queue may
 * follow. */
#define PP_LAYOUT_RENEWAL "<I4I4I4i8I4I4I4I4B"
#define PP_LAYOUT_TIME    "<i8"
/* The answer to a wanted slot. A first byte says whether the slot is granted (1) or refused (0). A
 * grant has share, shares, spent, taken, taken until, skew; marks follow. A refusal has the shares
 * in force, when to ask again, and 1 if no task is due. */
#define PP_LAYOUT_GRANT   "<I4I4I4I4i8i8"
#define PP_LAYOUT_REFUSAL "<I4i8B"
/* A client in the backlog index: the number of its latest announcement. Rows follow. */
#define PP_LAYOUT_INDEX "<I8"
/* A row: the queue and the due time. */
#define PP_LAYOUT_ROW "<Bi8"
/* A row of an announcement: the queue, the due time in ms from now, the client's position on the
 * hash ring. The client's name follows. */
#define PP_LAYOUT_ANNOUNCED "<Bi8I4"
/* A worker: the time of its last heartbeat (LAYOUT_TIME), its capacity and its place on the ring
 * ("" if it has none), and then its description. */
#define PP_LAYOUT_PLACE "<I4I2c0"
/* A worker's wish for a host's places: places wanted, places kept until the answer. */
#define PP_LAYOUT_PLACES "<I4I4"
/* A name: its length in one byte, then its bytes. */
#define PP_LAYOUT_NAME "Bc0"
/* The stamp of a message, which follows its kind and sender: Redis' time, and the number of the
 * latest announcement. */
#define PP_LAYOUT_STAMP "<i8I8"

/* --- the ingest queue --- */

/* Indexes of KEYS that all scripts have. The keys of the script itself follow. */
#define PP_INGEST_STREAM  1
#define PP_INGEST_META    2
#define PP_INGEST_LINES   3
#define PP_INGEST_HEADS   4
#define PP_INGEST_TAKEN   5
#define PP_INGEST_IDS     6
#define PP_INGEST_CLIENTS 7
#define PP_INGEST_STATE   8
#define PP_INGEST_POISON  9
#define PP_INGEST_WAKE    10
#define PP_INGEST_KEYS    10

/* The ids of acked batches are kept in slots of 12 h each, so that an id is remembered for 24 to 36
 * h. */
#define PP_INGEST_DONE_SLOTS 3
#define PP_INGEST_DONE_MS    PP_DAY_MS
/* Redis keeps at most this many poisoned batches. */
#define PP_INGEST_ASIDE 256
/* Redis keeps the payload of a poisoned batch for this many ms. */
#define PP_INGEST_ASIDE_MS (7 * PP_DAY_MS)
/* Parts of a payload without their entry expire after this many ms. */
#define PP_INGEST_KEY_COUNT_MS (2 * 60 * PP_MINUTE_MS)
#define PP_INGEST_PART_TTL_MS  (60 * PP_MINUTE_MS)
/* A consumer without entries is removed after this many ms of silence. */
#define PP_INGEST_IDLE_CONSUMER_MS (60 * PP_MINUTE_MS)

/* --- the event log --- */

#define PP_EVENT_APPEND_MAX 1000 /* most events of one append */

/* --- the filter of known photos --- */

/* A filter that no process looks at is dropped after this many ms: it is no longer used. */
#define PP_FILTER_KEPT_MS (10 * PP_MINUTE_MS)
/* --- the dedupe port --- */

/* A key is within this many slots of its first one, or has no room. */
#define PP_DEDUPE_PROBES 64
/* A new table's size is estimated from this many bytes of the previous one. */
#define PP_DEDUPE_SAMPLE 65536

/* --- the counters --- */

/* A row: the bucket of the key; the increment; the stored sum and the last flush in it. The key
 * follows as a LAYOUT_NAME. */
#define PP_LAYOUT_COUNTER_ROW "<I4i8i8i8"
/* A cached sum: the sum, and the hour of its last use. */
#define PP_LAYOUT_COUNTER_SUM "<i8I4"
/* What is pending on a day. */
#define PP_LAYOUT_COUNTER_DAY "<I4i8"
#define PP_COUNTER_HOUR_MS    (60 * PP_MINUTE_MS)
/* Buckets of cached sums. With a million sums a bucket has 61, which Redis packs into a listpack
 * (hash-max-listpack-entries 128). */
#define PP_COUNTER_BUCKETS 16384
/* A sweep looks at this many buckets. */
#define PP_COUNTER_SWEEP 8
/* A flush has at most this many counters. */
#define PP_COUNTER_FLUSH_MAX 4000
/* Increments are refused while this many counters are pending, and removals while this many removed
 * counters are. */
#define PP_COUNTER_PENDING_MAX 10000000
#define PP_COUNTER_REMOVED_MAX 10000
/* Tokens are kept for 25 h (port/counters.h). */
#define PP_COUNTER_TOKENS_MS (25 * 60 * PP_MINUTE_MS)

#endif
